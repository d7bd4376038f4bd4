"""The cache of ops that have run: a call gets the kernel of another one only if their attributes are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply, apply_one

ZEROS = [0.0, -0.0]


def slope(alpha: Any) -> float:
    """One over the value behind a slope: tells zeros apart."""
    with np.errstate(divide="ignore"):
        return float(1.0 / tf.nn.leaky_relu(tf.constant(1.0) * -1.0, alpha=alpha).numpy())


@pytest.mark.parametrize("order", [ZEROS, ZEROS[::-1], [np.float32(z) for z in ZEROS], [0, -0.0, False]])
def test_zeros_of_either_sign(order: list[Any]) -> None:
    for _ in range(2):
        for alpha in order:
            assert slope(alpha) == (np.inf if np.signbit(np.float64(alpha)) else -np.inf), alpha


def test_zeros_within_an_array_and_a_list() -> None:
    for _ in range(2):
        for zero in ZEROS:
            with np.errstate(divide="ignore"):
                assert 1.0 / tf.constant([zero]).numpy()[0] == (np.inf if not np.signbit(zero) else -np.inf)


def test_an_attribute_that_is_no_number() -> None:
    for _ in range(3):
        assert np.isnan(slope(float("nan")))
        assert slope(0.5) == -2.0


def test_a_type_that_is_refused_stays_refused_after_an_equal_value_of_another_type() -> None:
    x = tf.constant([[1.0, 2.0]])
    assert apply_one("MatMul", x, x, transpose_b=True).numpy().tolist() == [[5.0]]
    for wrong in (1, 1.0):
        with pytest.raises(TypeError, match="transpose_b"):
            apply_one("MatMul", x, x, transpose_b=wrong)
    assert apply_one("Squeeze", x, squeeze_dims=[0]).shape == [2]
    with pytest.raises(TypeError):
        apply_one("Squeeze", x, squeeze_dims=[[0]])


def test_a_list_that_changes_between_calls() -> None:
    x, axis = tf.ones([1, 2, 1]), [0]
    assert tf.squeeze(x, axis).shape == [2, 1]
    axis[0] = 2
    assert tf.squeeze(x, axis).shape == [1, 2]
    axis.append(0)
    assert tf.squeeze(x, axis).shape == [2]


def test_a_list_within_itself_is_no_endless_key() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises((TypeError, ValueError, RecursionError)):
        apply("Squeeze", tf.ones([1]), squeeze_dims=endless)


def test_a_tape_sees_ops_from_the_cache() -> None:
    x = tf.constant([1.0, 2.0])
    for slope_below in (0.1, 0.2, 0.1):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.leaky_relu(-x, alpha=slope_below)
        np.testing.assert_allclose(tape.gradient(y, x), [-slope_below, -slope_below])


def test_numbers_beside_tensors_take_their_type_each_time() -> None:
    floats, whole, doubles = tf.constant([1.0, 2.0]), tf.constant([1, 2]), tf.constant([1.0], tf.float64)
    for _ in range(2):
        assert (floats + 1).numpy().tolist() == (1.0 + floats).numpy().tolist() == [2.0, 3.0]
        assert ((whole + 1).dtype, (1 - whole).numpy().tolist()) == (tf.int32, [0, -1])
        assert (doubles * 0.1).numpy().tolist() == [0.1]
        assert (2 / floats).numpy().tolist() == [2.0, 1.0]
        with np.errstate(divide="ignore"):
            assert (floats / 0.0).numpy().tolist() == [np.inf, np.inf]
            assert (floats / -0.0).numpy().tolist() == [-np.inf, -np.inf]
        assert np.isnan((floats * float("nan")).numpy()).all()
        with pytest.raises(TypeError, match="does not match type int32"):
            whole + 1.5


def test_equal_numbers_are_not_one_tensor_for_a_tape() -> None:
    x = tf.convert_to_tensor(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * 3.0
        z = 3.0 * y * 3.0
    assert tape.gradient(z, x).numpy() == 27.0
