"""Layers without variables, or with one: flatten, dropout, one_hot_encoding, bias_add, softmax, maxout and others."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.framework.variables import model_variable
from thalweg.contrib.layers.variable_names import check_data_format, collections_of, finished
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.layers.flatten", "contrib.slim.flatten")
@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Any:
    """Makes one axis of all axes but the first."""
    with tf.name_scope(scope, "Flatten", [inputs]) as sc:
        outputs = tf.layers.flatten(tf.convert_to_tensor(inputs))
        return finished(outputs_collections, sc.rstrip("/"), outputs)


@export("contrib.layers.inner_flatten")
@add_arg_scope
def inner_flatten(inputs: Any, new_rank: int, output_collections: Any = None, scope: Any = None) -> Any:
    """Makes one axis of the last ones, such that `new_rank` axes remain.

    Raises:
        ValueError: If there are fewer axes.
    """
    with tf.name_scope(scope, "InnerFlatten", [inputs, new_rank]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is not None and rank < new_rank:
            raise ValueError(f"inputs has rank less than new_rank. new_rank: {new_rank}, rank: {rank}")
        outer = tf.shape(inputs)[: new_rank - 1]
        outputs = tf.reshape(inputs, tf.concat([outer, [-1]], 0))
        if rank is not None:
            sizes = inputs.shape.as_list()
            last = 1
            for size in sizes[new_rank - 1 :]:
                last = None if last is None or size is None else last * size  # type: ignore[assignment]
            outputs.set_shape([*sizes[: new_rank - 1], last])
        return finished(output_collections, sc.rstrip("/"), outputs)


@export("contrib.layers.dropout", "contrib.slim.dropout")
@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> Any:
    """Keeps each element with probability `keep_prob` while training, scaled up; else the inputs as they are."""
    with tf.variable_scope(scope, "Dropout", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        outputs = tf.contrib.framework.smart_cond(
            is_training,
            lambda: tf.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed),
            lambda: tf.identity(inputs),
        )
        return finished(outputs_collections, sc.name, outputs)


@export("contrib.layers.one_hot_encoding", "contrib.slim.one_hot_encoding")
@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """Labels as rows with a one in the column of the class."""
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        labels = tf.convert_to_tensor(labels)
        if labels.dtype == tf.int32:
            labels = tf.cast(labels, tf.int64)
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return finished(outputs_collections, sc.rstrip("/"), outputs)


@export("contrib.layers.bias_add", "contrib.slim.bias_add")
@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = tf.zeros_initializer(),  # noqa: B008
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """Adds a bias per channel, then an activation."""
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        size = inputs.shape.as_list()[1 if data_format == "NCHW" else -1]
        if size is None:
            raise ValueError(f"`C` dimension must be known but is None: {inputs.shape}")
        biases = model_variable(
            "biases", shape=[size], dtype=inputs.dtype.base_dtype, initializer=initializer, regularizer=regularizer,
            collections=collections_of("biases", variables_collections), trainable=trainable,
        )  # fmt: skip
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return finished(outputs_collections, sc.name, outputs)


@export("contrib.layers.softmax", "contrib.slim.softmax")
@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Any:
    """The softmax along the last axis of any number of axes."""
    with tf.variable_scope(scope, "softmax", [logits]):
        size = logits.shape.as_list()[-1]
        rows = tf.nn.softmax(tf.reshape(logits, [-1, size]))
        predictions = tf.reshape(rows, tf.shape(logits))
        predictions.set_shape(logits.shape)
        return predictions


@export("contrib.layers.maxout")
@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Any:
    """The largest of each group of channels (Goodfellow et al., 2013).

    Raises:
        ValueError: If `num_units` does not divide the number of channels.
    """
    with tf.variable_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.shape.as_list()
        channels = shape[axis]
        if channels is None or channels % num_units:
            raise ValueError(f"number of features({channels}) is not a multiple of num_units({num_units})")
        axis %= len(shape)
        dynamic = tf.shape(inputs)
        outer = [dynamic[i] if size is None else size for i, size in enumerate(shape)]
        grouped = tf.reshape(inputs, [*outer[:axis], num_units, channels // num_units, *outer[axis + 1 :]])
        outputs = tf.reduce_max(grouped, axis + 1)
        outputs.set_shape([*shape[:axis], num_units, *shape[axis + 1 :]])
        return outputs


@export("contrib.layers.spatial_softmax", "contrib.slim.spatial_softmax")
@add_arg_scope
def spatial_softmax(
    features: Any,
    temperature: Any = None,
    name: str | None = None,
    variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> Any:
    """The mean position of each channel's softmax over an image: [batch, 2 * channels], x and y in -1 to 1."""
    with tf.variable_scope(name, "spatial_softmax"):
        shape = tf.shape(features)
        first = data_format == "NCHW"
        height, width = (shape[2], shape[3]) if first else (shape[1], shape[2])
        channels = features.shape.as_list()[1 if first else 3]
        if channels is None:
            raise ValueError("The num_channels dimension of the inputs to `spatial_softmax` should be defined.")
        x, y = tf.meshgrid(tf.linspace(-1.0, 1.0, height), tf.linspace(-1.0, 1.0, width), indexing="ij")
        x, y = tf.reshape(x, [-1]), tf.reshape(y, [-1])
        if temperature is None:
            temperature = model_variable(
                "temperature", shape=(), dtype=tf.float32, initializer=tf.ones_initializer(),
                collections=variables_collections, trainable=trainable,
            )  # fmt: skip
        rows = tf.reshape(features if first else tf.transpose(features, [0, 3, 1, 2]), [-1, height * width])
        attention = tf.nn.softmax(rows / temperature)
        expected = [tf.reduce_sum(place * attention, [1], keepdims=True) for place in (x, y)]
        keypoints = tf.reshape(tf.concat(expected, 1), [-1, channels * 2])
        keypoints.set_shape([None, channels * 2])
        return keypoints


@export("contrib.layers.images_to_sequence")
@add_arg_scope
def images_to_sequence(
    inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: Any = None
) -> Any:
    """Columns of images as steps: [width, batch * height, channels]."""
    check_data_format(data_format, ("NHWC", "NCHW"))
    with tf.name_scope(scope, "ImagesToSequence", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if data_format == "NCHW":
            inputs = tf.transpose(inputs, [0, 2, 3, 1])
        _, _, width, depth = inputs.shape.as_list()
        shape = tf.shape(inputs)
        flat = tf.reshape(
            tf.transpose(inputs, [2, 0, 1, 3]), [-1 if width is None else width, shape[0] * shape[1], depth]
        )
        return finished(outputs_collections, sc.rstrip("/"), flat)


@export("contrib.layers.sequence_to_images")
@add_arg_scope
def sequence_to_images(
    inputs: Any,
    height: int,
    output_data_format: str = "channels_last",
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """The inverse of `images_to_sequence`, for images of a known height."""
    with tf.name_scope(scope, "SequenceToImages", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        width, _, depth = inputs.shape.as_list()
        count = tf.shape(inputs)
        images = tf.reshape(inputs, [count[0] if width is None else width, count[1] // height, height, depth])
        order = [1, 3, 2, 0] if output_data_format in ("channels_first", "NCHW") else [1, 2, 0, 3]
        return finished(outputs_collections, sc.rstrip("/"), tf.transpose(images, order))


@export("contrib.layers.scale_gradient")
def scale_gradient(inputs: Any, gradient_multiplier: float) -> Any:
    """The inputs, with a gradient that is multiplied."""
    return gradient_multiplier * inputs + tf.stop_gradient((1.0 - gradient_multiplier) * inputs)
