"""Graphs written by TensorFlow load here, and compute what TensorFlow computed."""

import ast
from pathlib import Path
from typing import Any

import pytest
from tests.data import golden_graphs as golden

import thalweg as tf


@pytest.mark.parametrize("name", golden.NAMES)
def test_a_graph_of_tensorflow_computes_the_same_here(name: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(golden.load(name), name="")
        for step in golden.steps(name):
            values = golden.run(session, step)
            for tensor, expected in step.fetches.items():
                golden.assert_same(values[tensor], expected, tensor)


def same_attr(a: Any, b: Any) -> bool:
    """Whether two AttrValues say the same: a constant of equal elements may be written in full or as one of them."""
    if a.HasField("tensor") and b.HasField("tensor"):
        x, y = tf.make_ndarray(a.tensor), tf.make_ndarray(b.tensor)
        return x.dtype == y.dtype and x.shape == y.shape and bool((x == y).all())
    return bool(a == b)


@pytest.mark.parametrize("name", golden.NAMES)
def test_a_graph_survives_import_and_export(name: str) -> None:
    original = golden.load(name)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(original, name="")
    written = graph.as_graph_def()
    with tf.Graph().as_default() as again:
        tf.import_graph_def(written, name="")
    assert {node.name: node for node in again.as_graph_def().node} == {node.name: node for node in written.node}
    # Nothing that TensorFlow wrote is lost or changed, but attributes that this build does not have and that are off.
    rewritten = {node.name: node for node in written.node}
    assert len(rewritten) == len(original.node)
    for node in original.node:
        other = rewritten[node.name]
        assert (other.op, list(other.input), other.device) == (node.op, list(node.input), node.device)
        for key, value in node.attr.items():
            if key in graph.get_operation_by_name(node.name).op_def.attrs:
                assert same_attr(other.attr[key], value), (node.name, key)


@pytest.mark.parametrize("name", golden.NAMES)
def test_a_graph_under_a_prefix_computes_the_same(name: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(golden.load(name), name="part")
        for step in golden.steps(name):
            values = golden.run(session, step, "part/")
            for tensor, expected in step.fetches.items():
                golden.assert_same(values[tensor], expected, tensor)


def test_every_graph_of_the_generator_is_here() -> None:
    tree = ast.parse((Path(golden.FOLDER).parent / "make_graph_defs.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    made = [f.name for f in functions if any(getattr(mark, "id", "") == "graph" for mark in f.decorator_list)]
    assert sorted(made) == golden.NAMES
