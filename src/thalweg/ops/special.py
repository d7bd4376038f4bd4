"""Error functions; the gamma function and its relatives follow in the same file."""

from __future__ import annotations

from typing import Any

from thalweg.graph import shape_functions as shapes
from thalweg.graph.apply import apply
from thalweg.graph.op_registry import define, export, gradient
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.element_types import FLOATS
from thalweg.ops.math import multiply, negative, square
from thalweg.ops.operators import unary

define("Erf", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Erfc", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)


@export("erf", "math.erf")
def erf(x: Any, name: str | None = None) -> Tensor:
    """Returns the error function element by element."""
    return unary("Erf", x, name)


@export("erfc", "math.erfc")
def erfc(x: Any, name: str | None = None) -> Tensor:
    """Returns `1 - erf(x)`, precise also where that is near zero."""
    return unary("Erfc", x, name)


def _bell(x: Tensor) -> Tensor:
    """The derivative of erf: 2 / sqrt(pi) exp(-x^2)."""
    return multiply(apply("Exp", negative(square(x))), 1.1283791670955126)


@gradient("Erf")
def _erf_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, _bell(op.inputs[0]))


@gradient("Erfc")
def _erfc_grad(op: Operation, grad: Tensor) -> Any:
    return negative(multiply(grad, _bell(op.inputs[0])))
