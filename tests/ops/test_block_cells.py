"""Gradients of LSTMBlockCell, BlockLSTM and GRUBlockCell: against those of the same cells made of ordinary ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply

RNG = np.random.default_rng(5)
BATCH, WIDTH, UNITS = 2, 3, 4


def real(*shape: int) -> Any:
    return tf.constant(RNG.normal(size=shape).astype(np.float32))


def _lstm(x: Any, cs: Any, h: Any, w: Any, peepholes: Any, b: Any, forget_bias: float, second: bool) -> tuple[Any, Any]:
    parts = tf.split(tf.matmul(tf.concat([x, h], 1), w) + b, 4, 1)
    i, f, ci, o = parts if second else (parts[0], parts[2], parts[1], parts[3])
    wci, wcf, wco = peepholes or (0.0, 0.0, 0.0)
    new = tf.sigmoid(f + forget_bias + cs * wcf) * cs + tf.sigmoid(i + cs * wci) * tf.tanh(ci)
    return new, tf.sigmoid(o + new * wco) * tf.tanh(new)


def _parameters() -> list[Any]:
    """cs_prev, h_prev, w, the peepholes, b."""
    shapes = [(BATCH, UNITS), (BATCH, UNITS), (WIDTH + UNITS, 4 * UNITS), *[(UNITS,)] * 3, (4 * UNITS,)]
    return [real(*shape) for shape in shapes]


def _assert_same(found: Any, expected: Any, xs: list[Any]) -> None:
    weights = [real(*y.shape.as_list()) for y in found]
    losses = [tf.add_n([tf.reduce_sum(w * y) for w, y in zip(weights, ys, strict=True)]) for ys in (found, expected)]
    with tf.Session() as session:
        values = session.run([losses, *(tf.gradients(loss, xs) for loss in losses)])
    np.testing.assert_allclose(values[0][0], values[0][1], rtol=1e-5)
    for got, wanted in zip(values[1], values[2], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("peepholes", [False, True])
def test_one_step_of_an_lstm(peepholes: bool) -> None:
    x, parts = real(BATCH, WIDTH), _parameters()
    cs, h, w, *wc, b = parts
    cell = apply("LSTMBlockCell", x, *parts, forget_bias=0.5, cell_clip=0.0, use_peephole=peepholes)
    used = [x, cs, h, w, b, *(wc if peepholes else [])]
    _assert_same([cell.cs, cell.h], _lstm(x, cs, h, w, wc if peepholes else None, b, 0.5, False), used)


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("op_type", ["BlockLSTM", "BlockLSTMV2"])
def test_a_whole_sequence(op_type: str, peepholes: bool) -> None:
    x, parts, steps = real(5, BATCH, WIDTH), _parameters(), 3
    cs, h, w, *wc, b = parts
    second = op_type == "BlockLSTMV2"
    options: dict[str, Any] = {} if second else {"forget_bias": 1.0}
    block = apply(op_type, np.int64(steps), x, *parts, cell_clip=0.0, use_peephole=peepholes, **options)
    memories, outputs = [], []
    for t in range(5):
        if t < steps:
            cs, h = _lstm(x[t], cs, h, w, wc if peepholes else None, b, 0.0 if second else 1.0, second)
        memories.append(cs if t < steps else tf.zeros_like(cs))
        outputs.append(h if t < steps else tf.zeros_like(h))
    used = [x, *parts[:3], b, *(wc if peepholes else [])]
    _assert_same([block.cs, block.h], [tf.stack(memories), tf.stack(outputs)], used)


def test_a_step_of_a_gru() -> None:
    x, h = real(BATCH, WIDTH), real(BATCH, UNITS)
    w_ru, w_c, b_ru, b_c = (
        real(WIDTH + UNITS, 2 * UNITS), real(WIDTH + UNITS, UNITS), real(2 * UNITS), real(UNITS)
    )  # fmt: skip
    cell = apply("GRUBlockCell", x, h, w_ru, w_c, b_ru, b_c)
    r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), w_ru) + b_ru), 2, 1)
    c = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), w_c) + b_c)
    _assert_same([cell.h], [u * h + (1 - u) * c], [x, h, w_ru, w_c, b_ru, b_c])


def test_sizes_that_do_not_fit_are_refused() -> None:
    parts = _parameters()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="w must have shape"):
        saved = [real(BATCH, UNITS)] * 8
        session.run(apply("LSTMBlockCellGrad", real(BATCH, WIDTH + 1), *parts, *saved, use_peephole=False).dicfo)
