"""Graphs with reference variables, as TensorFlow 1 wrote them, compute what TensorFlow computed."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply
from thalweg.passes.prune import prune
from thalweg.passes.references import lower_references

DATA = pathlib.Path(__file__).parent.parent / "data"


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def variable(shape=(2,), dtype=tf.float32, name="v"):
    return apply("VariableV2", shape=list(shape), dtype=dtype, name=name)


def test_a_graph_of_tensorflow_gives_the_same_values():
    graph_def = tf.GraphDef.FromString((DATA / "references.pb").read_bytes())
    tf.import_graph_def(graph_def, name="")
    with tf.Session() as sess:
        for i, (fetch, feeds, expected) in enumerate(json.loads((DATA / "references.json").read_text())):
            value = sess.run(fetch, {f"{name}:0": array for name, array in feeds.items()})
            if expected is not None:
                np.testing.assert_allclose(value, expected, 1e-5, err_msg=f"step {i}: {fetch}")


def test_no_reference_is_left_after_the_pass():
    v = variable()
    out = apply("AddV2", apply("Assign", v, [1.0, 2.0]), apply("Identity", v))
    step = lower_references(prune([], [out, v], [v.op]))
    assert {node.op for node in step.nodes.values()} <= {
        "Const",
        "VarHandleOp",
        "AssignVariableOp",
        "ReadVariableOp",
        "AddV2",
    }
    assert not any(d._is_ref_dtype for n in step.nodes.values() for d in (*n.input_dtypes, *n.output_dtypes))
    assert all(step.nodes[name].op == "ReadVariableOp" for name, _ in step.fetches[1:])


def test_a_step_without_references_is_left_alone():
    step = prune([], [tf.constant(1.0) + 2.0], [])
    assert lower_references(step) is step


def test_reads_follow_the_updates_they_depend_on():
    v = variable()
    twice = apply("AssignAdd", apply("Assign", v, [1.0, 2.0]), [10.0, 10.0])
    with tf.control_dependencies([twice.op]):
        read = apply("Identity", v)
        total = v + 1.0
    with tf.Session() as sess:
        assert sess.run(twice).tolist() == [11.0, 12.0]
        assert sess.run(read).tolist() == [11.0, 12.0]
        assert sess.run(total).tolist() == [12.0, 13.0]
        assert sess.run(v).tolist() == [11.0, 12.0]


def test_reading_before_assigning_names_the_variable():
    v = variable(name="weights")
    with tf.Session() as sess:
        assert not sess.run(apply("IsVariableInitialized", v))
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value weights") as e:
            sess.run(v + 1.0)
        assert e.value.op is not None


def test_shapes_are_validated():
    v, x = variable(), tf.placeholder(tf.float32)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2\].*\[3\]"):
            sess.run(apply("Assign", v, x), {x: [1.0, 2.0, 3.0]})
        assert sess.run(apply("Assign", v, x, validate_shape=False), {x: [1.0, 2.0, 3.0]}).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="Dimension 0"):
        apply("Assign", v, [1.0, 2.0, 3.0])


def test_a_fed_variable_cannot_be_assigned():
    v = variable()
    assign = apply("Assign", v, [1.0, 2.0])
    with tf.Session() as sess:
        assert sess.run(v + 1.0, {v: [5.0, 6.0]}).tolist() == [6.0, 7.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="fed"):
            sess.run(assign, {v: [5.0, 6.0]})


def test_the_functions_take_references():
    v = variable()
    with tf.Session() as sess:
        assert sess.run(tf.assign(v, [1.0, 2.0])).tolist() == [1.0, 2.0]
        assert sess.run(tf.assign_add(v, [1.0, 2.0])).tolist() == [2.0, 4.0]
        assert sess.run(tf.scatter_sub(v, [0], [1.0])).tolist() == [1.0, 4.0]
        assert sess.run(tf.is_variable_initialized(v))
    with pytest.raises(TypeError, match="not a variable"):
        tf.assign(tf.constant(1.0), 2.0)


def test_temporary_variables_belong_to_a_step():
    t = apply("TemporaryVariable", shape=[2], dtype=tf.float32, name="t")
    filled = apply("AssignAdd", apply("Assign", t, [1.0, 2.0]), [1.0, 1.0])
    value = apply("DestroyTemporaryVariable", filled, var_name="t")
    with tf.Session() as sess:
        assert [sess.run(value).tolist() for _ in range(2)] == [[2.0, 3.0]] * 2


def test_reference_variables_have_gradients():
    v = variable()
    init = apply("Assign", v, [1.0, 2.0])
    (grad,) = tf.gradients(tf.square(apply("Identity", v)), v)
    with tf.Session() as sess:
        sess.run(init.op)
        assert sess.run(grad).tolist() == [2.0, 4.0]


def test_containers_and_shared_names_are_kept():
    with tf.container("refs-test"):
        a = variable(name="a")
    b = apply("VariableV2", shape=[2], dtype=tf.float32, container="refs-test", shared_name="a", name="b")
    with tf.Session() as one, tf.Session() as two:
        one.run(apply("Assign", a, [1.0, 2.0]))
        assert two.run(b).tolist() == [1.0, 2.0]
    tf.Session.reset("", ["refs-test"])


def test_reference_variables_of_a_meta_graph_are_variables():
    tf.import_graph_def(tf.GraphDef.FromString((DATA / "references.pb").read_bytes()), name="")
    proto = tf.VariableDef(
        variable_name="w:0", initializer_name="w/Assign", snapshot_name="w/read:0", trainable=True,
        initial_value_name="w/initial_value:0",
    )  # fmt: skip
    w = tf.Variable.from_proto(proto)
    assert (w.name, w.op.type, w.dtype, w.shape.as_list()) == ("w:0", "VariableV2", tf.float32, [2, 2])
    assert w.to_proto().variable_name == "w:0"
    assert not w.to_proto().is_resource
    graph = tf.get_default_graph()
    y, x = graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0")
    (old_path,) = tf.gradients(y, w)
    (new_path,) = tf.gradients(w * w, w)
    with tf.Session() as sess:
        sess.run("init")
        assert sess.run(w).tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert sess.run(w.assign_add([[1.0, 1.0], [1.0, 1.0]])).tolist() == [[2.0, 3.0], [4.0, 5.0]]
        assert sess.run("w:0").tolist() == [[2.0, 3.0], [4.0, 5.0]]
        assert sess.run(tf.scatter_sub(w, [0], [[1.0, 1.0]])).tolist() == [[1.0, 2.0], [4.0, 5.0]]
        assert sess.run(old_path, {x: [[1.0, 2.0]]}).tolist() == [[1.0, 1.0], [2.0, 2.0]]
        assert sess.run(new_path).tolist() == [[2.0, 4.0], [8.0, 10.0]]
        assert sess.run(w.is_initialized())
