"""Lowering of loops: which loops become one node, which do not, and that the results are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.lower_loops import lower_loops
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import StepGraph


def lowered(*fetches: Any, may_lower: Callable[[Any], bool] = lambda node: True) -> StepGraph:
    return lower_loops(prune([], list(fetches), []), may_lower)


def loop_ops(graph: StepGraph) -> list[str]:
    return sorted(n.op for n in graph.nodes.values() if n.op in ("_Loop", "Enter", "Exit", "Merge", "Switch"))


def plain_session() -> tf.Session:
    """A session that runs loops with frames and tokens."""
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    return tf.Session(config=config)


def check_same(fetches: Any, feeds: Any = None) -> Any:
    """Runs with and without lowering; returns the value."""
    with plain_session() as slow, tf.Session() as fast:
        expected, actual = slow.run(fetches, feeds), fast.run(fetches, feeds)
        again = fast.run(fetches, feeds)
    for want, got, second in zip(
        tf.nest.flatten(expected), tf.nest.flatten(actual), tf.nest.flatten(again), strict=True
    ):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(second, want)
    return actual


def test_a_simple_loop_becomes_one_node() -> None:
    i, x = tf.while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, x * 2.0), (0, 1.0))
    graph = lowered(i, x)
    assert loop_ops(graph) == ["_Loop"]
    assert check_same([i, x]) == [10, 1024.0]


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
def test_any_number_of_iterations_gives_the_same_result(trips: int) -> None:
    n = tf.placeholder(tf.int32, [])
    result = tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), (0, 0, 1))
    assert check_same(result, {n: trips})[0] == trips


def test_variables_that_are_swapped_or_passed_on_keep_their_values() -> None:
    loop = tf.while_loop(lambda i, a, b, c: i < 3, lambda i, a, b, c: (i + 1, b, a, c), (0, 1.0, 2.0, 5.0))
    assert check_same(loop) == (3, 2.0, 1.0, 5.0)


def test_captured_values_and_large_tensors_work() -> None:
    weights = tf.constant(np.random.default_rng(0).normal(size=(50, 50)).astype(np.float32)) * 0.1
    start = tf.constant(np.ones((2, 50), np.float32))
    _, x = tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, tf.tanh(tf.matmul(x, weights) + x)), (0, start))
    assert loop_ops(lowered(x)) == ["_Loop"]
    check_same(x)


def test_nested_loops_are_lowered_from_the_inside() -> None:
    def outer(i: Any, total: Any) -> Any:
        _, inner = tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + j), (0, total))
        return i + 1, inner

    loop = tf.while_loop(lambda i, t: i < 6, outer, (0, 0))
    assert loop_ops(lowered(*loop)) == ["_Loop"]
    assert check_same(loop) == (6, sum(j for i in range(6) for j in range(i)))


def test_a_loop_with_a_conditional_becomes_one_node() -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.cond(i % 2 < 1, lambda: x + 1.0, lambda: x * 2.0)

    loop = tf.while_loop(lambda i, x: i < 5, body, (0, 1.0))
    assert loop_ops(lowered(*loop)) == ["_Loop"]
    check_same(loop)


def test_a_loop_inside_a_conditional_is_lowered_and_dead_with_its_branch() -> None:
    pred = tf.placeholder(tf.bool, [])

    def branch() -> Any:
        return tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x + 1.0), (0, 0.0))[1]

    result = tf.cond(pred, branch, lambda: -1.0)
    with tf.Session() as session:
        assert session.run(result, {pred: True}) == 4.0
        assert session.run(result, {pred: False}) == -1.0


def test_a_loop_with_a_node_that_may_not_be_lowered_keeps_its_frames() -> None:
    loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    assert "_Loop" not in loop_ops(lowered(loop, may_lower=lambda node: node.op != "AddV2"))


def test_an_error_inside_a_lowered_loop_names_the_node() -> None:
    loop = tf.while_loop(lambda i: i < 3, lambda i: tf.floordiv(i, tf.constant(0) * i, name="divide"), [0])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as error:
        session.run(loop)
    assert error.value.op.name.endswith("divide")


def test_control_dependencies_inside_the_body_are_kept() -> None:
    v = tf.Variable(0)

    def body(i: Any) -> Any:
        with tf.control_dependencies([v.assign_add(2)]):
            return i + 1

    loop = tf.while_loop(lambda i: i < 5, body, [0])
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(loop) == 5
        assert session.run(v) == 10


def test_something_may_wait_for_the_end_of_the_loop() -> None:
    v = tf.Variable(0)
    loop = tf.while_loop(lambda i: i < 5, lambda i: i + 1, [0])
    with tf.control_dependencies([loop]):
        after = v.assign_add(1)
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run([after, loop]) == [1, 5]
