"""Transfers in 16 bits: the error bound, values that are never compressed, by attribute and by session option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

# 7 of 23 bits of the mantissa remain, and are cut, not rounded.
BOUND = 2.0**-7


def config(everywhere: bool = False) -> Any:
    options = tf.GraphOptions(enable_bfloat16_sendrecv=everywhere)
    return tf.ConfigProto(device_count={"CPU": 2}, graph_options=options)


def across(value: Any, marked: bool = False, everywhere: bool = False, dtype: Any = tf.float32) -> Any:
    """A value after it was sent from one device to another."""
    x = tf.placeholder(dtype, np.shape(value))
    with tf.device("/cpu:0"), tf.experimental.compress_transfers(marked):
        sent = tf.reverse(x, [0]) if np.ndim(value) else tf.identity(x)
    with tf.device("/cpu:1"):
        received = tf.reverse(sent, [0]) if np.ndim(value) else sent
    with tf.Session(config=config(everywhere)) as sess:
        return sess.run(received, {x: value})


def cut(value: Any) -> Any:
    return (np.asarray(value, np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize("option", ["marked", "everywhere"])
def test_float32_loses_its_lower_16_bits(option: str) -> None:
    value = np.random.default_rng(3).normal(size=[1000]).astype(np.float32) * np.float32(10) ** np.arange(-30, 30, 0.06)
    value = value.astype(np.float32)
    got = across(value, **{option: True})
    np.testing.assert_array_equal(got, cut(value))
    assert np.all(np.abs(got - value) < BOUND * np.abs(value))
    assert np.all(np.abs(got) <= np.abs(value))
    assert np.any(got != value)


def test_without_either_nothing_is_lost() -> None:
    value = np.random.default_rng(4).normal(size=[100]).astype(np.float32)
    np.testing.assert_array_equal(across(value), value)


def test_special_values_stay_what_they_are() -> None:
    hidden = np.array([0x7F800001, 0xFF800001], np.uint32).view(np.float32)  # NaNs in the lower bits only
    value = np.concatenate([np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-42], np.float32), hidden])
    got = across(value, everywhere=True)
    assert np.isnan(got[[2, 6, 7]]).all()
    np.testing.assert_array_equal(got[:2], value[:2])
    np.testing.assert_array_equal(np.signbit(got[3:5]), [False, True])
    assert abs(got[5]) <= 1e-42


@pytest.mark.parametrize("dtype", [tf.float64, tf.int32, tf.int64, tf.complex64, tf.bfloat16, tf.float16])
def test_other_types_are_not_touched(dtype: Any) -> None:
    value = np.arange(1, 300).astype(dtype.as_numpy_dtype)
    np.testing.assert_array_equal(across(value, True, True, dtype), value)


def test_empty_tensors_and_control_edges_cross() -> None:
    assert across(np.zeros([0, 3], np.float32), everywhere=True).shape == (0, 3)
    with tf.device("/cpu:0"):
        first = tf.no_op()
    with tf.device("/cpu:1"), tf.control_dependencies([first]):
        second = tf.constant(1.2345678) * 1.0
    with tf.Session(config=config(True)) as sess:
        assert sess.run(second) == np.float32(1.2345678)


def test_what_stays_on_its_device_is_not_touched() -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device("/cpu:0"), tf.experimental.compress_transfers():
        here = tf.identity(x * 1.0)
    with tf.device("/cpu:1"):
        there = tf.maximum(here, 0.0)
    with tf.Session(config=config()) as sess:
        value = np.float32(1.2345678)
        assert sess.run([here, there], {x: value}) == [value, cut(value)]


def test_the_same_expression_outside_of_the_block_is_not_merged_with_it() -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device("/cpu:0"):
        with tf.experimental.compress_transfers():
            short = x * 3.0
        exact = x * 3.0
    with tf.device("/cpu:1"):
        both = tf.stack([short, exact])
    with tf.Session(config=config()) as sess:
        value = np.float32(1.2345678)
        np.testing.assert_array_equal(sess.run(both, {x: value}), [cut(value * 3), value * np.float32(3)])


def test_dead_tensors_and_loops_cross() -> None:
    flag = tf.placeholder(tf.bool, [])
    with tf.device("/cpu:0"):
        x = tf.placeholder_with_default(1.00001, []) * 1.0
    with tf.device("/cpu:1"):
        chosen = tf.cond(flag, lambda: x + 1.0, lambda: x - 1.0)
        total = tf.while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t + x), [0, 0.0])[1]
    with tf.Session(config=config(True)) as sess:
        assert sess.run([chosen, total], {flag: True}) == [2.0, 5.0]
        assert sess.run(chosen, {flag: False}) == 0.0


def test_readers_on_the_senders_device_read_all_bits() -> None:
    x = tf.placeholder(tf.float32, [70000])
    with tf.device("/cpu:0"):
        sent = tf.reverse(x, [0])
    with tf.device("/cpu:1"):
        received = tf.reverse(sent, [0])
    with tf.device("/cpu:0"), tf.control_dependencies([received]):
        kept = tf.reverse(sent, [0])
    value = np.random.default_rng(5).normal(size=[70000]).astype(np.float32)
    with tf.Session(config=config(True)) as sess:
        got, own = sess.run([received, kept], {x: value})
    np.testing.assert_array_equal(got, cut(value))
    np.testing.assert_array_equal(own, value)


def test_a_value_of_a_branch_that_is_not_taken_crosses_as_dead() -> None:
    taken, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])

    def there() -> Any:
        with tf.device("/cpu:0"):
            y = tf.exp(x)
        with tf.device("/cpu:1"):
            return tf.negative(y)

    z = tf.cond(taken, there, lambda: tf.constant(7.0))
    with tf.Session(config=config(True)) as sess:
        assert sess.run(z, {taken: False, x: 1.0}) == 7.0
        assert abs(sess.run(z, {taken: True, x: 1.0}) + np.e) < np.e * 2 * BOUND


def test_values_that_are_sent_in_a_loop_are_cut_each_time() -> None:
    def body(i: Any, y: Any) -> Any:
        with tf.device("/cpu:0"):
            y = y * 1.2345678
        with tf.device("/cpu:1"):
            return i + 1, tf.negative(y)

    _, y = tf.while_loop(lambda i, y: i < 4, body, [0, tf.constant(1.0)])
    with tf.Session(config=config(True)) as sess:
        got = sess.run(y)
    expected = np.float32(1.0)
    for _ in range(4):
        expected = cut(-cut(expected * np.float32(1.2345678)))
    assert abs(got - expected) <= BOUND * abs(expected)
    assert got != np.float32(1.2345678) ** 4
