"""Magnitude, sign, roots, reciprocals, rounding and classification, element by element."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.arithmetic import multiply, negative, subtract
from thalweg.ops.math.element_types import FLOATS, INEXACT, SIGNED, SIGNED_REALS
from thalweg.ops.math.math_gradients import conj
from thalweg.ops.math.operators import binary, unary

define("Abs", "x: T -> y: T", f"T: {SIGNED_REALS}", shape=shapes.unchanged)
define(
    "ComplexAbs", "x: T -> y: Tout", "T: {complex64, complex128} = complex64, Tout: {float, double} = float",
    shape=shapes.unchanged,
)  # fmt: skip


@export("abs", "math.abs", deprecated=("complex_abs",))
@elementwise
def abs(x: Any, name: str | None = None) -> Any:
    """Returns the absolute value element by element: for complex numbers, their real magnitude."""
    if isinstance(x, SparseTensor):
        return x.with_values(abs(x.values, name))
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return apply_one("ComplexAbs", x, Tout=x.dtype.real_dtype, name=name or "Abs")
    return unary("Abs", x, name)


Tensor.override_operator("__abs__", abs)


@gradient("Abs")
def _abs_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, sign(op.inputs[0]))


@gradient("ComplexAbs")
def _complex_abs_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    direction = binary("DivNoNan", x, apply_one("Complex", op.outputs[0], 0, Tout=x.dtype))
    return multiply(apply_one("Complex", grad, 0, Tout=x.dtype), direction)


define("Sign", "x: T -> y: T", f"T: {SIGNED}", shape=shapes.unchanged)


@export("sign", "math.sign")
@elementwise
def sign(x: Any, name: str | None = None) -> Tensor:
    """Returns -1, 0 or 1 element by element; for complex numbers, `x / |x|`."""
    return unary("Sign", x, name)


@gradient("Sign")
def _sign_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    if not x.dtype.is_complex:
        return apply_one("ZerosLike", x)
    # The direction of a complex number changes only across it: the part of the gradient along it is dropped.
    part = x.dtype.real_dtype
    along = apply_one("Real", multiply(conj(y), grad), Tout=part)
    across = subtract(grad, multiply(apply_one("Complex", along, 0, Tout=x.dtype), y))
    return binary("DivNoNan", across, apply_one("Complex", abs(x), 0, Tout=x.dtype))


# The gradients in terms of the value y conjugate it themselves (Sqrt, Rsqrt, Reciprocal), as TensorFlow's do.
define("Sqrt", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)
define("SqrtGrad", "y: T, dy: T -> z: T", f"T: {INEXACT}", shape=shapes.merge_inputs)


@export("sqrt", "math.sqrt")
@elementwise
def sqrt(x: Any, name: str | None = None) -> Tensor:
    """Returns the square root element by element."""
    return unary("Sqrt", x, name)


@gradient("Sqrt")
def _sqrt_grad(op: Operation, grad: Tensor) -> Any:
    return binary("SqrtGrad", op.outputs[0], grad)


@gradient("SqrtGrad")
def _sqrt_grad_grad(op: Operation, grad: Tensor) -> Any:
    by_y = binary("RealDiv", grad, op.inputs[0])
    return negative(multiply(conj(by_y), op.outputs[0])), multiply(by_y, 0.5)


define("Rsqrt", "x: T -> y: T", f"T: {INEXACT}", shape=shapes.unchanged)
define("RsqrtGrad", "y: T, dy: T -> z: T", f"T: {INEXACT}", shape=shapes.merge_inputs)


@export("rsqrt", "math.rsqrt")
@elementwise
def rsqrt(x: Any, name: str | None = None) -> Tensor:
    """Returns the reciprocal of the square root element by element."""
    return unary("Rsqrt", x, name)


@gradient("Rsqrt")
def _rsqrt_grad(op: Operation, grad: Tensor) -> Any:
    return binary("RsqrtGrad", op.outputs[0], grad)


@gradient("RsqrtGrad")
def _rsqrt_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = conj(op.inputs[0]), op.inputs[1]
    by_y = multiply(multiply(multiply(conj(grad), -1.5), dy), apply_one("Square", y))
    return by_y, binary("RsqrtGrad", y, grad)


define("Reciprocal", "x: T -> y: T", f"T: {SIGNED}", shape=shapes.unchanged)
define("Inv", "x: T -> y: T", f"T: {SIGNED}", shape=shapes.unchanged)
define("ReciprocalGrad", "y: T, dy: T -> z: T", f"T: {INEXACT}", shape=shapes.merge_inputs)
define("InvGrad", "y: T, dy: T -> z: T", f"T: {INEXACT}", shape=shapes.merge_inputs)


@export("reciprocal", "math.reciprocal", deprecated=("inv",))
@elementwise
def reciprocal(x: Any, name: str | None = None) -> Tensor:
    """Returns `1 / x` element by element."""
    return unary("Reciprocal", x, name)


@gradient("Reciprocal", "Inv")
def _reciprocal_grad(op: Operation, grad: Tensor) -> Any:
    return binary("ReciprocalGrad", op.outputs[0], grad)


@gradient("ReciprocalGrad", "InvGrad")
def _reciprocal_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return multiply(multiply(multiply(conj(grad), -2.0), dy), y), binary("ReciprocalGrad", y, grad)


define("Ceil", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Floor", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Rint", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Round", "x: T -> y: T", f"T: {SIGNED}", shape=shapes.unchanged)
not_differentiable("Ceil", "Floor", "Rint", "Round")


@export("ceil", "math.ceil")
@elementwise
def ceil(x: Any, name: str | None = None) -> Tensor:
    """Rounds up to an integer element by element."""
    return unary("Ceil", x, name)


@export("floor", "math.floor")
@elementwise
def floor(x: Any, name: str | None = None) -> Tensor:
    """Rounds down to an integer element by element."""
    return unary("Floor", x, name)


@export("rint", "math.rint")
@elementwise
def rint(x: Any, name: str | None = None) -> Tensor:
    """Rounds to the nearest integer, halves to the even one."""
    return unary("Rint", x, name)


@export("round", "math.round")
@elementwise
def round(x: Any, name: str | None = None) -> Tensor:
    """Rounds to the nearest integer, halves to the even one; integers stay as they are."""
    x = x if isinstance(x, SparseTensor) else convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else unary("Round", x, name)


for _op in ("IsNan", "IsInf", "IsFinite"):
    define(_op, "x: T -> y: bool", f"T: {FLOATS}", shape=shapes.unchanged)
    not_differentiable(_op)


@export("is_nan", "math.is_nan", "debugging.is_nan")
@elementwise
def is_nan(x: Any, name: str | None = None) -> Tensor:
    """Returns which elements are NaN."""
    return unary("IsNan", x, name)


@export("is_inf", "math.is_inf", "debugging.is_inf")
@elementwise
def is_inf(x: Any, name: str | None = None) -> Tensor:
    """Returns which elements are infinite."""
    return unary("IsInf", x, name)


@export("is_finite", "math.is_finite", "debugging.is_finite")
@elementwise
def is_finite(x: Any, name: str | None = None) -> Tensor:
    """Returns which elements are neither infinite nor NaN."""
    return unary("IsFinite", x, name)
