"""Counting values by row: bincounts of ragged and sparse tensors, and counts that are sparse themselves."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.ragged.row_splits import Array, check_row_splits, rows_of_values
from thalweg.ops.sparse.kernel_arrays import check_sparse, require

_COUNTS: Final = "{int32, int64, float32, float64}"
_MOST_BINS: Final = 2**31


def _bins_shape(c: ShapeContext) -> TensorShape:
    size = c.constant(c.num_inputs - 2)
    bins = None if size is None or np.ndim(size) else int(size)
    if c.op_type == "RaggedBincount":
        splits = shapes.with_rank(c.input(0), 1).dims_tuple
        return TensorShape([None if not splits or splits[0] is None else splits[0] - 1, bins])
    return TensorShape(None)


define(
    "RaggedBincount",
    "splits: int64, values: Tidx, size: Tidx, weights: T -> output: T",
    f"Tidx: {{int32, int64}}, T: {_COUNTS}, binary_output: bool = false",
    shape=_bins_shape,
)
define(
    "SparseBincount",
    "indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T -> output: T",
    f"Tidx: {{int32, int64}}, T: {_COUNTS}, binary_output: bool = false",
    shape=_bins_shape,
)


def _counted(rows: int, row: Array, values: Array, size: Array, weights: Array, attrs: dict[str, Any]) -> Array:
    """The counts `[rows, size]`; values from `size` on are left out."""
    require(size.ndim == 0, f"size must be a scalar, got shape {list(size.shape)}")
    bins = int(size)
    require(bins >= 0, f"size must be at least 0, got {bins}")
    require(rows * max(bins, 1) <= _MOST_BINS, f"{rows} rows of {bins} bins are too many")
    require(values.size == 0 or values.min() >= 0, "values must not be negative")
    by_value = _checked_weights(weights, values)
    out = np.zeros((rows, bins), as_dtype(attrs["T"]).as_numpy_dtype)
    kept = values < bins
    place = (row[kept], values[kept].astype(np.int64))
    if attrs["binary_output"]:
        out[place] = 1
    else:
        np.add.at(out, place, 1 if by_value is None else by_value[kept])
    return out


def _checked_weights(weights: Array, values: Array) -> Array | None:
    if weights.size == 0:
        return None
    require(
        weights.shape == values.shape,
        f"weights of shape {list(weights.shape)} must have the shape of values, {list(values.shape)}",
    )
    return weights.reshape(-1)


@python_kernel("RaggedBincount")
def _ragged_bincount(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    splits, values, size, weights = (np.asarray(x) for x in inputs)
    require(values.ndim == 1, f"values must be a vector, got shape {list(values.shape)}")
    splits = check_row_splits(splits, values.size)
    return _counted(splits.size - 1, rows_of_values(splits), values, size, weights, attrs)


@python_kernel("SparseBincount")
def _sparse_bincount(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    indices, values, dense_shape, size, weights = (np.asarray(x) for x in inputs)
    sizes = check_sparse(indices, values, dense_shape)
    require(len(sizes) in (1, 2), f"dense_shape must have 1 or 2 dimensions, got {list(sizes)}")
    if len(sizes) == 1:
        return _counted(1, np.zeros(values.size, np.int64), values, size, weights, attrs)[0]
    return _counted(sizes[0], indices[:, 0], values, size, weights, attrs)


def _sparse_counts_shape(c: ShapeContext) -> list[TensorShape]:
    rank = len(c.dims(0) or ()) if c.op_type.startswith("Dense") and c.dims(0) is not None else None
    return [TensorShape([None, rank]), shapes.ANY_VECTOR, TensorShape([rank])]


_LIMITS: Final = "minlength: int >= -1 = -1, maxlength: int >= -1 = -1, binary_output: bool"
for _op, _inputs in (
    ("DenseCountSparseOutput", "values: T"),
    ("RaggedCountSparseOutput", "splits: int64, values: T"),
    ("SparseCountSparseOutput", "indices: int64, values: T, dense_shape: int64"),
):
    define(
        _op,
        f"{_inputs}, weights: output_type -> output_indices: int64, output_values: output_type, "
        "output_dense_shape: int64",
        f"T: {{int32, int64}}, {_LIMITS}, output_type: {_COUNTS}",
        shape=_sparse_counts_shape,
    )


def _sparse_counts(rows: int, row: Array, values: Array, weights: Array, attrs: dict[str, Any], outer: bool) -> Any:
    least, most = int(attrs["minlength"]), int(attrs["maxlength"])
    require(values.size == 0 or values.min() >= 0, "values must not be negative")
    weights_or_none = _checked_weights(weights, values)
    flat = values.reshape(-1).astype(np.int64)
    kept = flat < most if most >= 0 else np.ones(flat.shape, bool)
    dtype = as_dtype(attrs["output_type"]).as_numpy_dtype
    pairs, inverse = np.unique(np.stack([row[kept], flat[kept]], axis=1), axis=0, return_inverse=True)
    counts = np.zeros(len(pairs), dtype)
    if attrs["binary_output"]:
        counts[...] = 1
    else:
        np.add.at(counts, inverse.reshape(-1), 1 if weights_or_none is None else weights_or_none[kept])
    width = max(int(pairs[:, 1].max(initial=-1)) + 1, least)
    if most >= 0:
        width = most
    indices = pairs if outer else pairs[:, 1:]
    return [indices.astype(np.int64), counts, np.array([rows, width] if outer else [width], np.int64)]


@python_kernel("DenseCountSparseOutput")
def _dense_counts(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    values, weights = (np.asarray(x) for x in inputs)
    require(values.ndim in (1, 2), f"values must be a vector or a matrix, got shape {list(values.shape)}")
    rows = values.shape[0] if values.ndim == 2 else 1
    row = np.repeat(np.arange(rows), values.size // rows if rows else 0)
    return _sparse_counts(rows, row, values, weights, attrs, values.ndim == 2)


@python_kernel("RaggedCountSparseOutput")
def _ragged_counts(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    splits, values, weights = (np.asarray(x) for x in inputs)
    require(values.ndim == 1, f"values must be a vector, got shape {list(values.shape)}")
    splits = check_row_splits(splits, values.size)
    return _sparse_counts(splits.size - 1, rows_of_values(splits), values, weights, attrs, True)


@python_kernel("SparseCountSparseOutput")
def _sparse_sparse_counts(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    indices, values, dense_shape, weights = (np.asarray(x) for x in inputs)
    sizes = check_sparse(indices, values, dense_shape)
    require(len(sizes) in (1, 2), f"dense_shape must have 1 or 2 dimensions, got {list(sizes)}")
    row = indices[:, 0] if len(sizes) == 2 else np.zeros(values.size, np.int64)
    return _sparse_counts(sizes[0] if len(sizes) == 2 else 1, row, values, weights, attrs, len(sizes) == 2)


not_differentiable(
    "RaggedBincount", "SparseBincount", "DenseCountSparseOutput", "RaggedCountSparseOutput", "SparseCountSparseOutput"
)
