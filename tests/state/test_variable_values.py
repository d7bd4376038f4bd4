"""The tensor 'v:0' of a variable as its value: found by name, run, computed with, fed, differentiated, updated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetch: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetch, feed)


def test_feeding_a_variable_feeds_all_its_readers(graph: tf.Graph) -> None:
    v = tf.Variable(1.0, name="v")
    rows = tf.Variable([[1.0], [2.0]], name="rows")
    later = v.read_value()
    for key in (v, "v:0", graph.get_tensor_by_name("v:0"), v.handle):
        assert run([v, v * 2.0, later, "v:0"], {key: 3.0}) == [3.0, 6.0, 3.0, 3.0]
    fetches = [
        tf.gather(rows, [1]), rows.sparse_read([1, 0]), rows.gather_nd([[1, 0]]), tf.shape(rows), rows.is_initialized(),
        tf.cond(tf.constant(True), lambda: rows + 1.0, lambda: rows),
        tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x + rows), (0, tf.zeros([2, 1])))[1],
    ]  # fmt: skip
    values = run(fetches, {rows: [[5.0], [7.0]]})
    assert [np.ravel(value).tolist() for value in values] == [[7], [7, 5], [7], [2, 1], [True], [6, 8], [10, 14]]
    assert run([v, v * 2.0]) == [1.0, 2.0]


def test_a_fed_variable_reaches_readers_in_functions() -> None:
    v = tf.Variable(2.0)

    @tf.function
    def scaled(x: Any) -> Any:
        return x * v

    assert run(scaled(tf.constant(3.0)), {v: 5.0}) == 15.0


def test_a_fed_variable_needs_no_initializer_and_a_fitting_value() -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    with tf.Session() as session:
        assert session.run(v + 1.0, {v: [3.0, 4.0]}).tolist() == [4.0, 5.0]
        with pytest.raises(ValueError, match="shape"):
            session.run(v + 1.0, {v: [3.0]})


def test_an_update_of_a_variable_that_is_fed_is_refused() -> None:
    v = tf.Variable(1.0, name="v")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is fed in this step"):
        run(tf.assign_add(v, 1.0), {v: 3.0})


def test_the_value_of_an_imported_variable_is_found_by_name(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable([2.0, 3.0], name="w")
        b = tf.Variable(1.0, name="b")
        tf.add_to_collection("kept", b)
        tf.multiply(w, b, name="y")
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        saver.save(session, str(tmp_path / "model"))
    with tf.Graph().as_default() as graph, tf.Session() as session:
        saver = tf.train.import_meta_graph(str(tmp_path / "model.meta"))
        w, b = graph.get_tensor_by_name("w:0"), tf.get_collection("kept")[0]
        assert (w.dtype, w.shape.as_list()) == (tf.float32, [2])
        ready = tf.stack([tf.is_variable_initialized(w), tf.is_variable_initialized(b)])
        missing = tf.report_uninitialized_variables([w, b])
        assert not session.run(ready).any()
        assert session.run(missing).tolist() == [b"w", b"b"]
        saver.restore(session, str(tmp_path / "model"))
        assert session.run(ready).all()
        assert session.run(missing).size == 0
        assert session.run([w, w + b, tf.reshape(w, [2, 1])])[1].tolist() == [3.0, 4.0]
        assert session.run("y:0", {b: 10.0}).tolist() == [20.0, 30.0]
        slope = tf.gradients(graph.get_tensor_by_name("y:0"), w)[0]
        assert session.run(slope, {b: 4.0}).tolist() == [4.0, 4.0]
        session.run(tf.assign(w, [7.0, 8.0]))
        assert session.run("w:0").tolist() == [7.0, 8.0]


def test_handles_and_values_stand_for_each_other_where_an_op_takes_only_one(graph: tf.Graph) -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    handle = graph.get_operation_by_name("v").outputs[0]
    assert handle is v.handle
    assert run(handle + 1.0).tolist() == [2.0, 3.0]
    value = graph.get_tensor_by_name("v:0")
    assert run(tf.raw_ops.ReadVariableOp(resource=value, dtype=tf.float32)).tolist() == [1.0, 2.0]
    assert run(tf.raw_ops.VariableShape(input=value)).tolist() == [2]


def test_names_of_graph_defs_stay_those_of_handles(graph: tf.Graph) -> None:
    v = tf.Variable(1.0, name="v")
    tf.identity(v, name="out")
    definition = graph.as_graph_def()
    with tf.Graph().as_default(), tf.Session() as session:
        value, out = tf.import_graph_def(definition, return_elements=["v:0", "out:0"], name="")
        assert value.op.type == "ReadVariableOp"
        assert session.run(out, {value: 4.0}) == session.run(out, {"v:0": 4.0}) == 4.0
