"""The logits of canned models, under TensorFlow's scopes, so that checkpoints move both ways; and their optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.estimator.model_spec import ModeKeys
from thalweg.estimator.public_names import tf

_OPTIMIZERS = {
    "Adagrad": "AdagradOptimizer", "Adam": "AdamOptimizer", "Ftrl": "FtrlOptimizer", "RMSProp": "RMSPropOptimizer",
    "SGD": "GradientDescentOptimizer",
}  # fmt: skip


def optimizer_of(given: Any, learning_rate: float) -> Any:
    """An optimizer: as it is, made by a function, or by its name.

    Raises:
        ValueError: If it is none of these.
    """
    if isinstance(given, str):
        if given not in _OPTIMIZERS:
            raise ValueError(f"Unsupported optimizer name: {given}. Supported names are: {sorted(_OPTIMIZERS)}")
        return getattr(tf.train, _OPTIMIZERS[given])(learning_rate=learning_rate)
    if callable(given) and not hasattr(given, "minimize"):
        given = given()
    if not hasattr(given, "minimize"):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {given!r}")
    return given


def partitioner_of(config: Any, least_slice: int | None = None) -> Any:
    """Cuts large variables into as many parts as there are parameter servers."""
    parts = config.num_ps_replicas if config is not None else 0
    options = {} if least_slice is None else {"min_slice_size": least_slice}
    return tf.min_max_variable_partitioner(max_partitions=max(parts, 1), **options)


def check_features(features: Any) -> None:
    """Raises ValueError unless the features are a dictionary."""
    if not isinstance(features, dict):
        raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}")


def linear_logits(features: Any, columns: Any, units: int, combiner: str = "sum") -> Any:
    """The weighted sum of all columns; inside of the variable scope 'linear'."""
    return tf.feature_column.linear_model(features, columns, units, combiner)


def dnn_logits(
    features: Any,
    mode: str,
    columns: Any,
    hidden_units: Any,
    units: int,
    activation_fn: Callable[[Any], Any],
    dropout: float | None,
    batch_norm: bool,
    input_partitioner: Any,
) -> Any:
    """The output of the layers; inside of the variable scope 'dnn'."""
    is_training = mode == ModeKeys.TRAIN
    with tf.variable_scope("input_from_feature_columns", partitioner=input_partitioner):
        net = tf.feature_column.input_layer(features, columns)
    for number, width in enumerate(hidden_units):
        with tf.variable_scope(f"hiddenlayer_{number}") as scope:
            net = tf.layers.dense(
                net, width, activation_fn, kernel_initializer=tf.glorot_uniform_initializer(), name=scope
            )
            if dropout is not None and is_training:
                net = tf.layers.dropout(net, rate=dropout, training=True)
            if batch_norm:
                with tf.variable_scope(f"batchnorm_{number}") as norm_scope:
                    net = tf.layers.batch_normalization(
                        net, momentum=0.999, training=is_training, trainable=True, name=norm_scope
                    )
        _summarize(net, scope.name)
    with tf.variable_scope("logits") as scope:
        logits = tf.layers.dense(net, units, None, kernel_initializer=tf.glorot_uniform_initializer(), name=scope)
    _summarize(logits, scope.name)
    return logits


def _summarize(value: Any, name: str) -> None:
    tf.summary.scalar(f"{name}/fraction_of_zero_values", tf.nn.zero_fraction(value))
    tf.summary.histogram(f"{name}/activation", value)


def train_op_fn(optimizer: Any, variables: Any = None) -> Callable[[Any], Any]:
    """A function that makes the training op of a loss; the updates of batch normalization go first."""

    def make(loss: Any) -> Any:
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            return optimizer.minimize(loss, global_step=tf.train.get_global_step(), var_list=variables)

    return make
