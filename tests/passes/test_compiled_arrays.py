"""Loops over TensorArrays (scan, map_fn, foldl) run as machine code, with the bits and errors of their nodes."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest
from tests.passes.test_compiled_loops import assert_same_bits
from tests.passes.test_elementwise_code import executable_bytes
from tests.passes.test_lower_loops import plain_session

import thalweg as tf

LENGTH = 700  # More than a loop runs before it is compiled.


def check(fetches: Any, feeds: Any, is_compiled: bool = True) -> Any:
    """Runs with frames and tokens, then by nodes and compiled."""
    with plain_session() as slow, tf.Session() as fast:
        expected = slow.run(fetches, feeds)
        assert_same_bits(fast.run(fetches, feeds), expected)
        before = executable_bytes()
        for _ in range(3):
            assert_same_bits(fast.run(fetches, feeds), expected)
        assert (executable_bytes() > before) == is_compiled
    return expected


def draw(dtype: Any, *shape: int) -> np.ndarray:
    return (np.random.default_rng(2).standard_normal(shape) * 10).astype(dtype.as_numpy_dtype)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (8,), (2, 9), (3, 16)])
def test_scan(dtype: Any, shape: tuple[int, ...]) -> None:
    xs = tf.placeholder(dtype, [LENGTH, *shape])
    ys = tf.scan(lambda s, x: tf.maximum(x - s, x) + tf.constant(1, dtype), xs, initializer=tf.zeros(shape, dtype))
    check(ys, {xs: draw(dtype, LENGTH, *shape)})


def test_map_and_folds() -> None:
    xs = tf.placeholder(tf.float32, [LENGTH, 5])
    mapped = tf.map_fn(lambda x: tf.tanh(x) * tf.reduce_sum(x), xs)
    check(mapped, {xs: draw(tf.float32, LENGTH, 5)})
    check(tf.foldl(lambda s, x: s * 0.9 + x, xs), {xs: draw(tf.float32, LENGTH, 5)})
    check(tf.foldr(lambda s, x: s * 0.9 + x, xs), {xs: draw(tf.float32, LENGTH, 5)})
    check(tf.scan(lambda s, x: s + x, xs, reverse=True), {xs: draw(tf.float32, LENGTH, 5)})


def test_several_arrays() -> None:
    xs, ys = tf.placeholder(tf.float32, [LENGTH]), tf.placeholder(tf.int32, [LENGTH])
    both = tf.map_fn(lambda e: (e[0] * tf.cast(e[1], tf.float32), e[1] + 1), (xs, ys), dtype=(tf.float32, tf.int32))
    check(list(both), {xs: draw(tf.float32, LENGTH), ys: draw(tf.int32, LENGTH)})


def test_gradients_of_a_scan() -> None:
    xs = tf.placeholder(tf.float32, [LENGTH])
    ys = tf.scan(lambda s, x: tf.tanh(s * 0.5 + x), xs, initializer=tf.constant(0.0))
    gradient = tf.gradients(tf.reduce_sum(ys * ys), xs)[0]
    with plain_session() as slow, tf.Session() as fast:
        expected = slow.run(gradient, {xs: draw(tf.float32, LENGTH)})
        for _ in range(3):
            assert_same_bits(fast.run(gradient, {xs: draw(tf.float32, LENGTH)}), expected)


def loop_over_array(start: int, stop: int, step: int, size: int, clear: bool = True) -> tuple[tf.Tensor, tf.Tensor]:
    xs = tf.placeholder(tf.float32, [None])
    array = tf.TensorArray(tf.float32, size, clear_after_read=clear).unstack(xs)
    out = tf.TensorArray(tf.float32, size)

    def body(i: Any, s: Any, out: Any) -> Any:
        s = s + array.read(i)
        return i + step, s, out.write(i, s * 2.0)

    _, total, out = tf.while_loop(lambda i, *_: i * step < stop * step, body, (start, 0.0, out))
    return xs, total + tf.reduce_sum(out.gather(tf.range(start, stop, step)))


def test_every_other_element_backwards() -> None:
    xs, total = loop_over_array(LENGTH - 1, -1, -2, LENGTH)
    check(total, {xs: draw(tf.float32, LENGTH)})


@pytest.mark.parametrize("clear", [True, False])
def test_an_element_that_is_read_twice(clear: bool) -> None:
    xs = tf.placeholder(tf.float32, [LENGTH])
    array = tf.TensorArray(tf.float32, LENGTH, clear_after_read=clear).unstack(xs)
    last = LENGTH - 1

    def body(i: Any, s: Any) -> Any:
        return i + 1, s + array.read(tf.where(tf.equal(i, last), 3, i))

    total = tf.while_loop(lambda i, s: i < LENGTH, body, (0, 0.0))[1]
    feeds = {xs: draw(tf.float32, LENGTH)}
    if not clear:
        check(total, feeds)
        return
    with tf.Session() as sess:
        for _ in range(4):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Could not read index 3 twice"):
                sess.run(total, feeds)


@pytest.mark.parametrize("index", [-1, LENGTH])
def test_an_index_beyond_the_array(index: int) -> None:
    xs = tf.placeholder(tf.float32, [LENGTH])
    array = tf.TensorArray(tf.float32, LENGTH).unstack(xs)
    last = LENGTH - 1

    def body(i: Any, s: Any) -> Any:
        return i + 1, s + array.read(tf.where(tf.equal(i, last), index, i))

    total = tf.while_loop(lambda i, s: i < LENGTH, body, (0, 0.0))[1]
    with tf.Session() as sess:
        for _ in range(4):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"Tried to read from index {index}"):
                sess.run(total, {xs: draw(tf.float32, LENGTH)})


def test_an_element_that_is_written_twice() -> None:
    def body(i: Any, out: Any) -> Any:
        return i + 1, out.write(tf.minimum(i, LENGTH - 2), tf.cast(i, tf.float32))

    out = tf.while_loop(lambda i, _: i < LENGTH, body, (0, tf.TensorArray(tf.float32, LENGTH)))[1].stack()
    with tf.Session() as sess:
        for _ in range(4):
            with pytest.raises(tf.errors.InvalidArgumentError, match="has already been written to"):
                sess.run(out)


def test_a_failure_behind_a_read_and_a_write_is_the_nodes() -> None:
    xs = tf.placeholder(tf.int32, [LENGTH])
    array = tf.TensorArray(tf.int32, LENGTH).unstack(xs)

    def body(i: Any, out: Any) -> Any:
        x = array.read(i)
        with tf.control_dependencies([x]):
            out = out.write(i, x)
        return i + 1, out.write(LENGTH + i, 100 // x)

    out = tf.while_loop(lambda i, _: i < LENGTH, body, (0, tf.TensorArray(tf.int32, 2 * LENGTH)))[1].stack()
    good, bad = np.arange(1, LENGTH + 1, dtype=np.int32), np.ones(LENGTH, np.int32)
    bad[-5] = 0
    with tf.Session() as sess:
        for _ in range(3):
            np.testing.assert_array_equal(sess.run(out, {xs: good}), np.concatenate([good, 100 // good]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="zero"):
            sess.run(out, {xs: bad})


def test_elements_that_nobody_wrote_are_zeros() -> None:
    xs, total = loop_over_array(0, LENGTH, 1, LENGTH + 10)
    check(total, {xs: draw(tf.float32, LENGTH)}, is_compiled=False)  # The value fills a part of the array.
    out = tf.while_loop(
        lambda i, _: i < LENGTH,
        lambda i, a: (i + 2, a.write(i, tf.cast(i, tf.float32))),
        (0, tf.TensorArray(tf.float32, LENGTH, element_shape=[])),
    )[1]
    expected = np.arange(LENGTH, dtype=np.float32) * (np.arange(LENGTH) % 2 == 0)
    with tf.Session() as sess:
        for _ in range(4):
            np.testing.assert_array_equal(sess.run(out.stack()), expected)


def test_other_lengths_and_an_empty_array() -> None:
    xs = tf.placeholder(tf.float32, [None])
    ys = tf.scan(lambda s, x: s + x, xs, initializer=tf.constant(0.0))
    with tf.Session() as sess:
        for size in (LENGTH, LENGTH, 3, 1, LENGTH + 1):
            x = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(sess.run(ys, {xs: x}), np.cumsum(x))


def test_an_array_after_the_loop_that_read_it() -> None:
    xs = tf.placeholder(tf.float32, [LENGTH])
    array = tf.TensorArray(tf.float32, LENGTH, clear_after_read=False).unstack(xs)
    total = tf.while_loop(lambda i, s: i < 300, lambda i, s: (i + 1, s + array.read(i)), (0, 0.0))[1]
    with tf.control_dependencies([total]):
        again = array.stack()
    check([total, again], {xs: draw(tf.float32, LENGTH)})
    cleared = tf.TensorArray(tf.float32, LENGTH).unstack(xs)
    half = tf.while_loop(lambda i, s: i < 300, lambda i, s: (i + 1, s + cleared.read(i)), (0, 0.0))[1]
    with tf.control_dependencies([half]):
        rest, gone = cleared.read(500), cleared.read(200)
    feeds = {xs: draw(tf.float32, LENGTH)}
    with tf.Session() as sess:
        for _ in range(3):
            assert sess.run(rest, feeds) == feeds[xs][500]
            with pytest.raises(tf.errors.InvalidArgumentError, match="twice"):
                sess.run(gone, feeds)


def test_an_element_that_is_read_in_every_iteration_takes_no_memory_for_each_reading() -> None:
    array = tf.TensorArray(tf.float32, 2, clear_after_read=False).unstack(tf.constant([1.0, 2.0]))
    n = tf.placeholder(tf.int32, [])
    _, total = tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + array.read(i % 2)), (0, 0.0))
    with tf.Session() as session:
        assert session.run(total, {n: 1001}) == 1501.0
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert session.run(total, {n: 8_000_000}) == 12_000_000.0
        # 64 MB, if each reading were noted.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
