"""tensorflow.python.ops.random_ops: the draws that have no public name."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def parameterized_truncated_normal(
    shape: Any, means: Any = 0.0, stddevs: Any = 1.0, minvals: Any = -2.0, maxvals: Any = 2.0, dtype: Any = None,
    seed: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Draws from normal distributions that are cut off below and above.

    Args:
        shape: The shape of the result; its first dimension numbers the distributions, if there are several.
        means: Their means: a scalar, or a vector.
        stddevs: Their deviations.
        minvals: Where they begin.
        maxvals: Where they end.
        dtype: float16, bfloat16, float32 or float64; float32 if None.
        seed: A number that draws depend on.
        name: The scope of the nodes.
    """
    kind = tf.as_dtype(dtype or tf.float32)
    with tf.name_scope(name, "parameterized_truncated_normal", [shape, means, stddevs, minvals, maxvals]):
        size = tf.convert_to_tensor(shape, name="shape")
        rank = tf.size(size)

        def parameter(value: Any) -> Any:
            given = tf.cast(tf.convert_to_tensor(value), tf.float64)
            wide = tf.concat([tf.shape(given), tf.ones([tf.maximum(rank - tf.rank(given), 0)], tf.int32)], axis=0)
            return tf.reshape(given, wide)

        mean, deviation, low, high = (parameter(each) for each in (means, stddevs, minvals, maxvals))
        # A side far from the mean loses digits above it: the distribution is mirrored so that it lies below.
        side = tf.where(low > mean, -tf.ones_like(low + mean), tf.ones_like(low + mean))
        ends = [side * (low - mean) / deviation, side * (high - mean) / deviation]
        below, above = _share(tf.minimum(*ends)), _share(tf.maximum(*ends))
        place = tf.random_uniform(size, seed=seed, dtype=tf.float64)
        normal = tf.math.ndtri(below + place * (above - below)) * side
        values = tf.minimum(tf.maximum(mean + deviation * normal, low), high)
        result = tf.cast(values, kind)
        result.set_shape(tf.TensorShape(tf.get_static_value(size)) if tf.get_static_value(size) is not None else None)
        return result


def _share(x: Any) -> Any:
    """The share of a normal distribution below a number."""
    return 0.5 * tf.math.erfc(-x / 2.0**0.5)
