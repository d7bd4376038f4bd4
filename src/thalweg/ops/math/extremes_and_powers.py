"""Functions of two numbers that are neither sum nor quotient: extremes, powers, x log y, angles."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.arithmetic import add, multiply, negative, square, subtract
from thalweg.ops.math.element_types import FLOATS, INEXACT, REALS
from thalweg.ops.math.math_gradients import conj, reduce_to_inputs
from thalweg.ops.math.operators import binary, binary_operator

define("Maximum", "x: T, y: T -> z: T", f"T: {REALS}", shape=shapes.broadcast, commutative=True)
define("Minimum", "x: T, y: T -> z: T", f"T: {REALS}", shape=shapes.broadcast, commutative=True)


@export("maximum", "math.maximum")
@elementwise
def maximum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns the larger of `x` and `y` element by element; NaN if either is."""
    return binary("Maximum", x, y, name)


@export("minimum", "math.minimum")
@elementwise
def minimum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns the smaller of `x` and `y` element by element; NaN if either is."""
    return binary("Minimum", x, y, name)


@gradient("Maximum")
def _maximum_grad(op: Operation, grad: Tensor) -> Any:
    return _extreme_grad(op, grad, "GreaterEqual")


@gradient("Minimum")
def _minimum_grad(op: Operation, grad: Tensor) -> Any:
    return _extreme_grad(op, grad, "LessEqual")


def _extreme_grad(op: Operation, grad: Tensor, comparison: str) -> Any:
    chosen = apply_one(comparison, op.inputs[0], op.inputs[1])
    return reduce_to_inputs(op, apply_one("SelectV2", chosen, grad, 0), apply_one("SelectV2", chosen, 0, grad))


define(
    "Pow", "x: T, y: T -> z: T",
    "T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}", shape=shapes.broadcast,
)  # fmt: skip


@export("pow", "math.pow")
@elementwise
def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x` to the power of `y` element by element. Integers allow no negative powers."""
    return binary("Pow", x, y, name)


binary_operator("pow", lambda x, y: binary("Pow", x, y, "pow"))


@gradient("Pow")
def _pow_grad(op: Operation, grad: Tensor) -> Any:
    if grad.dtype.is_integer:
        return None, None
    x, y, z = conj(op.inputs[0]), conj(op.inputs[1]), conj(op.outputs[0])
    exponent = constant_value(op.inputs[1])
    if exponent is not None and exponent.ndim == 0 and exponent == 2:
        grad_x = multiply(multiply(grad, y), x)
    else:
        grad_x = multiply(multiply(grad, y), binary("Pow", x, subtract(y, 1)))
    # d(x^y)/dy is 0 at x = 0, and not real for a negative x: log(1) stands for log(x) in both cases.
    positive = apply_one("NotEqual", x, 0) if x.dtype.is_complex else apply_one("Greater", x, 0)
    log_x = apply_one("Log", apply_one("SelectV2", positive, x, 1))
    return reduce_to_inputs(op, grad_x, multiply(multiply(grad, z), log_x))


define("Xdivy", "x: T, y: T -> z: T", f"T: {INEXACT}", shape=shapes.broadcast)
define("Xlogy", "x: T, y: T -> z: T", f"T: {INEXACT}", shape=shapes.broadcast)
define("Xlog1py", "x: T, y: T -> z: T", f"T: {INEXACT}", shape=shapes.broadcast)


@export("math.xdivy")
def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y`, and zero wherever `x` is zero, even if `y` is."""
    with name_scope(name, "xdivy", [x]):
        return binary("Xdivy", x, y)


@export("math.xlogy")
def xlogy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x * log(y)`, and zero wherever `x` is zero, even if `y` is."""
    return binary("Xlogy", x, y, name)


@export("math.xlog1py")
def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x * log(1 + y)`, and zero wherever `x` is zero, even if `y` is -1."""
    with name_scope(name, "xlog1py", [x]):
        return binary("Xlog1py", x, y)


def _is_nonzero(x: Tensor) -> Tensor:
    """1 where `x` is not zero, so that the second factor matters; 0 elsewhere."""
    return apply_one("Cast", apply_one("NotEqual", x, 0), DstT=x.dtype)


@gradient("Xdivy")
def _xdivy_grad(op: Operation, grad: Tensor) -> Any:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    by_x = binary("Xdivy", _is_nonzero(x), y)
    by_y = binary("Xdivy", negative(x), square(y))
    return reduce_to_inputs(op, multiply(by_x, grad), multiply(by_y, grad))


@gradient("Xlogy")
def _xlogy_grad(op: Operation, grad: Tensor) -> Any:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    by_x = binary("Xlogy", _is_nonzero(x), y)
    return reduce_to_inputs(op, multiply(by_x, grad), multiply(binary("Xdivy", x, y), grad))


@gradient("Xlog1py")
def _xlog1py_grad(op: Operation, grad: Tensor) -> Any:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    by_x = binary("Xlog1py", _is_nonzero(x), y)
    return reduce_to_inputs(op, multiply(by_x, grad), multiply(binary("Xdivy", x, add(y, 1)), grad))


define("Atan2", "y: T, x: T -> z: T", f"T: {FLOATS}", shape=shapes.broadcast)


@export("atan2", "math.atan2")
@elementwise
def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """Returns the angle of the point (`x`, `y`), in (-pi, pi]."""
    return binary("Atan2", y, x, name)


@gradient("Atan2")
def _atan2_grad(op: Operation, grad: Tensor) -> Any:
    y, x = op.inputs
    scaled = binary("RealDiv", grad, add(square(x), square(y)))
    return reduce_to_inputs(op, multiply(x, scaled), negative(multiply(y, scaled)))


define("NextAfter", "x1: T, x2: T -> output: T", "T: {double, float} = float", shape=shapes.broadcast)


@export("math.nextafter")
def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """Returns the next number after `x1` that the type can represent, in the direction of `x2`."""
    return binary("NextAfter", x1, x2, name)


@gradient("NextAfter")
def _next_after_grad(op: Operation, grad: Tensor) -> Any:
    return reduce_to_inputs(op, grad, None)
