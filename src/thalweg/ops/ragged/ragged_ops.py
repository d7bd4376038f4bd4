"""RaggedTensorToTensor, RaggedTensorToSparse, RaggedGather and RaggedRange: kernels on NumPy."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, int64
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.ragged.row_splits import Array, check_nested_splits, check_row_splits, rows_of_values
from thalweg.ops.sparse.kernel_arrays import require, require_memory

_MOST_ELEMENTS: Final = 2**40
_INDEX: Final = "{int32, int64}"


# To a dense tensor.


def _dense_shape(c: ShapeContext) -> TensorShape:
    wanted = c.constant_as_shape(0) if c.dims(0) is not None and len(c.dims(0) or ()) == 1 else TensorShape(None)
    values = c.dims(1)
    ragged = sum(kind != b"FIRST_DIM_SIZE" for kind in c.attr("row_partition_types"))
    if values is None:
        return wanted
    known = TensorShape([None] * (ragged + 1) + list(values[1:]))
    return shapes.merge(known, wanted)


define(
    "RaggedTensorToTensor",
    "shape: Tshape, values: T, default_value: T, row_partition_tensors: num_row_partition_tensors * Tindex -> "
    "result: T",
    f"T: type, Tindex: {_INDEX}, Tshape: {_INDEX}, num_row_partition_tensors: int >= 1, "
    "row_partition_types: list(string)",
    shape=_dense_shape,
)


def _parents(partitions: list[Array], kinds: list[bytes], count: int) -> tuple[int, list[Array]]:
    """The number of rows, and for each ragged dimension the row of each of its values."""
    require(len(partitions) == len(kinds), f"{len(kinds)} row_partition_types for {len(partitions)} tensors")
    if kinds and kinds[0] == b"FIRST_DIM_SIZE":
        require(partitions[0].ndim == 0, f"FIRST_DIM_SIZE must be a scalar, got shape {list(partitions[0].shape)}")
        rows, partitions, kinds = int(partitions[0]), partitions[1:], kinds[1:]
        require(rows >= 0, f"FIRST_DIM_SIZE must be at least 0, got {rows}")
    else:
        rows = partitions[0].size - 1
    out: list[Array] = []
    above = rows
    for partition, kind in zip(partitions, kinds, strict=True):
        require(partition.ndim == 1, f"a row partition must be a vector, got shape {list(partition.shape)}")
        if kind == b"ROW_SPLITS":
            last = int(partition[-1]) if partition.size else -1
            splits = check_row_splits(partition, last, "row_splits")
            require(splits.size - 1 == above, f"row_splits describe {splits.size - 1} rows, but there are {above}")
            out.append(rows_of_values(splits))
        else:
            require(kind == b"VALUE_ROWIDS", f"row_partition_types has {kind!r}, which is not supported here")
            in_range = partition.size == 0 or (partition.min() >= 0 and partition.max() < above)
            require(in_range, f"value_rowids must be at least 0 and less than {above}")
            require((np.diff(partition) >= 0).all(), "value_rowids must not decrease")
            out.append(np.asarray(partition, np.int64))
        above = out[-1].size
    require(above == count, f"the row partitions describe {above} values, but there are {count}")
    return rows, out


def _columns(parents: Array) -> Array:
    """The position of each value in its row."""
    starts = np.searchsorted(parents, parents)
    return np.arange(parents.size) - starts


@python_kernel("RaggedTensorToTensor")
def _to_tensor(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    wanted, values, default, *partitions = (np.asarray(x) for x in inputs)
    require(values.ndim >= 1, "values must not be a scalar")
    rows, parents = _parents(partitions, [bytes(kind) for kind in attrs["row_partition_types"]], len(values))
    columns = [_columns(parent) for parent in parents]
    sizes = [rows, *(int(c.max(initial=-1)) + 1 for c in columns), *values.shape[1:]]
    if wanted.ndim == 0:
        require(int(wanted) == -1, f"a scalar shape must be -1, got {int(wanted)}")
    else:
        given = wanted.tolist()
        require(wanted.ndim == 1 and wanted.size == len(sizes), f"shape {given} does not have {len(sizes)} dimensions")
        require((wanted >= -1).all(), f"shape {wanted.tolist()} has a dimension below -1")
        inner = wanted[len(columns) + 1 :]
        fits = all(int(w) in (-1, s) for w, s in zip(inner, values.shape[1:], strict=True))
        require(fits, f"shape {wanted.tolist()} does not fit values of shape {list(values.shape)}")
        sizes = [s if int(w) < 0 else int(w) for w, s in zip(wanted, sizes, strict=True)]
    require(math.prod(sizes) <= _MOST_ELEMENTS, f"the result would have shape {sizes}")
    require_memory(math.prod(sizes) * values.itemsize)
    require(
        default.ndim <= values.ndim - 1
        and all(d in (1, s) for d, s in zip(default.shape[::-1], values.shape[:0:-1], strict=False)),
        f"default_value of shape {list(default.shape)} cannot be broadcast to {list(values.shape[1:])}",
    )
    out = np.empty(sizes, values.dtype)
    out[...] = default
    place: list[Array] = [np.arange(rows)]
    kept = place[0] < sizes[0]
    for depth, (parent, column) in enumerate(zip(parents, columns, strict=True)):
        kept = kept[parent] & (column < sizes[depth + 1])
        place = [index[parent] for index in place] + [column]
    out[tuple(index[kept] for index in place)] = values[kept]
    return out


@gradient("RaggedTensorToTensor")
def _to_tensor_grad(op: Operation, grad: Tensor) -> Any:
    values, default, *partitions = op.inputs[1:]
    kinds = op.get_attr("row_partition_types")
    ragged = sum(kind != b"FIRST_DIM_SIZE" for kind in kinds)
    count = apply_one("StridedSlice", apply_one("Shape", values, out_type=int64), [0], [1], [1], shrink_axis_mask=1)
    outer = apply_one("StridedSlice", apply_one("Shape", grad, out_type=int64), [0], [ragged + 1], [1])
    numbers = apply_one("Range", np.int64(0), count, np.int64(1))
    cast = [apply_one("Cast", p, DstT=int64) for p in partitions]
    # For each place of the result the value that it came from; -1, which the sum leaves out, for the default.
    sources = apply_one("RaggedTensorToTensor", outer, numbers, np.int64(-1), cast, row_partition_types=kinds)
    by_value = apply_one("UnsortedSegmentSum", grad, sources, count)
    is_default = apply_one("Equal", sources, np.int64(-1))
    row = apply_one("Cast", is_default, DstT=int64)
    by_default = apply_one("UnsortedSegmentSum", grad, row, np.int64(2))
    total = apply_one("StridedSlice", by_default, [1], [2], [1], shrink_axis_mask=1)
    shape = apply_one("Shape", default)
    axes, _ = _reduced_axes(shape, apply_one("Shape", total))
    return [None, by_value, apply_one("Reshape", apply_one("Sum", total, axes), shape), *[None] * len(partitions)]


def _reduced_axes(shape: Tensor, full: Tensor) -> Any:

    return apply("BroadcastGradientArgs", shape, full)


# To a sparse tensor.


def _sparse_shape(c: ShapeContext) -> list[TensorShape]:
    values = c.dims(c.num_inputs - 1)
    rank = None if values is None else len(values) + c.attr("RAGGED_RANK")
    return [TensorShape([None, rank]), shapes.ANY_VECTOR, TensorShape([rank])]


define(
    "RaggedTensorToSparse",
    "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T -> sparse_indices: int64, sparse_values: T, "
    "sparse_dense_shape: int64",
    f"RAGGED_RANK: int >= 1, T: type, Tsplits: {_INDEX} = int64",
    shape=_sparse_shape,
)


@python_kernel("RaggedTensorToSparse")
def _to_sparse(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    *nested, values = (np.asarray(x) for x in inputs)
    require(values.ndim >= 1, "rt_dense_values must not be a scalar")
    splits = check_nested_splits(nested, len(values))
    place: list[Array] = [np.arange(splits[0].size - 1)]
    sizes = [splits[0].size - 1]
    for split in splits:
        parent = rows_of_values(split)
        place = [index[parent] for index in place] + [np.arange(parent.size) - split[parent]]
        sizes.append(int(np.diff(split).max(initial=0)))
    inner = np.indices(values.shape[1:]).reshape(values.ndim - 1, math.prod(values.shape[1:]))
    width = inner.shape[1]
    columns = [np.repeat(index, width) for index in place] + [np.tile(index, len(values)) for index in inner]
    indices = np.stack(columns, axis=1).astype(np.int64)
    return [indices, values.reshape(-1), np.array([*sizes, *values.shape[1:]], np.int64)]


@gradient("RaggedTensorToSparse")
def _to_sparse_grad(op: Operation, indices: Any, grad: Tensor, shape: Any) -> Any:
    values = op.inputs[-1]
    return [*[None] * (len(op.inputs) - 1), apply_one("Reshape", grad, apply_one("Shape", values))]


# Gathering rows.


def _gather_shape(c: ShapeContext) -> list[TensorShape]:
    values = c.dims(c.num_inputs - 2)
    dense = TensorShape(None) if values is None else TensorShape([None, *values[1:]])
    return [shapes.ANY_VECTOR] * c.attr("OUTPUT_RAGGED_RANK") + [dense]


define(
    "RaggedGather",
    "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, indices: Tindices -> "
    "output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues",
    f"Tvalues: type, Tindices: {_INDEX}, Tsplits: {_INDEX} = int64, PARAMS_RAGGED_RANK: int >= 1, "
    "OUTPUT_RAGGED_RANK: int >= 0",
    shape=_gather_shape,
)


def _taken(splits: Array, rows: Array) -> tuple[Array, Array]:
    """The splits of some rows, and the numbers of their values."""
    lengths = splits[rows + 1] - splits[rows]
    out = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(out[-1]) - np.repeat(out[:-1], lengths) + np.repeat(splits[rows], lengths)
    return out, places


@python_kernel("RaggedGather")
def _gather(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    *nested, values, indices = (np.asarray(x) for x in inputs)
    require(values.ndim >= 1, "params_dense_values must not be a scalar")
    splits = check_nested_splits(nested, len(values))
    rows = np.asarray(indices, np.int64)
    require(
        attrs["OUTPUT_RAGGED_RANK"] == len(nested) + rows.ndim - 1,
        f"OUTPUT_RAGGED_RANK is {attrs['OUTPUT_RAGGED_RANK']}, but must be PARAMS_RAGGED_RANK + indices.rank - 1 = "
        f"{len(nested) + rows.ndim - 1}",
    )
    outside = (rows < 0) | (rows >= splits[0].size - 1)
    if outside.any():
        first = int(rows[outside][0])
        require(False, f"indices: {first} is not in [0, {splits[0].size - 1})")
    dtype = as_dtype(attrs["Tsplits"]).as_numpy_dtype
    found: list[Array] = [
        np.arange(math.prod(rows.shape[:axis]) + 1) * rows.shape[axis] for axis in range(1, rows.ndim)
    ]
    at = rows.reshape(-1)
    for split in splits:
        new, at = _taken(split, at)
        found.append(new)
    return [*(split.astype(dtype) for split in found), values[at]]


@gradient("RaggedGather")
def _gather_grad(op: Operation, *grads: Any) -> Any:
    *splits, values, indices = op.inputs
    count = apply_one("StridedSlice", apply_one("Shape", values, out_type=int64), [0], [1], [1], shrink_axis_mask=1)
    numbers = apply_one("Range", np.int64(0), count, np.int64(1))

    taken = apply(
        "RaggedGather", splits, numbers, indices, OUTPUT_RAGGED_RANK=op.get_attr("OUTPUT_RAGGED_RANK")
    ).output_dense_values
    return [*[None] * len(splits), apply_one("UnsortedSegmentSum", grads[-1], taken, count), None]


# Ranges.


def _range_shape(c: ShapeContext) -> list[TensorShape]:
    rows: int | None = None
    for index in range(3):
        dims = shapes.with_rank_at_most(c.input(index), 1).dims_tuple
        if dims:
            rows = shapes.merge_dims(rows, dims[0])
        elif dims is None:
            return [shapes.ANY_VECTOR, shapes.ANY_VECTOR]
    scalars = all(c.dims(index) == () for index in range(3))
    return [TensorShape([2 if scalars else None if rows is None else rows + 1]), shapes.ANY_VECTOR]


define(
    "RaggedRange",
    "starts: T, limits: T, deltas: T -> rt_nested_splits: Tsplits, rt_dense_values: T",
    f"T: {{bfloat16, float32, float64, int32, int64}} = int32, Tsplits: {_INDEX} = int64",
    shape=_range_shape,
)


@python_kernel("RaggedRange")
def _range(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    starts, limits, deltas = (np.asarray(x) for x in inputs)
    for name, x in (("starts", starts), ("limits", limits), ("deltas", deltas)):
        require(x.ndim <= 1, f"{name} must be a scalar or vector, got shape {list(x.shape)}")
    sizes = {x.size for x in (starts, limits, deltas) if x.ndim == 1}
    require(len(sizes) <= 1, f"starts, limits, and deltas must have the same shape, got sizes {sorted(sizes)}")
    rows = sizes.pop() if sizes else 1
    starts, limits, deltas = (np.broadcast_to(x, [rows]) for x in (starts, limits, deltas))
    require((deltas != 0).all(), "Requires delta != 0")
    wide = np.float64 if starts.dtype.kind not in "iu" else object
    counts = [
        max(math.ceil((b - a) / d if wide is np.float64 else -((a - b) // d)), 0)
        for a, b, d in zip(starts.tolist(), limits.tolist(), deltas.tolist(), strict=True)
    ]
    require(sum(counts) <= _MOST_ELEMENTS, f"the ranges would have {sum(counts)} elements")
    require_memory(sum(counts) * (starts.dtype.itemsize + 3 * 8))  # Places of elements are int64.
    lengths = np.array(counts, np.int64).reshape(rows)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    step = np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)
    values = np.repeat(starts, lengths) + step.astype(starts.dtype) * np.repeat(deltas, lengths)
    return [splits.astype(as_dtype(attrs["Tsplits"]).as_numpy_dtype), values.astype(starts.dtype)]


not_differentiable("RaggedRange")
