"""Heads: from the logits of a canned model to its predictions, loss, metrics and signatures."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.estimator.export_outputs import ClassificationOutput, PredictOutput, RegressionOutput
from thalweg.estimator.model_spec import EstimatorSpec, ModeKeys
from thalweg.estimator.public_names import tf


def _column(labels: Any, dimension: int, logits: Any) -> Any:
    """Labels as a matrix `[batch, dimension]`."""
    if labels is None:
        raise ValueError("You must provide a labels Tensor. Given: None. Does your input_fn return labels?")
    labels = tf.sparse_tensor_to_dense(labels) if isinstance(labels, tf.SparseTensor) else tf.convert_to_tensor(labels)
    if labels.shape.ndims is not None and logits.shape.ndims == 2 and labels.shape.ndims == 1:
        labels = tf.expand_dims(labels, -1)
    if labels.shape.ndims is not None and not labels.shape.is_compatible_with([None, dimension]):
        raise ValueError(f"labels must have shape [batch, {dimension}], got {labels.shape}.")
    return labels


class LossSpec(NamedTuple):
    """What a head makes of logits and labels: the loss of the batch, those of examples, weights, labels for metrics."""

    training_loss: Any
    unreduced_loss: Any
    weights: Any
    processed_labels: Any


class Head:
    """The base class of heads: reduces losses, weighs examples, and builds the EstimatorSpec."""

    name: str | None = None  # Ends the names of metrics and summaries of a model with several heads.

    def __init__(self, dimension: int, weight_column: Any, loss_reduction: str) -> None:
        """Takes the number of logits, the name of the feature with the weights, and how losses are summed."""
        if loss_reduction not in tf.losses.Reduction.all() or loss_reduction == tf.losses.Reduction.NONE:
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        self.logits_dimension = dimension
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction

    def _weights(self, features: Any) -> Any:
        if self._weight_column is None:
            return 1.0
        column = self._weight_column
        if isinstance(column, str):
            column = tf.feature_column.numeric_column(column, shape=(1,))
        weights = tf.feature_column.input_layer(features, [column])
        return tf.cast(weights, tf.float32)

    def _predictions(self, logits: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        """The loss of each example `[batch, 1]` or more, and the labels in the form that metrics take."""
        raise NotImplementedError

    def _metrics(self, predictions: Any, labels: Any, losses: Any, weights: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _outputs(self, predictions: Any) -> dict[str, Any]:
        raise NotImplementedError

    def key(self, name: str) -> str:
        """A metric's or summary's name in a model that may have several heads."""
        return f"{name}/{self.name}" if self.name else name

    def checked_logits(self, logits: Any) -> Any:
        """The logits as float32.

        Raises:
            ValueError: If there are not as many as the head takes.
        """
        logits = tf.cast(tf.convert_to_tensor(logits), tf.float32)
        if not logits.shape.is_compatible_with([None, self.logits_dimension]):
            raise ValueError(f"logits must have shape [batch, {self.logits_dimension}], got {logits.shape}.")
        return logits

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """The loss of a batch, and what it is made of."""
        losses, processed = self._losses(self.checked_logits(logits), labels)
        weights = self._weights(features)
        loss = tf.losses.compute_weighted_loss(losses, weights, reduction=self._loss_reduction)
        return LossSpec(loss, losses, weights, processed)

    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, optimizer: Any = None,
        train_op_fn: Any = None, regularization_losses: Any = None,
    ) -> EstimatorSpec:  # fmt: skip
        """The EstimatorSpec of a model with these logits.

        Raises:
            ValueError: If there is neither an optimizer nor a function that makes the training operation, or both.
        """
        with tf.name_scope(self.name, "head"):
            logits = self.checked_logits(logits)
            with tf.name_scope("predictions"):
                predictions = self._predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=self._outputs(predictions))
            loss, losses, weights, processed = self.create_loss(features, mode, logits, labels)
            if regularization_losses:
                loss = loss + tf.add_n(regularization_losses)
            if mode == ModeKeys.EVAL:
                metrics = self._metrics(predictions, processed, losses, weights)
                if regularization_losses:
                    metrics["loss/regularization"] = tf.metrics.mean(tf.add_n(regularization_losses))
                named = {self.key(name): value for name, value in metrics.items()}
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=named)
            train_op = training_op(loss, optimizer, train_op_fn)
        tf.summary.scalar(self.key("loss"), loss)
        if self._loss_reduction == tf.losses.Reduction.SUM:
            tf.summary.scalar(
                self.key("average_loss"), tf.losses.compute_weighted_loss(losses, weights, reduction="weighted_mean")
            )
        return EstimatorSpec(mode, predictions, loss, train_op)


def training_op(loss: Any, optimizer: Any, train_op_fn: Any) -> Any:
    """The operation that trains: of an optimizer, or by a function of the loss.

    Raises:
        ValueError: If there is neither, or both.
    """
    if (optimizer is None) == (train_op_fn is None):
        raise ValueError("train_op_fn and optimizer must not both be set, and one of them must be.")
    if train_op_fn is not None:
        return train_op_fn(loss)
    return optimizer.minimize(loss, global_step=tf.train.get_global_step())


def _class_strings(ids: Any, vocabulary: Any) -> Any:
    if not vocabulary:
        return tf.as_string(ids, name="str_classes")
    table = tf.contrib.lookup.index_to_string_table_from_tensor(list(vocabulary), name="class_string_lookup")
    return table.lookup(ids)


def _label_ids(labels: Any, classes: int, vocabulary: Any) -> Any:
    if vocabulary:
        if labels.dtype != tf.string:
            raise ValueError(f"Labels dtype should be string if there is a vocabulary. Instead got {labels.dtype}")
        table = tf.contrib.lookup.index_table_from_tensor(list(vocabulary), name="class_id_lookup")
        labels = table.lookup(labels)
    elif not (labels.dtype.is_integer or labels.dtype.is_floating):
        raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
    labels = tf.cast(labels, tf.int64)
    checks = [
        tf.assert_less(labels, tf.constant(classes, tf.int64), message="Labels must <= n_classes - 1"),
        tf.assert_non_negative(labels, message="Labels must >= 0"),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(labels)


class _ClassHead(Head):
    """What heads of classifiers have in common."""

    def __init__(self, dimension: int, classes: int, weight_column: Any, vocabulary: Any, loss_reduction: str) -> None:
        super().__init__(dimension, weight_column, loss_reduction)
        if vocabulary is not None and (isinstance(vocabulary, (str, bytes)) or len(vocabulary) != classes):
            raise ValueError(f"label_vocabulary must be a list of {classes} labels, got {vocabulary!r}.")
        self._classes, self._vocabulary = classes, vocabulary

    def _class_predictions(self, logits: Any, probabilities: Any, ids: Any) -> dict[str, Any]:
        rows = tf.shape(logits)[0]
        numbers = tf.tile(tf.expand_dims(tf.range(self._classes), 0), [rows, 1])
        names = _class_strings(tf.cast(tf.range(self._classes), tf.int64), self._vocabulary)
        return {
            "logits": logits,
            "probabilities": probabilities,
            "class_ids": ids,
            "classes": _class_strings(ids, self._vocabulary),
            "all_class_ids": numbers,
            "all_classes": tf.tile(tf.expand_dims(names, 0), [rows, 1]),
        }

    def _outputs(self, predictions: Any) -> dict[str, Any]:
        shown = ClassificationOutput(scores=predictions["probabilities"], classes=predictions["all_classes"])
        default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        return {default: shown, "classification": shown, "predict": PredictOutput(predictions)}


class MultiClassHead(_ClassHead):
    """More than two classes: softmax."""

    def __init__(self, n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str) -> None:
        """Takes the number of classes."""
        if n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}. For two classes there is a head of its own.")
        super().__init__(n_classes, n_classes, weight_column, label_vocabulary, loss_reduction)

    def _predictions(self, logits: Any) -> dict[str, Any]:
        ids = tf.expand_dims(tf.argmax(logits, axis=-1), -1)
        return self._class_predictions(logits, tf.nn.softmax(logits, name="probabilities"), ids)

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        ids = _label_ids(_column(labels, 1, logits), self._classes, self._vocabulary)
        losses = tf.losses.sparse_softmax_cross_entropy(ids, logits, reduction=tf.losses.Reduction.NONE)
        return (tf.expand_dims(losses, -1) if losses.shape.ndims == 1 else losses), ids

    def _metrics(self, predictions: Any, labels: Any, losses: Any, weights: Any) -> dict[str, Any]:
        return {
            "average_loss": tf.metrics.mean(losses, weights=weights),
            "accuracy": tf.metrics.accuracy(labels, predictions["class_ids"], weights=weights),
        }


class BinaryHead(_ClassHead):
    """Two classes: one logit and the logistic function."""

    def __init__(self, weight_column: Any, label_vocabulary: Any, loss_reduction: str) -> None:
        """Takes the options of heads."""
        super().__init__(1, 2, weight_column, label_vocabulary, loss_reduction)

    def _predictions(self, logits: Any) -> dict[str, Any]:
        two = tf.concat([tf.zeros_like(logits), logits], axis=-1)
        ids = tf.expand_dims(tf.argmax(two, axis=-1), -1)
        found = self._class_predictions(logits, tf.nn.softmax(two, name="probabilities"), ids)
        return {"logistic": tf.sigmoid(logits, name="logistic"), **found}

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        labels = _column(labels, 1, logits)
        if self._vocabulary:
            labels = _label_ids(labels, 2, self._vocabulary)
        labels = tf.cast(labels, tf.float32)
        checks = [
            tf.assert_less_equal(labels, 1.0, message="Labels must <= n_classes - 1"),
            tf.assert_non_negative(labels, message="Labels must >= 0"),
        ]
        with tf.control_dependencies(checks):
            labels = tf.identity(labels)
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), labels

    def _metrics(self, predictions: Any, labels: Any, losses: Any, weights: Any) -> dict[str, Any]:
        logistic, ids = predictions["logistic"], predictions["class_ids"]
        label_mean = tf.metrics.mean(labels, weights=weights)

        def baseline(mean: Any) -> Any:
            return tf.maximum(mean, 1.0 - mean)

        return {
            "average_loss": tf.metrics.mean(losses, weights=weights),
            "accuracy": tf.metrics.accuracy(labels, ids, weights=weights),
            "precision": tf.metrics.precision(labels, ids, weights=weights),
            "recall": tf.metrics.recall(labels, ids, weights=weights),
            "prediction/mean": tf.metrics.mean(logistic, weights=weights),
            "label/mean": label_mean,
            "accuracy_baseline": (baseline(label_mean[0]), baseline(label_mean[1])),
            "auc": tf.metrics.auc(labels, logistic, weights=_broadcast(weights, labels)),
            "auc_precision_recall": tf.metrics.auc(labels, logistic, weights=_broadcast(weights, labels), curve="PR"),
        }

    def _outputs(self, predictions: Any) -> dict[str, Any]:
        return {**super()._outputs(predictions), "regression": RegressionOutput(predictions["logistic"])}


def _broadcast(weights: Any, labels: Any) -> Any:
    return None if isinstance(weights, float) else weights * tf.ones_like(labels)


class RegressionHead(Head):
    """Numbers: the mean squared error."""

    def __init__(self, label_dimension: int, weight_column: Any, loss_reduction: str) -> None:
        """Takes how many numbers an example has."""
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension: {label_dimension}.")
        super().__init__(label_dimension, weight_column, loss_reduction)

    def _predictions(self, logits: Any) -> dict[str, Any]:
        return {"predictions": logits}

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        labels = tf.cast(_column(labels, self.logits_dimension, logits), tf.float32)
        losses = tf.losses.mean_squared_error(labels, logits, reduction=tf.losses.Reduction.NONE)
        return losses, labels

    def _metrics(self, predictions: Any, labels: Any, losses: Any, weights: Any) -> dict[str, Any]:
        return {
            "average_loss": tf.metrics.mean(losses, weights=weights),
            "prediction/mean": tf.metrics.mean(predictions["predictions"], weights=weights),
            "label/mean": tf.metrics.mean(labels, weights=weights),
        }

    def _outputs(self, predictions: Any) -> dict[str, Any]:
        shown = RegressionOutput(predictions["predictions"])
        default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        return {default: shown, "regression": shown, "predict": PredictOutput(predictions)}


def classifier_head(n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str) -> Head:
    """The head of a classifier."""
    if n_classes == 2:
        return BinaryHead(weight_column, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)
