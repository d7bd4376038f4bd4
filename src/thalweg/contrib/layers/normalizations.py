"""Normalizations that do not look at the batch: layer_norm, instance_norm, group_norm, unit_norm."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.framework.variables import model_variable
from thalweg.contrib.layers.variable_names import check_data_format, collections_of, finished
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _offset_and_factor(
    shape: Any, dtype: Any, center: bool, scale: bool, initializers: Any, trainable: bool, collections: Any
) -> tuple[Any, Any]:
    given = initializers or {}
    beta = gamma = None
    if center:
        beta = model_variable(
            "beta", shape=shape, dtype=dtype, initializer=given.get("beta", tf.zeros_initializer()),
            collections=collections_of("beta", collections), trainable=trainable,
        )  # fmt: skip
    if scale:
        gamma = model_variable(
            "gamma", shape=shape, dtype=dtype, initializer=given.get("gamma", tf.ones_initializer()),
            collections=collections_of("gamma", collections), trainable=trainable,
        )  # fmt: skip
    return beta, gamma


def _checked(inputs: Any) -> Any:
    inputs = tf.convert_to_tensor(inputs)
    if inputs.shape.ndims is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    return inputs


@export("contrib.layers.layer_norm", "contrib.slim.layer_norm")
@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Normalizes each example over the axes from `begin_norm_axis` (Ba et al., 2016).

    Args:
        inputs: A tensor.
        center: Whether an offset `beta` is learned.
        scale: Whether a factor `gamma` is learned.
        activation_fn: Applied at the end; None for none.
        reuse: Whether variables are found instead of created.
        variables_collections: Further collections of the variables.
        outputs_collections: Collections of the output.
        trainable: Whether optimizers change the variables.
        begin_norm_axis: The first axis that is normalized over.
        begin_params_axis: The first axis of beta and gamma.
        scope: The variable scope; 'LayerNorm' by default.

    Returns:
        The normalized inputs.

    Raises:
        ValueError: If the axes do not fit, or sizes of the parameters are unknown.
    """
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = _checked(inputs)
        rank = inputs.shape.ndims
        dtype = inputs.dtype.base_dtype
        begin = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or begin >= rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin}) must be < rank(inputs) ({rank})"
            )
        shape = inputs.shape[begin_params_axis:]
        if not shape.is_fully_defined():
            raise ValueError(
                f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {inputs.shape}"
            )
        beta, gamma = _offset_and_factor(shape, dtype, center, scale, None, trainable, variables_collections)
        half = dtype in (tf.float16, tf.bfloat16)
        mean, variance = tf.nn.moments(
            tf.cast(inputs, tf.float32) if half else inputs, list(range(begin, rank)), keep_dims=True
        )
        outputs = tf.nn.batch_normalization(
            inputs, tf.cast(mean, dtype), tf.cast(variance, dtype), offset=beta, scale=gamma,
            variance_epsilon=1e-3 if dtype == tf.float16 else 1e-12,
        )  # fmt: skip
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return finished(outputs_collections, sc.name, outputs)


@export("contrib.layers.instance_norm")
@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """Normalizes each channel of each example by itself (Ulyanov et al., 2016); see `batch_norm` for the arguments."""
    check_data_format(data_format, ("NHWC", "NCHW"))
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        inputs = _checked(inputs)
        rank = inputs.shape.ndims
        axis = 1 if data_format == "NCHW" else rank - 1
        size = inputs.shape.as_list()[axis]
        if size is None:
            raise ValueError(f"Inputs {inputs.name} has undefined channels dimension {inputs.shape}.")
        beta, gamma = _offset_and_factor(
            [size], inputs.dtype.base_dtype, center, scale, param_initializers, trainable, variables_collections
        )
        shape = [size if i == axis else 1 for i in range(rank)]
        mean, variance = tf.nn.moments(inputs, [i for i in range(1, rank) if i != axis], keep_dims=True)
        outputs = tf.nn.batch_normalization(
            inputs, mean, variance, None if beta is None else tf.reshape(beta, shape),
            None if gamma is None else tf.reshape(gamma, shape), epsilon,
            name="instancenorm",
        )  # fmt: skip
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return finished(outputs_collections, sc.name, outputs)


@export("contrib.layers.group_norm")
@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Any = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> Any:
    """Normalizes groups of channels of each example (Wu and He, 2018).

    Raises:
        ValueError: If the number of groups does not divide that of the channels, or axes overlap.
    """
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        inputs = _checked(inputs)
        rank = inputs.shape.ndims
        for each in (channels_axis, *reduction_axes):
            if not -rank <= each < rank:
                raise ValueError(f"Axis is out of bounds. Axis {each}, inputs {inputs.shape}.")
        axis = channels_axis % rank
        reduced = [each % rank for each in reduction_axes]
        if axis in reduced:
            raise ValueError(
                f"reduction_axes must be mutually exclusive with channels_axis: {reduction_axes}, {channels_axis}"
            )
        sizes = inputs.shape.as_list()
        channels = sizes[axis]
        if channels is None:
            raise ValueError(f"Inputs {inputs.name} has undefined channel dimension: {inputs.shape}.")
        if groups > channels:
            raise ValueError(f"Invalid groups {groups} for {channels} channels.")
        if channels % groups:
            raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
        beta, gamma = _offset_and_factor(
            [channels], inputs.dtype.base_dtype, center, scale, param_initializers, trainable, variables_collections
        )
        dynamic = tf.shape(inputs)
        outer = [dynamic[i] if size is None else size for i, size in enumerate(sizes)]
        split = [*outer[:axis], groups, channels // groups, *outer[axis + 1 :]]
        grouped = tf.reshape(inputs, split)
        axes = [i + 1 if i > axis else i for i in reduced] + [axis + 1]
        if mean_close_to_zero:
            counts, sums, squares, _ = tf.nn.sufficient_statistics(grouped, axes, keep_dims=True)
            mean, variance = tf.nn.normalize_moments(counts, sums, squares, shift=None)
        else:
            mean, variance = tf.nn.moments(grouped, axes, keep_dims=True)
        shape = [1] * axis + [groups, channels // groups] + [1] * (rank - axis - 1)
        outputs = tf.nn.batch_normalization(
            grouped, mean, variance, None if beta is None else tf.reshape(beta, shape),
            None if gamma is None else tf.reshape(gamma, shape), epsilon,
            name="groupnorm",
        )  # fmt: skip
        outputs = tf.reshape(outputs, dynamic)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return finished(outputs_collections, sc.name, outputs)


@export("contrib.layers.unit_norm", "contrib.slim.unit_norm")
@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Any:
    """Divides by the length along one axis.

    Raises:
        ValueError: If the axis is the last or beyond.
    """
    with tf.variable_scope(scope, "UnitNorm", [inputs]):
        inputs = _checked(inputs)
        if dim < 0 or dim >= inputs.shape.ndims:
            raise ValueError("dim must be positive but smaller than the input rank.")
        return inputs / tf.sqrt(tf.reduce_sum(tf.square(inputs), dim, keepdims=True) + epsilon)
