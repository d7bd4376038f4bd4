"""Gates between the gradients of one operation: gone over several devices, kept on one."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from thalweg.passes.drop_gates import drop_gates
from thalweg.passes.prune import prune


def gated() -> list[Any]:
    """The gradients of a product by both factors, neither of which is to be had before the other."""
    x, y = tf.ones([2, 2]), tf.zeros([2, 2])
    return tf.gradients(tf.matmul(x, y, name="product"), [x, y], gate_gradients=True)


def waits(graph: Any) -> dict[str, tuple[str, ...]]:
    return {name: node.controls for name, node in graph.nodes.items() if node.controls}


def test_gradients_do_not_wait_for_each_other() -> None:
    first, second = gated()
    step = prune([], [first, second], [])
    assert len(waits(step)) == 3  # The gate, and an Identity of each.
    assert waits(drop_gates(step)) == {}
    both, one = (drop_gates(prune([], list(wanted), [])) for wanted in ([first, second], [first]))
    assert len([node for node in both.nodes.values() if node.op == "MatMul"]) == 2
    assert len([node for node in one.nodes.values() if node.op == "MatMul"]) == 1


def test_control_edges_that_are_no_gates_stay() -> None:
    x = tf.random_uniform([2], seed=1)
    counter = tf.Variable(0, use_resource=True)
    own = tf.tuple([x * 2.0, counter.assign_add(1)])[0]
    with tf.control_dependencies([counter.assign_add(1)]):
        gradient = gated()[0]
    for tensor in (own, gradient):
        left = drop_gates(prune([], [tensor], []))
        assert any(node.op == "AssignAddVariableOp" for node in left.nodes.values())
    assert drop_gates(prune([], [own], [])).nodes[own.op.name].controls


def test_a_gradient_with_an_effect_still_has_it() -> None:
    counter = tf.Variable(0, use_resource=True)

    @tf.custom_gradient
    def twice(a: Any, b: Any) -> Any:
        def grad(dy: Any) -> Any:
            with tf.control_dependencies([counter.assign_add(1)]):
                return 2.0 * dy, tf.identity(3.0 * dy)

        return a + b, grad

    a, b = (tf.random_uniform([2], seed=seed) for seed in (1, 2))
    first = tf.gradients(twice(a, b), [a, b], gate_gradients=True)[0]
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        sess.run(counter.initializer)
        np.testing.assert_array_equal(sess.run(first), [2, 2])
        assert sess.run(counter) == 1


def test_training_gives_the_same_values_over_devices() -> None:
    x = tf.placeholder(tf.float32, [4, 3])
    w = tf.Variable(np.ones([3, 3], np.float32), use_resource=True)
    loss = tf.reduce_sum(tf.tanh(tf.matmul(tf.matmul(x, w), w)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    fed = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    values = []
    for count in (1, 2):
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": count}, intra_op_parallelism_threads=1)) as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                sess.run(train, {x: fed})
            values.append(sess.run(w))
    assert np.array_equal(*values)
