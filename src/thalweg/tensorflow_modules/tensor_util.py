"""Names of `tensorflow.python.framework.tensor_util` that are not public."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def MakeNdarray(tensor: Any) -> Any:
    """The array of a TensorProto."""
    return tf.make_ndarray(tensor)


def is_tensor(x: Any) -> bool:
    """Whether a value is a tensor, a sparse one, or a variable."""
    return bool(tf.is_tensor(x))


def ShapeEquals(tensor_proto: Any, shape: Any) -> bool:
    """Whether a TensorProto has a shape, given as a list or as a TensorShapeProto."""
    wanted = [dim.size for dim in shape.dim] if hasattr(shape, "dim") else [int(size) for size in shape]
    return [dim.size for dim in tensor_proto.tensor_shape.dim] == wanted


def shape_tensor(shape: Any) -> Any:
    """A shape as an int32 tensor (int64 where a size needs it)."""
    sizes = [int(size) for size in shape] if isinstance(shape, (list, tuple)) and all(
        isinstance(size, int) for size in shape
    ) else None  # fmt: skip
    if sizes is None:
        return tf.convert_to_tensor(shape, name="shape")
    return tf.constant(sizes, tf.int64 if any(size >= 2**31 for size in sizes) else tf.int32, name="shape")
