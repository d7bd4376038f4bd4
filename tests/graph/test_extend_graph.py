"""extend_graph: nodes that come to a graph later, under their own names."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf
from thalweg.graph.formats.extend_graph import extend_graph


def _later() -> tuple[Any, Any]:
    """A graph in two GraphDefs, the second of which reads, waits for and is colocated with nodes of the first."""
    with tf.Graph().as_default() as graph:
        a = tf.constant(2.0, name="a")
        parts = tf.split(tf.constant([3.0, 4.0]), 2, name="parts")
        wait = tf.no_op("wait")
        first = graph.as_graph_def()
        with tf.control_dependencies([wait]), graph.colocate_with(a.op):
            tf.add(a, parts[1], name="sum")
        return first, graph.as_graph_def(from_version=len(first.node))


def test_new_nodes_read_those_that_the_graph_has() -> None:
    first, second = _later()
    graph = tf.Graph()
    extend_graph(graph, first)
    extend_graph(graph, second)
    added = graph.get_operation_by_name("sum")
    assert [tensor.name for tensor in added.inputs] == ["a:0", "parts:1"]
    assert [op.name for op in added.control_inputs] == ["wait"]
    assert added.colocation_groups() == [b"loc:@a"]
    with tf.Session(graph=graph) as sess:
        assert sess.run("sum:0").tolist() == [6.0]


def test_a_name_that_is_taken_or_missing_changes_nothing() -> None:
    first, second = _later()
    graph = tf.Graph()
    with pytest.raises(ValueError, match="Unknown input node 'a'"):
        extend_graph(graph, second)
    extend_graph(graph, first)
    with pytest.raises(ValueError, match="already exists"):
        extend_graph(graph, first)
    second.node[0].input[1] = "parts:2"
    with pytest.raises(ValueError, match="parts:2"):
        extend_graph(graph, second)
    assert len(graph.get_operations()) == len(first.node)


def test_functions_come_once() -> None:
    with tf.Graph().as_default() as whole:

        @tf.experimental.Defun(tf.float32)
        def double(x: Any) -> Any:
            return x + x

        double(1.0, name="one")
        first = whole.as_graph_def()
        double(2.0, name="two")
        second = whole.as_graph_def(from_version=len(first.node))
    graph = tf.Graph()
    extend_graph(graph, first)
    extend_graph(graph, second)  # Clients send the library each time.
    with tf.Session(graph=graph) as sess:
        assert sess.run(["one:0", "two:0"]) == [2.0, 4.0]
