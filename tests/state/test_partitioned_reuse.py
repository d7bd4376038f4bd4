"""Partitioned variables from tensors, found again without a partitioner, and updates through other forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

HALVES = tf.fixed_size_partitioner(2)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def test_partitions_take_the_type_of_their_initial_value() -> None:
    parts = tf.create_partitioned_variables([4, 2], [2, 1], tf.constant(np.arange(8).reshape(4, 2), tf.int32))
    assert [part.dtype.base_dtype for part in parts] == [tf.int32, tf.int32]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(parts[1]).tolist() == [[4, 5], [6, 7]]
    with pytest.raises(ValueError, match="shape"):
        tf.create_partitioned_variables([5], [1], tf.zeros([4]))


def test_a_partitioned_variable_is_found_without_its_partitioner() -> None:
    with tf.variable_scope("s", partitioner=HALVES):
        whole = tf.get_variable("v", initializer=tf.ones([4, 2]))
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("v") is whole
        assert tf.get_variable("v", [4, 2]) is whole
        with pytest.raises(ValueError, match="shape"):
            tf.get_variable("v", [3])
    with tf.variable_scope("s"), pytest.raises(ValueError, match="No partitioner"):
        tf.get_variable("v", [4, 2])


def test_assignments_to_slices_and_their_values() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    x = tf.placeholder(tf.float32)
    update = tf.assign(v[1:], [7.0, 8.0])
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(update)
        assert session.run(v).tolist() == [1.0, 7.0, 8.0]
        assert tf.assign(v, x).eval(feed_dict={x: [4.0, 5.0, 6.0]}).tolist() == [4.0, 5.0, 6.0]
        assert tf.assign_add(v, x).eval({x: [1.0, 1.0, 1.0]}).tolist() == [5.0, 6.0, 7.0]


def test_sparse_accumulators_of_an_empty_shape_take_gradients_of_any_shape() -> None:
    accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=())
    add = accumulator.apply_grad([0, 2], np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), grad_shape=[3, 2])
    with tf.Session() as session:
        session.run(add)
        assert session.run(accumulator.take_grad(1)).values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
