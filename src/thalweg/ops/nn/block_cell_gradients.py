"""Gradients of BlockLSTM, LSTMBlockCell and GRUBlockCell: TensorFlow's op types for them, with kernels on NumPy.

As in TensorFlow, gradients reach the cells through their memories and outputs only, and clipping a memory does not stop
them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.filling import zeros_like
from thalweg.ops.array.joining import concat
from thalweg.ops.math.matmul import matmul
from thalweg.ops.sparse.kernel_arrays import require

Array = np.ndarray[Any, Any]

_CELL: Final = "cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
_SAVED: Final = "i: T, cs: T, f: T, o: T, ci: T, co: T"
_PEEPHOLES: Final = "wci_grad: T, wcf_grad: T, wco_grad: T"


def _like_inputs(first: int) -> Any:
    return lambda c: [c.input(first + i) for i in range(8)]


for _version in ("", "V2"):
    define(
        f"BlockLSTMGrad{_version}",
        f"seq_len_max: int64, x: T, {_CELL}, {_SAVED}, h: T, cs_grad: T, h_grad: T -> x_grad: T, cs_prev_grad: T, "
        f"h_prev_grad: T, w_grad: T, {_PEEPHOLES}, b_grad: T",
        "use_peephole: bool, T: {half, float}",
        shape=_like_inputs(1),
    )


def _cell_shape(c: ShapeContext) -> list[TensorShape]:
    state = shapes.with_rank(c.input(1), 2)
    rows, units = state.dims_tuple or (None, None)
    return [state, TensorShape([rows, None if units is None else 4 * units]), c.input(4), c.input(5), c.input(6)]


def _gru_shape(c: ShapeContext) -> list[TensorShape]:
    state = shapes.with_rank(c.input(1), 2)
    rows, units = state.dims_tuple or (None, None)
    return [c.input(0), state, state, TensorShape([rows, None if units is None else 2 * units])]


define(
    "LSTMBlockCellGrad",
    f"x: T, {_CELL}, {_SAVED}, cs_grad: T, h_grad: T -> cs_prev_grad: T, dicfo: T, {_PEEPHOLES}",
    "use_peephole: bool, T: {half, float}",
    shape=_cell_shape,
)
define(
    "GRUBlockCellGrad",
    "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T, r: T, u: T, c: T, d_h: T -> "
    "d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T",
    "T: {float}",
    shape=_gru_shape,
)
not_differentiable("BlockLSTMGrad", "BlockLSTMGradV2", "LSTMBlockCellGrad", "GRUBlockCellGrad")


def _step_back(
    cs_prev: Array, peepholes: list[Array], saved: list[Array], cs_grad: Array, h_grad: Array, is_second: bool
) -> tuple[Array, Array, list[Array]]:
    """One step backwards: gradients of the memory before, of the four gates, and of the peepholes."""
    i, cs, f, o, ci, co = saved
    wci, wcf, wco = peepholes or (0.0, 0.0, 0.0)
    d_o = o * (1 - o) * co * h_grad
    d_cs = (1 - co * co) * o * h_grad + cs_grad + d_o * wco
    d_ci = (1 - ci * ci) * d_cs * i
    d_f = f * (1 - f) * d_cs * cs_prev
    d_i = i * (1 - i) * d_cs * ci
    before = d_cs * f + d_i * wci + d_f * wcf
    # The order of columns in the weights of each version.
    gates = np.concatenate([d_i, d_f, d_ci, d_o] if is_second else [d_i, d_ci, d_f, d_o], 1)
    return before, gates, [(d_i * cs_prev).sum(0), (d_f * cs_prev).sum(0), (d_o * cs).sum(0)]


def _check(x: Array, cs: Array, h: Array, w: Array, saved: list[Array], shape: tuple[int, ...]) -> None:
    fits = x.ndim == 2 and cs.ndim == 2 and h.shape == cs.shape and len(x) == len(cs)
    require(fits, f"x, cs_prev and h_prev must be matrices of as many rows, got {x.shape}, {cs.shape}, {h.shape}")
    rows, units = x.shape[1] + cs.shape[1], cs.shape[1]
    require(w.shape == (rows, 4 * units), f"w must have shape {[rows, 4 * units]}, got {list(w.shape)}")
    for part in saved:
        require(part.shape == shape, f"outputs of the cell and their gradients must have shape {shape}: {part.shape}")


def _floats(inputs: list[Array]) -> list[Array]:
    return [np.asarray(part, np.float32) for part in inputs]


def _peepholes(parts: list[Array], units: int, attrs: dict[str, Any]) -> list[Array]:
    if not attrs["use_peephole"]:
        return []
    for part in parts:
        require(part.shape == (units,), f"wci, wcf and wco must have shape {[units]}, got {list(part.shape)}")
    return parts


@python_kernel("LSTMBlockCellGrad")
def _cell_grad(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    dtype = np.asarray(inputs[0]).dtype
    x, cs_prev, h_prev, w, *rest = _floats(inputs)
    _check(x, cs_prev, h_prev, w, rest[4:], cs_prev.shape)
    peepholes = _peepholes(rest[:3], cs_prev.shape[1], attrs)
    before, gates, of_peepholes = _step_back(cs_prev, peepholes, rest[4:10], rest[10], rest[11], False)
    if not peepholes:
        of_peepholes = [np.zeros_like(part) for part in rest[:3]]
    return [part.astype(dtype) for part in (before, gates, *of_peepholes)]


def _block_grad(inputs: list[Array], attrs: dict[str, Any], is_second: bool) -> Any:
    dtype = np.asarray(inputs[1]).dtype
    steps = int(np.asarray(inputs[0]).reshape(-1)[0])
    x, cs_prev, h_prev, w, wci, wcf, wco, b, *rest = _floats(inputs[1:])
    require(x.ndim == 3, f"x must have 3 dimensions, got shape {list(x.shape)}")
    require(0 <= steps <= len(x), f"seq_len_max must be from 0 to {len(x)}, got {steps}")
    first = x[0] if len(x) else np.zeros(x.shape[1:], np.float32)
    _check(first, cs_prev, h_prev, w, rest, (len(x), *cs_prev.shape))
    peepholes = _peepholes([wci, wcf, wco], cs_prev.shape[1], attrs)
    saved, h, cs_grad, h_grad = rest[:6], rest[6], rest[7], rest[8]
    x_grad, w_grad, b_grad = np.zeros_like(x), np.zeros_like(w), np.zeros_like(b)
    of_peepholes = [np.zeros_like(part) for part in (wci, wcf, wco)]
    d_cs, d_h = np.zeros_like(cs_prev), np.zeros_like(h_prev)
    width = x.shape[2]
    for t in reversed(range(steps)):
        memory, output = (saved[1][t - 1], h[t - 1]) if t else (cs_prev, h_prev)
        parts = [part[t] for part in saved]
        d_cs, gates, changes = _step_back(memory, peepholes, parts, cs_grad[t] + d_cs, h_grad[t] + d_h, is_second)
        d_xh = gates @ w.T
        x_grad[t], d_h = d_xh[:, :width], d_xh[:, width:]
        w_grad += np.concatenate([x[t], output], 1).T @ gates
        b_grad += gates.sum(0)
        if peepholes:
            of_peepholes = [total + change for total, change in zip(of_peepholes, changes, strict=True)]
    return [part.astype(dtype) for part in (x_grad, d_cs, d_h, w_grad, *of_peepholes, b_grad)]


@python_kernel("BlockLSTMGrad")
def _block_lstm_grad(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    return _block_grad(inputs, attrs, False)


@python_kernel("BlockLSTMGradV2")
def _block_lstm_grad_v2(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    return _block_grad(inputs, attrs, True)


@python_kernel("GRUBlockCellGrad")
def _gru_grad(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h = _floats(inputs)
    fits = x.ndim == 2 and h_prev.ndim == 2 and len(x) == len(h_prev)
    require(fits, f"x and h_prev must be matrices of as many rows, got {list(x.shape)} and {list(h_prev.shape)}")
    units, rows = h_prev.shape[1], x.shape[1] + h_prev.shape[1]
    expected = {"w_ru": (w_ru, (rows, 2 * units)), "w_c": (w_c, (rows, units)), "b_ru": (b_ru, (2 * units,)),
                "b_c": (b_c, (units,))}  # fmt: skip
    for name, (part, shape) in expected.items():
        require(part.shape == shape, f"{name} must have shape {list(shape)}, got {list(part.shape)}")
    for part in (r, u, c, d_h):
        require(part.shape == h_prev.shape, f"r, u, c and d_h must have shape {h_prev.shape}, got {part.shape}")
    d_c = d_h * (1 - u) * (1 - c * c)
    d_candidate = d_c @ w_c.T
    d_reset = d_candidate[:, x.shape[1] :]
    gates = np.concatenate([d_reset * h_prev * r * (1 - r), d_h * (h_prev - c) * u * (1 - u)], 1)
    d_gates = gates @ w_ru.T
    d_x = d_candidate[:, : x.shape[1]] + d_gates[:, : x.shape[1]]
    return [d_x, d_h * u + d_reset * r + d_gates[:, x.shape[1] :], d_c, gates]


def _or_zeros(grad: Any, output: Any) -> Any:
    return zeros_like(output) if grad is None else grad


@gradient("BlockLSTM", "BlockLSTMV2")
def _block_lstm_gradient(op: Operation, *grads: Any) -> Any:
    name = "BlockLSTMGradV2" if op.type == "BlockLSTMV2" else "BlockLSTMGrad"
    cs_grad, h_grad = _or_zeros(grads[1], op.outputs[1]), _or_zeros(grads[6], op.outputs[6])
    found = apply(name, *op.inputs, *op.outputs, cs_grad, h_grad, use_peephole=op.get_attr("use_peephole"))
    return [None, *found]


@gradient("LSTMBlockCell")
def _lstm_cell_gradient(op: Operation, *grads: Any) -> Any:
    x, _, h_prev, w = op.inputs[:4]
    found = apply(
        "LSTMBlockCellGrad", *op.inputs, *op.outputs[:6], _or_zeros(grads[1], op.outputs[1]),
        _or_zeros(grads[6], op.outputs[6]), use_peephole=op.get_attr("use_peephole"),
    )  # fmt: skip
    before, gates, *peepholes = found
    d_x, d_h = _split(matmul(gates, w, transpose_b=True), x, h_prev)
    d_w = matmul(concat([x, h_prev], 1), gates, transpose_a=True)
    return [d_x, before, d_h, d_w, *peepholes, apply_one("BiasAddGrad", gates)]


@gradient("GRUBlockCell")
def _gru_gradient(op: Operation, *grads: Any) -> Any:
    x, h_prev = op.inputs[:2]
    r, u, c, h = op.outputs
    d_x, d_h, d_c, gates = apply("GRUBlockCellGrad", *op.inputs, r, u, c, _or_zeros(grads[3], h))
    d_w_ru = matmul(concat([x, h_prev], 1), gates, transpose_a=True)
    d_w_c = matmul(concat([x, r * h_prev], 1), d_c, transpose_a=True)
    return [d_x, d_h, d_w_ru, d_w_c, apply_one("BiasAddGrad", gates), apply_one("BiasAddGrad", d_c)]


def _split(joined: Any, *parts: Any) -> list[Any]:
    """The columns of a matrix, as many as each of the parts has."""
    sizes = [apply_one("Shape", part)[1] for part in parts]
    return [joined[:, : sizes[0]], joined[:, sizes[0] :]]
