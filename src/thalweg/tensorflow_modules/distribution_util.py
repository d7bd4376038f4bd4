"""What programs use of `tensorflow.python.ops.distributions.util`."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def softplus_inverse(x: Any, name: str | None = None) -> Any:
    """The value whose softplus is `x`, without overflow."""
    with tf.name_scope(name, "softplus_inverse", [x]):
        x = tf.convert_to_tensor(x, name="x")
        # log(exp(x) - 1) = x + log(1 - exp(-x))
        return x + tf.log(-tf.math.expm1(-x))


def fill_triangular(x: Any, upper: bool = False, name: str | None = None) -> Any:
    """A triangular matrix of the elements of vectors, in the order of TensorFlow."""
    with tf.name_scope(name, "fill_triangular", [x]):
        x = tf.convert_to_tensor(x, name="x")
        count = x.shape.as_list()[-1]
        if count is None:
            raise ValueError("fill_triangular needs vectors of known size")
        n = int((-1 + (1 + 8 * count) ** 0.5) / 2 + 0.5)
        if n * (n + 1) // 2 != count:
            raise ValueError(f"Input right-most shape ({count}) does not correspond to a triangular matrix.")
        parts = [x, tf.reverse(x[..., n:], axis=[-1])] if upper else [x[..., n:], tf.reverse(x, axis=[-1])]
        joined = tf.concat(parts, axis=-1)
        matrix = tf.reshape(joined, tf.concat([tf.shape(x)[:-1], [n, n]], axis=0))
        return tf.matrix_band_part(matrix, 0 if upper else -1, -1 if upper else 0)
