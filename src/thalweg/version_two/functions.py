"""Functions whose arguments or results differ in TensorFlow 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.version_two.public_names import OTHERWISE, otherwise, tf

OTHERWISE["__version__"] = OTHERWISE["version.VERSION"] = "2.0.0"
OTHERWISE["where"] = tf.where_v2
OTHERWISE["random.set_seed"] = tf.set_random_seed
OTHERWISE["nn.softmax_cross_entropy_with_logits"] = tf.nn.softmax_cross_entropy_with_logits_v2
OTHERWISE["batch_to_space"] = tf.batch_to_space_nd
OTHERWISE["space_to_batch"] = tf.space_to_batch_nd


@otherwise("math.in_top_k", "nn.in_top_k")
def in_top_k(targets: Any, predictions: Any, k: Any, name: str | None = None) -> Any:
    """Whether each target is among the k largest predictions."""
    return tf.nn.in_top_k(predictions, targets, k, name)


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


@otherwise("nn.dropout")
def dropout(x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: str | None = None) -> Any:
    """Sets elements to zero with a probability, and scales the others up."""
    return tf.nn.dropout(x, noise_shape=noise_shape, seed=seed, name=name, rate=rate)


@otherwise("nn.moments")
def moments(x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """The mean and the variance."""
    return tf.nn.moments(x, axes, shift=shift, name=name, keep_dims=keepdims)


@otherwise("nn.embedding_lookup")
def embedding_lookup(params: Any, ids: Any, max_norm: Any = None, name: str | None = None) -> Any:
    """The rows of a table."""
    return tf.nn.embedding_lookup(params, ids, name=name, max_norm=max_norm)


@otherwise("pad")
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None) -> Any:
    """Pads."""
    return tf.pad(tensor, paddings, mode=mode, name=name, constant_values=constant_values)


@otherwise("zeros_like")
def zeros_like(input: Any, dtype: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """Zeros of the shape of a tensor."""
    return tf.zeros_like(input, dtype, name)


@otherwise("ones_like")
def ones_like(input: Any, dtype: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """Ones of the shape of a tensor."""
    return tf.ones_like(input, dtype, name)


@otherwise("while_loop")
def while_loop(
    cond: Any, body: Any, loop_vars: Any, shape_invariants: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, maximum_iterations: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Repeats the body while the condition holds; the result has the structure of the variables."""
    return tf.while_loop(
        cond, body, loop_vars, shape_invariants=shape_invariants, parallel_iterations=parallel_iterations,
        back_prop=back_prop, swap_memory=swap_memory, name=name, maximum_iterations=maximum_iterations,
        return_same_structure=True,
    )  # fmt: skip


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


@otherwise("gradients")
def gradients(*args: Any, **kwargs: Any) -> Any:
    """Gradients in a graph."""
    return tf.gradients(*args, **kwargs)


@otherwise("map_fn")
def map_fn(fn: Any, elems: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Calls a function for each element; `fn_output_signature` is the newer name of `dtype`."""
    signature = kwargs.pop("fn_output_signature", dtype)
    kinds = tf.nest.map_structure(lambda each: each.dtype if isinstance(each, tf.TensorSpec) else each, signature)
    return tf.map_fn(fn, elems, kinds, *args, **kwargs)
