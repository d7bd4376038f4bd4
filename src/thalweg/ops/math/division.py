"""Quotients and remainders, with the meanings that Python, C and TensorFlow give to `/`, `//` and `%`."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.dtypes import DType, float32, float64
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.arithmetic import multiply, negative
from thalweg.ops.math.element_types import FLOATS, INEXACT, INTEGERS, NUMBERS
from thalweg.ops.math.math_gradients import conj, reduce_to_inputs
from thalweg.ops.math.operators import binary, binary_operator, eager_operator

define("RealDiv", "x: T, y: T -> z: T", f"T: {NUMBERS}", shape=shapes.broadcast)
define("Div", "x: T, y: T -> z: T", f"T: {NUMBERS}", shape=shapes.broadcast)


@export("realdiv")
def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` element by element, with broadcasting, for floating point numbers."""
    return binary("RealDiv", x, y, name)


@gradient("RealDiv", "Div")
def _real_div_grad(op: Operation, grad: Tensor) -> Any:
    if not grad.dtype.is_floating and not grad.dtype.is_complex:
        return None, None
    y = conj(op.inputs[1])
    grad_x = realdiv(grad, y)
    # d(x / y)/dy = -(x / y) / y: the quotient is there already.
    return reduce_to_inputs(op, grad_x, negative(multiply(grad_x, conj(op.outputs[0]))))


define("DivNoNan", "x: T, y: T -> z: T", f"T: {INEXACT}", shape=shapes.broadcast)


@export("div_no_nan", "math.divide_no_nan")
def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y`, and zero wherever `y` is zero."""
    return _with_dtype_of_x("DivNoNan", x, y, name, "div_no_nan")


@export("math.reciprocal_no_nan")
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """Returns `1 / x`, and zero wherever `x` is zero."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return binary("DivNoNan", convert_to_tensor(1, dtype=x.dtype.base_dtype, name="one"), x, scope)


@gradient("DivNoNan")
def _div_no_nan_grad(op: Operation, grad: Tensor) -> Any:
    y = conj(op.inputs[1])
    grad_x = binary("DivNoNan", grad, y)
    return reduce_to_inputs(op, grad_x, negative(multiply(grad_x, conj(op.outputs[0]))))


define("FloorDiv", "x: T, y: T -> z: T", f"T: {NUMBERS}", shape=shapes.broadcast)
define("TruncateDiv", "x: T, y: T -> z: T", f"T: {NUMBERS}", shape=shapes.broadcast)
not_differentiable("FloorDiv", "TruncateDiv")


@export("floordiv", "math.floordiv")
@elementwise
def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` rounded down, as Python's `//` does."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return binary("FloorDiv", x, y, scope)


@export("floor_div")
def floor_div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` rounded down."""
    return binary("FloorDiv", x, y, name)


@export("truncatediv")
def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` rounded towards zero, as C does."""
    return binary("TruncateDiv", x, y, name)


_FLOOR_MOD = f"T: {INTEGERS[:-1]}, {FLOATS[1:]}"
_TRUNCATE_MOD = "T: {int32, int64, bfloat16, half, float, double}"
define("FloorMod", "x: T, y: T -> z: T", _FLOOR_MOD, shape=shapes.broadcast)
define("Mod", "x: T, y: T -> z: T", _TRUNCATE_MOD, shape=shapes.broadcast)
define("TruncateMod", "x: T, y: T -> z: T", _TRUNCATE_MOD, shape=shapes.broadcast)


@export("floormod", "mod", "math.floormod", "math.mod")
@elementwise
def floormod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns the remainder of floor division: it has the sign of `y`, as in Python."""
    return binary("FloorMod", x, y, name)


@export("truncatemod")
def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns the remainder of truncating division: it has the sign of `x`, as in C."""
    return binary("TruncateMod", x, y, name)


@gradient("FloorMod")
def _floor_mod_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to_inputs(op, grad, multiply(grad, negative(binary("FloorDiv", x, y))))


@gradient("Mod", "TruncateMod")
def _truncate_mod_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to_inputs(op, grad, multiply(grad, negative(binary("TruncateDiv", x, y))))


def _with_dtype_of_x(op_type: str, x: Any, y: Any, name: str | None, default: str) -> Tensor:
    """Applies an op under a scope of its name; `y` takes the type of `x`."""
    with name_scope(name, default, [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        return binary(op_type, x, y, scope)


def division_type(dtype: DType) -> DType | None:
    """The type in which numbers are truly divided; None for the one they have."""
    if not dtype.is_integer:
        return None
    return float32 if dtype.size <= 2 else float64


@export("truediv", "math.truediv")
@elementwise
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` as Python 3 does: integers are divided as floating point numbers.

    Raises:
        TypeError: If the types of `x` and `y` differ.
    """
    with name_scope(name, "truediv", [x, y]) as scope:
        x, y = _as_tensor_pair(x, y)
        if x.dtype.base_dtype != y.dtype.base_dtype:
            raise TypeError(f"x and y must have the same dtype, got {x.dtype.name} != {y.dtype.name}.")
        wide = division_type(x.dtype.base_dtype)
        if wide is not None:
            x, y = apply_one("Cast", x, DstT=wide), apply_one("Cast", y, DstT=wide)
        return binary("RealDiv", x, y, scope)


def _as_tensor_pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors; a Python number takes the type of the tensor beside it."""
    if not isinstance(x, Tensor) and isinstance(y, Tensor):
        return convert_to_tensor(x, name="x", dtype=y.dtype.base_dtype), y
    x = convert_to_tensor(x, name="x")
    return x, convert_to_tensor(y, name="y", dtype=None if isinstance(y, Tensor) else x.dtype.base_dtype)


@export("div")
@elementwise
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` as Python 2 does: integers are divided with rounding down."""
    with name_scope(name, "div", [x, y]) as scope:
        x, y = _as_tensor_pair(x, y)
        return binary("FloorDiv" if x.dtype.is_integer else "RealDiv", x, y, scope)


@export("divide", "math.divide")
@elementwise
def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` as the operator of Python 3 does."""
    if name is not None:
        return truediv(x, y, name)
    return truediv(x if isinstance(x, Tensor) else convert_to_tensor(x), y)


binary_operator("truediv", truediv)
eager_operator("truediv", "RealDiv", only_floating=True)
binary_operator("div", div)
binary_operator("floordiv", floordiv)
binary_operator("mod", lambda x, y: binary("FloorMod", x, y, "mod"))
