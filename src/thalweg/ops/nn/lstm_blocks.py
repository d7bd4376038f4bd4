"""BlockLSTM, LSTMBlockCell and GRUBlockCell: whole cells, and whole loops, as single ops. Kernels on NumPy."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require

Array = np.ndarray[Any, Any]

_CELL: Final = "cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
_OUTPUTS: Final = "i: T, cs: T, f: T, o: T, ci: T, co: T, h: T"
_FIRST: Final = "forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = false, T: {half, float}"


def _cell_shape(c: ShapeContext) -> list[TensorShape]:
    x = shapes.with_rank(c.input(0), 2).dims_tuple or (None, None)
    state = shapes.with_rank(c.input(1), 2).dims_tuple or (None, None)
    return [TensorShape([shapes.merge_dims(x[0], state[0]), state[1]])] * 7


def _block_shape(c: ShapeContext) -> list[TensorShape]:
    x = shapes.with_rank(c.input(1), 3).dims_tuple or (None,) * 3
    state = shapes.with_rank(c.input(2), 2).dims_tuple or (None, None)
    return [TensorShape([x[0], shapes.merge_dims(x[1], state[0]), state[1]])] * 7


define("LSTMBlockCell", f"x: T, {_CELL} -> {_OUTPUTS}", _FIRST, shape=_cell_shape)
define("BlockLSTM", f"seq_len_max: int64, x: T, {_CELL} -> {_OUTPUTS}", _FIRST, shape=_block_shape)
define(
    "BlockLSTMV2",
    f"seq_len_max: int64, x: T, {_CELL} -> {_OUTPUTS}",
    "cell_clip: float = 0.0, use_peephole: bool = false, T: {half, float}",
    shape=_block_shape,
)
define(
    "GRUBlockCell",
    "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T -> r: T, u: T, c: T, h: T",
    "T: {float}",
    shape=lambda c: [shapes.with_rank(c.input(1), 2)] * 4,
)


def _sigmoid(x: Array) -> Array:
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


class _Weights(NamedTuple):
    """The parameters of a cell, in float32, and its options."""

    w: Array
    peepholes: tuple[Array, Array, Array] | None
    b: Array
    forget_bias: float
    clip: float
    order: tuple[int, int, int, int]  # where the gates i, ci, f, o are among the columns

    @staticmethod
    def read(x: Array, cs: Array, h: Array, rest: list[Array], attrs: dict[str, Any], is_second: bool) -> _Weights:
        require(
            x.ndim == 2 and cs.ndim == 2 and h.shape == cs.shape,
            "x, cs_prev and h_prev must be matrices, the last two of one shape; got "
            f"{list(x.shape)}, {list(cs.shape)}, {list(h.shape)}",
        )
        require(x.shape[0] == cs.shape[0], f"x has {x.shape[0]} rows, cs_prev {cs.shape[0]}")
        w, wci, wcf, wco, b = (np.asarray(part, np.float32) for part in rest)
        units = cs.shape[1]
        shape = (x.shape[1] + units, 4 * units)
        require(w.shape == shape, f"w must have shape {list(shape)}, got {list(w.shape)}")
        require(b.shape == (4 * units,), f"b must have shape {[4 * units]}, got {list(b.shape)}")
        peepholes = None
        if attrs["use_peephole"]:
            for name, part in (("wci", wci), ("wcf", wcf), ("wco", wco)):
                require(part.shape == (units,), f"{name} must have shape {[units]}, got {list(part.shape)}")
            peepholes = (wci, wcf, wco)
        # BlockLSTM's columns are i, ci, f, o; those of its second version i, f, ci, o.
        order = (0, 2, 1, 3) if is_second else (0, 1, 2, 3)
        return _Weights(w, peepholes, b, float(attrs.get("forget_bias", 0.0)), float(attrs["cell_clip"]), order)

    def step(self, x: Array, cs: Array, h: Array) -> list[Array]:
        """One step: i, cs, f, o, ci, co, h."""
        units = cs.shape[1]
        gates = np.concatenate([x, h], 1) @ self.w + self.b
        i, ci, f, o = (gates[:, k * units : (k + 1) * units] for k in self.order)
        wci, wcf, wco = self.peepholes or (0.0, 0.0, 0.0)
        i, ci = _sigmoid(i + cs * wci), np.tanh(ci)
        f = _sigmoid(f + self.forget_bias + cs * wcf)
        new = i * ci + f * cs
        if self.clip > 0:
            new = np.clip(new, -self.clip, self.clip)
        o = _sigmoid(o + new * wco)
        co = np.tanh(new)
        return [i, new, f, o, ci, co, o * co]


@python_kernel("LSTMBlockCell")
def _lstm_cell(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    dtype = np.asarray(inputs[0]).dtype
    x, cs, h = (np.asarray(part, np.float32) for part in inputs[:3])
    weights = _Weights.read(x, cs, h, inputs[3:], attrs, False)
    return [part.astype(dtype) for part in weights.step(x, cs, h)]


def _block(inputs: list[Array], attrs: dict[str, Any], is_second: bool) -> Any:
    dtype = np.asarray(inputs[1]).dtype
    length = np.asarray(inputs[0])
    x, cs, h = (np.asarray(part, np.float32) for part in inputs[1:4])
    require(length.ndim == 0, f"seq_len_max must be a scalar, got shape {list(length.shape)}")
    require(x.ndim == 3, f"x must have 3 dimensions, got shape {list(x.shape)}")
    steps = int(length)
    require(0 <= steps <= len(x), f"seq_len_max must be from 0 to {len(x)}, got {steps}")
    weights = _Weights.read(x[0] if len(x) else np.zeros(x.shape[1:], np.float32), cs, h, inputs[4:], attrs, is_second)
    out = [np.zeros((len(x), *cs.shape), dtype) for _ in range(7)]
    for t in range(steps):
        parts = weights.step(x[t], cs, h)
        cs, h = parts[1], parts[6]
        for array, part in zip(out, parts, strict=True):
            array[t] = part
    return out


@python_kernel("BlockLSTM")
def _block_lstm(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    return _block(inputs, attrs, False)


@python_kernel("BlockLSTMV2")
def _block_lstm_v2(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    return _block(inputs, attrs, True)


@python_kernel("GRUBlockCell")
def _gru_cell(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x, h, w_ru, w_c, b_ru, b_c = (np.asarray(part) for part in inputs)
    fits = x.ndim == 2 and h.ndim == 2 and len(x) == len(h)
    require(fits, f"x and h_prev must be matrices of as many rows, got {list(x.shape)} and {list(h.shape)}")
    units, rows = h.shape[1], x.shape[1] + h.shape[1]
    for name, part, shape in (
        ("w_ru", w_ru, (rows, 2 * units)), ("w_c", w_c, (rows, units)), ("b_ru", b_ru, (2 * units,)),
        ("b_c", b_c, (units,)),
    ):  # fmt: skip
        require(part.shape == shape, f"{name} must have shape {list(shape)}, got {list(part.shape)}")
    gates = _sigmoid(np.concatenate([x, h], 1) @ w_ru + b_ru)
    r, u = gates[:, :units], gates[:, units:]
    c = np.tanh(np.concatenate([x, r * h], 1) @ w_c + b_c)
    return [np.ascontiguousarray(r), np.ascontiguousarray(u), c, u * h + (1 - u) * c]
