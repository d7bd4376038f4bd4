"""RecordInput: batches of records from TFRecord files, without end, shuffled."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape


def _record_input_shape(c: ShapeContext) -> TensorShape:
    return TensorShape._of((c.attr("batch_size"),))


define(
    "RecordInput",
    "-> records: string",
    "file_pattern: string, file_random_seed: int = 301, file_shuffle_shift_ratio: float = 0.0, "
    "file_buffer_size: int = 10000, file_parallelism: int = 16, batch_size: int = 32, compression_type: string = ''",
    shape=_record_input_shape,
    effect=Effect.WRITES,
)
not_differentiable("RecordInput")


@export("queue.RecordInput")
class RecordInput:
    """Records of TFRecord files in random order, a batch in each step, pass after pass without end."""

    def __init__(
        self,
        file_pattern: str,
        batch_size: int = 1,
        buffer_size: int = 1,
        parallelism: int = 1,
        shift_ratio: float = 0,
        seed: int = 0,
        name: str | None = None,
        batches: int | None = None,
        compression_type: Any = None,
    ) -> None:
        """Describes the input; `get_yield_op` makes the operation.

        Args:
            file_pattern: A file pattern (glob).
            batch_size: The number of records in a batch.
            buffer_size: The number of records that are mixed.
            parallelism: The number of files that are read in turn.
            shift_ratio: By which part of the files each pass starts later than the one before.
            seed: Makes the order repeatable.
            name: A name for the operation.
            batches: If given, that many batches are yielded at once, as lists of single records.
            compression_type: "", "ZLIB" or "GZIP", or the value of a TFRecordCompressionType.
        """
        self._attrs = {
            "file_pattern": file_pattern,
            "batch_size": batch_size if batches is None else batch_size * batches,
            "file_buffer_size": buffer_size,
            "file_parallelism": parallelism,
            "file_shuffle_shift_ratio": shift_ratio,
            "file_random_seed": seed,
            "compression_type": _compression_name(compression_type),
        }
        self._batches, self._name = batches, name

    def get_yield_op(self) -> Any:
        """A tensor with a batch of records; with `batches`, lists of single ones, dealt out in turn."""
        records = apply_one("RecordInput", name=self._name, **self._attrs)
        if self._batches is None:
            return records
        single = list(apply_list("Unpack", records, num=self._attrs["batch_size"], axis=0))
        return [single[i :: self._batches] for i in range(self._batches)]


def _compression_name(kind: Any) -> str:
    """The name that the op uses, from a name or from one of the numbers of TFRecordCompressionType."""
    if kind is None:
        return ""
    return kind if isinstance(kind, str) else ("", "ZLIB", "GZIP")[int(kind)]
