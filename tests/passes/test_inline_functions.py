"""Inlining: a call leaves no trace in the step, except where it must stay a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply
from thalweg.passes.inline_functions import inline_functions
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import StepGraph
from thalweg.python.framework import function
from thalweg.runtime.trace import traced_nodes

FLOAT = tf.TensorSpec(None, tf.float32)


def step(*fetches: tf.Tensor, feeds: Any = (), inline: bool = True) -> StepGraph:
    return inline_functions(prune(list(feeds), list(fetches), []), tf.get_default_graph()._functions, inline)


def ops(graph: StepGraph) -> list[str]:
    return sorted(node.op for node in graph.nodes.values())


def test_the_nodes_of_a_body_take_the_place_of_its_call() -> None:
    @function.Defun(tf.float32, func_name="F")
    def f(x: Any) -> Any:
        return tf.tanh(x) * 2.0

    x = tf.placeholder(tf.float32, [2])
    graph = step(f(x, name="call"), feeds=[x])
    assert ops(graph) == ["Const", "Mul", "Tanh", "_Arg"]
    assert set(graph.nodes) == {"_arg/0", "call/Tanh", "call/mul", "call/mul/y"}
    assert graph.fetches == (("call/mul", 0),)


def test_nodes_of_a_body_without_readers_are_not_run() -> None:
    f = trace(lambda x: (tf.tanh(x), tf.exp(x)), [FLOAT])
    x = tf.placeholder(tf.float32)
    assert ops(step(apply("PartitionedCall", [x], f=f, Tout=f.output_dtypes)[1], feeds=[x])) == ["Exp", "_Arg"]


def test_shapes_of_the_call_are_known_in_the_body() -> None:
    @function.Defun(tf.float32, func_name="F")
    def f(x: Any) -> Any:
        return tf.tanh(x)

    x = tf.placeholder(tf.float32, [2, 3])
    graph = step(f(x), feeds=[x])
    assert graph.shape(graph.fetches[0]).as_list() == [2, 3]


def test_fusion_sees_through_a_call() -> None:
    @function.Defun(tf.float32, func_name="F")
    def f(x: Any) -> Any:
        return tf.tanh(x) + tf.exp(x)

    x = tf.placeholder(tf.float32, [4])
    with tf.Session() as session:
        called, written = f(x) * x, (tf.tanh(x) + tf.exp(x)) * x
        compiled = [session._resolve(y, {x: np.zeros(4)})[3].compiled for y in (called, written)]
        assert compiled[0].num_nodes == compiled[1].num_nodes
        np.testing.assert_array_equal(*session.run([called, written], {x: np.arange(4)}))


def test_a_gradient_computes_nothing_twice() -> None:
    @function.Defun(tf.float32, func_name="F")
    def f(x: Any) -> Any:
        return tf.tanh(x) * x

    x = tf.placeholder(tf.float32, [4])
    y = f(x)
    dy = tf.gradients(y, x)[0]
    with tf.Session() as session:
        nodes = traced_nodes(session._resolve([y, dy], {x: np.zeros(4)})[3].compiled)
    assert [op for node in nodes for op in node.member_ops or [node.op]].count("Tanh") == 1


@pytest.mark.parametrize("where", ["call", "function", "session"])
def test_a_call_that_must_stay_stays(where: str) -> None:
    options = {"noinline": True} if where == "function" else {}

    @function.Defun(tf.float32, func_name="F", **options)
    def f(x: Any) -> Any:
        return x + 1.0

    x = tf.placeholder(tf.float32)
    y = f(x, noinline=True) if where == "call" else f(x)
    assert ops(step(y, feeds=[x], inline=where != "session")) == ["PartitionedCall", "_Arg"]


def test_effects_of_a_body_are_targets_of_the_step() -> None:
    v = tf.Variable(1.0)
    f = trace(lambda x: (v.assign_add(x), x)[1], [FLOAT])
    graph = step(apply("StatefulPartitionedCall", [2.0, *f.captures], f=f, Tout=[tf.float32])[0])
    assert [graph.nodes[name].op for name in graph.targets] == ["AssignAddVariableOp"]


def test_a_name_that_is_taken_gets_a_number() -> None:
    f = trace(lambda x: tf.identity(x, name="y"), [FLOAT])
    x = tf.placeholder(tf.float32)
    called = apply("PartitionedCall", [x], f=f, Tout=[tf.float32], name="call")[0]
    with tf.name_scope("call/"):
        other = tf.negative(x, name="y")
    graph = step(called, other, feeds=[x])
    assert {name: node.op for name, node in graph.nodes.items()} == {
        "_arg/0": "_Arg", "call/y_1": "Identity", "call/y": "Neg",
    }  # fmt: skip


def test_an_imported_loop_with_a_call_in_it_runs() -> None:
    @function.Defun(tf.float32, func_name="F")
    def f(x: Any) -> Any:
        return x * tf.constant(3.0) + tf.random_uniform([]) * 0.0

    x = tf.placeholder(tf.float32, [], name="x")
    looped = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.reshape(f(v), [])), (0, x))[1]
    tf.cond(x > 0, lambda: f(looped), lambda: x, name="cond")
    tf.identity(looped, name="looped")
    fetch = tf.get_default_graph().get_operations()[-1].name
    with tf.Graph().as_default(), tf.Session() as session:
        graph_def = x.graph.as_graph_def()
        tf.import_graph_def(graph_def, name="")
        assert session.run([f"{fetch}:0", "cond/Merge:0"], {"x:0": 1.0}) == [27.0, 81.0]
        assert session.run("cond/Merge:0", {"x:0": -1.0}) == -1.0
