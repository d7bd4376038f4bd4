"""Reductions at the edges: NaN, ties, zeros, nothing at all, many elements, old argument names."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


def run(tensor, feeds=None):
    with tf.Session() as session:
        return session.run(tensor, feeds)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
@pytest.mark.parametrize("position", [0, 3, 70, 299])
def test_a_nan_anywhere_is_the_maximum_and_the_minimum(dtype, position):
    x = np.linspace(-1, 1, 300).astype(dtype.as_numpy_dtype)
    x[position] = np.nan
    for reduce in (tf.reduce_max, tf.reduce_min):
        assert np.isnan(run(reduce(tf.constant(x, dtype))).astype(np.float32))
        columns = run(reduce(tf.constant(np.stack([x, x], 1), dtype), 0)).astype(np.float32)
        assert np.isnan(columns).all()


def test_argmax_ignores_nan_and_takes_the_first_of_equals():
    assert run(tf.argmax([np.nan, 1.0, 2.0, np.nan, 2.0])) == 2
    assert run(tf.argmin([1.0, np.nan, 1.0])) == 0
    assert run(tf.argmax(np.full([4], -np.inf))) == 0


@pytest.mark.parametrize("dtype", [tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32])
def test_a_mean_of_integers_does_not_wrap_around(dtype):
    x = np.full([40, 70], dtype.max, dtype.as_numpy_dtype)
    assert run(tf.reduce_mean(x)) == dtype.max
    assert run(tf.reduce_mean(x, 0)).tolist() == [dtype.max] * 70
    assert run(tf.reduce_mean(np.stack([x, np.full_like(x, dtype.min)]), [1, 2])).tolist() == [dtype.max, dtype.min]


def test_reductions_of_nothing_are_their_identities():
    empty = tf.zeros([0, 2])
    assert run(tf.reduce_sum(empty, 0)).tolist() == [0, 0]
    assert run(tf.reduce_prod(empty, 0)).tolist() == [1, 1]
    assert run(tf.reduce_max(empty, 0)).tolist() == [-np.inf, -np.inf]
    assert run(tf.reduce_min(tf.zeros([0], tf.int32))) == np.iinfo(np.int32).max
    assert np.isnan(run(tf.reduce_mean(empty)))
    assert run(tf.reduce_mean(tf.zeros([0], tf.int32))) == 0
    assert run(tf.reduce_any(tf.zeros([0], tf.bool))) == False  # noqa: E712
    assert run(tf.reduce_all(tf.zeros([0], tf.bool))) == True  # noqa: E712


def test_equal_maxima_share_the_gradient():
    x = tf.constant([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    (grad,) = tf.gradients(tf.reduce_max(x, 1), [x])
    np.testing.assert_allclose(run(grad), [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]])


def test_the_gradient_of_a_product_with_zeros_is_that_of_the_other_factors():
    x = tf.constant([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0]])
    (grad,) = tf.gradients(tf.reduce_prod(x, 1), [x])
    np.testing.assert_allclose(run(grad), [[0, 6, 0], [0, 0, 0]])


@pytest.mark.parametrize("rank_known", [True, False])
def test_gradients_with_axes_that_only_the_step_knows(rank_known):
    x = tf.placeholder(tf.float64, [None, None, None] if rank_known else None)
    axes = tf.placeholder(tf.int32, [None])
    value = np.arange(1.0, 25.0).reshape(2, 3, 4)
    for reduce, expected in (
        (tf.reduce_sum, np.ones_like(value)),
        (tf.reduce_mean, np.full_like(value, 1 / 8)),
        (tf.reduce_prod, np.prod(value, (0, 2), keepdims=True) / value),
    ):
        (grad,) = tf.gradients(reduce(x, axes), [x])
        np.testing.assert_allclose(run(grad, {x: value, axes: [0, -1]}), expected)


def test_sums_of_many_narrow_floats_keep_their_precision():
    for dtype in (tf.float16, tf.bfloat16, tf.float32):
        x = np.full([100_000], 0.1).astype(dtype.as_numpy_dtype)
        exact = x.astype(np.float64).mean()
        assert run(tf.reduce_mean(tf.constant(x, dtype))).astype(np.float64) == pytest.approx(exact, rel=4e-3)
    # One float accumulator would be off by more than a percent here.
    x = np.full([4_000_001], 0.1, np.float32)
    exact = x.astype(np.float64).sum()
    assert run(tf.reduce_sum(x)) == pytest.approx(exact, rel=2e-6)
    assert run(tf.reduce_sum(np.stack([x, x], 1), 0))[1] == pytest.approx(exact, rel=2e-6)


def test_integer_sums_wrap_around():
    assert run(tf.reduce_sum(tf.constant([2**31 - 1, 1], tf.int32))) == -(2**31)


def test_a_sum_does_not_depend_on_the_number_of_threads():
    from thalweg._native import core

    x = np.random.default_rng(0).standard_normal([700, 900]).astype(np.float32)
    results = []
    try:
        for threads in (1, 2, 3):
            core.set_intra_op_threads(threads)
            results.append(run([tf.reduce_sum(x), tf.reduce_sum(x, 0), tf.reduce_sum(x, 1)]))
    finally:
        core.set_intra_op_threads(0)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_old_names_of_the_arguments():
    x = tf.ones([2, 3])
    assert tf.reduce_sum(x, reduction_indices=[1], keep_dims=True).shape.as_list() == [2, 1]
    assert tf.argmax(x, dimension=1).shape.as_list() == [2]
    assert tf.arg_max(x, 0).shape.as_list() == [3]
    with pytest.raises(ValueError, match="both"):
        tf.reduce_sum(x, axis=0, reduction_indices=0)


def test_a_full_reduction_of_unknown_rank_is_a_scalar():
    assert tf.reduce_mean(tf.placeholder(tf.float32)).shape.as_list() == []


@pytest.mark.parametrize(
    "dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.uint8], ids=lambda d: d.name
)
def test_extremes_of_short_rows(dtype: tf.DType) -> None:
    rng = np.random.default_rng(0)
    x = tf.placeholder(dtype, [None, None])
    ops = [tf.reduce_max(x, 1), tf.reduce_min(x, 1)]
    with tf.Session() as session:
        for rows, length in [(1, 3), (7, 4), (8, 2), (9, 1), (63, 4), (65, 5), (130, 31), (200, 3), (66, 33)]:
            given = rng.standard_normal([rows, length]) * 50
            if dtype.is_floating:
                at = rng.integers(0, given.size, 12)
                given.flat[at] = np.resize([np.nan, -np.inf, np.inf, 0.0, -0.0], 12)
            given = (given if dtype.is_floating else np.abs(given)).astype(dtype.as_numpy_dtype)
            wide = given.astype(np.float64)
            with np.errstate(invalid="ignore"):
                for found, wanted in zip(session.run(ops, {x: given}), [wide.max(1), wide.min(1)], strict=True):
                    np.testing.assert_array_equal(found.astype(np.float64), wanted)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 31, 127, 128, 129])
def test_all_and_any_of_short_rows(length: int) -> None:
    rng = np.random.default_rng(length)
    given = rng.random([150, length]) < rng.random([150, 1])
    x = tf.placeholder(tf.bool, given.shape)
    with tf.Session() as session:
        every, some = session.run([tf.reduce_all(x, 1), tf.reduce_any(x, 1)], {x: given})
    np.testing.assert_array_equal(every, given.all(1))
    np.testing.assert_array_equal(some, given.any(1))


DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 4, 7, 16])
def test_argmax_of_many_short_rows(dtype, length):
    rng = np.random.default_rng(length)
    x = rng.integers(0, 2 if dtype == "bool" else 5, (70, length))
    if "float" in dtype:
        x = np.where(rng.random(x.shape) < 0.1, np.nan, x)
        x[3], x[4] = np.nan, -np.inf
    # A NaN is passed over; of equal ones the first counts.
    largest = np.argmax(np.where(x != x, -np.inf, x), 1)
    least = np.argmin(np.where(x != x, np.inf, x), 1)
    given = tf.cast(tf.constant(x), dtype)
    np.testing.assert_array_equal(run(tf.argmax(given, 1)), largest)
    np.testing.assert_array_equal(run(tf.argmin(given, 1)), least)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [31, 32, 64, 100, 1024, 1100])
def test_extremes_of_rows_with_and_without_a_nan(dtype, length):
    x = np.random.default_rng(length).normal(size=(40, length)).astype(dtype)
    for row in range(0, 40, 3):
        x[row, row * 7 % length] = np.nan
    np.testing.assert_array_equal(run(tf.reduce_max(tf.constant(x), 1)), x.max(1))
    np.testing.assert_array_equal(run(tf.reduce_min(tf.constant(x), 1)), x.min(1))
