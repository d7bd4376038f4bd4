"""Saving and restoring tensors as ops: `train/checkpoints/saver.py` has the class that uses them."""

from __future__ import annotations

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape


def _check_names(c: ShapeContext, tensors: int, vectors: int = 2) -> None:
    shapes.with_rank(c.input(0), 0)
    for i in range(1, 1 + vectors):
        shapes.merge(c.input(i), TensorShape([tensors]))


def _save_shape(c: ShapeContext) -> list[TensorShape]:
    _check_names(c, len(c.attr("dtypes")))
    return []


def _save_old_format_shape(c: ShapeContext) -> list[TensorShape]:
    _check_names(c, len(c.attr("T")), 1 if c.op_type == "Save" else 2)
    return []


def _restore_one_shape(c: ShapeContext) -> list[TensorShape]:
    for i in range(2 if c.op_type == "Restore" else 3):
        shapes.with_rank(c.input(i), 0)
    spec = c.constant(2) if c.op_type == "RestoreSlice" else None
    return [shapes.UNKNOWN if spec is None else _slice_shape(spec.item())]


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
    effect=Effect.EXTERNAL,
)
define(
    "RestoreV2",
    "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: dtypes",
    "dtypes: list(type) >= 1",
    shape=_restore_shape,
    effect=Effect.EXTERNAL,
)
define(
    "MergeV2Checkpoints",
    "checkpoint_prefixes: string, destination_prefix: string ->",
    "delete_old_dirs: bool = true, allow_missing_files: bool = false",
    shape=shapes.no_outputs,
    effect=Effect.EXTERNAL,
)
# The ops of graphs from before TensorFlow 0.12: they write the old format, and read either.
define("Save", "filename: string, tensor_names: string, data: T ->", "T: list(type) >= 1",
       shape=_save_old_format_shape, effect=Effect.EXTERNAL)  # fmt: skip
define("SaveSlices", "filename: string, tensor_names: string, shapes_and_slices: string, data: T ->",
       "T: list(type) >= 1", shape=_save_old_format_shape, effect=Effect.EXTERNAL)  # fmt: skip
define("Restore", "file_pattern: string, tensor_name: string -> tensor: dt", "dt: type, preferred_shard: int = -1",
       shape=_restore_one_shape, effect=Effect.EXTERNAL)  # fmt: skip
define("RestoreSlice", "file_pattern: string, tensor_name: string, shape_and_slice: string -> tensor: dt",
       "dt: type, preferred_shard: int = -1", shape=_restore_one_shape, effect=Effect.EXTERNAL)  # fmt: skip
define("ShardedFilename", "basename: string, shard: int32, num_shards: int32 -> filename: string", shape=shapes.scalar)
define("ShardedFilespec", "basename: string, num_shards: int32 -> filename: string", shape=shapes.scalar)
not_differentiable(
    "SaveV2", "RestoreV2", "MergeV2Checkpoints", "Save", "SaveSlices", "Restore", "RestoreSlice", "ShardedFilename",
    "ShardedFilespec",
)  # fmt: skip
