"""Counting values: bincount and histograms of fixed width."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, int32
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _num_bins(c: ShapeContext, index: int) -> int | None:
    size = c.constant(index)
    if size is None:
        return None
    if int(size) < 0:
        raise ValueError(f"size ({int(size)}) must be non-negative")
    return int(size)


def _bincount_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 0)
    return TensorShape._of((_num_bins(c, 1),))


def _dense_bincount_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank_at_most(c.input(0), 2)
    dims = c.dims(0)
    if dims is None:
        return shapes.UNKNOWN
    return TensorShape._of((dims[0], _num_bins(c, 1)) if len(dims) == 2 else (_num_bins(c, 1),))


define(
    "Bincount",
    "arr: int32, size: int32, weights: T -> bins: T",
    "T: {int32, int64, float, double}",
    shape=_bincount_shape,
)
define(
    "DenseBincount",
    "input: Tidx, size: Tidx, weights: T -> output: T",
    "Tidx: {int32, int64}, T: {int32, int64, float, double}, binary_output: bool = false",
    shape=_dense_bincount_shape,
)
not_differentiable("Bincount", "DenseBincount")


@export("bincount", "math.bincount")
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Counts how often each number from 0 on occurs, or adds up the weights of its occurrences.

    Args:
        arr: A tensor of non-negative integers.
        weights: None, or a tensor of the same shape.
        minlength: The least length of the result.
        maxlength: The greatest; larger numbers are not counted.
        dtype: The type of the result if there are no weights.
        name: A name scope.

    Returns:
        A vector.

    Example:
        >>> tf.bincount([1, 1, 3], minlength=5).shape.ndims
        1
    """
    with name_scope(name, "bincount", [arr, weights]):
        arr = convert_to_tensor(arr, int32, name="arr")
        some = apply_one("Cast", apply_one("Greater", apply_one("Size", arr), 0), DstT=int32)
        everything = np.arange(arr.shape.ndims, dtype=np.int32) if arr.shape.ndims is not None else None
        axes = everything if everything is not None else apply_one("Range", 0, apply_one("Rank", arr), 1)
        largest = apply_one("Max", arr, axes)
        # Of no elements, the largest is the least integer: the factor keeps the sum from overflowing.
        size = apply_one("Mul", some, apply_one("AddV2", apply_one("Maximum", largest, -1), 1))
        if minlength is not None:
            size = apply_one("Maximum", size, convert_to_tensor(minlength, int32, name="minlength"))
        if maxlength is not None:
            size = apply_one("Minimum", size, convert_to_tensor(maxlength, int32, name="maxlength"))
        if weights is None:
            kind = as_dtype(dtype)
            weights = apply_one("Const", value=np.zeros([0], kind.as_numpy_dtype), dtype=kind)
        return apply_one("Bincount", arr, size, weights)


def _histogram_shape(c: ShapeContext) -> TensorShape:
    shapes.merge(c.input(1), TensorShape._of((2,)))
    shapes.with_rank(c.input(2), 0)
    nbins = c.constant(2)
    if nbins is None:
        return shapes.ANY_VECTOR
    if int(nbins) <= 0:
        raise ValueError(f"Requires nbins > 0, got {int(nbins)}")
    return TensorShape._of((int(nbins),))


define(
    "HistogramFixedWidth",
    "values: T, value_range: T, nbins: int32 -> out: dtype",
    "T: {int32, int64, float, double}, dtype: {int32, int64} = int32",
    shape=_histogram_shape,
)
not_differentiable("HistogramFixedWidth")


@export("histogram_fixed_width")
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Counts values in `nbins` equal bins over `value_range`; values outside count in the first or last bin."""
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as scope:
        return apply_one("HistogramFixedWidth", values, value_range, nbins, dtype=dtype, name=scope)


@export("histogram_fixed_width_bins")
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Returns the number of the bin, of `nbins` equal ones between the ends of `value_range`, of each value."""
    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = convert_to_tensor(values, name="values")
        value_range = convert_to_tensor(value_range, values.dtype.base_dtype, name="value_range")
        nbins = convert_to_tensor(nbins, int32, name="nbins")
        low, high = apply_list("Unpack", value_range, num=2, axis=0)
        count = apply_one("Cast", nbins, DstT=values.dtype.base_dtype)
        within = apply_one("RealDiv", apply_one("Sub", values, low), apply_one("Sub", high, low))
        index = apply_one("Floor", apply_one("Mul", count, within))
        last = apply_one("Cast", apply_one("Sub", nbins, 1), DstT=values.dtype.base_dtype)
        clipped = apply_one("Minimum", apply_one("Maximum", index, apply_one("ZerosLike", last)), last)
        return apply_one("Cast", clipped, DstT=dtype)
