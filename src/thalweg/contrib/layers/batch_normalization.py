"""tf.contrib.layers.batch_norm (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.framework.variables import model_variable
from thalweg.contrib.layers.variable_names import (
    add_to_collections,
    add_variable,
    check_data_format,
    collections_of,
    finished,
)
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export
from thalweg.layers.branching import choose, known_choice
from thalweg.train.optimizers.moving_averages import assign_moving_average


@export("contrib.layers.batch_norm", "contrib.slim.batch_norm")
@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: Any = None,
    param_regularizers: Any = None,
    updates_collections: Any = tf.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_decay: float = 0.99,
    adjustment: Any = None,
) -> Any:
    """Normalizes each channel over the batch while training, and by moving averages otherwise.

    Args:
        inputs: A tensor of at least two axes.
        decay: How much of the moving averages stays in a step.
        center: Whether an offset `beta` is learned.
        scale: Whether a factor `gamma` is learned.
        epsilon: Added to the variance.
        activation_fn: Applied at the end; None for none.
        param_initializers: First values, by 'beta', 'gamma', 'moving_mean' and 'moving_variance'.
        param_regularizers: Functions that give losses, by 'beta' and 'gamma'.
        updates_collections: Collections of the updates of the moving averages, which a training step has to run; None
            makes the output depend on them.
        is_training: A bool or a tensor.
        reuse: Whether variables are found instead of created; needs a scope.
        variables_collections: Further collections of the variables.
        outputs_collections: Collections of the output.
        trainable: Whether optimizers change beta and gamma.
        batch_weights: Weights of the examples, a vector.
        fused: Whether one op does it all where it can: inputs of rank 2 or 4, without batch_weights.
        data_format: 'NHWC' or 'NCHW'.
        zero_debias_moving_mean: Whether the moving mean is corrected for its first value.
        scope: The variable scope; 'BatchNorm' by default.
        renorm: Whether batches are corrected towards the moving averages.
        renorm_clipping: A dict with 'rmin', 'rmax', 'dmax' for that correction.
        renorm_decay: How much of the averages for that correction stays in a step.
        adjustment: A function of the dynamic shape that gives a factor and an offset.

    Returns:
        The normalized inputs.

    Raises:
        ValueError: If the data format or the shape of the inputs is unknown, or options contradict each other.
    """
    check_data_format(data_format, ("NHWC", "NCHW"))
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank")
        if renorm or adjustment is not None:
            outputs = _by_layer(
                inputs, sc, decay, center, scale, epsilon, param_initializers, param_regularizers, is_training, reuse,
                variables_collections, trainable, data_format, renorm, renorm_clipping, renorm_decay, adjustment,
            )  # fmt: skip
        else:
            axis = 1 if data_format == "NCHW" else rank - 1
            one_op = rank in (2, 4) and batch_weights is None and fused is not False
            # TensorFlow makes gamma first where tf.layers does the work, and beta first otherwise; lists of variables,
            # which programs zip with others, keep that order.
            by_layer = updates_collections is tf.GraphKeys.UPDATE_OPS and batch_weights is None
            by_layer = by_layer and not zero_debias_moving_mean and not (one_op and rank == 2)
            values = _variables(
                inputs, axis, center, scale, param_initializers or {}, param_regularizers or {}, trainable,
                variables_collections, gamma_first=by_layer,
            )  # fmt: skip
            normalize = _fused if one_op else _composed
            outputs = normalize(inputs, axis, data_format, values, epsilon, is_training, decay, batch_weights,
                                updates_collections, zero_debias_moving_mean)  # fmt: skip
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return finished(outputs_collections, sc.name, outputs)


def _variables(
    inputs: Any, axis: int, center: bool, scale: bool, initializers: Any, regularizers: Any, trainable: bool,
    collections: Any, gamma_first: bool,
) -> dict[str, Any]:  # fmt: skip
    size = inputs.shape.as_list()[axis]
    if size is None:
        raise ValueError(f"Inputs {inputs.name} has undefined channels dimension {axis}")
    # Statistics of half-precision inputs are kept in float32.
    dtype = tf.float32 if inputs.dtype.base_dtype in (tf.float16, tf.bfloat16) else inputs.dtype.base_dtype
    unknown = set(initializers) - {"beta", "gamma", "moving_mean", "moving_variance"}
    if unknown:
        raise ValueError(f"param_initializers has unknown names: {', '.join(sorted(unknown))}")
    zeros, ones = tf.zeros_initializer(), tf.ones_initializer()

    def create(name: str, default: Any, learned: bool) -> Any:
        return model_variable(
            name, shape=[size], dtype=dtype, initializer=initializers.get(name, default),
            regularizer=regularizers.get(name) if learned else None,
            trainable=trainable and learned, collections=collections_of(name, collections),
        )  # fmt: skip

    values = {"beta": tf.zeros([size], dtype), "gamma": tf.ones([size], dtype)}
    learned = {"beta": (center, zeros), "gamma": (scale, ones)}
    for name in ("gamma", "beta") if gamma_first else ("beta", "gamma"):
        is_learned, default = learned[name]
        if is_learned:
            values[name] = create(name, default, True)
    with tf.variable_scope(tf.get_variable_scope(), auxiliary_name_scope=False) as scope:
        scope.set_partitioner(None)  # The averages are read and written whole.
        values["moving_mean"] = create("moving_mean", zeros, False)
        values["moving_variance"] = create("moving_variance", ones, False)
    return values


def _update(values: dict[str, Any], mean: Any, variance: Any, decay: Any, debias: bool) -> list[Any]:
    return [
        assign_moving_average(values["moving_mean"], mean, decay, zero_debias=debias),
        assign_moving_average(values["moving_variance"], variance, decay, zero_debias=False),
    ]


def _with_updates(
    outputs: Any, values: dict[str, Any], mean: Any, variance: Any, is_training: Any, decay: float, collections: Any,
    debias: bool,
) -> Any:  # fmt: skip
    known = known_choice(is_training)
    if known is False:
        return outputs
    # Where the mode is a tensor, a decay of 1 leaves the averages as they are outside of training.
    factor = (
        decay
        if known
        else choose(is_training, lambda: tf.constant(decay, mean.dtype), lambda: tf.constant(1.0, mean.dtype))
    )
    updates = _update(values, mean, variance, factor, debias)
    if collections is None:
        with tf.control_dependencies(updates):
            return tf.identity(outputs)
    for update in updates:
        add_to_collections(update, collections)
    return outputs


def _fused(
    inputs: Any, axis: int, data_format: str, values: dict[str, Any], epsilon: float, is_training: Any, decay: float,
    batch_weights: Any, collections: Any, debias: bool,
) -> Any:  # fmt: skip
    x, shape = inputs, None
    if inputs.shape.ndims == 2:
        size = inputs.shape.as_list()[1]
        shape = tf.shape(inputs)
        x = tf.reshape(inputs, [-1, size, 1, 1] if data_format == "NCHW" else [-1, 1, 1, size])

    def training() -> Any:
        return tf.nn.fused_batch_norm(x, values["gamma"], values["beta"], epsilon=epsilon, data_format=data_format)

    def inference() -> Any:
        return tf.nn.fused_batch_norm(
            x, values["gamma"], values["beta"], mean=values["moving_mean"], variance=values["moving_variance"],
            epsilon=epsilon, is_training=False, data_format=data_format,
        )  # fmt: skip

    outputs, mean, variance = choose(is_training, training, inference)
    outputs = _with_updates(outputs, values, mean, variance, is_training, decay, collections, debias)
    return outputs if shape is None else tf.reshape(outputs, shape)


def _composed(
    inputs: Any, axis: int, data_format: str, values: dict[str, Any], epsilon: float, is_training: Any, decay: float,
    batch_weights: Any, collections: Any, debias: bool,
) -> Any:  # fmt: skip
    rank = inputs.shape.ndims
    axes = [i for i in range(rank) if i != axis]
    kind = values["moving_mean"].dtype.base_dtype
    x = tf.cast(inputs, kind)

    def training() -> Any:
        if batch_weights is None:
            return tf.nn.moments(x, axes)
        weights = tf.reshape(tf.cast(batch_weights, kind), [-1] + [1] * (rank - 1))
        return tf.nn.weighted_moments(x, axes, weights)

    def inference() -> Any:
        return tf.identity(values["moving_mean"]), tf.identity(values["moving_variance"])

    mean, variance = choose(is_training, training, inference)
    shape = [-1 if i == axis else 1 for i in range(rank)]

    def broadcast(vector: Any) -> Any:
        return tf.reshape(vector, shape)

    outputs = tf.nn.batch_normalization(
        x, broadcast(mean), broadcast(variance), broadcast(values["beta"]), broadcast(values["gamma"]), epsilon
    )
    return _with_updates(
        tf.cast(outputs, inputs.dtype), values, mean, variance, is_training, decay, collections, debias
    )


def _by_layer(
    inputs: Any, sc: Any, decay: float, center: bool, scale: bool, epsilon: float, initializers: Any,
    regularizers: Any, is_training: Any, reuse: Any, collections: Any, trainable: bool, data_format: str, renorm: bool,
    renorm_clipping: Any, renorm_decay: float, adjustment: Any,
) -> Any:  # fmt: skip
    given, losses = initializers or {}, regularizers or {}
    layer = tf.layers.BatchNormalization(
        axis=1 if data_format == "NCHW" else -1, momentum=decay, epsilon=epsilon, center=center, scale=scale,
        beta_initializer=given.get("beta", tf.zeros_initializer()),
        gamma_initializer=given.get("gamma", tf.ones_initializer()),
        moving_mean_initializer=given.get("moving_mean", tf.zeros_initializer()),
        moving_variance_initializer=given.get("moving_variance", tf.ones_initializer()),
        beta_regularizer=losses.get("beta"), gamma_regularizer=losses.get("gamma"), trainable=trainable,
        renorm=renorm, renorm_clipping=renorm_clipping, renorm_momentum=renorm_decay, adjustment=adjustment,
        name=sc.name, _scope=sc, _reuse=reuse,
    )  # fmt: skip
    outputs = layer.apply(inputs, training=is_training)
    for var in layer.variables:
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, var)
        add_variable(var, var.op.name.rpartition("/")[2], collections)
    return outputs
