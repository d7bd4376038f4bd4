"""Helpers of the gradients of element-wise ops: undoing broadcasting, and the conjugate of complex arguments."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _broadcast_args_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(0), 1)
    shapes.with_rank(c.input(1), 1)
    return [shapes.ANY_VECTOR, shapes.ANY_VECTOR]


define(
    "BroadcastGradientArgs", "s0: T, s1: T -> r0: T, r1: T", "T: {int32, int64} = int32", shape=_broadcast_args_shape
)
not_differentiable("BroadcastGradientArgs")


def conj(x: Tensor) -> Tensor:
    """The conjugate of a complex tensor; any other tensor as it is."""
    return apply_one("Conj", x) if x.dtype.is_complex else x


def reduce_to_inputs(op: Operation, *grads: Any) -> list[Any]:
    """Sums the gradients of a broadcasting op over the axes along which each of its two inputs was stretched.

    Args:
        op: An operation with two inputs.
        *grads: For each input, a gradient of the shape of the output; or None.

    Returns:
        Gradients of the shapes of the inputs.
    """
    x, y = op.inputs[0], op.inputs[1]
    grad_x, grad_y = grads
    return [
        None if grad_x is None else reduce_to_shape(grad_x, x, y),
        None if grad_y is None else reduce_to_shape(grad_y, y, x),
    ]


def reduce_to_shape(grad: Tensor, x: Tensor, other: Tensor | None = None) -> Tensor:
    """Sums `grad` over the axes along which `x` was broadcast, so that it has the shape of `x`.

    Args:
        grad: A gradient of the broadcast shape.
        x: The tensor that was broadcast.
        other: The tensor that `x` was broadcast against, if only one. It lets a batch dimension that is unknown in
            `x` be recognized as not stretched.

    Returns:
        A Tensor of the shape of `x`.
    """
    axes = _stretched_axes(grad.shape.dims_tuple, x.shape.dims_tuple, None if other is None else other.shape.dims_tuple)
    if axes is None:
        sizes = apply_one("Shape", x)
        reduced = apply("BroadcastGradientArgs", sizes, apply_one("Shape", grad)).r0
        result = apply_one("Reshape", apply_one("Sum", grad, reduced), sizes)
    elif not axes:
        return grad
    else:
        rank, grad_rank = len(x.shape.dims_tuple or ()), len(grad.shape.dims_tuple or ())
        leading = [axis for axis in axes if axis < grad_rank - rank]
        inner = [axis for axis in axes if axis >= grad_rank - rank]
        # Inner axes stay as 1, leading ones disappear: at most two sums, and no reshape that needs a shape at run time.
        result = apply_one("Sum", grad, inner, keep_dims=True) if inner else grad
        result = apply_one("Sum", result, leading, keep_dims=False) if leading else result
    result.set_shape(x.shape)
    return result


Dims = tuple[int | None, ...] | None


def _stretched_axes(grad: Dims, x: Dims, other: Dims) -> list[int] | None:
    """The axes of `grad` to sum over, or None if only the step can tell."""
    if x is None or grad is None:
        return None
    leading = len(grad) - len(x)
    axes = list(range(leading))
    for i, size in enumerate(x):
        axis = leading + i
        if size == 1:
            if grad[axis] != 1:
                axes.append(axis)
        elif size is None and grad[axis] != 1:
            against = None
            if other is not None:
                from_end = len(grad) - axis
                against = 1 if from_end > len(other) else other[-from_end]
            if against != 1:
                return None
    return axes
