"""Limiting elements to an interval, and tensors to a norm."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.arithmetic import multiply
from thalweg.ops.math.division import truediv
from thalweg.ops.math.extremes_and_powers import maximum, minimum
from thalweg.ops.math.math_gradients import reduce_to_shape
from thalweg.ops.math.operators import binary, unary


def _clip_shape(c: ShapeContext) -> TensorShape:
    shape = c.input(0)
    for i in (1, 2):
        if c.dims(i) != () and c.input(i).num_elements() not in (None, 1):
            shapes.merge(shape, c.input(i))
    return shape


define(
    "ClipByValue",
    "t: T, clip_value_min: T, clip_value_max: T -> output: T",
    "T: {float, double, int32, uint8, int16, int8, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, "
    "half, uint32, uint64}",
    shape=_clip_shape,
)


@gradient("ClipByValue")
def _clip_by_value_grad(op: Operation, grad: Tensor) -> Any:
    t, low, high = op.inputs
    below, above = apply_one("Less", t, low), apply_one("Greater", t, high)
    inside = apply_one("SelectV2", apply_one("LogicalOr", below, above), 0, grad)
    return (
        inside,
        reduce_to_shape(apply_one("SelectV2", below, grad, 0), low),
        reduce_to_shape(apply_one("SelectV2", above, grad, 0), high),
    )


@export("clip_by_value")
@elementwise
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Limits the elements of a Tensor or IndexedSlices to an interval.

    Args:
        t: Tensor or IndexedSlices.
        clip_value_min: The smallest value that stays: a scalar, or a tensor that broadcasts to the shape of `t`.
        clip_value_max: The largest.
        name: The name of the result.

    Returns:
        A value like `t`.

    Raises:
        ValueError: If the limits would broadcast `t` to a larger shape.
    """
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        upper = minimum(values, clip_value_max)
        values.shape.assert_is_compatible_with(upper.shape)
        result = maximum(upper, clip_value_min, name=scope)
        values.shape.assert_is_compatible_with(result.shape)
        return IndexedSlices(result, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else result


@export("clip_by_norm")
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scales a tensor down so that its norm (along `axes`, or of all of it) is at most `clip_norm`."""
    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        squares = _sum(multiply(values, values), axes)
        # The norm of zeros is zero, but its gradient would be infinite: their square root is not taken.
        positive = apply_one("Greater", squares, 0)
        norm = apply_one("SelectV2", positive, unary("Sqrt", apply_one("SelectV2", positive, squares, 1)), squares)
        limited = truediv(multiply(values, clip_norm), maximum(norm, clip_norm))
        values.shape.assert_is_compatible_with(limited.shape)
        result = unary("Identity", limited, scope)
        return IndexedSlices(result, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else result


def _sum(x: Tensor, axes: Any = None) -> Tensor:
    """The sum over some axes, or all, kept as 1."""
    if axes is None:
        rank = x.shape.ndims
        axes = apply_one("Range", 0, apply_one("Rank", x), 1) if rank is None else list(range(rank))
    return apply_one("Sum", x, convert_to_tensor(axes, "int32"), keep_dims=True)


@export("clip_by_average_norm")
def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """Scales a tensor down so that its norm divided by its number of elements is at most `clip_norm`."""
    with name_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        t = convert_to_tensor(t, name="t")
        count = apply_one("Cast", apply_one("Size", t), DstT=t.dtype)
        inverse = multiply(count, unary("Rsqrt", _sum(multiply(t, t))))
        scale = minimum(inverse, truediv(convert_to_tensor(1.0, t.dtype), clip_norm))
        return unary("Identity", multiply(multiply(t, clip_norm), scale), scope)


@export("global_norm", "linalg.global_norm")
def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """Returns the norm of all tensors of a list together (None among them count as nothing).

    Raises:
        TypeError: If `t_list` is not a list.
    """
    _check_list(t_list)
    with name_scope(name, "global_norm", [t for t in t_list if t is not None]):
        halves = [unary("L2Loss", _values(t)) for t in t_list if t is not None]
        half = apply_one("Sum", apply_one("Pack", halves, name="stack"), [0])
        return unary("Sqrt", multiply(half, convert_to_tensor(2.0, half.dtype)), "global_norm")


def _values(t: Any) -> Tensor:
    return convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t)


def _check_list(t_list: Any) -> None:
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"t_list should be a sequence of tensors, got {t_list!r}.")


@export("clip_by_global_norm")
def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Scales all tensors of a list by one factor, so that their global norm is at most `clip_norm`.

    Args:
        t_list: List of tensors, IndexedSlices and None.
        clip_norm: The largest norm, a scalar.
        use_norm: The global norm, if it is computed already.
        name: A name scope.

    Returns:
        The scaled list, and the global norm before. If that is infinite or NaN, all elements become NaN.
    """
    _check_list(t_list)
    norm = global_norm(t_list) if use_norm is None else use_norm
    with name_scope(name, "clip_by_global_norm", [t for t in t_list if t is not None]):
        one = convert_to_tensor(1.0, norm.dtype)
        factor = minimum(truediv(one, norm), truediv(one, clip_norm))
        # Zero for a finite norm, NaN for one that is infinite or NaN.
        factor = binary("AddV2", multiply(clip_norm, factor), binary("Sub", norm, norm))
        clipped = [None if t is None else _scaled(t, factor, i) for i, t in enumerate(t_list)]
    return clipped, norm


def _scaled(t: Any, factor: Tensor, index: int) -> Any:
    values = _values(t)
    scale = factor if factor.dtype == values.dtype else apply_one("Cast", factor, DstT=values.dtype)
    result = unary("Identity", multiply(values, scale), f"clip_by_global_norm/_{index}")
    return IndexedSlices(result, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else result
