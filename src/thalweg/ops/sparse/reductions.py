"""Sums and maxima of sparse values along axes, with dense or sparse results."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import (
    sparse_input,
    sparse_shapes,
)
from thalweg.ops.sparse.tensors import as_sparse


def _reduced_shape(c: ShapeContext) -> TensorShape:
    sparse_input(c, 0)
    dims, axes = c.constant_as_shape(2).dims_tuple, c.constant(3)
    if dims is None or axes is None:
        return shapes.UNKNOWN
    reduced = {shapes.normalize_axis(int(axis), len(dims)) for axis in axes.ravel()}
    if c.attr("keep_dims"):
        return TensorShape._of(tuple([1 if i in reduced else d for i, d in enumerate(dims)]))
    return TensorShape._of(tuple([d for i, d in enumerate(dims) if i not in reduced]))


def _sparse_reduced_shape(c: ShapeContext) -> list[TensorShape]:
    _, rank = sparse_input(c, 0)
    return sparse_shapes(rank if c.attr("keep_dims") else None)


for _op, _types in (("SparseReduceSum", "numbertype"), ("SparseReduceMax", "realnumbertype")):
    define(
        _op, "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32 -> output: T",
        f"keep_dims: bool = false, T: {_types}", shape=_reduced_shape,
    )  # fmt: skip
    define(
        f"{_op}Sparse",
        "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32 "
        "-> output_indices: int64, output_values: T, output_shape: int64",
        f"keep_dims: bool = false, T: {_types}", shape=_sparse_reduced_shape,
    )  # fmt: skip


not_differentiable("SparseReduceMax", "SparseReduceMaxSparse", "SparseReduceSumSparse")


@gradient("SparseReduceSum")
def _sum_grad(op: Operation, grad: Tensor) -> Any:
    indices, _, shape, axes = op.inputs
    sizes = apply_one("Cast", shape, DstT="int32")
    # The shape with 1 along the reduced axes, and from each index the place of its sum in it.
    rank = apply_one("Size", shape)
    chosen = apply_one("FloorMod", apply_one("AddV2", apply_one("Reshape", axes, [-1]), rank), rank)
    hit = apply_one("UnsortedSegmentSum", apply_one("OnesLike", chosen), chosen, rank)
    kept = apply_one("Equal", hit, 0)
    flat = apply_one("Select", kept, sizes, apply_one("OnesLike", sizes))
    wide = apply_one("Reshape", grad, flat)
    at = apply_one("Mul", indices, apply_one("Cast", kept, DstT="int64"))
    return None, apply_one("GatherNd", wide, at), None, None


def _axes(x: SparseTensor, axis: Any) -> Any:
    if axis is not None:
        return axis
    dims = x.dense_shape.shape.dims_tuple
    if dims is not None and dims[0] is not None:
        return np.arange(dims[0], dtype=np.int32)
    return apply_one("Range", 0, apply_one("Size", x.dense_shape), 1)


def _reduce(
    op_type: str, sp_input: Any, axis: Any, keepdims: Any, reduction_axes: Any, keep_dims: Any, name: str | None = None
) -> Any:
    x = as_sparse(sp_input)
    keep = bool(keepdims if keepdims is not None else keep_dims)
    axis = reduction_axes if axis is None else axis
    return apply(op_type, x.indices, x.values, x.dense_shape, _axes(x, axis), keep_dims=keep, name=name)


@export("sparse_reduce_sum", "sparse.reduce_sum")
def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Tensor:
    """Sums a SparseTensor along axes (all if None) into a dense tensor; `keepdims` keeps them with size 1."""
    tensor: Tensor = _reduce("SparseReduceSum", sp_input, axis, keepdims, reduction_axes, keep_dims)
    return tensor


@export("sparse_reduce_max", "sparse.reduce_max")
def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Tensor:
    """Takes the maximum of the elements of a SparseTensor along axes; zero where there is none."""
    tensor: Tensor = _reduce("SparseReduceMax", sp_input, axis, keepdims, reduction_axes, keep_dims)
    return tensor


@export("sparse_reduce_sum_sparse", "sparse.reduce_sum_sparse")
def sparse_reduce_sum_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> SparseTensor:
    """Sums a SparseTensor along axes (all if None) into a SparseTensor."""
    return SparseTensor(*_reduce("SparseReduceSumSparse", sp_input, axis, keepdims, reduction_axes, keep_dims))


@export("sparse_reduce_max_sparse", "sparse.reduce_max_sparse")
def sparse_reduce_max_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> SparseTensor:
    """Takes the maximum of the elements of a SparseTensor along axes, as a SparseTensor."""
    return SparseTensor(*_reduce("SparseReduceMaxSparse", sp_input, axis, keepdims, reduction_axes, keep_dims))
