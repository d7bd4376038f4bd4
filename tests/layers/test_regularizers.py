"""Regularizers and initializers of tf.contrib.layers."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf

contrib = tf.contrib.layers


def test_penalties() -> None:
    w = tf.constant([[1.0, -2.0], [3.0, 0.0]])
    values = [contrib.l1_regularizer(0.5)(w), contrib.l2_regularizer(0.5)(w), contrib.l1_l2_regularizer(1.0, 2.0)(w)]
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(values), [3.0, 3.5, 20.0])
        total = contrib.apply_regularization(contrib.l1_regularizer(1.0), [w, w])
        assert session.run(total) == 12
    assert tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES) == [total]
    assert contrib.l2_regularizer(0.0)(w) is None


def test_a_scope_regularizes_layers() -> None:
    with tf.variable_scope("s", regularizer=contrib.l2_regularizer(0.1)):
        tf.layers.dense(tf.ones([1, 2]), 3)
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 2


def test_initializers_have_the_variance_they_promise() -> None:
    with tf.Session() as session:
        uniform = session.run(contrib.xavier_initializer(seed=1)([100, 300]))
        normal = session.run(contrib.variance_scaling_initializer(seed=1)([100, 300]))
    assert abs(uniform).max() <= np.sqrt(3 / 200)
    np.testing.assert_allclose(uniform.var(), 1 / 200, rtol=0.05)
    np.testing.assert_allclose(normal.var(), 2 / 100, rtol=0.05)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="integer"):
        contrib.l1_regularizer(1)
    with pytest.raises(ValueError, match="less than 0"):
        contrib.l2_regularizer(-1.0)
    with pytest.raises(TypeError, match="mode"):
        contrib.variance_scaling_initializer(mode="x")
    with pytest.raises(ValueError, match="No weights"):
        contrib.apply_regularization(contrib.l1_regularizer(1.0), [])
