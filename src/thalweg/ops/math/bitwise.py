"""Operations on the bits of integers."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.element_types import INTEGERS
from thalweg.ops.math.operators import binary, unary

for _op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    define(_op, "x: T, y: T -> z: T", f"T: {INTEGERS}", shape=shapes.broadcast, commutative=True)
for _op in ("LeftShift", "RightShift"):
    define(_op, "x: T, y: T -> z: T", f"T: {INTEGERS}", shape=shapes.broadcast)
define("Invert", "x: T -> y: T", f"T: {INTEGERS}", shape=shapes.unchanged)
define("PopulationCount", "x: T -> y: uint8", f"T: {INTEGERS}", shape=shapes.unchanged)
not_differentiable(
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift", "Invert", "PopulationCount"
)  # fmt: skip


@export("bitwise.bitwise_and")
def bitwise_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns the bits that are set in both."""
    return binary("BitwiseAnd", x, y, name)


@export("bitwise.bitwise_or")
def bitwise_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns the bits that are set in either."""
    return binary("BitwiseOr", x, y, name)


@export("bitwise.bitwise_xor")
def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Returns the bits that are set in exactly one."""
    return binary("BitwiseXor", x, y, name)


@export("bitwise.left_shift")
def left_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Shifts the bits of `x` left by `y` places, limited to what the type has."""
    return binary("LeftShift", x, y, name)


@export("bitwise.right_shift")
def right_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Shifts the bits of `x` right by `y` places, limited to what the type has; signed numbers keep their sign."""
    return binary("RightShift", x, y, name)


@export("bitwise.invert")
def invert(x: Any, name: str | None = None) -> Tensor:
    """Returns every bit flipped."""
    return unary("Invert", x, name)
