"""Rarely used special functions, computed by SciPy: Bessel functions, integrals of Fresnel, Dawson and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, python_kernel
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.element_types import FLOATS
from thalweg.ops.math.operators import unary

# The op type, the public name, and the function of SciPy.
_FUNCTIONS = (
    ("BesselJ0", "bessel_j0", "j0"),
    ("BesselJ1", "bessel_j1", "j1"),
    ("BesselY0", "bessel_y0", "y0"),
    ("BesselY1", "bessel_y1", "y1"),
    ("BesselK0", "bessel_k0", "k0"),
    ("BesselK0e", "bessel_k0e", "k0e"),
    ("BesselK1", "bessel_k1", "k1"),
    ("BesselK1e", "bessel_k1e", "k1e"),
    ("BesselI0", "bessel_i0", "i0"),
    ("BesselI1", "bessel_i1", "i1"),
    ("Dawsn", "dawsn", "dawsn"),
    ("Expint", "expint", "expi"),
    ("FresnelCos", "fresnel_cos", "fresnel"),
    ("FresnelSin", "fresnel_sin", "fresnel"),
    ("Spence", "spence", "spence"),
)


def _define(op: str, public: str, function: str) -> None:
    define(op, "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)

    @python_kernel(op)
    def kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
        from scipy import special  # Start-up time: SciPy is slow to import.

        x = np.asarray(inputs[0])
        value = getattr(special, function)(x.astype(np.float64))
        if function == "fresnel":
            value = value[0 if op == "FresnelSin" else 1]
        return np.asarray(value).astype(x.dtype)

    def call(x: Any, name: str | None = None) -> Tensor:
        return unary(op, x, name)

    call.__name__ = call.__qualname__ = public
    call.__doc__ = f"Returns `scipy.special.{function}` element by element."
    if op not in _KNOWN:
        export(f"math.special.{public}")(call)


# The library makes these public names of other ops.
_KNOWN = frozenset({"BesselI0", "BesselI1"})
for _row in _FUNCTIONS:
    _define(*_row)


def _times(grad: Tensor, slope: Tensor) -> Tensor:
    return apply_one("Mul", grad, slope)


def _neg(x: Tensor) -> Tensor:
    return apply_one("Neg", x)


def _first_order(op: str, x: Tensor, zero: str) -> Tensor:
    """`f0(x) - f1(x) / x`: the derivative of J1 and Y1; of I1 the same."""
    return apply_one("Sub", apply_one(zero, x), apply_one("Div", apply_one(op, x), x))


@gradient("BesselJ0")
def _j0_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, _neg(apply_one("BesselJ1", op.inputs[0])))


@gradient("BesselY0")
def _y0_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, _neg(apply_one("BesselY1", op.inputs[0])))


@gradient("BesselK0")
def _k0_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, _neg(apply_one("BesselK1", op.inputs[0])))


@gradient("BesselK0e")
def _k0e_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, apply_one("Sub", op.outputs[0], apply_one("BesselK1e", op.inputs[0])))


@gradient("BesselI0")
def _i0_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, apply_one("BesselI1", op.inputs[0]))


@gradient("BesselJ1")
def _j1_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, _first_order("BesselJ1", op.inputs[0], "BesselJ0"))


@gradient("BesselY1")
def _y1_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, _first_order("BesselY1", op.inputs[0], "BesselY0"))


@gradient("BesselI1")
def _i1_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, _first_order("BesselI1", op.inputs[0], "BesselI0"))


@gradient("BesselK1")
def _k1_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return _times(grad, _neg(apply_one("AddV2", apply_one("BesselK0", x), apply_one("Div", y, x))))


@gradient("BesselK1e")
def _k1e_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    slope = apply_one("Sub", y, apply_one("AddV2", apply_one("BesselK0e", x), apply_one("Div", y, x)))
    return _times(grad, slope)


@gradient("Dawsn")
def _dawsn_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    one = apply_one("OnesLike", x)
    product = apply_one("Mul", x, y)
    return _times(grad, apply_one("Sub", one, apply_one("AddV2", product, product)))


@gradient("Expint")
def _expint_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return _times(grad, apply_one("Div", apply_one("Exp", x), x))


def _quarter_turns(x: Tensor) -> Tensor:
    return apply_one("Mul", apply_one("Square", x), np.array(np.pi / 2, x.dtype.as_numpy_dtype))


@gradient("FresnelCos")
def _fresnel_cos_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, apply_one("Cos", _quarter_turns(op.inputs[0])))


@gradient("FresnelSin")
def _fresnel_sin_grad(op: Operation, grad: Tensor) -> Any:
    return _times(grad, apply_one("Sin", _quarter_turns(op.inputs[0])))


@gradient("Spence")
def _spence_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    one = apply_one("OnesLike", x)
    return _times(grad, apply_one("Div", apply_one("Log", x), apply_one("Sub", one, x)))
