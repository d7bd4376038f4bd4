"""Exponentials, logarithms, trigonometric, hyperbolic and sigmoid functions, element by element."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient, work
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.arithmetic import add, multiply, negative, square, subtract
from thalweg.ops.math.division import realdiv
from thalweg.ops.math.element_types import INEXACT
from thalweg.ops.math.math_gradients import conj
from thalweg.ops.math.operators import binary, unary

define("Exp", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("exp", "math.exp")
@elementwise
def exp(x: Any, name: str | None = None) -> Tensor:
    """Returns e to the power of `x` element by element."""
    return unary("Exp", x, name)


@gradient("Exp")
def _exp_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, conj(op.outputs[0]))


define("Expm1", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("expm1", "math.expm1")
@elementwise
def expm1(x: Any, name: str | None = None) -> Tensor:
    """Returns `exp(x) - 1`, precise also where `x` is near zero."""
    return unary("Expm1", x, name)


@gradient("Expm1")
def _expm1_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, exp(conj(op.inputs[0])))


define("Log", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("log", "math.log")
@elementwise
def log(x: Any, name: str | None = None) -> Tensor:
    """Returns the natural logarithm element by element."""
    return unary("Log", x, name)


@gradient("Log")
def _log_grad(op: Operation, grad: Tensor) -> Any:
    return realdiv(grad, conj(op.inputs[0]))


define("Log1p", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("log1p", "math.log1p")
@elementwise
def log1p(x: Any, name: str | None = None) -> Tensor:
    """Returns `log(1 + x)`, precise also where `x` is near zero."""
    return unary("Log1p", x, name)


@gradient("Log1p")
def _log1p_grad(op: Operation, grad: Tensor) -> Any:
    return realdiv(grad, add(conj(op.inputs[0]), 1.0))


define("Sin", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("sin", "math.sin")
@elementwise
def sin(x: Any, name: str | None = None) -> Tensor:
    """Returns the sine element by element."""
    return unary("Sin", x, name)


@gradient("Sin")
def _sin_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, cos(conj(op.inputs[0])))


define("Cos", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("cos", "math.cos")
@elementwise
def cos(x: Any, name: str | None = None) -> Tensor:
    """Returns the cosine element by element."""
    return unary("Cos", x, name)


@gradient("Cos")
def _cos_grad(op: Operation, grad: Tensor) -> Any:
    return negative(multiply(grad, sin(conj(op.inputs[0]))))


define("Tan", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("tan", "math.tan")
@elementwise
def tan(x: Any, name: str | None = None) -> Tensor:
    """Returns the tangent element by element."""
    return unary("Tan", x, name)


@gradient("Tan")
def _tan_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, add(square(conj(op.outputs[0])), 1.0))


define("Asin", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("asin", "math.asin")
@elementwise
def asin(x: Any, name: str | None = None) -> Tensor:
    """Returns the angle in [-pi/2, pi/2] of which `x` is the sine."""
    return unary("Asin", x, name)


@gradient("Asin")
def _asin_grad(op: Operation, grad: Tensor) -> Any:
    return realdiv(grad, _sqrt_one_minus_square(op))


define("Acos", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("acos", "math.acos")
@elementwise
def acos(x: Any, name: str | None = None) -> Tensor:
    """Returns the angle in [0, pi] of which `x` is the cosine."""
    return unary("Acos", x, name)


@gradient("Acos")
def _acos_grad(op: Operation, grad: Tensor) -> Any:
    return negative(realdiv(grad, _sqrt_one_minus_square(op)))


def _sqrt_one_minus_square(op: Operation) -> Tensor:
    """sqrt(1 - x^2) of the op's input x."""
    return unary("Sqrt", subtract(1.0, square(conj(op.inputs[0]))))


define("Atan", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("atan", "math.atan")
@elementwise
def atan(x: Any, name: str | None = None) -> Tensor:
    """Returns the angle in (-pi/2, pi/2) of which `x` is the tangent."""
    return unary("Atan", x, name)


@gradient("Atan")
def _atan_grad(op: Operation, grad: Tensor) -> Any:
    return realdiv(grad, add(square(conj(op.inputs[0])), 1.0))


define("Sinh", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("sinh", "math.sinh")
@elementwise
def sinh(x: Any, name: str | None = None) -> Tensor:
    """Returns the hyperbolic sine element by element."""
    return unary("Sinh", x, name)


@gradient("Sinh")
def _sinh_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, cosh(conj(op.inputs[0])))


define("Cosh", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("cosh", "math.cosh")
@elementwise
def cosh(x: Any, name: str | None = None) -> Tensor:
    """Returns the hyperbolic cosine element by element."""
    return unary("Cosh", x, name)


@gradient("Cosh")
def _cosh_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, sinh(conj(op.inputs[0])))


define("Asinh", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("asinh", "math.asinh")
@elementwise
def asinh(x: Any, name: str | None = None) -> Tensor:
    """Returns the number of which `x` is the hyperbolic sine."""
    return unary("Asinh", x, name)


@gradient("Asinh")
def _asinh_grad(op: Operation, grad: Tensor) -> Any:
    return realdiv(grad, cosh(conj(op.outputs[0])))


define("Acosh", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("acosh", "math.acosh")
@elementwise
def acosh(x: Any, name: str | None = None) -> Tensor:
    """Returns the number of which `x` is the hyperbolic cosine."""
    return unary("Acosh", x, name)


@gradient("Acosh")
def _acosh_grad(op: Operation, grad: Tensor) -> Any:
    return realdiv(grad, sinh(conj(op.outputs[0])))


define("Atanh", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)


@export("atanh", "math.atanh")
@elementwise
def atanh(x: Any, name: str | None = None) -> Tensor:
    """Returns the number of which `x` is the hyperbolic tangent."""
    return unary("Atanh", x, name)


@gradient("Atanh")
def _atanh_grad(op: Operation, grad: Tensor) -> Any:
    return realdiv(grad, subtract(1.0, square(conj(op.inputs[0]))))


define("Tanh", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)
define("TanhGrad", "y: T, dy: T -> z: T", f"T: {INEXACT}", shape=shapes.merge_inputs)


@export("tanh", "math.tanh", "nn.tanh")
@elementwise
def tanh(x: Any, name: str | None = None) -> Tensor:
    """Returns the hyperbolic tangent element by element."""
    return unary("Tanh", x, name)


@gradient("Tanh")
def _tanh_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("TanhGrad", conj(op.outputs[0]), grad)


@gradient("TanhGrad")
def _tanh_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return multiply(multiply(multiply(grad, -2.0), dy), y), apply_one("TanhGrad", y, grad)


define("Sigmoid", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)
define("SigmoidGrad", "y: T, dy: T -> z: T", f"T: {INEXACT}", shape=shapes.merge_inputs)


@export("sigmoid", "math.sigmoid", "nn.sigmoid")
@elementwise
def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Returns `1 / (1 + exp(-x))` element by element."""
    return unary("Sigmoid", x, name)


@gradient("Sigmoid")
def _sigmoid_grad(op: Operation, grad: Tensor) -> Any:
    return binary("SigmoidGrad", conj(op.outputs[0]), grad)


@gradient("SigmoidGrad")
def _sigmoid_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    scaled = multiply(grad, dy)
    return subtract(scaled, multiply(multiply(scaled, 2.0), y)), binary("SigmoidGrad", y, grad)


@export("log_sigmoid", "math.log_sigmoid")
@elementwise
def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Returns `log(sigmoid(x))`, precise also where the sigmoid is near zero."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        return unary("Neg", unary("Softplus", unary("Neg", x)), scope)


work(
    works.passes(15),
    "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh",
    "Atanh", "Tanh", "Sigmoid",
)  # fmt: skip
