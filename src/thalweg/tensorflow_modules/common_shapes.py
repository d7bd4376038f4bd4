"""`tensorflow.python.framework.common_shapes`: shapes of two arguments, in Python."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def broadcast_shape(shape_x: Any, shape_y: Any) -> Any:
    """The static shape of two values after broadcasting; unknown where it cannot be told.

    Raises:
        ValueError: If they do not fit.
    """
    return tf.broadcast_static_shape(tf.TensorShape(shape_x), tf.TensorShape(shape_y))


def is_broadcast_compatible(shape_x: Any, shape_y: Any) -> bool:
    """Whether two static shapes are known and fit."""
    x, y = tf.TensorShape(shape_x), tf.TensorShape(shape_y)
    if x.ndims is None or y.ndims is None:
        return False
    try:
        broadcast_shape(x, y)
    except ValueError:
        return False
    return True


def scalar_shape(op: Any) -> list[Any]:
    """A shape function: the output is a scalar."""
    return [tf.TensorShape([])]


def unknown_shape(op: Any) -> list[Any]:
    """A shape function: nothing is known about the outputs."""
    return [tf.TensorShape(None) for _ in op.outputs]


def unchanged_shape(op: Any) -> list[Any]:
    """A shape function: the output has the shape of the first input."""
    return [op.inputs[0].get_shape()]


def unchanged_shape_with_rank(rank: int) -> Any:
    """A shape function: the shape of the first input, which has that rank."""
    return lambda op: [op.inputs[0].get_shape().with_rank(rank)]


def call_cpp_shape_fn(op: Any, require_shape_fn: bool = True) -> list[Any]:
    """The static shapes of an operation's outputs."""
    return [output.get_shape() for output in op.outputs]
