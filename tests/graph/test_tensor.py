"""Tensors as objects of a program."""

from __future__ import annotations

import thalweg as tf


def test_programs_may_set_attributes_of_tensors() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        x._keras_shape = (2,)
        x.scope = "layer"
        assert (graph.get_tensor_by_name("x:0").scope, graph.get_tensor_by_name("x:0")._keras_shape) == ("layer", (2,))
        assert "scope" not in vars(tf.constant(1.0))
