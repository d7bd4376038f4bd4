"""Arguments at the edge: sizes, masks, shapes and rates that must be refused or cost nothing."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


def test_a_tensor_array_of_negative_size_is_refused() -> None:
    size = tf.placeholder_with_default(-1, [])
    array = tf.TensorArray(tf.float32, size, dynamic_size=True).write(0, 1.0)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="must not be negative, got -1"):
        session.run(array.stack())


def test_the_declared_shape_of_a_sum_is_checked() -> None:
    x = tf.placeholder(tf.float32)
    total = tf.raw_ops.AccumulateNV2(inputs=[x, x], shape=[3])
    with tf.Session() as session:
        assert session.run(total, {x: [1.0, 2.0, 3.0]}).tolist() == [2.0, 4.0, 6.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="attribute 'shape'"):
            session.run(total, {x: [1.0]})


@pytest.mark.parametrize("mask", [0, 1, 2, 4])
def test_the_static_shape_of_a_slice_with_one_entry(mask: int) -> None:
    part = tf.strided_slice(tf.zeros([2, 3, 4]), [0], [1], [1], ellipsis_mask=mask)
    with tf.Session() as session:
        assert session.run(part).shape == tuple(part.shape.as_list())


def test_rates_beyond_the_type_give_its_largest_number_at_once() -> None:
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=60_000)) as session:
        drawn = session.run(tf.random_poisson(1e12, [100_000], dtype=tf.int32))
    assert (drawn == np.iinfo(np.int32).max).all()
