"""Initializers: shapes, ranges, configuration, and pieces of partitioned variables."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _value(initializer: Any, shape: Any, **kwargs: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(initializer(shape, **kwargs))


def test_constants() -> None:
    assert _value(tf.zeros_initializer(), [2]).tolist() == [0, 0]
    assert _value(tf.zeros_initializer(tf.string), [1]).tolist() == [b""]
    assert _value(tf.ones_initializer(), [40, 40]).sum() == 1600
    assert _value(tf.ones_initializer(), [1], dtype=tf.bool).tolist() == [True]
    assert _value(tf.constant_initializer([1, 2]), [3]).tolist() == [1, 2, 2]
    with pytest.raises(TypeError, match="shape"):
        _value(tf.constant_initializer([1, 2], verify_shape=True), [3])
    with pytest.raises(TypeError, match="initial value"):
        tf.constant_initializer({})


@pytest.mark.parametrize(
    ("initializer", "variance", "limit"),
    [
        (tf.random_uniform_initializer(-2.0, 2.0, seed=1), 4 / 3, 2.0),
        (tf.random_normal_initializer(0.0, 0.5, seed=1), 0.25, math.inf),
        (tf.truncated_normal_initializer(0.0, 0.5, seed=1), 0.25 * 0.7737, 1.0),
        (tf.uniform_unit_scaling_initializer(2.0, seed=1), 4 / 100, 2 * math.sqrt(3 / 100)),
        (tf.variance_scaling_initializer(2.0, seed=1), 2 / 100, math.inf),
        (tf.variance_scaling_initializer(mode="fan_out", distribution="uniform", seed=1), 1 / 200, math.sqrt(3 / 200)),
        (tf.variance_scaling_initializer(distribution="untruncated_normal", seed=1), 1 / 100, math.inf),
        (tf.glorot_uniform_initializer(seed=1), 2 / 300, math.sqrt(6 / 300)),
        (tf.glorot_normal_initializer(seed=1), 2 / 300, math.inf),
        (tf.initializers.he_normal(seed=1), 2 / 100, math.inf),
        (tf.initializers.he_uniform(seed=1), 2 / 100, math.sqrt(6 / 100)),
        (tf.initializers.lecun_normal(seed=1), 1 / 100, math.inf),
        (tf.initializers.lecun_uniform(seed=1), 1 / 100, math.sqrt(3 / 100)),
    ],
)
def test_random_values_have_the_variance_and_the_range_promised(
    initializer: Any, variance: float, limit: float
) -> None:
    values = _value(initializer, [100, 200])
    assert values.dtype == np.float32
    np.testing.assert_allclose(values.var(), variance, rtol=0.05)
    assert np.abs(values).max() <= limit * (1 + 1e-6)
    again = type(initializer).from_config(initializer.get_config())
    np.testing.assert_array_equal(_value(again, [100, 200]), values)


def test_convolution_kernels_count_their_receptive_field() -> None:
    values = _value(tf.variance_scaling_initializer(seed=1), [3, 3, 10, 200])
    np.testing.assert_allclose(values.var(), 1 / 90, rtol=0.05)


def test_the_identity_and_its_pieces() -> None:
    assert _value(tf.initializers.identity(2.0), [2, 3]).tolist() == [[2, 0, 0], [0, 2, 0]]
    part = SimpleNamespace(full_shape=[4, 4], var_offset=[2, 0])
    assert _value(tf.initializers.identity(), [2, 4], partition_info=part).tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    with pytest.raises(ValueError, match="2D"):
        _value(tf.initializers.identity(), [2])


def test_a_piece_of_a_variable_is_scaled_as_the_whole() -> None:
    part = SimpleNamespace(full_shape=[1000, 50], var_offset=[0, 0])
    values = _value(tf.variance_scaling_initializer(seed=1), [100, 50], partition_info=part)
    np.testing.assert_allclose(values.var(), 1 / 1000, rtol=0.1)


@pytest.mark.parametrize("bad", [{"scale": 0.0}, {"mode": "fan"}, {"distribution": "cauchy"}, {"dtype": tf.int32}])
def test_bad_arguments_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        tf.variance_scaling_initializer(**bad)
