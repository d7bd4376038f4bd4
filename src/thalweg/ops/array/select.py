"""Choosing between two tensors element by element, and limiting elements to an interval."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.math_gradients import reduce_to_shape


def _select_shape(c: ShapeContext) -> TensorShape:
    shape = shapes.merge(c.input(1), c.input(2))
    condition, dims = c.dims(0), shape.dims_tuple
    if condition is None or not condition or dims is None:
        return shape
    if len(condition) == 1 and len(dims) > 1:
        shapes.merge_dims(condition[0], dims[0])  # A vector chooses whole rows.
        return shape
    return shapes.merge(c.input(0), shape)


define("Select", "condition: bool, t: T, e: T -> output: T", "T: type", shape=_select_shape)
define("SelectV2", "condition: bool, t: T, e: T -> output: T", "T: type", shape=shapes.broadcast_all)


@export("where", deprecated=("select",))
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Returns elements of `x` where `condition` is true and of `y` where it is not; or where it is true.

    Args:
        condition: A bool tensor of the shape of `x`, or a vector that chooses whole rows of it, or a scalar. Without
            `x` and `y`, a tensor of any number type.
        x: Tensor, or None.
        y: Tensor of the shape and type of `x`, or None.
        name: The node's name.

    Returns:
        A tensor like `x`; or, without `x` and `y`, an int64 matrix with one row of coordinates for each element that is
        true (not zero), in row-major order.

    Raises:
        ValueError: If only one of `x` and `y` is given.

    Example:
        >>> tf.Session().run(tf.where([True, False], [1, 2], [3, 4]))
        array([1, 4], dtype=int32)
    """
    if x is None and y is None:
        return apply_one("Where", condition, name=name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return apply_one("Select", condition, x, y, name=name)


@export("where_v2", deprecated=("select_v2",))
def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Like `tf.where`, with NumPy's broadcasting of all three arguments."""
    if x is None and y is None:
        return apply_one("Where", condition, name=name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return apply_one("SelectV2", condition, x, y, name=name)


@gradient("Select")
def _select_grad(op: Operation, grad: Tensor) -> Any:
    condition = op.inputs[0]
    rank, grad_rank = condition.shape.ndims, grad.shape.ndims
    if rank == 0 or (rank is not None and rank == grad_rank):
        return None, apply_one("SelectV2", condition, grad, 0), apply_one("SelectV2", condition, 0, grad)
    zeros = apply_one("ZerosLike", grad)
    return None, apply_one("Select", condition, grad, zeros), apply_one("Select", condition, zeros, grad)


@gradient("SelectV2")
def _select_v2_grad(op: Operation, grad: Tensor) -> Any:
    condition, x, y = op.inputs
    return (
        None,
        reduce_to_shape(apply_one("SelectV2", condition, grad, 0), x),
        reduce_to_shape(apply_one("SelectV2", condition, 0, grad), y),
    )
