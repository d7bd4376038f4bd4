"""Comparisons and logic, element by element."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import bool as bool_type
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.element_types import REALS
from thalweg.ops.math.operators import binary, binary_operator, unary

for _op in ("Less", "LessEqual", "Greater", "GreaterEqual"):
    define(_op, "x: T, y: T -> z: bool", f"T: {REALS}", shape=shapes.broadcast)
    not_differentiable(_op)


@export("less", "math.less")
@elementwise
def less(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x < y` element by element, with broadcasting."""
    return binary("Less", x, y, name)


@export("less_equal", "math.less_equal")
@elementwise
def less_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x <= y` element by element, with broadcasting."""
    return binary("LessEqual", x, y, name)


@export("greater", "math.greater")
@elementwise
def greater(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x > y` element by element, with broadcasting."""
    return binary("Greater", x, y, name)


@export("greater_equal", "math.greater_equal")
@elementwise
def greater_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x >= y` element by element, with broadcasting."""
    return binary("GreaterEqual", x, y, name)


Tensor.override_operator("__lt__", less)
Tensor.override_operator("__le__", less_equal)
Tensor.override_operator("__gt__", greater)
Tensor.override_operator("__ge__", greater_equal)


def _equal_shape(c: ShapeContext) -> TensorShape:
    try:
        shape = shapes.broadcast_shapes(c.input(0), c.input(1))
    except ValueError:
        if c.attr("incompatible_shape_error"):
            raise
        return shapes.SCALAR  # Tensors that do not fit are simply not equal.
    if c.attr("incompatible_shape_error") or (c.input(0).is_fully_defined() and c.input(1).is_fully_defined()):
        return shape
    return shapes.UNKNOWN


for _op in ("Equal", "NotEqual"):
    define(
        _op, "x: T, y: T -> z: bool", "T: type, incompatible_shape_error: bool = true",
        shape=_equal_shape, commutative=True,
    )  # fmt: skip
    not_differentiable(_op)


@export("equal", "math.equal")
@elementwise
def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns whether `x` and `y` are equal element by element, with broadcasting."""
    return binary("Equal", x, y, name)


@export("not_equal", "math.not_equal")
@elementwise
def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns whether `x` and `y` differ element by element, with broadcasting."""
    return binary("NotEqual", x, y, name)


define(
    "ApproximateEqual", "x: T, y: T -> z: bool",
    "T: {float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, half, uint32, "
    "uint64}, tolerance: float = 9.999999747378752e-06",
    shape=shapes.merge_inputs, commutative=True,
)  # fmt: skip
not_differentiable("ApproximateEqual")


@export("approximate_equal", "math.approximate_equal")
def approximate_equal(x: Any, y: Any, tolerance: float = 1e-05, name: str | None = None) -> Tensor:
    """Returns whether `|x - y| < tolerance` element by element."""
    return apply_one("ApproximateEqual", x, y, tolerance=tolerance, name=name)


define("LogicalAnd", "x: bool, y: bool -> z: bool", shape=shapes.broadcast, commutative=True)
define("LogicalOr", "x: bool, y: bool -> z: bool", shape=shapes.broadcast, commutative=True)
define("LogicalNot", "x: bool -> y: bool", shape=shapes.unchanged)
not_differentiable("LogicalAnd", "LogicalOr", "LogicalNot")


@export("logical_and", "math.logical_and")
@elementwise
def logical_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x and y` element by element, with broadcasting."""
    return binary("LogicalAnd", x, y, name)


@export("logical_or", "math.logical_or")
@elementwise
def logical_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x or y` element by element, with broadcasting."""
    return binary("LogicalOr", x, y, name)


@export("logical_not", "math.logical_not")
@elementwise
def logical_not(x: Any, name: str | None = None) -> Tensor:
    """Returns `not x` element by element."""
    return unary("LogicalNot", x, name)


@export("logical_xor", "math.logical_xor")
@elementwise
def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Tensor:
    """Returns whether exactly one of `x` and `y` is true, element by element."""
    return binary("LogicalAnd", logical_or(x, y), logical_not(logical_and(x, y)), name)


def _logical_or_bits(logical: str, bitwise: str, x: Any, y: Any, name: str) -> Any:
    """`x & y` and its relatives: logic for booleans, bits for integers."""
    tensor = x if isinstance(x, Tensor) else y
    if tensor.dtype.is_bool:
        return binary(logical, x, y, name)
    with name_scope(name):
        return binary(bitwise, x, y)


def _xor(x: Any, y: Any) -> Any:
    tensor = x if isinstance(x, Tensor) else y
    with name_scope("xor") as scope:
        if not tensor.dtype.is_bool:
            return binary("BitwiseXor", x, y)
        return logical_xor(convert_to_tensor(x, bool_type), convert_to_tensor(y, bool_type), scope)


binary_operator("and", lambda x, y: _logical_or_bits("LogicalAnd", "BitwiseAnd", x, y, "and"))
binary_operator("or", lambda x, y: _logical_or_bits("LogicalOr", "BitwiseOr", x, y, "or"))
binary_operator("xor", _xor)
Tensor.override_operator("__invert__", lambda x: unary("LogicalNot" if x.dtype.is_bool else "Invert", x))
