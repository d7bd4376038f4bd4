"""Graph: names, lookup, collections, finalization, default graphs, threads; Tensor and Operation as objects."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_names_are_unique_regardless_of_case() -> None:
    names = [tf.constant(1, name=name).op.name for name in ("a", "a", "A", "a_1", "b")]
    assert names == ["a", "a_1", "A_2", "a_1_1", "b"]


def test_unique_name_can_look_without_marking(graph: tf.Graph) -> None:
    assert graph.unique_name("x", mark_as_used=False) == "x"
    assert [graph.unique_name("x"), graph.unique_name("x")] == ["x", "x_1"]


@pytest.mark.parametrize("name", ["_a", "a b", "a:0", "^a", "ä"])
def test_invalid_node_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid node name"):
        tf.constant(1, name=name)


def test_an_absolute_name_is_taken_once() -> None:
    assert tf.constant(1, name="x/").op.name == "x"
    with pytest.raises(ValueError, match="Duplicate node name in graph: 'x'"):
        tf.constant(1, name="x/")


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        ("nope", KeyError, "'nope' refers to an Operation not in the graph"),
        ("nope:0", KeyError, "The operation, 'nope', does not exist"),
        ("c:3", KeyError, "exists but only has 1 outputs"),
        ("a:b", ValueError, "looks a like a Tensor name, but is not a valid one"),
        (":0", ValueError, "not a valid one"),
        (3, TypeError, "Can not convert a int into a Tensor or Operation"),
        (None, TypeError, "Can not convert a NoneType"),
    ],
)
def test_lookup_errors(graph: tf.Graph, name: object, error: type[Exception], match: str) -> None:
    tf.constant(1, name="c")
    with pytest.raises(error, match=match):
        graph.as_graph_element(name)


def test_lookup_by_kind(graph: tf.Graph) -> None:
    c = tf.constant(1, name="c")
    assert graph.get_tensor_by_name("c:0") is c
    assert graph.get_operation_by_name("c") is c.op
    assert graph.as_graph_element(c.op) is c.op
    with pytest.raises(ValueError, match="refers to an Operation, not a Tensor"):
        graph.get_tensor_by_name("c")
    with pytest.raises(ValueError, match="appears to refer to a Tensor"):
        graph.get_operation_by_name("c:0")
    with pytest.raises(TypeError, match="strings"):
        graph.get_tensor_by_name(None)  # type: ignore[arg-type]
    with tf.Graph().as_default() as other, pytest.raises(ValueError, match="not an element of this graph"):
        other.as_graph_element(c)


def test_collections(graph: tf.Graph) -> None:
    c = tf.constant(1, name="layer/c")
    tf.add_to_collection("k", c)
    tf.add_to_collections(("k", "l", "l"), 3)
    assert tf.get_collection("k") == [c, 3]
    assert tf.get_collection("l") == [3]
    assert tf.get_collection("k", scope="layer") == [c]
    tf.get_collection("k").clear()
    assert len(tf.get_collection("k")) == 2
    tf.get_collection_ref("m").append(1)
    assert tf.get_collection("m") == [1]
    assert set(graph.get_all_collection_keys()) == {"k", "l", "m"}
    graph.clear_collection("k")
    assert tf.get_collection("k") == []


def test_a_finalized_graph_cannot_change(graph: tf.Graph) -> None:
    graph.finalize()
    for change in (lambda: tf.constant(1), lambda: tf.add_to_collection("k", 1)):
        with pytest.raises(RuntimeError, match="Graph is finalized"):
            change()
    graph._unsafe_unfinalize()
    tf.constant(1)


def test_version_grows_with_every_change(graph: tf.Graph) -> None:
    versions = [graph.version]
    c = tf.constant(1)
    versions.append(graph.version)
    tf.no_op()._add_control_input(c.op)
    versions.append(graph.version)
    assert versions == sorted(set(versions))


def test_default_graphs_nest_and_are_per_thread(graph: tf.Graph) -> None:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tf.get_default_graph()))
    thread.start()
    thread.join()
    assert seen[0] is not graph
    with tf.Graph().as_default() as inner:
        assert tf.get_default_graph() is inner
        with pytest.raises(AssertionError, match="nested"):
            tf.reset_default_graph()
    assert tf.get_default_graph() is graph


def test_threads_append_without_losing_or_renaming(graph: tf.Graph) -> None:
    def build() -> None:
        with graph.as_default():
            for _ in range(200):
                tf.constant(1.0) + tf.constant(2.0)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    operations = graph.get_operations()
    assert len(operations) == len({op.name for op in operations}) == 4 * 600
    assert [op._id for op in operations] == list(range(2400))


def test_consumers_follow_the_edges() -> None:
    x = tf.placeholder(tf.float32)
    assert x.consumers() == []
    y = x * x
    z = tf.tanh(x)
    assert x.consumers() == [y.op, z.op]
    other = tf.placeholder(tf.float32)
    z.op._update_input(0, other)
    assert x.consumers() == [y.op]
    assert other.consumers() == [z.op]
    with pytest.raises(TypeError, match="int32"):
        z.op._update_input(0, tf.placeholder(tf.int32))
    with pytest.raises(IndexError):
        z.op._update_input(5, x)


def test_tensors_are_compared_by_identity_and_are_no_python_values() -> None:
    x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    assert x == x and x != y and len({x, y}) == 2
    for misuse in (lambda: bool(x), lambda: list(x), lambda: len(x)):
        with pytest.raises(TypeError):
            misuse()
    with pytest.raises(NotImplementedError, match="numpy"):
        np.array(x)


def test_set_shape_only_adds_knowledge() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    x.set_shape([2, None])
    assert x.shape.as_list() == [2, 3]
    with pytest.raises(ValueError, match="Placeholder:0"):
        x.set_shape([4, 3])


def test_missing_attributes_are_named() -> None:
    c = tf.constant(1)
    assert c.op.get_attr("dtype") is tf.int32
    with pytest.raises(ValueError, match="has no attr named 'zz'"):
        c.op.get_attr("zz")


def test_feeding_and_fetching_can_be_prevented(graph: tf.Graph) -> None:
    c = tf.constant(1)
    assert graph.is_feedable(c) and graph.is_fetchable(c.op)
    graph.prevent_feeding(c)
    graph.prevent_fetching(c.op)
    assert not graph.is_feedable(c) and not graph.is_fetchable(c.op)


def test_seeds_are_reproducible_for_equal_graphs(graph: tf.Graph) -> None:
    assert tf.get_seed(None) == (None, None)
    assert tf.get_seed(3) == (87654321, 3)
    tf.set_random_seed(1)
    tf.constant(1)
    assert tf.get_seed(None) == (1, 1)
    assert tf.get_seed(5) == (1, 5)
    tf.set_random_seed(0)
    assert tf.get_seed(0) == (0, 2**31 - 1)
