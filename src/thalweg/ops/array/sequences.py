"""Evenly spaced numbers: range and linspace."""

from __future__ import annotations

import math
from typing import Any, Final

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _range_shape(c: ShapeContext) -> TensorShape:
    for i in (0, 1, 2):
        shapes.with_rank(c.input(i), 0)
    values = [c.constant(i) for i in (0, 1, 2)]
    if any(value is None for value in values):
        return shapes.ANY_VECTOR
    start, limit, delta = (value.item() for value in values)  # type: ignore[union-attr]
    if delta == 0:
        raise ValueError("Requires delta != 0")
    if (start > limit) if delta > 0 else (start < limit):
        order, sign = ("<=", ">") if delta > 0 else (">=", "<")
        raise ValueError(f"Requires start {order} limit when delta {sign} 0: {start}/{limit}")
    if isinstance(start, int):
        return TensorShape._of((-((start - limit) // delta),))
    size = abs((limit - start) / delta)
    return TensorShape._of((math.ceil(size) if math.isfinite(size) else None,))


define(
    "Range",
    "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx",
    "Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} = int32",
    shape=_range_shape,
)
not_differentiable("Range")

# Of arguments of several types, the one furthest to the right wins.
_RANGE_TYPES: Final = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)


@export("range")
def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Returns a vector of numbers from `start` up to, but not including, `limit`, in steps of `delta`.

    Args:
        start: Scalar; the first number, or the limit if `limit` is None.
        limit: Scalar.
        delta: Scalar; negative for a descending sequence.
        dtype: The type of the result; otherwise the widest type of the arguments.
        name: The node's name.

    Returns:
        A vector.

    Example:
        >>> tf.Session().run(tf.range(3, 18, 3))
        array([ 3,  6,  9, 12, 15], dtype=int32)
    """
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        target = None if dtype is None else as_dtype(dtype)
        arguments = [
            convert_to_tensor(value, dtype=None if isinstance(value, Tensor) else target, name=part)
            for value, part in ((start, "start"), (limit, "limit"), (delta, "delta"))
        ]
        if target is None:
            types = [argument.dtype.base_dtype for argument in arguments]
            if len(set(types)) > 1:
                target = max(types, key=lambda t: _RANGE_TYPES.index(t) if t in _RANGE_TYPES else -1)
            else:
                target = types[0]
        arguments = [
            value if value.dtype.base_dtype == target else apply_one("Cast", value, DstT=target) for value in arguments
        ]
        return apply_one("Range", *arguments, name=scope)


def _lin_space_shape(c: ShapeContext) -> TensorShape:
    for i in (0, 1, 2):
        shapes.with_rank(c.input(i), 0)
    num = c.constant(2)
    if num is None:
        return shapes.ANY_VECTOR
    if num <= 0:
        raise ValueError(f"Requires num > 0: {int(num)}")
    return TensorShape._of((int(num),))


define(
    "LinSpace", "start: T, stop: T, num: Tidx -> output: T",
    "T: {bfloat16, half, float, double}, Tidx: {int32, int64} = int32", shape=_lin_space_shape,
)  # fmt: skip


@export("linspace", "lin_space")
def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """Returns `num` evenly spaced numbers from `start` to `stop`, both included."""
    return apply_one("LinSpace", start, stop, num, name=name)


@gradient("LinSpace")
def _lin_space_grad(op: Operation, grad: Tensor) -> Any:
    # Element i is (1 - w) start + w stop, with weights w from 0 to 1.
    stop_weight = apply_one("LinSpace", convert_to_tensor(0.0, grad.dtype), 1.0, op.inputs[2])
    whole = apply_one("Sum", grad, [0])
    stop = apply_one("Sum", apply_one("Mul", grad, stop_weight), [0])
    return apply_one("Sub", whole, stop), stop, None
