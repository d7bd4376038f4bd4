"""Names of `tensorflow.python.ops.array_ops` that are not public."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def shape_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = tf.int32) -> Any:
    """The shape of a tensor: a constant where it is known, unless `optimize` is False."""
    return tf.shape(input, name, out_type) if optimize else tf.raw_ops.Shape(input=input, out_type=out_type, name=name)


def size_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = tf.int32) -> Any:
    """The number of elements of a tensor."""
    return tf.size(input, name, out_type) if optimize else tf.raw_ops.Size(input=input, out_type=out_type, name=name)


def rank_internal(input: Any, name: str | None = None, optimize: bool = True) -> Any:
    """The number of axes of a tensor."""
    return tf.rank(input, name) if optimize else tf.raw_ops.Rank(input=input, name=name)
