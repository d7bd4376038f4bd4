"""Quantized training of a GraphDef, and tensors that can be evaluated a limited number of times."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


def test_products_are_rounded_to_few_bits() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        tf.matmul(x, tf.constant([[0.1, -1.0], [0.5, 0.24], [0.9, 0.3]]), name="y")
    rewritten = tf.train.do_quantize_training_on_graphdef(graph.as_graph_def(), 3)
    assert sum(node.op == "QuantizeAndDequantizeV2" for node in rewritten.node) == 2
    assert graph.as_graph_def() != rewritten
    with tf.Graph().as_default():
        x, y = tf.import_graph_def(rewritten, return_elements=["x:0", "y:0"], name="")
        with tf.Session() as session:
            value = session.run(y, {x: np.eye(2, 3, dtype=np.float32)})
        (slope,) = tf.gradients(y, x)
        assert slope is not None
    # Three bits with a sign, the largest value 0.9 being 3 steps: multiples of 0.3.
    np.testing.assert_allclose(value, [[0.0, -0.9], [0.6, 0.3]], atol=1e-6)


@pytest.mark.parametrize("bits", [0, 1, 64])
def test_impossible_numbers_of_bits_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="num_bits"):
        tf.train.do_quantize_training_on_graphdef(tf.GraphDef(), bits)


def test_limit_epochs_counts_down_to_an_error() -> None:
    limited = tf.train.limit_epochs(tf.constant([1, 2]), num_epochs=3)
    assert tf.local_variables()[0].op.name == "limit_epochs/epochs"
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for _ in range(3):
            np.testing.assert_array_equal(session.run(limited), [1, 2])
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(limited)


def test_limit_epochs_without_a_limit_and_with_a_bad_one() -> None:
    x = tf.constant(1.0)
    assert tf.train.limit_epochs(x) is x
    with pytest.raises(ValueError, match="num_epochs"):
        tf.train.limit_epochs(x, num_epochs=0)
