"""The page of TensorFlow's public names is up to date, and names that programs need most are there."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from compatibility.__main__ import PAGE, is_there, missing, page, recorded


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m compatibility` with src/ and tools/ on the path"


def test_the_recorded_names_are_those_of_a_whole_tensorflow() -> None:
    names = recorded().names
    assert len(names) > 3000
    assert {"constant", "Graph", "train.Saver", "nn.conv2d", "raw_ops.MatMul"} <= names.keys()
    assert not is_there("nobody.knows_this")
    for space in ("losses", "metrics", "gfile", "logging", "feature_column", "manip", "sets", "summary"):
        assert not [name for name in missing(names) if name.startswith(f"{space}.")]


def test_static_values() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.int32, [2])
        assert tf.get_static_value(tf.constant([1, 2]) + 1).tolist() == [2, 3]
        assert tf.get_static_value(x) is None


def test_operations_from_attr_values() -> None:
    with tf.Graph().as_default() as graph:
        float_type = tf.AttrValue(type=tf.float32.as_datatype_enum)
        x = tf.constant([1.0, 2.0])
        op = graph.create_op("AddV2", [x, x], [tf.float32], name="sum", attrs={"T": float_type})
        assert (op.name, op.outputs[0].shape.as_list()) == ("sum", [2])
        assert graph.create_op("NoOp", [], [], name="sum").name == "sum_1"
        with pytest.raises(ValueError, match="needs the attribute 'T'"):
            graph.create_op("AddV2", [x, x], [tf.float32])
        with pytest.raises(ValueError, match="takes inputs of types"):
            graph.create_op("AddV2", [x, tf.constant(1)], [tf.float32], attrs={"T": float_type})
        with pytest.raises(ValueError, match="no attribute 'size'"):
            graph.create_op("NoOp", [], [], attrs={"size": float_type})
        with pytest.raises(TypeError, match="not a tensor"):
            graph.create_op("AddV2", [x, 1.0], [tf.float32], attrs={"T": float_type})
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run(op.outputs[0]), [2.0, 4.0])


def test_gradients_that_pass_through() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.4, 2.6])
        y = tf.grad_pass_through(tf.round)(x)
        assert session.run([y, tf.gradients(y * 3.0, x)[0]])[1].tolist() == [3.0, 3.0]
