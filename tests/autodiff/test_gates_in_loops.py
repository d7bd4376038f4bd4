"""Gradients in loops do not wait for each other, so that the products of all iterations can be joined."""

from __future__ import annotations

import numpy as np

import thalweg as tf


def test_an_optimizer_computes_the_gradient_of_a_loops_weights_as_one_product_after_the_loop() -> None:
    w = tf.Variable(np.eye(64, dtype=np.float32), use_resource=True)
    h = tf.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), (0, tf.ones([4, 64])))[1]
    (grad, _), = tf.train.GradientDescentOptimizer(0.1).compute_gradients(tf.reduce_sum(h))  # fmt: skip
    names = [op.name for op in w.graph.get_operations() if "while_grad" in op.name]
    assert names
    assert not [name for name in names if "group_deps" in name]
    assert grad.op.type == "MatMul"
    assert grad.op._control_flow_context is None
