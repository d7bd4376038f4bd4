"""Sums, stitches and sparse updates of so many rows that several threads share them: their bits do not depend on it."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf

ROWS, WIDTH = 20_000, 64


def _drawn(rows: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal([rows, WIDTH]).astype(np.float32)


@pytest.mark.parametrize("segments", [12_000, 50])
def test_sums_add_the_rows_of_a_segment_in_order_to_zero(segments: int) -> None:
    ids = np.random.default_rng(4).integers(-1, segments - 5, ROWS)
    data = _drawn(ROWS)
    data[ids == 7] = -0.0
    expected = np.zeros([segments, WIDTH], np.float32)
    np.add.at(expected, ids[ids >= 0], data[ids >= 0])
    with tf.Session() as session:
        found = session.run(tf.unsorted_segment_sum(data, ids, segments))
    assert found.tobytes() == expected.tobytes()


def test_a_stitch_takes_every_row_and_leaves_zeros_where_there_is_none() -> None:
    places = np.random.default_rng(5).permutation(ROWS + 100)[:ROWS].astype(np.int32)
    data = _drawn(ROWS)
    expected = np.zeros([int(places.max()) + 1, WIDTH], np.float32)
    expected[places] = data
    with tf.Session() as session:
        found = session.run(tf.dynamic_stitch([places[:9_000], places[9_000:]], [data[:9_000], data[9_000:]]))
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("width", [1, 3, WIDTH, 300])
def test_rows_named_several_times_are_updated_in_order(width: int) -> None:
    indices = np.random.default_rng(6).integers(0, 3_000, 5_000)
    gradient = np.random.default_rng(7).standard_normal([5_000, width]).astype(np.float32)
    value, squares = np.zeros([3_000, width], np.float32), np.full([3_000, width], 0.1, np.float32)
    rate = np.float32(0.5)
    with tf.Session() as session:
        variable, slot = (tf.Variable(x, use_resource=True) for x in (value, squares))
        update = tf.raw_ops.ResourceSparseApplyAdagrad(
            var=variable.handle, accum=slot.handle, lr=rate, grad=gradient, indices=indices
        )
        session.run(tf.global_variables_initializer())
        session.run(update)
        found = session.run([variable, slot])
    for index, g in zip(indices, gradient, strict=True):
        squares[index] += g * g
        value[index] -= g * rate / np.sqrt(squares[index])
    assert found[1].tobytes() == squares.tobytes()
    np.testing.assert_allclose(found[0], value, rtol=1e-6)
