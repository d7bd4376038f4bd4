"""Products that share their weights, in loops above all: packed once, with the same results as without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.pack_weights import pack_weights
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import Node, StepGraph

RANDOM = np.random.default_rng(3)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32) * np.float32(0.1)


def plain_session() -> tf.Session:
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    return tf.Session(config=config)


def packed(graph: StepGraph) -> list[Node]:
    return [node for node in graph.nodes.values() if "_packed" in node.attrs]


def recurrence(w: Any, steps: int = 5, rows: int = 16) -> Any:
    """Some times h = tanh(h w), in a loop."""
    start = tf.constant(array(rows, 64))
    return tf.while_loop(lambda i, h: i < steps, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), (0, start))[1]


def test_invariant_weights_are_packed_outside_of_the_loop() -> None:
    graph = pack_weights(prune([], [recurrence(tf.constant(array(64, 64)))], []))
    (product,) = packed(graph)
    enter = graph.nodes[product.inputs[1][0]]
    assert enter.op == "Enter"
    assert graph.nodes[enter.inputs[0][0]].op == "_PackWeights"
    assert product.attrs["_packed"] == [64, 64]


@pytest.mark.parametrize(("uses", "expected"), [(2, 0), (3, 3)])
def test_weights_are_packed_where_several_products_share_them(uses: int, expected: int) -> None:
    w = tf.constant(array(64, 80))
    products = [tf.matmul(tf.constant(array(8, 80)), w, transpose_b=True) for _ in range(uses)]
    graph = pack_weights(prune([], products, []))
    assert len(packed(graph)) == expected
    assert sum(node.op == "_PackWeights" for node in graph.nodes.values()) == (expected > 0)


def test_products_of_many_or_unknown_rows_are_left_alone() -> None:
    w = tf.constant(array(64, 64))
    rows = tf.placeholder(tf.float32, [None, 64])
    products = [tf.matmul(tf.constant(array(200, 64)), w) for _ in range(3)] + [tf.matmul(rows, w) for _ in range(3)]
    assert not packed(pack_weights(prune([rows], products, [])))


@pytest.mark.parametrize("rows", [1, 5, 16, 33])
def test_results_and_gradients_are_those_of_the_plain_step(rows: int) -> None:
    w = tf.Variable(array(64, 64), use_resource=True)
    result = recurrence(w, rows=rows)
    unrolled = tf.constant(array(rows, 64))
    for _ in range(4):
        unrolled = tf.nn.relu(tf.matmul(unrolled, w, transpose_b=True) + unrolled)
    loss = tf.reduce_sum(tf.square(result)) + tf.reduce_sum(tf.square(unrolled))
    fetches = [result, unrolled, tf.gradients(loss, w)[0]]
    initial = array(64, 64)
    with plain_session() as plain, tf.Session() as fast:
        plain.run(w.assign(initial))
        fast.run(w.assign(initial))
        for want, got in zip(plain.run(fetches), fast.run(fetches), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def test_training_sees_each_new_value_of_the_weights() -> None:
    w = tf.Variable(array(64, 64), use_resource=True)
    result = recurrence(w)
    update = w.assign(w * 0.5)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            value, got = sess.run([w, result])
            h = result.op.graph.get_tensor_by_name("Const:0")
            want = sess.run(h)
            for _ in range(5):
                want = np.tanh(want @ value)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
            sess.run(update)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([8, 32], "not packed from"),
        ([8, 1 << 60], "packed weights"),
        ([1 << 61, 8], "packed weights"),
        ([8, 1 << 31], "not packed from"),
        ([8, -1], "packed weights"),
        ([8], "packed weights"),
    ],
)
def test_packed_sizes_that_do_not_fit_are_refused(sizes: list[int], message: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        a, b = tf.placeholder(tf.float32, [4, 8], name="a"), tf.placeholder(tf.float32, [8, None], name="b")
        product = tf.matmul(a, b)
    definition = graph.as_graph_def()
    node = next(node for node in definition.node if node.op == "MatMul")
    node.attr["_packed"].list.i.extend(sizes)
    with tf.Graph().as_default(), tf.Session() as sess:
        (out,) = tf.import_graph_def(definition, return_elements=[product.name], name="")
        feeds = {"a:0": array(4, 8), "b:0": array(8, 3)}
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            sess.run(out, feeds)
