"""Names of `tensorflow.python.training.moving_averages` that are not public."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.train.optimizers.moving_averages import assign_moving_average as assign_moving_average


def weighted_moving_average(
    value: Any, decay: float, weight: Any, truediv: bool = True, collections: Any = None, name: str | None = None
) -> Any:
    """The moving average of `value`, weighted by `weight`, which two variables keep."""
    if collections is None:
        collections = [tf.GraphKeys.GLOBAL_VARIABLES]
    with tf.variable_scope(name, "WeightedMovingAvg", [value, weight]) as scope:
        shape = value.get_shape()
        zeros = tf.zeros_initializer()
        total = tf.get_variable("value_x_weight", shape, value.dtype, zeros, trainable=False, collections=collections)
        weights = tf.get_variable("weight", shape, value.dtype, zeros, trainable=False, collections=collections)
        numerator = assign_moving_average(total, value * weight, decay, zero_debias=False)
        denominator = assign_moving_average(weights, tf.ones_like(value) * weight, decay, zero_debias=False)
        divide = tf.truediv if truediv else tf.div
        return divide(numerator, denominator, name=scope.name)
