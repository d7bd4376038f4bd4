"""Functions whose arguments or results differ in TensorFlow 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.version_two.public_names import OTHERWISE, otherwise, tf

OTHERWISE["__version__"] = OTHERWISE["version.VERSION"] = "2.0.0"


@otherwise("nn.gelu")
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Any:
    """X times the probability that a normal number is below x."""
    x = tf.convert_to_tensor(features)
    if approximate:
        return 0.5 * x * (1.0 + tf.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + tf.math.erf(x * np.sqrt(0.5)))


@otherwise("math.polyval")
def polyval(coeffs: Any, x: Any, name: str | None = None) -> Any:
    """The polynomial of these coefficients, that of the highest power first."""
    result = tf.zeros_like(x) if not coeffs else coeffs[0] + tf.zeros_like(x)
    for each in coeffs[1:]:
        result = each + result * x
    return result


@otherwise("strings.split")
def split(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Splits strings into a RaggedTensor; a single string into a vector."""
    if isinstance(input, tf.RaggedTensor):
        return input.with_values(split(input.values, sep, maxsplit, name))
    given = tf.convert_to_tensor(input, dtype=tf.string)
    if given.shape.ndims is None:
        raise ValueError("The rank of `input` must be known.")
    found = tf.strings.split(tf.reshape(given, [-1]), sep, maxsplit, name=name)
    pieces = tf.RaggedTensor.from_value_rowids(found.values, found.indices[:, 0], found.dense_shape[0])
    if given.shape.ndims == 0:
        return pieces.values
    sizes = tf.shape(given, out_type=tf.int64)
    for axis in range(given.shape.ndims - 1, 0, -1):
        count = tf.reduce_prod(sizes[:axis])
        pieces = tf.RaggedTensor.from_row_splits(pieces, tf.range(count + 1) * sizes[axis])
    return pieces


@otherwise("image.resize")
def resize(
    images: Any, size: Any, method: Any = "bilinear", preserve_aspect_ratio: bool = False, antialias: bool = False,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Resizes images, whose pixels lie at their centers."""
    if antialias:
        kinds = {"bilinear": "triangle", "bicubic": "keyscubic"}
        kernel = kinds.get(str(method), str(method))
        target = tf.convert_to_tensor(size, tf.int32)
        batch = tf.convert_to_tensor(images)
        single = batch.shape.ndims == 3
        batch = tf.cast(batch[None] if single else batch, tf.float32)
        scale = tf.cast(target, tf.float32) / tf.cast(tf.shape(batch)[1:3], tf.float32)
        resized = tf.raw_ops.ScaleAndTranslate(images=batch, size=target, scale=scale, translation=tf.zeros([2]),
                                               kernel_type=kernel, antialias=True)  # fmt: skip
        return resized[0] if single else resized
    ops = {"bilinear": "ResizeBilinear", "nearest": "ResizeNearestNeighbor", "bicubic": "ResizeBicubic"}
    if str(method) not in ops:
        if str(method) == "area":
            return tf.image.resize_area(images, size)
        raise ValueError(f"Resize method is not implemented: {method}")
    batch, target = tf.convert_to_tensor(images), tf.convert_to_tensor(size, tf.int32)
    single = batch.shape.ndims == 3
    batch = batch[None] if single else batch
    if preserve_aspect_ratio:
        sizes = tf.cast(tf.shape(batch)[1:3], tf.float32)
        target = tf.cast(tf.round(sizes * tf.reduce_min(tf.cast(target, tf.float32) / sizes)), tf.int32)
    resized = getattr(tf.raw_ops, ops[str(method)])(images=batch, size=target, half_pixel_centers=True)
    return resized[0] if single else resized


@otherwise("map_fn")
def map_fn(fn: Any, elems: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Calls a function for each element; `fn_output_signature` is the newer name of `dtype`."""
    signature = kwargs.pop("fn_output_signature", dtype)
    kinds = tf.nest.map_structure(lambda each: each.dtype if isinstance(each, tf.TensorSpec) else each, signature)
    return tf.map_fn(fn, elems, kinds, *args, **kwargs)
