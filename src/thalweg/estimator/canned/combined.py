"""DNNLinearCombined: wide and deep models, whose parts have an optimizer each."""

from __future__ import annotations

import math
from typing import Any

from thalweg.estimator.canned.heads import Head, RegressionHead, classifier_head
from thalweg.estimator.canned.models import (
    check_features,
    dnn_logits,
    linear_logits,
    optimizer_of,
    partitioner_of,
)
from thalweg.estimator.estimator import Estimator
from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export

_SUM = tf.losses.Reduction.SUM


def _train_op_fn(deep: Any, wide: Any) -> Any:
    def make(loss: Any) -> Any:
        steps = []
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            for optimizer, scope in ((deep, "dnn"), (wide, "linear")):
                variables = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=f"{scope}/")
                if optimizer is not None and variables:
                    steps.append(optimizer.minimize(loss, var_list=variables))
        with tf.control_dependencies([tf.group(*steps)]):
            return tf.assign_add(tf.train.get_global_step(), 1).op

    return make


class _CombinedEstimator(Estimator):
    """An Estimator of a wide and deep model with some head."""

    def __init__(self, head: Head, options: dict[str, Any]) -> None:
        linear = tuple(options["linear_feature_columns"] or ())
        deep = tuple(options["dnn_feature_columns"] or ())
        if not linear and not deep:
            raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
        if deep and not options["dnn_hidden_units"]:
            raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return self._build(features, labels, mode, config, head, linear, deep, options)

        super().__init__(model_fn, options["model_dir"], options["config"], warm_start_from=options["warm_start_from"])

    def _build(
        self, features: Any, labels: Any, mode: str, config: Any, head: Head, linear: Any, deep: Any,
        options: dict[str, Any],
    ) -> Any:  # fmt: skip
        check_features(features)
        inputs = tuple(features.values())
        embeddings = options["input_layer_partitioner"] or partitioner_of(config, 64 << 20)
        parts, optimizers = [], [None, None]
        if deep:
            optimizers[0] = optimizer_of(options["dnn_optimizer"], 0.05)
            with tf.variable_scope("dnn", values=inputs, partitioner=partitioner_of(config)):
                parts.append(
                    dnn_logits(
                        features,
                        mode,
                        deep,
                        options["dnn_hidden_units"],
                        head.logits_dimension,
                        options["dnn_activation_fn"] or tf.nn.relu,
                        options["dnn_dropout"],
                        options["batch_norm"],
                        embeddings,
                    )
                )
        if linear:
            rate = min(0.005, 1.0 / math.sqrt(len(linear)))
            optimizers[1] = optimizer_of(options["linear_optimizer"], rate)
            with tf.variable_scope("linear", values=inputs, partitioner=embeddings):
                combiner = options["linear_sparse_combiner"]
                parts.append(linear_logits(features, linear, head.logits_dimension, combiner))
        logits = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=_train_op_fn(*optimizers))


@export("estimator.DNNLinearCombinedClassifier")
class DNNLinearCombinedClassifier(_CombinedEstimator):
    """A wide and deep classifier.

    Args:
        model_dir: The folder for checkpoints.
        linear_feature_columns: The columns of the linear part.
        linear_optimizer: Its optimizer: as in LinearClassifier.
        dnn_feature_columns: The columns of the deep part.
        dnn_optimizer: Its optimizer.
        dnn_hidden_units: The widths of its layers.
        dnn_activation_fn: Their activation; relu if None.
        dnn_dropout: Which part of the activations to drop while training.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The labels, if they are strings.
        input_layer_partitioner: Cuts the variables of embeddings and of the linear part.
        config: A RunConfig.
        warm_start_from: A checkpoint, SavedModel or WarmStartSettings.
        loss_reduction: How the losses of examples are joined.
        batch_norm: Whether to normalize the hidden layers.
        linear_sparse_combiner: How several categories of an example are joined.
    """

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = None,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        """See the class."""
        options = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__(classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction), options)


@export("estimator.DNNLinearCombinedRegressor")
class DNNLinearCombinedRegressor(_CombinedEstimator):
    """A wide and deep regression; the arguments are those of the classifier, with `label_dimension`."""

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = None,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        """See DNNLinearCombinedClassifier."""
        options = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), options)


@export("estimator.DNNLinearCombinedEstimator")
class DNNLinearCombinedEstimator(_CombinedEstimator):
    """A wide and deep model with a head of the caller's."""

    def __init__(
        self,
        head: Head,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = None,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        """See DNNLinearCombinedClassifier."""
        options = {name: value for name, value in locals().items() if name not in ("self", "__class__", "head")}
        super().__init__(head, {**options, "warm_start_from": None})
