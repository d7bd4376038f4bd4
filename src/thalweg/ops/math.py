"""Element-wise arithmetic. The exemplar of an op family: definition, gradient and function side by side."""

from __future__ import annotations

from typing import Any

from thalweg.graph import shape_functions as shapes
from thalweg.graph.apply import apply
from thalweg.graph.dtypes import DType, string
from thalweg.graph.op_registry import define, export, gradient
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math_gradients import conj, reduce_to_inputs
from thalweg.ops.operators import binary_operator

_NUMBERS = (
    "{bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, complex128}"
)
_SIGNED = "{bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"
_INEXACT = "{bfloat16, half, float, double, complex64, complex128}"

define(
    "Add",
    "x: T, y: T -> z: T",
    "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
    shape=shapes.broadcast,
)
define("AddV2", "x: T, y: T -> z: T", f"T: {_NUMBERS}", shape=shapes.broadcast, commutative=True, aggregate=True)


@export("add", "math.add")
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x + y` element by element, with broadcasting; strings are joined."""
    return _add(x, y, name or "Add")


def _add(x: Any, y: Any, name: str) -> Tensor:
    # Joining strings does not commute, so it stays with the older op.
    is_string = x.dtype is string if type(x) is Tensor else _is_string(x) or _is_string(y)
    op_type = "Add" if is_string else "AddV2"
    return apply(op_type, x, y, name=name)  # type: ignore[no-any-return]


def _is_string(x: Any) -> bool:
    return getattr(x, "dtype", None) is string or isinstance(x, (str, bytes))


@gradient("Add", "AddV2")
def _add_grad(op: Operation, grad: Tensor) -> Any:
    return reduce_to_inputs(op, grad, grad)


binary_operator("add", lambda x, y: _add(x, y, "add"))


define("Sub", "x: T, y: T -> z: T", f"T: {_NUMBERS}", shape=shapes.broadcast)


@export("subtract", "math.subtract", deprecated=("sub",))
def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x - y` element by element, with broadcasting."""
    return apply("Sub", x, y, name=name)  # type: ignore[no-any-return]


@gradient("Sub")
def _sub_grad(op: Operation, grad: Tensor) -> Any:
    return reduce_to_inputs(op, grad, negative(grad))


binary_operator("sub", lambda x, y: apply("Sub", x, y, name="sub"))


define("Mul", "x: T, y: T -> z: T", f"T: {_NUMBERS}", shape=shapes.broadcast, commutative=True)


@export("multiply", "math.multiply", deprecated=("mul",))
def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x * y` element by element, with broadcasting."""
    return apply("Mul", x, y, name=name)  # type: ignore[no-any-return]


@gradient("Mul")
def _mul_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to_inputs(op, multiply(grad, conj(y)), multiply(conj(x), grad))


binary_operator("mul", lambda x, y: apply("Mul", x, y, name="mul"))


define("RealDiv", "x: T, y: T -> z: T", f"T: {_NUMBERS}", shape=shapes.broadcast)


@export("realdiv")
def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x / y` element by element, with broadcasting, for floating point numbers."""
    return apply("RealDiv", x, y, name=name)  # type: ignore[no-any-return]


@gradient("RealDiv")
def _real_div_grad(op: Operation, grad: Tensor) -> Any:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    by_y = realdiv(realdiv(negative(x), y), y)
    return reduce_to_inputs(op, realdiv(grad, y), multiply(grad, by_y))


define("Neg", "x: T -> y: T", f"T: {_SIGNED}", shape=shapes.unchanged)


@export("negative", "math.negative", deprecated=("neg",))
def negative(x: Any, name: str | None = None) -> Tensor:
    """Returns `-x` element by element."""
    return apply("Neg", x, name=name)  # type: ignore[no-any-return]


@gradient("Neg")
def _neg_grad(op: Operation, grad: Tensor) -> Any:
    return negative(grad)


Tensor.override_operator("__neg__", negative)


define("Square", "x: T -> y: T", f"T: {_NUMBERS}", shape=shapes.unchanged)


@export("square", "math.square")
def square(x: Any, name: str | None = None) -> Tensor:
    """Returns `x * x` element by element."""
    return apply("Square", x, name=name)  # type: ignore[no-any-return]


@gradient("Square")
def _square_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, multiply(_number(2.0, op.inputs[0].dtype), conj(op.inputs[0])))


def _number(value: float, dtype: DType) -> Any:
    """A Python number that fits any of the types an op takes."""
    return int(value) if dtype.is_integer else value


define("Tanh", "x: T -> y: T", f"T: {_INEXACT}", shape=shapes.unchanged)
define("TanhGrad", "y: T, dy: T -> z: T", f"T: {_INEXACT}", shape=shapes.merge_inputs)


@export("tanh", "math.tanh", "nn.tanh")
def tanh(x: Any, name: str | None = None) -> Tensor:
    """Returns the hyperbolic tangent element by element."""
    return apply("Tanh", x, name=name)  # type: ignore[no-any-return]


@gradient("Tanh")
def _tanh_grad(op: Operation, grad: Tensor) -> Any:
    return apply("TanhGrad", conj(op.outputs[0]), grad)


@gradient("TanhGrad")
def _tanh_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return multiply(multiply(multiply(grad, -2.0), dy), y), apply("TanhGrad", y, grad)
