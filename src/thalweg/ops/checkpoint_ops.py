"""Saving and restoring tensors as ops: `train/saver.py` has the class that uses them."""

from __future__ import annotations

from thalweg.graph import shape_functions as shapes
from thalweg.graph.op_registry import define, not_differentiable
from thalweg.graph.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape


def _check_names(c: ShapeContext, tensors: int) -> None:
    shapes.with_rank(c.input(0), 0)
    for i in (1, 2):
        shapes.merge(c.input(i), TensorShape([tensors]))


def _save_shape(c: ShapeContext) -> list[TensorShape]:
    _check_names(c, len(c.attr("dtypes")))
    return []


def _restore_shape(c: ShapeContext) -> list[TensorShape]:
    count = len(c.attr("dtypes"))
    _check_names(c, count)
    specs = c.constant(2)
    if specs is None:
        return [shapes.UNKNOWN] * count
    return [_slice_shape(spec) for spec in specs]


def _slice_shape(spec: bytes) -> TensorShape:
    """The shape of the slice that '4 2 0,2:-' names; the kernel judges whether it is a valid one."""
    *sizes, slice_spec = spec.split(b" ")
    parts = slice_spec.split(b":")
    if not sizes or len(parts) != len(sizes):
        return shapes.UNKNOWN
    try:
        return TensorShape(
            [int(size if part == b"-" else part.split(b",")[1]) for size, part in zip(sizes, parts, strict=True)]
        )
    except (ValueError, IndexError):
        return shapes.UNKNOWN


define(
    "SaveV2",
    "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes ->",
    "dtypes: list(type) >= 1",
    shape=_save_shape,
    stateful=True,
)
define(
    "RestoreV2",
    "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: dtypes",
    "dtypes: list(type) >= 1",
    shape=_restore_shape,
    stateful=True,
)
define(
    "MergeV2Checkpoints",
    "checkpoint_prefixes: string, destination_prefix: string ->",
    "delete_old_dirs: bool = true, allow_missing_files: bool = false",
    shape=shapes.no_outputs,
    stateful=True,
)
define("ShardedFilename", "basename: string, shard: int32, num_shards: int32 -> filename: string", shape=shapes.scalar)
define("ShardedFilespec", "basename: string, num_shards: int32 -> filename: string", shape=shapes.scalar)
not_differentiable("SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename", "ShardedFilespec")
