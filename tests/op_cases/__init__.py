"""Op cases: one record per op; tests/ops/test_op_cases.py derives all generic tests from them.

    case("MatMul", tf.matmul, np.matmul,
         samples=[Args(real(2, 3), real(3, 4)), Args(real(3, 2), real(3, 4), transpose_a=True)],
         bad=[Bad(Args(real(2, 3), real(4, 5)), match="2,3")], order=2)

`call` and `reference` get the same arguments: tensors for the one, arrays for the other. A Draw becomes an array of the
element type under test; any other positional argument that is an ndarray becomes a tensor of its own type (indices,
sizes); everything else (Python values, keywords) is passed to both as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.graph.dtypes import DType, as_dtype


@dataclass(frozen=True)
class Draw:
    """A random array of a shape, uniform in [low, high), in the element type under test. Integers are rounded."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    constant: bool = False  # Left out of gradient checks.

    def array(self, dtype: DType, rng: np.random.Generator) -> np.ndarray:
        """The values for one element type; bool and string get values of their own kind."""
        kind = dtype.as_numpy_dtype
        if dtype.name == "string":
            return np.array(
                [
                    bytes(rng.integers(97, 123, rng.integers(0, 6)).astype(np.uint8))
                    for _ in range(int(np.prod(self.shape)))
                ],
                dtype=object,
            ).reshape(self.shape)
        if dtype.is_bool:
            return rng.random(self.shape) < 0.5
        low = max(self.low, 0.0) if dtype.is_unsigned else self.low
        high = max(self.high, low + 1)
        values = rng.uniform(low, high, self.shape)
        if dtype.is_integer:
            values = np.round(values)
        if dtype.is_complex:
            values = values + 1j * rng.uniform(low, high, self.shape)
        return np.asarray(values).astype(kind)


def real(*shape: int, low: float = -2.0, high: float = 2.0, constant: bool = False) -> Draw:
    """A Draw of this shape; `real()` is a scalar."""
    return Draw(shape, low, high, constant)


class Args:
    """Arguments of one call."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Keeps them."""
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        def short(x: Any) -> str:
            return (
                f"{x.dtype}{list(x.shape)}"
                if isinstance(x, np.ndarray)
                else f"{list(x.shape)}"
                if isinstance(x, Draw)
                else repr(x)
            )

        parts = [short(a) for a in self.args] + [f"{k}={short(v)}" for k, v in self.kwargs.items()]
        return f"({', '.join(parts)})"


@dataclass
class Bad:
    """Arguments that must fail: at construction (ValueError, TypeError) or, with shapes unknown, when run (OpError).

    `match` must occur in the message of the run-time error.
    """

    args: Args
    match: str = ""
    dtype: str | None = None


@dataclass
class OpCase:
    """The record of one op."""

    op: str
    call: Callable[..., Any]
    reference: Callable[..., Any] | None
    samples: Sequence[Args]
    dtypes: Sequence[DType]
    bad: Sequence[Bad] = ()
    order: int = 0  # 0: not differentiable; 1 or 2: gradients checked to that order.
    tolerance: float = 1e-5
    grad_tolerance: float = 1e-4
    name: str = ""
    notes: str = ""  # For readers of the record.


CASES: list[OpCase] = []
# Ops that no record can cover, with the reason (control flow, resources, internal ends of an edge): tested elsewhere.
COVERED_ELSEWHERE: dict[str, str] = {}


def case(
    op: str, call: Callable[..., Any], reference: Callable[..., Any] | None, *, samples: Sequence[Args],
    dtypes: str = "float32 float64", bad: Sequence[Bad] = (), order: int = 0, **options: Any,
) -> OpCase:  # fmt: skip
    """Adds a record. `dtypes` are the element types of the Draws; order > 0 needs float64 among them.

    Without a reference (random ops) shapes, types and the refusal of bad input are checked, not the values.
    """
    record = OpCase(op, call, reference, samples, [as_dtype(d) for d in dtypes.split()], bad, order, **options)
    record.name = f"{op}-{sum(c.op == op for c in CASES)}"
    CASES.append(record)
    return record


def covered_elsewhere(reason: str, *ops: str) -> None:
    """States that these ops are tested by hand-written tests, and why no record fits."""
    COVERED_ELSEWHERE.update((op, reason) for op in ops)
