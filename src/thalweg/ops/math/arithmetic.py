"""Element-wise arithmetic. The exemplar of an op family: definition, gradient and function side by side."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.dtypes import DType, as_dtype, string
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.element_types import INEXACT, NUMBERS, SIGNED
from thalweg.ops.math.math_gradients import conj, reduce_to_inputs
from thalweg.ops.math.operators import binary, binary_operator, eager_operator, unary

define(
    "Add",
    "x: T, y: T -> z: T",
    "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
    shape=shapes.broadcast,
)
define("AddV2", "x: T, y: T -> z: T", f"T: {NUMBERS}", shape=shapes.broadcast, commutative=True, aggregate=True)


@export("add", "math.add")
@elementwise
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x + y` element by element, with broadcasting; strings are joined."""
    return _add(x, y, name or "Add")


def _add(x: Any, y: Any, name: str) -> Tensor:
    # Joining strings does not commute, so it stays with the older op.
    is_string = x.dtype is string if type(x) is Tensor else _is_string(x) or _is_string(y)
    op_type = "Add" if is_string else "AddV2"
    return binary(op_type, x, y, name)


def _is_string(x: Any) -> bool:
    return getattr(x, "dtype", None) is string or isinstance(x, (str, bytes))


@gradient("Add", "AddV2")
def _add_grad(op: Operation, grad: Tensor) -> Any:
    return reduce_to_inputs(op, grad, grad)


binary_operator("add", lambda x, y: _add(x, y, "add"))
eager_operator("add", "AddV2")


define("Sub", "x: T, y: T -> z: T", f"T: {NUMBERS}", shape=shapes.broadcast)


@export("subtract", "math.subtract", deprecated=("sub",))
@elementwise
def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x - y` element by element, with broadcasting."""
    return binary("Sub", x, y, name)


@gradient("Sub")
def _sub_grad(op: Operation, grad: Tensor) -> Any:
    return reduce_to_inputs(op, grad, negative(grad))


binary_operator("sub", lambda x, y: apply_one("Sub", x, y, name="sub"))
eager_operator("sub", "Sub")


define("Mul", "x: T, y: T -> z: T", f"T: {NUMBERS}", shape=shapes.broadcast, commutative=True)


@export("multiply", "math.multiply", deprecated=("mul",))
@elementwise
def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x * y` element by element, with broadcasting."""
    return binary("Mul", x, y, name)


@gradient("Mul")
def _mul_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to_inputs(op, multiply(grad, conj(y)), multiply(conj(x), grad))


binary_operator("mul", lambda x, y: apply_one("Mul", x, y, name="mul"))
eager_operator("mul", "Mul")


define("Neg", "x: T -> y: T", f"T: {SIGNED}", shape=shapes.unchanged)


@export("negative", "math.negative", deprecated=("neg",))
@elementwise
def negative(x: Any, name: str | None = None) -> Tensor:
    """Returns `-x` element by element."""
    return unary("Neg", x, name)


@gradient("Neg")
def _neg_grad(op: Operation, grad: Tensor) -> Any:
    return negative(grad)


Tensor.override_operator("__neg__", negative)


define("Square", "x: T -> y: T", f"T: {NUMBERS}", shape=shapes.unchanged)


@export("square", "math.square")
@elementwise
def square(x: Any, name: str | None = None) -> Tensor:
    """Returns `x * x` element by element."""
    return unary("Square", x, name)


@gradient("Square")
def _square_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, multiply(_number(2.0, op.inputs[0].dtype), conj(op.inputs[0])))


def _number(value: float, dtype: DType) -> Any:
    """A Python number that fits any of the types an op takes."""
    return int(value) if dtype.is_integer else value


define(
    "SquaredDifference",
    "x: T, y: T -> z: T",
    "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    shape=shapes.broadcast,
    commutative=True,
)


@export("squared_difference", "math.squared_difference")
@elementwise
def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `(x - y)` times its conjugate element by element, with broadcasting."""
    return binary("SquaredDifference", x, y, name)


@gradient("SquaredDifference")
def _squared_difference_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    grad_x = multiply(multiply(_number(2.0, grad.dtype), grad), subtract(x, y))
    return reduce_to_inputs(op, grad_x, negative(grad_x))


define("MulNoNan", "x: T, y: T -> z: T", f"T: {INEXACT}", shape=shapes.broadcast)


@export("math.multiply_no_nan")
def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns `x * y`, and zero wherever `y` is zero, even if `x` is infinite or NaN."""
    return binary("MulNoNan", x, y, name or "multiply_no_nan")


@gradient("MulNoNan")
def _mul_no_nan_grad(op: Operation, grad: Tensor) -> Any:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    return reduce_to_inputs(op, apply_one("MulNoNan", grad, y), apply_one("MulNoNan", x, grad))


@export("scalar_mul", "math.scalar_mul")
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """Multiplies a tensor, or the rows of an IndexedSlices, by a scalar.

    Raises:
        ValueError: If `scalar` is not a scalar.
    """
    scalar = convert_to_tensor(scalar, dtype=x.dtype.base_dtype, name="scalar")
    if scalar.shape.ndims not in (None, 0):
        raise ValueError(f"Only scalar multiply works, got shape {scalar.shape}")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(binary("Mul", scalar, x.values, name), x.indices, x.dense_shape)
    return binary("Mul", scalar, x, name)


_SUMMABLE = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, "
    "uint16, complex128, half, uint32, uint64}"
)
define(
    "AddN", "inputs: N * T -> sum: T", f"N: int >= 1, T: {_SUMMABLE[:-1]}, variant}}",
    shape=shapes.merge_inputs, commutative=True, aggregate=True,
)  # fmt: skip
define(
    "AccumulateNV2", "inputs: N * T -> sum: T", f"N: int >= 1, T: {_SUMMABLE}, shape: shape",
    shape=lambda c: shapes.merge(shapes.merge_inputs(c), c.attr("shape")), commutative=True, aggregate=True,
)  # fmt: skip


@export("add_n", "math.add_n")
@elementwise
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """Returns the sum of a list of tensors (or IndexedSlices) of one shape and type.

    Raises:
        ValueError: If `inputs` is not a list of at least one tensor.
    """
    tensors = _same_type_tensors(inputs, "add_n")
    if len(tensors) == 1:
        return tensors[0] if name is None else unary("Identity", tensors[0], name)
    return apply_one("AddN", tensors, name=name)


@export("accumulate_n", "math.accumulate_n")
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """Returns the sum of a list of tensors, checked against a shape and an element type.

    Raises:
        ValueError: If the tensors do not fit each other, `shape` or `tensor_dtype`.
    """
    tensors = _same_type_tensors(inputs, "accumulate_n")
    if tensor_dtype is not None and tensors[0].dtype.base_dtype != as_dtype(tensor_dtype):
        raise TypeError(f"tensor_dtype is {as_dtype(tensor_dtype).name}, but the inputs are {tensors[0].dtype.name}.")
    total = TensorShape(shape)
    for tensor in tensors:
        total = total.merge_with(tensor.shape)
    if len(tensors) == 1:
        return tensors[0] if name is None else unary("Identity", tensors[0], name)
    result = apply_one("AddN", tensors, name=name)
    result.set_shape(total)
    return result


def _same_type_tensors(inputs: Any, function: str) -> list[Tensor]:
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError(f"{function}: inputs must be a list of at least one Tensor/IndexedSlices, got {inputs!r}.")
    tensors = [convert_to_tensor(value) for value in inputs]
    if any(tensor.dtype.base_dtype != tensors[0].dtype.base_dtype for tensor in tensors):
        raise ValueError(f"{function}: inputs must have one dtype, got {[tensor.dtype.name for tensor in tensors]}.")
    return tensors


@gradient("AddN", "AccumulateNV2")
def _add_n_grad(op: Operation, grad: Tensor) -> Any:
    return [grad] * len(op.inputs)
