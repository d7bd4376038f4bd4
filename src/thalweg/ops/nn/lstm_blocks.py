"""BlockLSTM, LSTMBlockCell and GRUBlockCell: whole cells, and whole loops, as single ops."""

from __future__ import annotations

from typing import Final

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape

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
