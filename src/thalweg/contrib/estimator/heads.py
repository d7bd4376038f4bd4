"""Heads that a model function uses by itself: of classes, several labels, numbers and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from thalweg.contrib.public_names import tf
from thalweg.estimator.canned.heads import BinaryHead, Head, MultiClassHead, RegressionHead
from thalweg.estimator.export_outputs import ClassificationOutput, PredictOutput
from thalweg.graph.definitions.op_registry import export

_MEAN: Final = "weighted_sum_over_batch_size"


def _named(head: Head, name: str | None) -> Any:
    head.name = name
    return head


def _own_losses(loss_fn: Callable[..., Any], labels: Any, logits: Any) -> Any:
    """The losses of a program's function: [batch, 1] or more.

    Raises:
        ValueError: If their shape is another one.
    """
    losses = loss_fn(labels=labels, logits=logits)
    if losses.shape.ndims is not None and losses.shape.ndims < 2:
        raise ValueError(f"loss_fn must give one loss for each example, [batch, 1]; got shape {losses.shape}")
    return losses


def _at_thresholds(labels: Any, probabilities: Any, weights: Any, thresholds: Any) -> dict[str, Any]:
    """Accuracy, precision and recall of calling positive what exceeds each threshold."""
    found: dict[str, Any] = {}
    weights = None if isinstance(weights, float) else weights
    for threshold in thresholds:
        above = tf.cast(tf.greater_equal(probabilities, threshold), tf.float32)
        found[f"accuracy/positive_threshold_{threshold:g}"] = tf.metrics.accuracy(labels, above, weights=weights)
        for metric in ("precision", "recall"):
            values, update = getattr(tf.metrics, f"{metric}_at_thresholds")(
                labels, probabilities, [threshold], weights=weights
            )
            found[f"{metric}/positive_threshold_{threshold:g}"] = (tf.squeeze(values), tf.squeeze(update))
    return found


def _checked_thresholds(thresholds: Any) -> tuple[float, ...]:
    for threshold in thresholds or ():
        if not 0.0 < threshold < 1.0:
            raise ValueError(f"thresholds must be in (0, 1), got {threshold}")
    return tuple(thresholds or ())


class _Binary(BinaryHead):
    def __init__(self, weight_column: Any, thresholds: Any, vocabulary: Any, reduction: str, loss_fn: Any) -> None:
        super().__init__(weight_column, vocabulary, reduction)
        self._thresholds = _checked_thresholds(thresholds)
        self._loss_fn = loss_fn

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        losses, labels = super()._losses(logits, labels)
        return (losses if self._loss_fn is None else _own_losses(self._loss_fn, labels, logits)), labels

    def _metrics(self, predictions: Any, labels: Any, losses: Any, weights: Any) -> dict[str, Any]:
        found = super()._metrics(predictions, labels, losses, weights)
        return {**found, **_at_thresholds(labels, predictions["logistic"], weights, self._thresholds)}


@export("contrib.estimator.binary_classification_head")
def binary_classification_head(
    weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None, loss_reduction: str = _MEAN,
    loss_fn: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Two classes by one logit.

    Args:
        weight_column: The feature with the examples' weights.
        thresholds: Further probabilities above which to call an example positive, for metrics.
        label_vocabulary: The two labels, if they are strings.
        loss_reduction: How losses are summed; see `tf.losses.Reduction`.
        loss_fn: A function of `labels` and `logits` that gives losses [batch, 1], instead of the cross entropy.
        name: Ends the names of metrics.

    Returns:
        A head, whose `create_estimator_spec` makes the EstimatorSpec of a model function.
    """
    return _named(_Binary(weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn), name)


class _MultiClass(MultiClassHead):
    def __init__(self, classes: int, weight_column: Any, vocabulary: Any, reduction: str, loss_fn: Any) -> None:
        super().__init__(classes, weight_column, vocabulary, reduction)
        self._loss_fn = loss_fn

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        losses, labels = super()._losses(logits, labels)
        return (losses if self._loss_fn is None else _own_losses(self._loss_fn, labels, logits)), labels


@export("contrib.estimator.multi_class_head")
def multi_class_head(
    n_classes: int, weight_column: Any = None, label_vocabulary: Any = None, loss_reduction: str = _MEAN,
    loss_fn: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """More than two classes by as many logits; see `binary_classification_head`."""
    return _named(_MultiClass(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn), name)


class _Regression(RegressionHead):
    """Numbers, by a loss and an inverse link of the program."""

    def __init__(
        self, dimension: int, weight_column: Any, reduction: str, loss_fn: Any = None, inverse_link_fn: Any = None
    ) -> None:
        super().__init__(dimension, weight_column, reduction)
        self._loss_fn = loss_fn
        self._inverse_link_fn = inverse_link_fn

    def _predictions(self, logits: Any) -> dict[str, Any]:
        if self._inverse_link_fn is None:
            return {"predictions": logits}
        return {"predictions": self._inverse_link_fn(logits), "logits": logits}

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        losses, labels = super()._losses(logits, labels)
        return (losses if self._loss_fn is None else _own_losses(self._loss_fn, labels, logits)), labels


@export("contrib.estimator.regression_head")
def regression_head(
    weight_column: Any = None, label_dimension: int = 1, loss_reduction: str = _MEAN, loss_fn: Any = None,
    inverse_link_fn: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Numbers, by the squared error or `loss_fn`; see `binary_classification_head`."""
    return _named(_Regression(label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn), name)


@export("contrib.estimator.poisson_regression_head")
def poisson_regression_head(
    weight_column: Any = None, label_dimension: int = 1, loss_reduction: str = _MEAN, compute_full_loss: bool = True,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Counts: the logits are logarithms of rates."""

    def loss_fn(labels: Any, logits: Any) -> Any:
        return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=compute_full_loss)

    return _named(_Regression(label_dimension, weight_column, loss_reduction, loss_fn, tf.exp), name)


@export("contrib.estimator.logistic_regression_head")
def logistic_regression_head(weight_column: Any = None, loss_reduction: str = _MEAN, name: str | None = None) -> Any:
    """Numbers between 0 and 1, as probabilities."""

    def loss_fn(labels: Any, logits: Any) -> Any:
        checks = [tf.assert_less_equal(labels, 1.0, message="Labels must be in [0, 1]"), tf.assert_non_negative(labels)]
        with tf.control_dependencies(checks):
            return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    return _named(_Regression(1, weight_column, loss_reduction, loss_fn, tf.sigmoid), name)


class _MultiLabel(Head):
    """Any number of labels for an example: one logit each."""

    def __init__(
        self, classes: int, weight_column: Any, thresholds: Any, vocabulary: Any, reduction: str, loss_fn: Any,
        measured: Any,
    ) -> None:  # fmt: skip
        if classes < 2:
            raise ValueError(f"n_classes must be > 1 for multi-label classification. Given: {classes}")
        if vocabulary is not None and (isinstance(vocabulary, (str, bytes)) or len(vocabulary) != classes):
            raise ValueError(f"label_vocabulary must be a list of {classes} labels, got {vocabulary!r}.")
        super().__init__(classes, weight_column, reduction)
        self._thresholds = _checked_thresholds(thresholds)
        self._vocabulary = vocabulary
        self._loss_fn = loss_fn
        self._measured = [self._number(each) for each in measured or ()]

    def _number(self, label: Any) -> int:
        """The column of a class that is given by its number or its label."""
        column = list(self._vocabulary).index(label) if self._vocabulary and label in self._vocabulary else label
        if not isinstance(column, int) or not 0 <= column < self.logits_dimension:
            raise ValueError(f"classes_for_class_based_metrics names {label!r}, which is no class")
        return column

    def _predictions(self, logits: Any) -> dict[str, Any]:
        return {"logits": logits, "probabilities": tf.sigmoid(logits, name="probabilities")}

    def _processed(self, labels: Any) -> Any:
        """Zeros and ones, [batch, classes], of these or of a sparse list of classes."""
        if labels is None:
            raise ValueError("You must provide a labels Tensor. Given: None. Does your input_fn return labels?")
        if not isinstance(labels, tf.SparseTensor):
            labels = tf.convert_to_tensor(labels)
            labels.shape.with_rank(2)
            if not labels.shape.is_compatible_with([None, self.logits_dimension]):
                raise ValueError(f"labels must have shape [batch, {self.logits_dimension}], got {labels.shape}.")
            checks = [tf.assert_less_equal(labels, tf.ones_like(labels), message="labels must be in [0, 1]")]
            with tf.control_dependencies(checks):
                return tf.cast(labels, tf.float32)
        if labels.dtype == tf.string:
            if not self._vocabulary:
                raise ValueError("labels are strings: label_vocabulary must name the classes")
            table = tf.contrib.lookup.index_table_from_tensor(list(self._vocabulary), name="class_id_lookup")
            labels = tf.SparseTensor(labels.indices, table.lookup(labels.values), labels.dense_shape)
        return tf.cast(tf.sparse_to_indicator(labels, self.logits_dimension), tf.float32)

    def _losses(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        labels = self._processed(labels)
        if self._loss_fn is not None:
            return _own_losses(self._loss_fn, labels, logits), labels
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(losses, axis=-1, keepdims=True), labels

    def _metrics(self, predictions: Any, labels: Any, losses: Any, weights: Any) -> dict[str, Any]:
        probabilities = predictions["probabilities"]
        wide = None if isinstance(weights, float) else weights * tf.ones_like(labels)
        found = {
            "average_loss": tf.metrics.mean(losses, weights=weights),
            "auc": tf.metrics.auc(labels, probabilities, weights=wide),
            "auc_precision_recall": tf.metrics.auc(labels, probabilities, weights=wide, curve="PR"),
            **_at_thresholds(labels, probabilities, wide if wide is not None else 1.0, self._thresholds),
        }
        for column in self._measured:
            name = self._vocabulary[column] if self._vocabulary else f"class{column}"
            here, there = probabilities[:, column : column + 1], labels[:, column : column + 1]
            found[f"probability_mean/{name}"] = tf.metrics.mean(here, weights=weights)
            one = None if isinstance(weights, float) else weights
            found[f"auc/{name}"] = tf.metrics.auc(there, here, weights=one)
            found[f"auc_precision_recall/{name}"] = tf.metrics.auc(there, here, weights=one, curve="PR")
        return found

    def _outputs(self, predictions: Any) -> dict[str, Any]:
        labels = self._vocabulary or [str(i) for i in range(self.logits_dimension)]
        rows = tf.shape(predictions["probabilities"])[0]
        classes = tf.tile(tf.expand_dims(tf.constant(list(labels)), 0), [rows, 1])
        shown = ClassificationOutput(scores=predictions["probabilities"], classes=classes)
        default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        return {default: shown, "classification": shown, "predict": PredictOutput(predictions)}


@export("contrib.estimator.multi_label_head")
def multi_label_head(
    n_classes: int, weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
    loss_reduction: str = _MEAN, loss_fn: Any = None, classes_for_class_based_metrics: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Any number of labels for an example; see `binary_classification_head`.

    Labels are zeros and ones, [batch, n_classes], or a SparseTensor of classes.
    """
    head = _MultiLabel(
        n_classes, weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, classes_for_class_based_metrics
    )
    return _named(head, name)
