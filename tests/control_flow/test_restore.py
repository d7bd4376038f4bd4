"""Contexts through protobufs: gradients work again in a graph that lost them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thalweg as tf
from thalweg.control_flow.context_messages import messages
from thalweg.control_flow.restore import restore_contexts


def forget_contexts(graph: Any) -> tuple[list[Any], list[Any]]:
    """Drops the contexts, as an import of the GraphDef alone would; returns them as they would come over the wire."""

    def sent(kind: str, collection: str) -> list[Any]:
        protos = [context.to_proto() for context in graph.get_collection(collection)]
        return [messages()[kind].FromString(proto.SerializeToString()) for proto in protos]

    loops, branches = sent("WhileContextDef", "while_context"), sent("CondContextDef", "cond_context")
    graph.clear_collection("while_context")
    graph.clear_collection("cond_context")
    for op in graph.get_operations():
        op._control_flow_context = None
        op._python_data = None
    return loops, branches


def test_gradients_through_restored_loops_and_conditionals() -> None:
    x, n = tf.placeholder(tf.float64, [], name="x"), tf.placeholder(tf.int32, [])

    def step(i: Any, y: Any) -> Any:
        inner = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * x), (0, y))[1]
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(inner), lambda: inner + x * y)

    y = tf.while_loop(lambda i, y: i < n, step, (0, x))[1]
    z = tf.cond(x < 1.0, lambda: y * y, lambda: tf.constant(0.0, tf.float64))
    graph = tf.get_default_graph()
    expected = tf.gradients(z, x)[0]
    with tf.Session() as s:
        want = [s.run(expected, {x: 0.6, n: k}) for k in range(5)]

    loops, branches = forget_contexts(graph)
    restore_contexts(graph, loops, branches)
    (first,) = tf.gradients(z, x)
    with tf.Session() as s:
        assert [s.run(first, {x: 0.6, n: k}) for k in range(5)] == want


def test_an_imported_meta_graph_can_be_differentiated() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float64, [], name="x")
        y = tf.while_loop(
            lambda i, y: i < 4,
            lambda i, y: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(y * x), lambda: y + x)),
            (0, x),
        )[1]
        tf.identity(y, name="y")
        meta_graph = tf.train.export_meta_graph(graph=graph)
        expected = tf.gradients(y, x)[0]
        with tf.Session() as s:
            want = s.run(expected, {x: 0.3})
    for scope in (None, "imported"):
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(meta_graph, import_scope=scope)
            prefix = f"{scope}/" if scope else ""
            x, y = graph.get_tensor_by_name(f"{prefix}x:0"), graph.get_tensor_by_name(f"{prefix}y:0")
            (grad,) = tf.gradients(y, x)
            with tf.Session() as s:
                assert s.run(grad, {x: 0.3}) == want


def test_two_imports_of_one_loop_do_not_share_a_frame() -> None:
    with tf.Graph().as_default() as graph:
        n = tf.placeholder(tf.int32, [], name="n")
        tf.identity(tf.while_loop(lambda i: i < n, lambda i: i + 1, [0]), name="y")
        graph_def = graph.as_graph_def()
    limits, results = zip(
        *(tf.import_graph_def(graph_def, name=name, return_elements=["n:0", "y:0"]) for name in ("a", "b")), strict=True
    )
    with tf.Session() as s:
        assert s.run(results, dict(zip(limits, (3, 5), strict=True))) == (3, 5)


@pytest.mark.parametrize("known_shape", [True, False])
def test_a_branch_of_a_graph_without_contexts_can_be_differentiated(known_shape: bool) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2] if known_shape else None, name="x")
        y = x * x
        tf.identity(tf.cond(tf.placeholder(tf.bool, [], name="p"), lambda: y - x, lambda: y * 3.0), name="z")
    with tf.Graph().as_default(), tf.Session() as session:
        x, p, z = tf.import_graph_def(graph.as_graph_def(), return_elements=["x:0", "p:0", "z:0"])
        grad = tf.gradients(z, x)[0]
        for value, expected in ((True, [1.0, 3.0]), (False, [6.0, 12.0])):
            assert session.run(grad, {x: [1.0, 2.0], p: value}).tolist() == expected


def test_the_name_of_a_frame_may_be_any_bytes() -> None:
    with tf.Graph().as_default() as graph:
        tf.identity(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]), name="end")
        graph_def = graph.as_graph_def()
    for node in graph_def.node:
        if node.op == "Enter":
            node.attr["frame_name"].s = b"\xff\x00"
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        assert session.run("end:0") == 3


def test_a_graph_that_trains_in_tensorflow_can_be_differentiated_again() -> None:
    """Loops that TensorFlow has differentiated have a counter more, and stacks: they are no obstacle."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(str(Path(__file__).parents[1] / "data" / "trained_loop.meta"))
        (w,) = tf.trainable_variables()
        y, z = (graph.get_tensor_by_name(name) for name in ("y:0", "z:0"))
        (gradient,) = tf.gradients(y + z, w)
        session.run(tf.global_variables_initializer())
        for x in (0.5, 1.5):
            found, expected = session.run([gradient, "gradient:0"], {"x:0": x})
            assert found == pytest.approx(expected, rel=1e-6) and found != 0.0
