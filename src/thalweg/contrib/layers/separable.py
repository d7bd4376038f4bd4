"""Depthwise and separable convolutions of tf.contrib.layers."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.framework.variables import model_variable
from thalweg.contrib.layers.convolutions import _activated, _as_list
from thalweg.contrib.layers.variable_names import (
    add_variable,
    check_data_format,
    collections_of,
    finished,
    keras_format,
    renaming_getter,
)
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export
from thalweg.layers.regularizers import xavier_initializer

_RENAMED = {"bias": "biases", "depthwise_kernel": "depthwise_weights", "pointwise_kernel": "pointwise_weights"}


@export(
    "contrib.layers.separable_convolution2d", "contrib.layers.separable_conv2d", "contrib.slim.separable_conv2d",
    "contrib.slim.separable_convolution2d",
)  # fmt: skip
@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """A convolution of each channel by itself, then one over channels; without the latter if `num_outputs` is None.

    Args:
        inputs: Images.
        num_outputs: The number of output channels, or None.
        kernel_size: The size of the depthwise kernel.
        depth_multiplier: How many channels the depthwise convolution makes of one.
        stride: The stride.
        padding: 'SAME' or 'VALID'.
        data_format: 'NHWC' or 'NCHW'.
        rate: The rate of dilation.
        activation_fn: Applied at the end; None for none.
        normalizer_fn: A function such as `batch_norm`, instead of a bias.
        normalizer_params: Its arguments.
        weights_initializer: First value of the depthwise weights.
        pointwise_initializer: First value of the pointwise weights; `weights_initializer` if None.
        weights_regularizer: A function of the weights that gives a loss.
        biases_initializer: First value of the biases; None for no bias.
        biases_regularizer: A function of the biases that gives a loss.
        reuse: Whether variables are found instead of created.
        variables_collections: Further collections of the variables.
        outputs_collections: Collections of the output.
        trainable: Whether optimizers change the variables.
        scope: The variable scope; 'SeparableConv2d' by default.

    Returns:
        The output.
    """
    check_data_format(data_format, ("NHWC", "NCHW"))
    getter = renaming_getter(_RENAMED)
    with tf.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse, custom_getter=getter) as sc:
        inputs = tf.convert_to_tensor(inputs)
        dtype = inputs.dtype.base_dtype
        biased = not normalizer_fn and bool(biases_initializer)
        if num_outputs is not None:
            layer = tf.layers.SeparableConv2D(
                filters=num_outputs, kernel_size=kernel_size, strides=stride, padding=padding,
                data_format=keras_format(data_format), dilation_rate=tuple(_as_list(rate, 2)), activation=None,
                depth_multiplier=depth_multiplier, use_bias=biased, depthwise_initializer=weights_initializer,
                pointwise_initializer=pointwise_initializer or weights_initializer, bias_initializer=biases_initializer,
                depthwise_regularizer=weights_regularizer, pointwise_regularizer=weights_regularizer,
                bias_regularizer=biases_regularizer, trainable=trainable, name=sc.name, dtype=dtype, _scope=sc,
                _reuse=reuse,
            )  # fmt: skip
            outputs = layer.apply(inputs)
            add_variable(layer.depthwise_kernel, "weights", variables_collections)
            add_variable(layer.pointwise_kernel, "weights", variables_collections)
            add_variable(layer.bias if biased else None, "biases", variables_collections)
        else:
            outputs = _depthwise(
                inputs, kernel_size, depth_multiplier, stride, padding, data_format, rate,
                (weights_initializer, weights_regularizer), (biases_initializer if biased else None,
                biases_regularizer),
                trainable, variables_collections,
            )  # fmt: skip
        outputs = _activated(outputs, normalizer_fn, normalizer_params, activation_fn)
        return finished(outputs_collections, sc.name, outputs)


def _depthwise(
    inputs: Any, kernel_size: Any, multiplier: int, stride: Any, padding: str, data_format: str, rate: Any,
    weights_options: Any, biases_options: Any, trainable: bool, collections: Any,
) -> Any:  # fmt: skip
    dtype = inputs.dtype.base_dtype
    channels_first = data_format == "NCHW"
    channels = inputs.shape.as_list()[1 if channels_first else -1]
    weights = model_variable(
        "depthwise_weights", [*_as_list(kernel_size, 2), channels, multiplier], dtype, *weights_options, trainable,
        collections_of("weights", collections),
    )  # fmt: skip
    steps = _as_list(stride, 2)
    strides = [1, 1, *steps] if channels_first else [1, *steps, 1]
    outputs = tf.nn.depthwise_conv2d(inputs, weights, strides, padding, rate=_as_list(rate, 2), data_format=data_format)
    if biases_options[0] is None:
        return outputs
    biases = model_variable(
        "biases", [channels * multiplier], dtype, *biases_options, trainable, collections_of("biases", collections)
    )
    return tf.nn.bias_add(outputs, biases, data_format=data_format)
