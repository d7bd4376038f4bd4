"""tf.graph_util: subgraphs, pruning for inference, and frozen variables."""

from typing import Any

import numpy as np
import pytest
from tests.data import golden_graphs as golden

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def names(graph_def: Any) -> list[str]:
    return [node.name for node in graph_def.node]


def test_a_sub_graph_has_what_its_nodes_need(graph: tf.Graph) -> None:
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    with tf.control_dependencies([b]):
        c = tf.identity(a, name="c")
    tf.identity(c, name="d")
    graph_def = graph.as_graph_def()
    assert names(tf.graph_util.extract_sub_graph(graph_def, ["a"])) == ["a"]
    assert names(tf.graph_util.extract_sub_graph(graph_def, ["c"])) == ["a", "b", "c"]
    assert tf.graph_util.extract_sub_graph(graph_def, ["d"]).versions == graph_def.versions
    with pytest.raises(TypeError, match="list"):
        tf.graph_util.extract_sub_graph(graph_def, "c")
    with pytest.raises(AssertionError, match="zz is not in graph"):
        tf.graph_util.extract_sub_graph(graph_def, ["zz"])
    with pytest.raises(TypeError, match="GraphDef"):
        tf.graph_util.extract_sub_graph(graph, ["c"])


def test_nodes_that_only_pass_on_are_removed(graph: tf.Graph) -> None:
    a = tf.constant(1.0, name="a")
    first = tf.identity(a, name="first")
    second = tf.identity(first, name="second")
    with tf.control_dependencies([first]):
        waiting = tf.identity(second, name="waiting")
    tf.negative(waiting, name="out")
    lean = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    assert names(lean) == ["a", "first", "waiting", "out"]
    assert list(lean.node[2].input) == ["first", "^first"]
    kept = tf.graph_util.remove_training_nodes(graph.as_graph_def(), protected_nodes=["second"])
    assert "second" in names(kept)


def test_nobody_waits_for_a_check_that_is_removed(graph: tf.Graph) -> None:
    a = tf.constant(1.0, name="a")
    check = tf.check_numerics(a, "bad", name="check")
    with tf.control_dependencies([check]):
        first = tf.identity(a, name="first")
    tf.add(first, check, name="out")
    lean = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    assert names(lean) == ["a", "out"]
    assert list(lean.node[1].input) == ["a", "a"]
    assert lean.HasField("versions")
    assert not tf.graph_util.remove_training_nodes(tf.GraphDef(node=graph.as_graph_def().node)).HasField("versions")
    kept = tf.graph_util.remove_training_nodes(graph.as_graph_def(), protected_nodes=["check"])
    assert names(kept) == ["a", "check", "first", "out"]


def test_variables_become_constants(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    v = tf.Variable([1.0, 2.0], name="v")
    w = tf.Variable([10.0, 20.0], name="w")
    tf.add(x * v, w, name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(v, [3.0, 4.0]))
        graph_def = graph.as_graph_def()
        frozen = tf.graph_util.convert_variables_to_constants(session, graph_def, ["y"])
        partly = tf.graph_util.convert_variables_to_constants(session, graph_def, ["y"], variable_names_blacklist=["w"])
        other = tf.graph_util.convert_variables_to_constants(session, graph_def, ["y"], ["w"])
    types = {node.name: node.op for node in frozen.node}
    assert not any("Var" in op for op in types.values())
    assert types["v"] == types["w"] == "Const"
    assert {node.name: node.op for node in partly.node}["w"] == "VarHandleOp"
    assert {node.name: node.op for node in other.node}["v"] == "VarHandleOp"
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_array_equal(session.run("y:0", {"x:0": [1.0, 1.0]}), [13.0, 24.0])


def test_a_variable_without_a_value_is_an_error(graph: tf.Graph) -> None:
    tf.identity(tf.Variable([1.0], name="v"), name="y")
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="v"):
        tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])


def test_gathered_variables_become_gathered_constants(graph: tf.Graph) -> None:
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="v")
    tf.identity(tf.gather(v, [1, 0]), name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_array_equal(session.run("y:0"), [[3.0, 4.0], [1.0, 2.0]])


def test_must_run_on_cpu_and_the_shape_of_a_node(graph: tf.Graph) -> None:
    numbers, text = tf.constant([1, 2], name="numbers"), tf.constant("x")
    floats = tf.constant(1.0)
    assert tf.graph_util.must_run_on_cpu(numbers.op) and tf.graph_util.must_run_on_cpu(text.op.node_def)
    assert not tf.graph_util.must_run_on_cpu(floats.op)
    variable = tf.NodeDef(name="v", op="VariableV2")
    assert tf.graph_util.must_run_on_cpu(variable, pin_variables_on_cpu=True)
    assert not tf.graph_util.must_run_on_cpu(variable)
    assert tf.graph_util.tensor_shape_from_node_def_name(graph, "numbers").as_list() == [2]
    assert tf.graph_util.tensor_shape_from_node_def_name(graph, "numbers:0").as_list() == [2]


@pytest.mark.parametrize("name", ["regression_with_references", "regression_with_resources"])
def test_a_trained_graph_of_tensorflow_is_frozen(graph: tf.Graph, name: str) -> None:
    tf.import_graph_def(golden.load(name), name="")
    with tf.Session() as session:
        for step in golden.steps(name):
            expected = golden.run(session, step)
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["weights_now"])
    assert {node.op for node in frozen.node} == {"Const", "Identity"}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_array_equal(session.run("weights_now:0"), expected["weights_now:0"])
