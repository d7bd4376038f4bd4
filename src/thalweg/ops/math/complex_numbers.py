"""Complex numbers: made from parts, taken apart, conjugated."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.arithmetic import multiply
from thalweg.ops.math.math_gradients import reduce_to_inputs

_PART = "T: {complex64, complex128} = complex64, Tout: {float, double} = float"
define(
    "Complex", "real: T, imag: T -> out: Tout",
    "T: {float, double} = float, Tout: {complex64, complex128} = complex64", shape=shapes.broadcast,
)  # fmt: skip


@export("complex", "dtypes.complex")
def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Makes complex numbers of their real and imaginary parts.

    Raises:
        TypeError: If the parts are not both float32 or both float64.
    """
    with name_scope(name, "Complex", [real, imag]) as scope:
        real = convert_to_tensor(real, name="real")
        imag = convert_to_tensor(imag, name="imag")
        types = (real.dtype.base_dtype, imag.dtype.base_dtype)
        if types not in ((dtypes.float32,) * 2, (dtypes.float64,) * 2):
            raise TypeError(f"real and imag have incorrect types: {types[0].name} {types[1].name}")
        return _complex(real, imag, scope)


def _complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    part = real if isinstance(real, Tensor) else imag
    target = dtypes.complex64 if part.dtype.base_dtype is dtypes.float32 else dtypes.complex128
    return apply_one("Complex", real, imag, Tout=target, name=name)


@gradient("Complex")
def _complex_grad(op: Operation, grad: Tensor) -> Any:
    return reduce_to_inputs(op, real(grad), imag(grad))


define("Real", "input: T -> output: Tout", _PART, shape=shapes.unchanged)
define("Imag", "input: T -> output: Tout", _PART, shape=shapes.unchanged)
define("Angle", "input: T -> output: Tout", _PART, shape=shapes.unchanged)


@export("real", "math.real")
@elementwise
def real(input: Any, name: str | None = None) -> Tensor:
    """Returns the real part; real numbers as they are."""
    input = convert_to_tensor(input, name="input")
    return _part("Real", input, name) if input.dtype.is_complex else input


@export("imag", "math.imag")
def imag(input: Any, name: str | None = None) -> Tensor:
    """Returns the imaginary part: zeros, for real numbers."""
    input = convert_to_tensor(input, name="input")
    if input.dtype.is_complex:
        return _part("Imag", input, name)
    return apply_one("ZerosLike", input, name=name or "Imag/zeros_like")


@export("angle", "math.angle")
def angle(input: Any, name: str | None = None) -> Tensor:
    """Returns the angle of a complex number in (-pi, pi]; for real numbers, 0 or pi."""
    with name_scope(name, "Angle", [input]) as scope:
        input = convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return _part("Angle", input, scope)
        import math

        return apply_one("SelectV2", apply_one("Less", input, 0), math.pi, apply_one("ZerosLike", input))


def _part(op_type: str, x: Tensor, name: str | None) -> Tensor:
    return apply_one(op_type, x, Tout=x.dtype.real_dtype, name=name)


@gradient("Real")
def _real_grad(op: Operation, grad: Tensor) -> Any:
    return _complex(grad, 0)


@gradient("Imag")
def _imag_grad(op: Operation, grad: Tensor) -> Any:
    return _complex(0, grad)


@gradient("Angle")
def _angle_grad(op: Operation, grad: Tensor) -> Any:
    # d(angle)/d(re, im) = (-im, re) / |x|^2, which is -1 / (im + i re).
    x = op.inputs[0]
    turned = apply_one("Reciprocal", _complex(imag(x), real(x)))
    return multiply(apply_one("Neg", _complex(grad, 0)), turned)


define("Conj", "input: T -> output: T", "T: {complex64, complex128} = complex64", shape=shapes.unchanged)


@export("conj", "math.conj")
def conj(x: Any, name: str | None = None) -> Tensor:
    """Returns the complex conjugate; real numbers as they are.

    Raises:
        TypeError: If `x` is not numeric.
    """
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, conj(x.values, name), x.dense_shape)  # type: ignore[return-value]
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return apply_one("Conj", x, name=name)
    if x.dtype.is_floating or x.dtype.is_integer:
        tensor: Tensor = x
        return tensor
    raise TypeError(f"Expected numeric tensor, got dtype {x.dtype!r}")


@gradient("Conj")
def _conj_grad(op: Operation, grad: Tensor) -> Any:
    return conj(grad)
