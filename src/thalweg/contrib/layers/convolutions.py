"""Convolutions of tf.contrib.layers: conv1d to conv3d, transposed, separable, in plane."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.framework.variables import model_variable
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

_RENAMED = {"bias": "biases", "kernel": "weights"}
_ZEROS = tf.zeros_initializer()


def _activated(outputs: Any, normalizer_fn: Any, normalizer_params: Any, activation_fn: Any) -> Any:
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    return outputs if activation_fn is None else activation_fn(outputs)


def _run_layer(
    make: Any, inputs: Any, scope: Any, default: str, reuse: Any, variables_collections: Any, outputs_collections: Any,
    normalizer_fn: Any, normalizer_params: Any, activation_fn: Any,
) -> Any:  # fmt: skip
    """Builds a layer of `tf.layers` in a scope, and applies normalization and activation."""
    with tf.variable_scope(scope, default, [inputs], reuse=reuse, custom_getter=renaming_getter(_RENAMED)) as sc:
        inputs = tf.convert_to_tensor(inputs)
        layer = make(sc, inputs)
        outputs = layer.apply(inputs)
        add_variable(layer.kernel, "weights", variables_collections)
        add_variable(layer.bias if layer.use_bias else None, "biases", variables_collections)
        outputs = _activated(outputs, normalizer_fn, normalizer_params, activation_fn)
        return finished(outputs_collections, sc.name, outputs)


def _layer_options(
    sc: Any, inputs: Any, num_outputs: int, normalizer_fn: Any, weights_initializer: Any, weights_regularizer: Any,
    biases_initializer: Any, biases_regularizer: Any, trainable: bool, reuse: Any,
) -> dict[str, Any]:  # fmt: skip
    """The arguments that all layers of `tf.layers` take here."""
    return {
        "filters": num_outputs, "activation": None, "activity_regularizer": None,
        "use_bias": not normalizer_fn and bool(biases_initializer), "kernel_initializer": weights_initializer,
        "bias_initializer": biases_initializer, "kernel_regularizer": weights_regularizer,
        "bias_regularizer": biases_regularizer, "trainable": trainable, "name": sc.name,
        "dtype": inputs.dtype.base_dtype, "_scope": sc, "_reuse": reuse,
    }  # fmt: skip


def _as_list(value: Any, n: int) -> list[int]:
    return [int(value)] * n if isinstance(value, int) else [int(size) for size in value]


@export("contrib.layers.convolution", "contrib.slim.convolution")
@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008
    weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    conv_dims: int | None = None,
) -> Any:
    """A convolution, then normalization (or a bias), then an activation.

    Args:
        inputs: A tensor of 3 to 5 axes.
        num_outputs: The number of output channels.
        kernel_size: The size of the kernel along each spatial axis, or one for all.
        stride: The stride; with a rate other than 1 it has to be 1.
        padding: 'SAME' or 'VALID'.
        data_format: 'NHWC' or 'NCHW', and the like for 3 and 5 axes.
        rate: The rate of dilation.
        activation_fn: Applied at the end; None for none.
        normalizer_fn: A function such as `batch_norm`, instead of a bias.
        normalizer_params: Its arguments.
        weights_initializer: First value of the weights.
        weights_regularizer: A function of the weights that gives a loss.
        biases_initializer: First value of the biases; None for no bias.
        biases_regularizer: A function of the biases that gives a loss.
        reuse: Whether variables are found instead of created; needs a scope.
        variables_collections: Further collections of the variables, or a dict by 'weights' and 'biases'.
        outputs_collections: Collections of the output.
        trainable: Whether optimizers change the variables.
        scope: The variable scope; 'Conv' by default.
        conv_dims: The number of spatial axes that the inputs must have.

    Returns:
        The output.

    Raises:
        ValueError: If the inputs have another number of axes, or the data format is unknown.
    """
    check_data_format(data_format, (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW"))
    classes = {3: tf.layers.Conv1D, 4: tf.layers.Conv2D, 5: tf.layers.Conv3D}

    def make(sc: Any, x: Any) -> Any:
        rank = x.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        if rank not in classes:
            raise ValueError("Convolution not supported for input with rank", rank)
        return classes[rank](
            kernel_size=kernel_size, strides=stride, padding=padding, data_format=keras_format(data_format),
            dilation_rate=rate,
            **_layer_options(
                sc, x, num_outputs, normalizer_fn, weights_initializer, weights_regularizer, biases_initializer,
                biases_regularizer, trainable, reuse,
            ),
        )  # fmt: skip

    return _run_layer(
        make, inputs, scope, "Conv", reuse, variables_collections, outputs_collections, normalizer_fn,
        normalizer_params, activation_fn,
    )  # fmt: skip


def _exported(function: Any, name: str, summary: str) -> Any:
    """Exports a function under `name`, and under its short form: 'convolution2d' and 'conv2d'."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    names = (name, name.replace("convolution", "conv"))
    exported = export(*(f"contrib.{space}.{each}" for space in ("layers", "slim") for each in names))
    return exported(add_arg_scope(function))


def _convolution_of(axes: int) -> Any:
    def function(
        inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
        data_format: str | None = None, rate: Any = 1, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
        normalizer_params: Any = None, weights_initializer: Any = xavier_initializer(),  # noqa: B008
        weights_regularizer: Any = None, biases_initializer: Any = _ZEROS, biases_regularizer: Any = None,
        reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
        scope: Any = None,
    ) -> Any:  # fmt: skip
        given = {name: value for name, value in locals().items() if name != "axes"}
        return convolution(**given, conv_dims=axes)

    summary = f"`tf.contrib.layers.convolution` of inputs with {axes} spatial ax{'i' if axes == 1 else 'e'}s."
    return _exported(function, f"convolution{axes}d", summary)


convolution1d, convolution2d, convolution3d = (_convolution_of(_axes) for _axes in (1, 2, 3))


def _transposed_of(axes: int, layer: Any, formats: tuple[str, str], things: str) -> Any:
    def function(
        inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
        data_format: str = formats[0], activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
        normalizer_params: Any = None, weights_initializer: Any = xavier_initializer(),  # noqa: B008
        weights_regularizer: Any = None, biases_initializer: Any = _ZEROS, biases_regularizer: Any = None,
        reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
        scope: Any = None,
    ) -> Any:  # fmt: skip
        check_data_format(data_format, formats)

        def make(sc: Any, x: Any) -> Any:
            return layer(
                kernel_size=kernel_size, strides=stride, padding=padding, data_format=keras_format(data_format),
                **_layer_options(
                    sc, x, num_outputs, normalizer_fn, weights_initializer, weights_regularizer, biases_initializer,
                    biases_regularizer, trainable, reuse,
                ),
            )  # fmt: skip

        return _run_layer(
            make, inputs, scope, f"Conv{axes}d_transpose", reuse, variables_collections, outputs_collections,
            normalizer_fn, normalizer_params, activation_fn,
        )  # fmt: skip

    summary = (
        f"A transposed convolution of {things}, then normalization (or a bias), then an activation; see `convolution`."
    )
    return _exported(function, f"convolution{axes}d_transpose", summary)


convolution2d_transpose = _transposed_of(2, tf.layers.Conv2DTranspose, ("NHWC", "NCHW"), "images")
convolution3d_transpose = _transposed_of(3, tf.layers.Conv3DTranspose, ("NDHWC", "NCDHW"), "volumes")


@export(
    "contrib.layers.convolution2d_in_plane", "contrib.layers.conv2d_in_plane", "contrib.slim.conv2d_in_plane",
    "contrib.slim.convolution2d_in_plane",
)  # fmt: skip
@add_arg_scope
def convolution2d_in_plane(
    inputs: Any, kernel_size: Any, stride: Any = 1, padding: str = "SAME", activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008
    weights_regularizer: Any = None, biases_initializer: Any = _ZEROS, biases_regularizer: Any = None,
    reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    scope: Any = None,
) -> Any:  # fmt: skip
    """The same convolution of every channel by itself, with one kernel for all of them."""
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        dtype = inputs.dtype.base_dtype
        height, width = _as_list(kernel_size, 2)
        strides = _as_list(stride, 2)
        channels = inputs.shape.as_list()[-1]
        weights = model_variable(
            "weights", [height, width, 1, 1], dtype, weights_initializer, weights_regularizer, trainable,
            collections_of("weights", variables_collections),
        )  # fmt: skip
        kernel = tf.tile(weights, [1, 1, channels, 1])
        outputs = tf.nn.depthwise_conv2d(inputs, kernel, [1, *strides, 1], padding)
        if normalizer_fn is None and biases_initializer is not None:
            biases = model_variable(
                "biases", [channels], dtype, biases_initializer, biases_regularizer, trainable,
                collections_of("biases", variables_collections),
            )  # fmt: skip
            outputs = tf.nn.bias_add(outputs, biases)
        outputs = _activated(outputs, normalizer_fn, normalizer_params, activation_fn)
        return finished(outputs_collections, sc.name, outputs)
