"""Matrix products of many shapes at once: the primitive cache and the streams are shared between threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import thalweg as tf


def test_products_of_many_shapes_from_many_threads():
    rng = np.random.default_rng(0)
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
        product = tf.matmul(a, b, transpose_b=True)
        shapes = [tuple(rng.integers(30, 90, 3)) for _ in range(12)]
        operands = [
            (rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((n, k)).astype(np.float32))
            for m, k, n in shapes
        ]
        expected = [x @ y.T for x, y in operands]
        failures: list[BaseException] = []

        def work(offset: int) -> None:
            try:
                for step in range(40):
                    i = (offset + step) % len(operands)
                    x, y = operands[i]
                    np.testing.assert_allclose(session.run(product, {a: x, b: y}), expected[i], rtol=1e-3, atol=1e-3)
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int64])
@pytest.mark.parametrize("size", [1, 5, 6, 7, 15, 16, 17, 31, 33, 97, 260])
def test_every_remainder_of_the_tiles(size, dtype):
    rng = np.random.default_rng(size)
    x = rng.integers(-5, 5, [size, size + 1]).astype(dtype.as_numpy_dtype)
    y = rng.integers(-5, 5, [size + 1, size + 2]).astype(dtype.as_numpy_dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = tf.placeholder(dtype), tf.placeholder(dtype)
        plain, turned = tf.matmul(a, b), tf.matmul(b, a, transpose_a=True, transpose_b=True)
        np.testing.assert_array_equal(session.run(plain, {a: x, b: y}), x @ y)
        np.testing.assert_array_equal(session.run(turned, {a: x, b: y}), (x @ y).T)


# Wide enough for A to be packed, longer than one block or one packed part of the inner dimension, few or many rows.
@pytest.mark.parametrize("size", [(7, 300, 391), (13, 290, 4110), (201, 261, 20), (100, 40, 1100), (60, 600, 1030)])
def test_products_cut_in_every_direction(size):
    m, n, k = size
    rng = np.random.default_rng(k)
    x = rng.integers(-5, 5, [m, k]).astype(np.float32)
    y = rng.integers(-5, 5, [k, n]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        for transpose_a in (False, True):
            for transpose_b in (False, True):
                product = tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
                feeds = {a: x.T if transpose_a else x, b: y.T if transpose_b else y}
                np.testing.assert_array_equal(session.run(product, feeds), x @ y)


def test_nan_and_infinity_pass_through_products():
    for n in (4, 64):
        x = np.zeros([n, n], np.float32)
        x[0, 0] = np.nan
        with tf.Graph().as_default(), tf.Session() as session:
            result = session.run(tf.matmul(x, np.ones([n, n], np.float32)))
        assert np.isnan(result[0]).all()
        assert (result[1:] == 0).all()


def test_a_product_in_a_step_without_the_probe_s_answer_does_not_deadlock():
    """The first use of oneDNN asks Python for the instruction set, while other threads hold the GIL in turns."""
    import subprocess
    import sys

    code = (
        "import threading, numpy as np, thalweg as tf\n"
        "a = tf.placeholder(tf.float32, [64, 64]); c = tf.matmul(a, a); s = tf.Session()\n"
        "x = np.ones([64, 64], np.float32); out = []\n"
        "ts = [threading.Thread(target=lambda: out.append(s.run(c, {a: x})[0, 0])) for _ in range(4)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "assert out == [64.0] * 4, out\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_svd_of_a_matrix_that_is_not_finite_is_nan_and_ends():
    x = np.stack([np.eye(3), np.full([3, 3], np.inf), np.full([3, 3], np.nan)]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        s, u, _ = session.run(tf.svd(x))
    np.testing.assert_allclose(s[0], 1, rtol=1e-6)
    assert np.isnan(s[1:]).all()
    assert np.isnan(u[1:]).all()
