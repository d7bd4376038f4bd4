"""The mixed-precision pass: what is lowered, what is not, and where casts stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.mixed_precision import CAST_MARK, lower_precision
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import StepGraph


def lowered(*fetches: Any, feeds: Any = (), targets: Any = (), supports: Any = None) -> StepGraph:
    graph = prune(list(feeds), list(fetches), list(targets))
    return lower_precision(graph, tf.bfloat16, supports or (lambda op, attr, dtype: True))


def in_sixteen_bits(graph: StepGraph) -> set[str]:
    return {node.name for node in graph.nodes.values() if node.op != "Cast" and tf.bfloat16 in node.output_dtypes}


def casts(graph: StepGraph) -> list[str]:
    return sorted(name for name in graph.nodes if CAST_MARK in name)


def check(graph: StepGraph) -> None:
    """Every edge has the type that its reader expects, and comes before it."""
    seen: set[str] = set()
    for node in graph.nodes.values():
        for (source, output), kind in zip(node.inputs, node.input_dtypes, strict=True):
            assert graph.nodes[source].output_dtypes[output] is kind, (node.name, source)
            assert source in seen or node.op == "Merge"
        seen.add(node.name)


def test_products_are_lowered_with_what_lies_between_them() -> None:
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    w1, w2 = tf.get_variable("w1", [8, 8]), tf.get_variable("w2", [8, 2])
    b = tf.get_variable("b", [8])
    h = tf.matmul(x, w1, name="first")
    h = tf.nn.relu(tf.nn.bias_add(h, b, name="bias"), name="relu")
    y = tf.matmul(tf.reshape(h, [4, 8], name="shaped"), w2, name="second")
    loss = tf.reduce_sum(tf.exp(y, name="exp"), name="sum")
    graph = lowered(loss)
    check(graph)
    assert in_sixteen_bits(graph) == {"first", "bias", "relu", "shaped", "second"}
    # x, the three variables, and the result.
    assert len(casts(graph)) == 5
    assert graph.nodes["exp"].input_dtypes == (tf.float32,)


def test_a_step_without_products_stays_as_it_is() -> None:
    x = tf.placeholder(tf.float32, [4])
    graph = prune([], [tf.nn.relu(x) + 1.0], [])
    assert lower_precision(graph, tf.bfloat16, lambda op, attr, dtype: True) is graph


def test_a_fetched_tensor_keeps_its_type() -> None:
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    graph = lowered(tf.matmul(x, x, name="product"))
    check(graph)
    assert casts(graph) == [f"product{CAST_MARK}0", f"x{CAST_MARK}0"]
    name, output = graph.fetches[0]
    assert graph.nodes[name].output_dtypes[output] is tf.float32


def test_a_cast_is_shared() -> None:
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    graph = lowered(*[tf.matmul(x, x, name=f"p{i}", transpose_a=bool(i)) for i in range(2)])
    check(graph)
    assert sum(name.startswith("x") for name in casts(graph)) == 1


def test_an_addition_of_something_wide_is_wide() -> None:
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    graph = lowered(tf.add(tf.matmul(x, x), tf.exp(x), name="sum"))
    check(graph)
    assert graph.nodes["sum"].output_dtypes == (tf.float32,)


def test_ops_without_a_kernel_of_16_bits_are_not_lowered() -> None:
    x = tf.placeholder(tf.float32, [2, 2])
    y = tf.nn.relu(tf.matmul(x, x, name="product"), name="relu")
    graph = lowered(y, supports=lambda op, attr, dtype: op != "Relu")
    check(graph)
    assert in_sixteen_bits(graph) == {"product"}


def test_doubles_integers_and_updates_stay() -> None:
    a = tf.placeholder(tf.float64, [2, 2])
    i = tf.placeholder(tf.int32, [2, 2])
    w = tf.get_variable("w", [2, 2])
    x = tf.placeholder(tf.float32, [2, 2])
    update = w.assign(tf.matmul(x, x, name="product")).op
    graph = lowered(tf.matmul(a, a), tf.matmul(i, i), targets=[update])
    check(graph)
    assert in_sixteen_bits(graph) == {"product"}
    assert graph.nodes[update.name].input_dtypes == (tf.resource, tf.float32)


def test_shapes_are_taken_of_narrow_tensors() -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    graph = lowered(tf.shape(tf.matmul(x, x, name="product"), name="shape"))
    check(graph)
    assert casts(graph) == [f"x{CAST_MARK}0"]
    assert graph.nodes["shape"].output_dtypes == (tf.int32,)


def test_loops_and_conditionals_carry_wide_values() -> None:
    x = tf.placeholder(tf.float32, [2, 2])
    _, y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(tf.matmul(v, x))), (0, x))
    z = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.matmul(y, y), lambda: y)
    graph = lowered(z)
    check(graph)
    for node in graph.nodes.values():
        if node.op in ("Enter", "Merge", "Switch", "NextIteration", "Exit"):
            assert tf.bfloat16 not in node.output_dtypes
    assert any(node.op == "MatMul" for node in graph.nodes.values() if node.name in in_sixteen_bits(graph))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_results_come_out_nearly_the_same(dtype: str) -> None:
    rng = np.random.default_rng(3)
    data = rng.normal(size=(5, 8)).astype(np.float32)
    x = tf.placeholder(tf.float32, [None, 8])
    w = tf.get_variable("w", initializer=rng.normal(size=(8, 8)).astype(np.float32))
    _, y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(tf.matmul(v, w))), (0, x))
    loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(y, w))))
    (grad,) = tf.gradients(loss, w)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        exact = sess.run([loss, grad], {x: data})
        tf.train.experimental.enable_mixed_precision_graph_rewrite(tf.train.AdamOptimizer(), dtype=dtype)
        with tf.Session() as other:
            w.load(sess.run(w), other)
            mixed = other.run([loss, grad], {x: data})
    assert mixed[1].dtype == np.float32
    np.testing.assert_allclose(mixed[0], exact[0], 0.1)
    np.testing.assert_allclose(mixed[1], exact[1], 0.2, 0.2 * np.abs(exact[1]).max())
    assert not np.array_equal(mixed[0], exact[0])


def test_a_session_can_be_asked_for_it() -> None:
    x = tf.placeholder(tf.float32, [2, 2])
    y = tf.matmul(x, x)
    value = np.full((2, 2), 1.001, np.float32)
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = 1
    with tf.Session(config=config) as sess:
        np.testing.assert_array_equal(sess.run(y, {x: value}), np.full((2, 2), 2.0, np.float32))
    with tf.Session() as sess:
        assert sess.run(y, {x: value})[0, 0] > 2.001
