"""Running totals along an axis: Cumsum, Cumprod, CumulativeLogsumexp."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.math_gradients import conj

_NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, half, uint32, uint64}"
)


def _scan_shape(c: ShapeContext) -> TensorShape:
    dims, axis = c.dims(0), c.constant(1)
    shapes.with_rank(c.input(1), 0)
    if dims is not None and axis is not None and not -len(dims) <= int(axis) < len(dims):
        raise ValueError(f"Expected scan axis in the range [{-len(dims)}, {len(dims)}), but got {int(axis)}")
    return c.input(0)


for _op, _types in (
    ("Cumsum", _NUMBERS),
    ("Cumprod", _NUMBERS),
    ("CumulativeLogsumexp", "{bfloat16, half, float, double}"),
):
    define(
        _op,
        "x: T, axis: Tidx -> out: T",
        f"exclusive: bool = false, reverse: bool = false, T: {_types}, Tidx: {{int32, int64}} = int32",
        shape=_scan_shape,
    )


@export("cumsum", "math.cumsum")
def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Returns running sums along an axis.

    Args:
        x: A tensor of numbers.
        axis: The axis.
        exclusive: Whether each sum leaves its own element out.
        reverse: Whether to sum from the end.
        name: The node's name.

    Returns:
        A Tensor of the shape of `x`.
    """
    return apply_one("Cumsum", x, axis, exclusive=exclusive, reverse=reverse, name=name)


@export("cumprod", "math.cumprod")
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Returns running products along an axis. See tf.cumsum for the arguments."""
    return apply_one("Cumprod", x, axis, exclusive=exclusive, reverse=reverse, name=name)


@export("math.cumulative_logsumexp")
def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Returns log(cumsum(exp(x))) along an axis, safe for large and small elements."""
    return apply_one("CumulativeLogsumexp", x, axis, exclusive=exclusive, reverse=reverse, name=name)


@gradient("Cumsum")
def _cumsum_grad(op: Operation, grad: Tensor) -> Any:
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    return cumsum(grad, op.inputs[1], exclusive, not reverse), None


@gradient("Cumprod")
def _cumprod_grad(op: Operation, grad: Tensor) -> Any:
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    weighted = apply_one("Mul", conj(op.outputs[0]), grad)
    return apply_one("RealDiv", cumsum(weighted, op.inputs[1], exclusive, not reverse), conj(op.inputs[0])), None


@gradient("CumulativeLogsumexp")
def _cumulative_logsumexp_grad(op: Operation, grad: Tensor) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    dtype = x.dtype.base_dtype
    lowest = apply_one("Const", value=np.array(dtype.min).astype(dtype.as_numpy_dtype), dtype=dtype)
    floor = apply_one("AddV2", apply_one("ZerosLike", grad), lowest)

    def part(values: Tensor) -> Any:
        # In logarithms, so that neither huge nor tiny sums overflow: positive and negative gradients apart.
        logs = apply_one(
            "Select", apply_one("Greater", values, apply_one("ZerosLike", values)), apply_one("Log", values), floor
        )
        shifted = apply_one("Sub", logs, op.outputs[0])
        sums = cumulative_logsumexp(shifted, axis, exclusive, not reverse)
        return apply_one("Exp", apply_one("AddV2", sums, x))

    return apply_one("Sub", part(grad), part(apply_one("Neg", grad))), None
