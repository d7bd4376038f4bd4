"""Passes over step graphs: what they remove, what they keep, and that they change nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.fold_constants import fold_constants
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import StepGraph
from thalweg.runtime.install import evaluate


def ops(graph: StepGraph) -> list[str]:
    return sorted(node.op for node in graph.nodes.values())


def step(*fetches: Any, feeds: Any = (), targets: Any = ()) -> StepGraph:
    return prune(list(feeds), list(fetches), list(targets))


def test_prune_keeps_only_what_the_fetches_need() -> None:
    x = tf.placeholder(tf.float32)
    y = x + 1.0
    tf.tanh(y)
    assert ops(step(y)) == ["AddV2", "Const", "Placeholder"]


def test_prune_stops_at_fed_tensors() -> None:
    x = tf.placeholder(tf.float32)
    y = tf.tanh(x)
    z = y * 2.0
    graph = step(z, feeds=[y])
    assert ops(graph) == ["Const", "Mul", "_Arg"]
    assert graph.feeds[0].name == y.name


def test_prune_follows_control_inputs() -> None:
    a = tf.constant(1.0, name="a")
    with tf.control_dependencies([a]):
        b = tf.constant(2.0, name="b")
    assert set(step(b).nodes) == {"a", "b"}


def test_folding_replaces_a_constant_subgraph_by_one_constant() -> None:
    x = tf.placeholder(tf.float32)
    y = x + (tf.constant(2.0) * 3.0 + 1.0)
    graph = fold_constants(step(y), evaluate)
    assert ops(graph) == ["AddV2", "Const", "Placeholder"]
    (constant,) = [n for n in graph.nodes.values() if n.op == "Const"]
    assert constant.attrs["value"] == np.float32(7.0)


def test_folding_leaves_stateful_fed_and_failing_nodes_alone() -> None:
    random = tf.random_uniform([2])
    fed = tf.constant(1.0) + 1.0
    failing = tf.constant(1) // tf.constant(0)
    graph = step(random, fed * 2.0, failing, feeds=[fed])
    assert "RandomUniform" in ops(fold_constants(graph, evaluate))
    assert "FloorDiv" in ops(fold_constants(graph, evaluate))
    assert "_Arg" in ops(fold_constants(graph, evaluate))


def test_folding_leaves_long_work_to_the_step_which_hears_its_timeout() -> None:
    large, small = tf.constant(np.eye(3000, dtype=np.float32)), tf.constant(np.eye(3, dtype=np.float32))
    assert "MatrixDeterminant" in ops(fold_constants(step(tf.matrix_determinant(large)), evaluate))
    assert "MatrixDeterminant" not in ops(fold_constants(step(tf.matrix_determinant(small)), evaluate))
    sums = [tf.matrix_determinant(tf.constant(np.eye(600, dtype=np.float32) * i)) for i in range(1, 31)]
    left = ops(fold_constants(step(*sums), evaluate)).count("MatrixDeterminant")
    assert 0 < left < 30, "much work in many nodes is as long as much work in one"


def test_folding_does_not_store_huge_results() -> None:
    big = tf.zeros([10_000_000]) + 1.0
    assert "AddV2" in ops(fold_constants(step(big), evaluate))


def test_equal_nodes_become_one() -> None:
    x = tf.placeholder(tf.float32)
    y = tf.tanh(x) + tf.tanh(x)
    graph = merge_common_subexpressions(step(y))
    assert ops(graph) == ["AddV2", "Placeholder", "Tanh"]


def test_nodes_that_only_look_equal_stay_two() -> None:
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    r = tf.random_uniform([2]) + tf.random_uniform([2])
    c = tf.constant(0.0) + tf.constant(-0.0)
    graph = merge_common_subexpressions(step(tf.tanh(a) + tf.tanh(b), r, c))
    assert ops(graph).count("Tanh") == 2
    assert ops(graph).count("RandomUniform") == 2
    zeros = [n for n in graph.nodes.values() if n.op == "Const" and n.attrs["value"].dtype == np.float32]
    assert len(zeros) == 2


def test_identities_go_unless_something_waits_for_them() -> None:
    x = tf.placeholder(tf.float32)
    y = tf.identity(tf.identity(x)) * 2.0
    assert "Identity" not in ops(drop_identities(step(y)))
    with tf.control_dependencies([tf.constant(1.0)]):
        z = tf.identity(x)
    assert "Identity" in ops(drop_identities(step(z * 2.0)))


def test_a_pass_leaves_its_argument_as_it_was() -> None:
    x = tf.placeholder(tf.float32)
    graph = step(tf.identity(tf.tanh(x)) + tf.tanh(x) * (tf.constant(1.0) + 2.0))
    before = dict(graph.nodes)
    merge_common_subexpressions(drop_identities(fold_constants(graph, evaluate)))
    assert graph.nodes == before


def test_the_passes_do_not_change_results() -> None:
    x = tf.placeholder(tf.float32, [3])
    y = tf.tanh(x * (tf.constant(2.0) + 1.0)) + tf.tanh(tf.identity(x) * 3.0)
    value = np.array([0.1, -0.5, 2.0], np.float32)
    plain = tf.ConfigProto()
    plain.graph_options.optimizer_options.opt_level = -1
    with tf.Session(config=plain) as slow, tf.Session() as fast:
        np.testing.assert_array_equal(slow.run(y, {x: value}), fast.run(y, {x: value}))
