"""Products and reductions in loops that run as machine code, with the bits of their nodes."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest
from tests.passes.test_compiled_loops import FLOATS, check_same_bits, counted
from tests.passes.test_elementwise_code import executable_bytes

import thalweg as tf


def matrix(rows: int, columns: int, dtype: Any = tf.float32, seed: int = 1) -> Any:
    values = np.random.default_rng(seed).standard_normal((rows, columns)) / max(rows, columns) ** 0.5
    return values.astype(dtype.as_numpy_dtype)


def check_compiled(fetches: Any, feeds: Any = None) -> None:
    """Code is made for the loop, and gives the bits of its nodes."""
    check_same_bits(fetches, feeds)
    before = executable_bytes()
    with tf.Session() as session:
        session.run(fetches, feeds)
        assert executable_bytes() > before or platform.machine() != "x86_64"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [2, 3, 8, 17, 64, 100])
def test_a_row_times_a_matrix(size: int, dtype: Any) -> None:
    m = tf.placeholder(dtype, [size, size])
    start = tf.ones([1, size], dtype)
    loop = counted(lambda x: [tf.tanh(tf.matmul(x, m)) + 0.1], [start], 600)
    check_compiled(loop, {m: matrix(size, size, dtype)})


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("columns", [1, 5])
def test_transposed_operands(transposed: tuple[bool, bool], columns: int) -> None:
    a, b = transposed
    m = tf.placeholder(tf.float32, [9, 9])
    shape = [columns, 9] if b else [9, columns]

    def body(x: Any) -> Any:
        product = tf.matmul(m, x, transpose_a=a, transpose_b=b)
        return [tf.sigmoid(tf.transpose(product) if b else product)]

    loop = counted(body, [tf.ones(shape)], 600)
    check_same_bits(loop, {m: matrix(9, 9)})


def test_products_of_small_and_of_constant_matrices() -> None:
    weights = tf.constant(matrix(4, 4))
    large = tf.constant(matrix(30, 30, seed=2))

    def body(x: Any, y: Any) -> Any:
        return tf.tanh(tf.matmul(x, weights) + x), tf.nn.relu(tf.matmul(y, large)) + 0.01

    check_compiled(counted(body, [tf.ones([2, 4]), tf.ones([1, 30])], 600))


def test_a_bias_and_an_activation() -> None:
    m, bias = tf.placeholder(tf.float32, [20, 20]), tf.placeholder(tf.float32, [20])

    def body(x: Any) -> Any:
        return [tf.nn.relu(tf.nn.bias_add(tf.matmul(x, m), bias)) - 0.1 + bias]

    feeds = {m: matrix(20, 20), bias: np.linspace(-1, 1, 20, dtype=np.float32)}
    check_compiled(counted(body, [tf.ones([1, 20])], 600), feeds)


def test_products_of_integers() -> None:
    m = tf.constant(np.arange(9, dtype=np.int32).reshape(3, 3) - 4)
    check_compiled(counted(lambda x: [tf.matmul(x, m) * 7 - x], [tf.ones([1, 3], tf.int32)], 600))


@pytest.mark.parametrize("op", [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions(op: Any, axis: int | None, dtype: Any) -> None:
    start = tf.constant(matrix(7, 6, dtype))

    def body(x: Any, total: Any) -> Any:
        return x * 0.999 + 0.001, total * 0.5 + op(x * x, axis)

    total = tf.zeros([] if axis is None else [[6], [7]][axis], dtype)
    check_compiled(counted(body, [start, total], 600))


def test_conjugate_gradients() -> None:
    m = matrix(24, 24)
    a = tf.placeholder(tf.float32, [24, 24])
    b = tf.placeholder(tf.float32, [24, 1])

    def body(i: Any, x: Any, r: Any, p: Any, rr: Any) -> Any:
        ap = tf.matmul(a, p)
        alpha = rr / tf.reduce_sum(p * ap)
        x, r = x + alpha * p, r - alpha * ap
        new = tf.reduce_sum(r * r) + 1e-9
        return i + 1, x, r, r + (new / rr) * p, new

    loop = tf.while_loop(
        lambda i, x, r, p, rr: i < 400, body, (0, tf.zeros([24, 1]), b, b, tf.reduce_sum(b * b)))[1:]  # fmt: skip
    check_compiled(loop, {a: m @ m.T + np.eye(24, dtype=np.float32), b: matrix(24, 1, seed=3)})


def test_a_product_in_a_branch_is_left_to_the_nodes() -> None:
    m = tf.constant(matrix(8, 8))
    body = lambda x, k: (tf.cond(k % 3 > 0, lambda: tf.tanh(tf.matmul(x, m)), lambda: x + 1.0), k + 1)  # noqa: E731
    check_same_bits(counted(body, [tf.ones([1, 8]), 0], 600))


def test_operands_that_do_not_fit_are_an_error_of_the_node() -> None:
    m = tf.placeholder(tf.float32, None)
    loop = tf.while_loop(
        lambda i, x: i < 600, lambda i, x: (i + 1, tf.matmul(x, m, name="product")), (0, tf.ones([1, 4])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)))  # fmt: skip
    with tf.Session() as session:
        session.run(loop, {m: matrix(4, 4)})
        for wrong in (matrix(5, 4), np.ones(4, np.float32)):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"matrix|ndims|Matrix") as error:
                session.run(loop, {m: wrong})
            assert error.value.op.name.endswith("product")
        assert session.run(loop, {m: np.zeros([4, 4], np.float32)})[1].shape == (1, 4)


def test_a_long_loop_of_products_can_time_out() -> None:
    m = tf.constant(matrix(64, 64))
    n = tf.placeholder(tf.int64, [])
    start = (tf.constant(0, tf.int64), tf.ones([1, 64]))
    loop = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.tanh(tf.matmul(x, m))), start)
    with tf.Session() as session:
        session.run(loop, {n: 1000})
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(loop, {n: 1 << 60}, options=tf.RunOptions(timeout_in_ms=100))
