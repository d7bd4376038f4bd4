"""Compiled loops that index, slice, pad, join, transpose and broadcast small tensors, and loops inside of loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.test_compiled_loops import TRIPS, check_same_bits, counted
from tests.passes.test_elementwise_code import executable_bytes
from tests.passes.test_lower_loops import loop_ops

import thalweg as tf
from thalweg.passes.lower_loops import lower_loops
from thalweg.passes.prune import prune

RNG = np.random.default_rng(4)


def compiled(fetches: Any, feeds: Any = None) -> None:
    """Checks bits, and that code was made."""
    with tf.Session() as sess:
        before = executable_bytes()
        for _ in range(2):
            sess.run(fetches, feeds)
        assert executable_bytes() > before
    check_same_bits(fetches, feeds)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64])
def test_moving_elements(dtype: Any) -> None:
    start = tf.constant((RNG.standard_normal((3, 4)) * 9).astype(dtype.as_numpy_dtype))

    def body(x: Any) -> Any:
        shifted = tf.pad(x[:, 1:], [[0, 0], [0, 1]])
        flipped = tf.reverse(tf.transpose(tf.reshape(shifted, [4, 3])), [1])
        parts = tf.concat([flipped[:1], x[1:2], tf.stack([x[2, 3], x[0, 0], x[1, 1], x[2, 0]])[tf.newaxis]], 0)
        return (tf.maximum(parts, x) - tf.tile(x[:, :1], [1, 4]),)

    compiled(counted(body, [start]))


def test_rows_and_columns_are_broadcast() -> None:
    start = tf.constant(RNG.standard_normal((4, 5)).astype(np.float32))
    row, column = (tf.constant(RNG.standard_normal(s).astype(np.float32)) for s in [(5,), (4, 1)])
    compiled(counted(lambda x: (tf.tanh(x * row + column) - tf.reduce_mean(x, 1, keepdims=True),), [start]))


def test_an_index_that_is_counted() -> None:
    xs, ys = tf.placeholder(tf.float32, [TRIPS]), tf.placeholder(tf.float32, [TRIPS, 3, 4])

    def body(i: Any, s: Any, v: Any) -> Any:
        return i + 1, s * 0.5 + xs[i], v * 0.5 + ys[i, i % 3]

    found = tf.while_loop(lambda i, *_: i < TRIPS, body, (0, 0.0, tf.zeros([4])))[1:]
    arrays = {xs: RNG.standard_normal(TRIPS).astype(np.float32), ys: RNG.standard_normal((TRIPS, 3, 4)).astype("f4")}
    compiled(found, arrays)
    backwards = tf.while_loop(lambda i, s: i > -TRIPS, lambda i, s: (i - 1, s * 0.5 + xs[i]), (-1, 0.0))[1]
    compiled(backwards, {xs: arrays[xs]})


@pytest.mark.parametrize("size", [TRIPS - 1, 300])
def test_an_index_out_of_bounds_is_reported(size: int) -> None:
    xs = tf.placeholder(tf.float32, [None])
    total = tf.while_loop(lambda i, s: i < TRIPS, lambda i, s: (i + 1, s + xs[i]), (0, 0.0))[1]
    with tf.Session() as sess:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"{size}.*out of bounds"):
                sess.run(total, {xs: np.ones(size, np.float32)})
            assert sess.run(total, {xs: np.ones(TRIPS, np.float32)}) == TRIPS


def test_a_loop_inside_of_a_loop_that_reads_an_outer_value() -> None:
    a = tf.placeholder(tf.float32, [])

    def body(i: Any, x: Any) -> Any:
        inner = tf.while_loop(lambda j, y: j < 10, lambda j, y: (j + 1, y * 0.9 + a), (0, x))[1]
        return i + 1, inner * 0.5

    found = tf.while_loop(lambda i, x: i < 200, body, (0, a))[1]
    assert loop_ops(lower_loops(prune([a], [found], []), lambda node: True)) == ["_Loop"]
    check_same_bits(found, {a: 0.3})
