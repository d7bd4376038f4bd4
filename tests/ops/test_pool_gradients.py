"""Gradients of max pools whose windows do not overlap: each pixel has one window, or none."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("gap", [0, 1])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize(("size", "channels"), [((12, 20), 21), ((13, 11), 3), ((60, 60), 16)])
def test_each_gradient_gets_to_the_maximum(
    window: int, gap: int, padding: str, size: tuple[int, int], channels: int
) -> None:
    rng = np.random.default_rng(window)
    x = rng.permutation(2 * size[0] * size[1] * channels).reshape(2, *size, channels).astype(np.float32)
    given = tf.constant(x)
    y = tf.nn.max_pool(given, [1, window, window, 1], [1, window + gap, window + gap, 1], padding)
    weights = rng.normal(size=y.shape.as_list()).astype(np.float32)
    with tf.Session() as session:
        values, gradient = session.run([y, tf.gradients(y, given, tf.constant(weights))[0]])
    # The elements are distinct: a maximum tells its place.
    expected = np.zeros(x.size, np.float32)
    expected[np.argsort(x.ravel())[values.astype(np.int64).ravel()]] = weights.ravel()
    np.testing.assert_array_equal(gradient.ravel(), expected)
