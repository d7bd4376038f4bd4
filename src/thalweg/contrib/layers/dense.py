"""fully_connected and its kin, and stack and repeat, which apply layers in a row."""

from __future__ import annotations

import functools
import numbers
from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.layers.convolutions import _activated
from thalweg.contrib.layers.variable_names import add_variable, finished, renaming_getter
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.layers.regularizers import xavier_initializer

_RENAMED = {"bias": "biases", "kernel": "weights"}


@export("contrib.layers.fully_connected", "contrib.slim.fully_connected")
@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: Any,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """A matrix product along the last axis, then normalization (or a bias), then an activation.

    Args:
        inputs: A tensor of at least two axes, whose last size is known.
        num_outputs: The size of the last axis of the output.
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
        scope: The variable scope; 'fully_connected' by default.

    Returns:
        The output.

    Raises:
        ValueError: If `num_outputs` is no integer, or the inputs have fewer than two axes.

    Example:
        >>> y = tf.contrib.layers.fully_connected(tf.zeros([2, 3]), 4)
        >>> [v.op.name for v in tf.trainable_variables()]
        ['fully_connected/weights', 'fully_connected/biases']
    """
    if not isinstance(num_outputs, numbers.Integral):
        raise ValueError(f"num_outputs type should be one of integer types, got {type(num_outputs)}.")
    getter = renaming_getter(_RENAMED)
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse, custom_getter=getter) as sc:
        inputs = tf.convert_to_tensor(inputs)
        layer = tf.layers.Dense(
            units=num_outputs, activation=None, use_bias=not normalizer_fn and bool(biases_initializer),
            kernel_initializer=weights_initializer, bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer, activity_regularizer=None,
            trainable=trainable, name=sc.name, dtype=inputs.dtype.base_dtype, _scope=sc, _reuse=reuse,
        )  # fmt: skip
        outputs = layer.apply(inputs)
        add_variable(layer.kernel, "weights", variables_collections)
        add_variable(layer.bias, "biases", variables_collections)
        outputs = _activated(outputs, normalizer_fn, normalizer_params, activation_fn)
        return finished(outputs_collections, sc.name, outputs)


relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)
elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)
linear = functools.partial(fully_connected, activation_fn=None)
export_value(relu, "contrib.layers.relu", "contrib.slim.relu")
export_value(relu6, "contrib.layers.relu6", "contrib.slim.relu6")
export_value(elu, "contrib.layers.elu", "contrib.slim.elu")
export_value(linear, "contrib.layers.linear", "contrib.slim.linear")


@export("contrib.layers.legacy_fully_connected")
def legacy_fully_connected(
    x: Any,
    num_output_units: int,
    activation_fn: Any = None,
    weight_init: Any = None,
    bias_init: Any = tf.zeros_initializer(),  # noqa: B008
    name: str | None = None,
    weight_collections: Any = (tf.GraphKeys.WEIGHTS,),
    bias_collections: Any = (tf.GraphKeys.BIASES,),
    output_collections: Any = (tf.GraphKeys.ACTIVATIONS,),
    trainable: bool = True,
    weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> Any:
    """`fully_connected` with the arguments of the first TensorFlow: variables 'weights' and 'bias'."""
    with tf.variable_scope(name, "fully_connected", [x]):
        x = tf.convert_to_tensor(x)
        size = x.shape.as_list()[-1]
        if x.shape.ndims < 2:
            raise ValueError(f"rank of x must be at least 2 not: {x.shape.ndims}")
        if size is None:
            raise ValueError(f"last dimension of x must be known but is None: {x.shape}")
        variables = [tf.GraphKeys.GLOBAL_VARIABLES]
        weights = tf.get_variable(
            "weights", [size, num_output_units], x.dtype.base_dtype, weight_init or xavier_initializer(),
            weight_regularizer, trainable, [*variables, *weight_collections],
        )  # fmt: skip
        y = tf.matmul(tf.reshape(x, [-1, size]), weights)
        if bias_init is not None:
            bias = tf.get_variable(
                "bias", [num_output_units], x.dtype.base_dtype, bias_init, bias_regularizer, trainable,
                [*variables, *bias_collections],
            )  # fmt: skip
            y = tf.nn.bias_add(y, bias)
        if x.shape.ndims > 2:
            y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [num_output_units]], 0))
            y.set_shape([*x.shape.as_list()[:-1], num_output_units])
        y = y if activation_fn is None else activation_fn(y)
        for collection in output_collections:
            tf.add_to_collection(collection, y)
        return y


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=tf.nn.relu)
export_value(legacy_linear, "contrib.layers.legacy_linear")
export_value(legacy_relu, "contrib.layers.legacy_relu")


@export("contrib.layers.repeat", "contrib.slim.repeat")
@add_arg_scope
def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies a layer several times, each with variables of its own, in scopes 'name/name_1', 'name/name_2', …."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        if scope is None:
            scope = layer.func.__name__ if hasattr(layer, "func") else getattr(layer, "__name__", "repeat")
        for i in range(repetitions):
            inputs = layer(inputs, *args, scope=f"{scope}_{i + 1}", **kwargs)
        return inputs


@export("contrib.layers.stack", "contrib.slim.stack")
@add_arg_scope
def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """Applies a layer once per entry of `stack_args`, which has the arguments that change.

    Raises:
        ValueError: If `stack_args` is no list.
    """
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    with tf.variable_scope(scope, "Stack", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        if scope is None:
            scope = layer.func.__name__ if hasattr(layer, "func") else getattr(layer, "__name__", "stack")
        for i, given in enumerate(stack_args):
            arguments = given if isinstance(given, (list, tuple)) else [given]
            inputs = layer(inputs, *arguments, scope=f"{scope}_{i + 1}", **kwargs)
        return inputs
