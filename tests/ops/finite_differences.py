"""Compares gradients with central differences, in float64, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import thalweg as tf

_STEP = 1e-5


def check_gradient(
    call: Callable[..., Any], values: Sequence[Any], checked: Sequence[int], order: int, tolerance: float
) -> None:
    """Asserts that gradients of `call` with respect to arguments `checked` equal finite differences, up to `order`.

    The outputs are reduced to one number with fixed random weights; the derivative of that number along a random
    direction must equal its central difference. Order 2 applies the same check to the directional derivative.
    """
    rng = np.random.default_rng(7)
    with tf.Graph().as_default():
        feeds, tensors = {}, []
        for value in values:
            if isinstance(value, np.ndarray):
                placeholder = tf.placeholder(tf.as_dtype(value.dtype), value.shape)
                feeds[placeholder] = value
                tensors.append(placeholder)
            else:
                tensors.append(value)
        outputs = [o for o in tf.nest.flatten(call(*tensors)) if o.dtype.is_floating or o.dtype.is_complex]
        number = _weighted(outputs, rng)
        xs = [tensors[i] for i in checked]
        directions = [rng.standard_normal(np.shape(values[i])) for i in checked]
        with tf.Session() as session:
            for level in range(1, order + 1):
                grads = tf.gradients(number, xs)
                assert level > 1 or any(g is not None for g in grads), "no gradient reaches any checked argument"
                derivative = _along(grads, directions)
                if derivative is None:
                    return  # The function is linear: its derivative is constant.
                actual = session.run(derivative, feeds)
                expected = _central_difference(session, number, feeds, xs, directions)
                np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=f"order {level}")
                number = derivative


def _weighted(outputs: Sequence[Any], rng: np.random.Generator) -> Any:
    total = None
    for output in outputs:
        if output.dtype.is_complex:
            output = tf.real(output) + 0.7 * tf.imag(output)
        output = tf.cast(output, tf.float64)
        # Weights of the output's shape without knowing it statically: a fixed function of the position.
        flat = tf.reshape(output, [-1])
        weights = tf.cos(tf.cast(tf.range(tf.size(flat)), tf.float64) * 1.3 + 0.4)
        part = tf.reduce_sum(flat * weights)
        total = part if total is None else total + part
    assert total is not None, "no differentiable output"
    return total


def _along(grads: Sequence[Any], directions: Sequence[np.ndarray]) -> Any:
    total = None
    for grad, direction in zip(grads, directions, strict=True):
        if grad is None:
            continue
        part = tf.reduce_sum(tf.convert_to_tensor(grad) * direction)
        total = part if total is None else total + part
    return total


def _central_difference(
    session: Any, number: Any, feeds: dict[Any, Any], xs: Sequence[Any], directions: Sequence[np.ndarray]
) -> Any:
    def moved(step: float) -> Any:
        shifted = dict(feeds)
        for x, direction in zip(xs, directions, strict=True):
            shifted[x] = feeds[x] + step * direction
        return session.run(number, shifted)

    return (moved(_STEP) - moved(-_STEP)) / (2 * _STEP)
