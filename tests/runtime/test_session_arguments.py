"""Arguments of sessions as TensorFlow takes or refuses them: nesting, targets, names, feeds, options."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_session_is_entered_once_at_a_time() -> None:
    session = tf.Session()
    with session, pytest.raises(RuntimeError, match="not re-entrant"), session:
        pass
    session = tf.Session()
    with session, session.as_default():
        pass


def test_targets_are_text() -> None:
    with pytest.raises(TypeError, match="target"):
        tf.Session(37)
    with pytest.raises(tf.errors.NotFoundError, match="No session factory"):
        tf.Session("nowhere://")


def test_names_may_be_bytes(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.int32, name=b"x")
    with tf.name_scope(b"scope"):
        assert tf.identity(x, name=b"y").name == "scope/y:0"
    assert graph.as_graph_element(b"x:0") is x
    with tf.Session() as session:
        assert session.run([b"x:0", b"scope/y:0"], {b"x:0": 4}) == [4, 4]


@pytest.mark.parametrize("value", [2**62, [2**62], -(2**40)])
def test_numbers_that_do_not_fit_the_type_of_a_feed_are_refused(value: Any) -> None:
    x = tf.placeholder(tf.int32)
    with tf.Session() as session:
        session.run(x, {x: 1})
        with pytest.raises(TypeError, match="does not fit"):
            session.run(x, {x: value})
        with pytest.raises(TypeError, match="does not fit"):
            session.run(x + 1, {x: value})


def test_a_partial_run_needs_a_fetch() -> None:
    x = tf.placeholder(tf.float32)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="at least one target"):
        session.partial_run_setup([], [x])


def test_graph_defs_of_sessions_have_shapes_if_asked() -> None:
    tf.ones([2, 3], name="c")
    for asked in (True, False):
        config = tf.ConfigProto(graph_options=tf.GraphOptions(infer_shapes=asked))
        with tf.Session(config=config) as session:
            assert ("_output_shapes" in session.graph_def.node[0].attr) == asked


def test_costs_are_reported_every_nth_step() -> None:
    product = tf.matmul(tf.random_uniform([9, 9]), tf.ones([9, 9]))
    filled = []
    with tf.Session(config=tf.ConfigProto(graph_options=tf.GraphOptions(build_cost_model=3))) as session:
        for _ in range(7):
            metadata = tf.RunMetadata()
            session.run(product, options=tf.RunOptions(), run_metadata=metadata)
            filled.append(metadata.HasField("cost_graph"))
    assert filled == [False, False, True, False, False, True, False]


def test_tensors_of_operations_that_are_not_fetchable_are_not_fetchable() -> None:
    tf.cond(tf.placeholder(tf.bool, name="p"), lambda: tf.constant(1), lambda: tf.constant(2))
    with tf.Session() as session, pytest.raises(ValueError, match="not fetchable"):
        session.run("cond/Switch:0", {"p:0": True})


def test_a_session_says_what_it_runs() -> None:
    with tf.Graph().as_default():
        tf.constant(1)
        with tf.Session() as session:
            assert repr(session) == "<tf.Session graph of 1 operations>"
        assert repr(session) == "<tf.Session graph of 1 operations, closed>"
