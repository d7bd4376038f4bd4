"""Canned estimators: linear models, deep networks, and both together (wide and deep)."""

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
    train_op_fn,
)
from thalweg.estimator.estimator import Estimator
from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export

_SUM = tf.losses.Reduction.SUM
_LEAST_EMBEDDING_SLICE = 64 << 20


def _linear_rate(columns: Any) -> float:
    return min(0.2, 1.0 / math.sqrt(max(len(columns), 1)))


def _linear_model_fn(
    features: Any, labels: Any, mode: str, head: Head, columns: Any, optimizer: Any, config: Any, combiner: str
) -> Any:
    check_features(features)
    made = optimizer_of(optimizer, _linear_rate(columns))
    with tf.variable_scope("linear", values=tuple(features.values()), partitioner=partitioner_of(config, 64 << 20)):
        logits = linear_logits(features, columns, head.logits_dimension, combiner)
        return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train_op_fn(made))


def _dnn_model_fn(features: Any, labels: Any, mode: str, head: Head, config: Any, options: dict[str, Any]) -> Any:
    check_features(features)
    made = optimizer_of(options["optimizer"], 0.05)
    inputs = options["input_layer_partitioner"] or partitioner_of(config, _LEAST_EMBEDDING_SLICE)
    with tf.variable_scope("dnn", values=tuple(features.values()), partitioner=partitioner_of(config)):
        logits = dnn_logits(
            features, mode, options["feature_columns"], options["hidden_units"], head.logits_dimension,
            options["activation_fn"], options["dropout"], options["batch_norm"], inputs,
        )  # fmt: skip
        return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train_op_fn(made))


class _LinearEstimator(Estimator):
    """An Estimator of a linear model with some head."""

    def __init__(
        self, head: Head, feature_columns: Any, model_dir: Any, optimizer: Any, config: Any, warm_start_from: Any,
        sparse_combiner: str,
    ) -> None:  # fmt: skip
        columns = tuple(feature_columns or ())

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return _linear_model_fn(features, labels, mode, head, columns, optimizer, config, sparse_combiner)

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.LinearClassifier")
class LinearClassifier(_LinearEstimator):
    """A linear classifier.

    Args:
        feature_columns: Dense and categorical columns.
        model_dir: The folder for checkpoints.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The labels, if they are strings.
        optimizer: An optimizer, a function that makes one, or 'Adagrad', 'Adam', 'Ftrl', 'RMSProp', 'SGD'.
        config: A RunConfig.
        partitioner: Not used: variables are cut as the parameter servers of the cluster ask for.
        warm_start_from: A checkpoint, SavedModel or WarmStartSettings.
        loss_reduction: How the losses of examples are joined.
        sparse_combiner: How several categories of an example are joined: 'sum', 'mean' or 'sqrtn'.

    Example:
        >>> model = tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x")])
        >>> rows = {"x": np.array([1.0, 2.0, -1.0, -2.0])}
        >>> data = tf.estimator.inputs.numpy_input_fn(rows, np.array([1, 1, 0, 0]), 4, None, shuffle=False)
        >>> float(model.train(data, steps=20).evaluate(data, steps=1)["accuracy"])
        1.0
        >>> tf.summary.FileWriterCache.clear()
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        """See the class."""
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, feature_columns, model_dir, optimizer, config, warm_start_from, sparse_combiner)


@export("estimator.LinearRegressor")
class LinearRegressor(_LinearEstimator):
    """A linear regression; the arguments are those of LinearClassifier, with `label_dimension`."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        """See the class."""
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, feature_columns, model_dir, optimizer, config, warm_start_from, sparse_combiner)


@export("estimator.LinearEstimator")
class LinearEstimator(_LinearEstimator):
    """A linear model with a head of the caller's."""

    def __init__(
        self,
        head: Head,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
    ) -> None:
        """See LinearClassifier."""
        super().__init__(head, feature_columns, model_dir, optimizer, config, None, sparse_combiner)


class _DNNEstimator(Estimator):
    """An Estimator of a deep network with some head."""

    def __init__(self, head: Head, model_dir: Any, config: Any, warm_start_from: Any, options: dict[str, Any]) -> None:
        options = {**options, "feature_columns": tuple(options["feature_columns"] or ())}
        options["activation_fn"] = options["activation_fn"] or tf.nn.relu

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return _dnn_model_fn(features, labels, mode, head, config, options)

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export("estimator.DNNClassifier")
class DNNClassifier(_DNNEstimator):
    """A deep classifier: dense layers over columns.

    Args:
        hidden_units: The width of each hidden layer.
        feature_columns: Dense columns.
        model_dir: The folder for checkpoints.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The labels, if they are strings.
        optimizer: An optimizer, a function that makes one, or its name.
        activation_fn: Of the hidden layers; relu if None.
        dropout: Which part of the activations to drop while training.
        input_layer_partitioner: Cuts the variables of embeddings.
        config: A RunConfig.
        warm_start_from: A checkpoint, SavedModel or WarmStartSettings.
        loss_reduction: How the losses of examples are joined.
        batch_norm: Whether to normalize the hidden layers over the batch.
    """

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = None,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        """See the class."""
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, model_dir, config, warm_start_from, _network(locals()))


@export("estimator.DNNRegressor")
class DNNRegressor(_DNNEstimator):
    """A deep regression; the arguments are those of DNNClassifier, with `label_dimension`."""

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = None,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        """See DNNClassifier."""
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, config, warm_start_from, _network(locals()))


@export("estimator.DNNEstimator")
class DNNEstimator(_DNNEstimator):
    """A deep network with a head of the caller's."""

    def __init__(
        self,
        head: Head,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = None,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
    ) -> None:
        """See DNNClassifier."""
        super().__init__(head, model_dir, config, warm_start_from, _network(locals()))


def _network(arguments: dict[str, Any]) -> dict[str, Any]:
    names = ("hidden_units", "feature_columns", "optimizer", "activation_fn", "dropout", "input_layer_partitioner",
             "batch_norm")  # fmt: skip
    return {name: arguments[name] for name in names}
