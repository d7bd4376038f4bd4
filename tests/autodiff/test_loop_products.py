"""The gradient of a matrix that a loop multiplies with: one product of all iterations' factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

W = np.random.RandomState(0).randn(5, 5) / 4


def network(w: Any, steps: Any, rows: int, known: bool) -> Any:
    h = tf.ones([rows, 5], tf.float64)
    if not known:
        h = tf.placeholder_with_default(h, [None, 5])
    return tf.while_loop(lambda i, h: i < steps, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, h])[1]


@pytest.mark.parametrize(("rows", "known"), [(2, True), (2, False), (50, True)])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_loop_product_equals_the_sum_over_the_iterations(rows: int, known: bool, steps: int) -> None:
    w = tf.constant(W)
    loop = tf.gradients(tf.reduce_sum(network(w, steps, rows, known)), w)[0]
    h = tf.ones([rows, 5], tf.float64)
    for _ in range(steps):
        h = tf.tanh(tf.matmul(h, w))
    with tf.Session() as session:
        expected = session.run(tf.gradients(tf.reduce_sum(h) + 0 * tf.reduce_sum(w), w)[0])
        got = session.run(loop) if loop is not None else np.zeros_like(W)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-12)


def test_small_factors_are_collected_and_large_ones_added_up() -> None:
    w = tf.constant(W)
    for rows, collected in ((2, True), (50, False)):
        before = len(tf.get_default_graph().get_operations())
        tf.gradients(tf.reduce_sum(network(w, 3, rows, True)), w)
        types = [op.type for op in tf.get_default_graph().get_operations()[before:]]
        assert ("TensorArrayConcatV3" in types) is collected


def test_a_loop_product_has_a_gradient_itself() -> None:
    w = tf.constant(W)
    first = tf.gradients(tf.reduce_sum(network(w, 3, 2, True)), w)[0]
    with tf.Session():
        y = tf.reduce_sum(first * first)
        assert tf.test.compute_gradient_error(w, W.shape, y, [], x_init_value=W, delta=1e-5) < 1e-6
