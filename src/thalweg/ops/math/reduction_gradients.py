"""Gradients of the reductions: the gradient is broadcast over the reduced axes to the shape of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions.op_registry import gradient
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.math_gradients import conj


def shape_of(x: Tensor) -> Any:
    """The shape of `x` as an input for other ops: a constant where it is known."""
    if x.shape.is_fully_defined():
        return np.array(x.shape.as_list(), np.int32)
    return apply_one("Shape", x)


def _axes(op: Operation) -> list[int] | None:
    """The reduced axes counted from the start, or None if only the step knows them."""
    rank, axes = op.inputs[0].shape.ndims, constant_value(op.inputs[1])
    return None if rank is None or axes is None else sorted(int(axis) % max(rank, 1) for axis in axes.ravel())


def _shape_with_reduced_axes(op: Operation) -> Any:
    """The shape of the output with the reduced axes kept as 1."""
    x = op.inputs[0]
    axes = _axes(op)
    if axes is not None and x.shape.is_fully_defined():
        return np.array([1 if i in axes else d for i, d in enumerate(x.shape.as_list())], np.int32)
    # DynamicStitch writes a 1 over the sizes of the reduced axes: of equal indices, the later value wins.
    sizes = apply_one("Cast", apply_one("Shape", x), DstT="int32")
    rank = apply_one("Size", sizes)
    reduced = apply_one("Reshape", apply_one("Cast", op.inputs[1], DstT="int32"), [-1])
    reduced = apply_one("FloorMod", apply_one("AddV2", reduced, rank), rank)
    ones = apply_one("Fill", apply_one("Shape", reduced), np.int32(1))
    return apply_one("DynamicStitch", [apply_one("Range", 0, rank, 1), reduced], [sizes, ones])


def with_reduced_axes(op: Operation, value: Tensor) -> Tensor:
    """Gives `value`, which has the output's shape, the reduced axes back with size 1."""
    if not value.shape.is_compatible_with(op.outputs[0].shape):
        return apply_one("Reshape", value, _shape_with_reduced_axes(op))  # A grad_ys of another shape.
    if op.get_attr("keep_dims"):
        return value
    axes = _axes(op)
    if axes is not None and (len(axes) == 1 or not op.inputs[0].shape.is_fully_defined()):
        for axis in axes:
            value = apply_one("ExpandDims", value, np.int32(axis))
        return value
    return apply_one("Reshape", value, _shape_with_reduced_axes(op))


def _broadcast_to_input(op: Operation, grad: Tensor) -> Tensor:
    result = apply_one("BroadcastTo", with_reduced_axes(op, grad), shape_of(op.inputs[0]))
    result.set_shape(op.inputs[0].shape)
    return result


@gradient("Sum")
def _sum_grad(op: Operation, grad: Tensor) -> Any:
    return _broadcast_to_input(op, grad), None


def _elements_per_output(op: Operation, grad: Tensor) -> Any:
    """How many elements went into each output, in the type of the gradient."""
    x, y = op.inputs[0], op.outputs[0]
    axes = _axes(op)
    dims = x.shape.dims_tuple
    if dims is not None and axes is not None and None not in [dims[axis] for axis in axes]:
        count = int(np.prod([dims[axis] or 0 for axis in axes], dtype=np.int64))
        return apply_one("Const", value=np.array(count).astype(grad.dtype.as_numpy_dtype), dtype=grad.dtype.base_dtype)
    outputs = apply_one("Maximum", apply_one("Size", y), 1)
    return apply_one("Cast", apply_one("FloorDiv", apply_one("Size", x), outputs), DstT=grad.dtype.base_dtype)


@gradient("Mean")
def _mean_grad(op: Operation, grad: Tensor) -> Any:
    # Divided before it is broadcast, while it is small.
    return _broadcast_to_input(op, apply_one("RealDiv", grad, _elements_per_output(op, grad))), None


@gradient("Max", "Min")
def _extreme_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    chosen = apply_one("Cast", apply_one("Equal", with_reduced_axes(op, op.outputs[0]), x), DstT=grad.dtype.base_dtype)
    # Equal elements share the gradient.
    sharers = apply_one("Sum", chosen, op.inputs[1], keep_dims=True)
    share = apply_one("RealDiv", with_reduced_axes(op, grad), sharers)
    return apply_one("Mul", chosen, share), None


@gradient("Prod")
def _prod_grad(op: Operation, grad: Tensor) -> Any:
    """The product of all *other* elements, from the products before and after each: right for zeros too."""
    x = op.inputs[0]
    axes = _axes(op)
    rank = x.shape.ndims
    if rank == 0 or axes == []:
        return grad, None
    if axes is not None and rank is not None:
        order: Any = np.array([*axes, *(i for i in range(rank) if i not in axes)], np.int32)
        back: Any = np.argsort(order).astype(np.int32)
    else:
        everything = apply_one("Range", 0, apply_one("Rank", x), 1)
        reduced = apply_one("Reshape", apply_one("Cast", op.inputs[1], DstT="int32"), [-1])
        size = apply_one("Rank", x)
        reduced = apply_one("FloorMod", apply_one("AddV2", reduced, size), size)
        order = apply_one("ConcatV2", [reduced, apply("ListDiff", everything, reduced).out], 0)
        back = apply_one("InvertPermutation", order)
    in_order = isinstance(order, np.ndarray) and np.array_equal(order, np.arange(len(order)))
    moved = x if in_order else apply_one("Transpose", x, order)
    if axes is not None and len(axes) == 1:
        flat = moved
    elif axes is not None and x.shape.is_fully_defined():
        count = int(np.prod([x.shape.as_list()[axis] or 0 for axis in axes], dtype=np.int64))
        rest = int(np.prod([d or 0 for i, d in enumerate(x.shape.as_list()) if i not in axes], dtype=np.int64))
        flat = apply_one("Reshape", moved, np.array([count, rest], np.int32))
    else:
        columns = apply_one("Size", op.outputs[0])
        rows = apply_one("FloorDiv", apply_one("Size", x), apply_one("Maximum", columns, 1))
        flat = apply_one("Reshape", moved, apply_one("Pack", [rows, columns]))
    before = apply_one("Cumprod", flat, 0, exclusive=True)
    after = apply_one("Cumprod", flat, 0, exclusive=True, reverse=True)
    others = conj(apply_one("Mul", before, after))
    if flat is not moved:
        others = apply_one("Reshape", others, shape_of(moved))
    others = others if in_order else apply_one("Transpose", others, back)
    result = apply_one("Mul", with_reduced_axes(op, grad), others)
    result.set_shape(x.shape)
    return result, None


@gradient("EuclideanNorm")
def _euclidean_norm_grad(op: Operation, grad: Tensor) -> Any:
    ratio = apply_one("RealDiv", with_reduced_axes(op, grad), with_reduced_axes(op, op.outputs[0]))
    return apply_one("Mul", op.inputs[0], ratio), None
