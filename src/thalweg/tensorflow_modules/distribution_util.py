"""What programs use of `tensorflow.python.ops.distributions.util`."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.distributions.vectors import softplus_inverse as softplus_inverse
from thalweg.contrib.public_names import tf


def fill_triangular(x: Any, upper: bool = False, name: str | None = None) -> Any:
    """Triangular matrices of the elements of vectors, in TensorFlow's order.

    Raises:
        ValueError: If the size of the vectors is unknown, or fits no triangular matrix.
    """
    with tf.name_scope(name, "fill_triangular", [x]):
        x = tf.convert_to_tensor(x, name="x")
        count = x.shape.as_list()[-1]
        if count is None:
            raise ValueError("fill_triangular needs vectors of known size")
        n = int((-1 + (1 + 8 * count) ** 0.5) / 2 + 0.5)
        if n * (n + 1) // 2 != count:
            raise ValueError(f"Input right-most shape ({count}) does not correspond to a triangular matrix.")
        parts = [x, tf.reverse(x[..., n:], axis=[-1])] if upper else [x[..., n:], tf.reverse(x, axis=[-1])]
        matrix = tf.reshape(tf.concat(parts, axis=-1), tf.concat([tf.shape(x)[:-1], [n, n]], axis=0))
        return tf.matrix_band_part(matrix, 0 if upper else -1, -1 if upper else 0)
