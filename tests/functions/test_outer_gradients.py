"""Gradients that are taken inside of functions, of tensors of the graphs around them; TensorFlow gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _one_level(x: tf.Tensor) -> Any:
    y = x * x
    return tf.function(lambda: tf.gradients(y, x)[0])()


def _two_levels(x: tf.Tensor) -> Any:
    def outer() -> Any:
        y = x * x
        return tf.function(lambda: tf.gradients(y * 1.0, x)[0])()

    return tf.function(outer)()


def _argument_of_outer(x: tf.Tensor) -> Any:
    def outer(z: tf.Tensor) -> Any:
        y = z * z
        return tf.function(lambda: tf.gradients(y * y, z)[0])()

    return tf.function(outer)(x)


def _direct_and_outer_path(x: tf.Tensor) -> Any:
    def outer() -> Any:
        y = x * x
        return tf.function(lambda: tf.gradients(x * y, x)[0])()

    return tf.function(outer)()


def _stopped(x: tf.Tensor) -> Any:
    y = x * x
    return tf.function(lambda: tf.gradients(x * y, x, stop_gradients=y)[0])()


@pytest.mark.parametrize(("build", "expected"), [
    (_one_level, 4.0), (_two_levels, 4.0), (_argument_of_outer, 32.0), (_direct_and_outer_path, 12.0), (_stopped, 4.0),
])  # fmt: skip
def test_gradients_go_through_captures(build: Callable[[tf.Tensor], Any], expected: float) -> None:
    found = build(tf.constant(2.0))
    with tf.Session() as session:
        assert session.run(found) == expected


def test_an_intermediate_tensor_and_its_source_have_their_gradients_both() -> None:
    x = tf.constant(2.0)
    y = x * x
    found = tf.function(lambda: tf.gradients(y * 3.0, [x, y]))()
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(found), [12.0, 3.0])


def test_nothing_outside_is_reached_without_a_path() -> None:
    x, other = tf.constant(2.0), tf.constant(3.0)

    def inner() -> tf.Tensor:
        assert tf.gradients(other * 2.0, x) == [None]
        return other

    tf.function(inner)()


def test_a_variable_read_outside_is_reached_from_inside() -> None:
    v = tf.get_variable("v", initializer=3.0, use_resource=True)
    y = tf.square(v)
    found = tf.function(lambda: tf.gradients(y, v)[0])()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(found) == 6.0
