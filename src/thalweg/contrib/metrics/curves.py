"""tf.contrib.metrics of curves over thresholds: their points, and one measure where the other has a given value."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export
from thalweg.metrics import thresholds

_TINY = 1e-7


def _bounds(number: int) -> list[float]:
    inner = [i / (number - 1) for i in range(1, number - 1)]
    return [-_TINY, *inner, 1.0 + _TINY]


def _collect(metrics_collections: Any, value: Any, updates_collections: Any, update: Any) -> tuple[Any, Any]:
    for collections, tensor in ((metrics_collections, value), (updates_collections, update)):
        for collection in collections or ():
            tf.add_to_collection(collection, tensor)
    return value, update


@export("contrib.metrics.streaming_curve_points", "contrib.slim.metrics.streaming_curve_points")
def streaming_curve_points(
    labels: Any, predictions: Any = None, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Any = None, updates_collections: Any = None, curve: str = "ROC", name: str | None = None,
) -> Any:  # fmt: skip
    """The points of the ROC curve (or of precision over recall, 'PR'), a row for each threshold.

    Raises:
        ValueError: If the curve is another.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    with tf.variable_scope(name, "curve_points", (labels, predictions, weights)):
        now, after = thresholds.counts(labels, predictions, _bounds(num_thresholds), weights)
        tiny = 1e-6
        recall = (now.tp + tiny) / (now.tp + now.fn + tiny)
        if curve == "ROC":
            points = tf.stack([now.fp / (now.fp + now.tn + tiny), recall], 1)
        else:
            points = tf.stack([recall, (now.tp + tiny) / (now.tp + now.fp + tiny)], 1)
        return _collect(metrics_collections, points, updates_collections, tf.group(*after))


@export("contrib.metrics.recall_at_precision", "contrib.slim.metrics.recall_at_precision")
def recall_at_precision(
    labels: Any, predictions: Any, precision: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
    strict_mode: bool = False,
) -> Any:  # fmt: skip
    """The recall at the threshold whose precision is nearest to a given one.

    With `strict_mode`, at the threshold with the least precision that reaches it, and 0 if none does.

    Raises:
        ValueError: If the precision is not in 0 to 1.
    """
    if not 0 <= precision <= 1:
        raise ValueError(f"`precision` must be in the range [0, 1], got {precision}.")

    def recall(counts: Any, op_name: str) -> Any:
        found = tf.div(counts.tp, counts.tp + counts.fp + _TINY)
        recalls = tf.div(counts.tp, counts.tp + counts.fn + _TINY)
        if not strict_mode:
            return tf.gather(recalls, tf.argmin(tf.abs(found - precision)), name=op_name)
        reached = found >= precision
        least = tf.gather(recalls, tf.argmin(tf.where(reached, found, tf.fill(tf.shape(found), 2.0))))
        return tf.where(tf.reduce_any(reached), least, tf.zeros_like(least), name=op_name)

    with tf.variable_scope(name, "recall_at_precision", (predictions, labels, weights)):
        now, after = thresholds.counts(labels, predictions, _bounds(num_thresholds), weights)
        return _collect(metrics_collections, recall(now, "value"), updates_collections, recall(after, "update_op"))


@export("contrib.metrics.precision_at_recall", "contrib.slim.metrics.precision_at_recall")
def precision_at_recall(
    labels: Any, predictions: Any, target_recall: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The precision at the threshold whose recall is nearest to a given one.

    Raises:
        ValueError: If the recall is not in 0 to 1.
    """
    if not 0 <= target_recall <= 1:
        raise ValueError(f"`target_recall` must be in the range [0, 1], got {target_recall}.")

    def precision(counts: Any, op_name: str) -> Any:
        recalls = tf.div(counts.tp, counts.tp + counts.fn + _TINY)
        at = tf.argmin(tf.abs(recalls - target_recall))
        return tf.div(counts.tp[at], counts.tp[at] + counts.fp[at] + _TINY, name=op_name)

    with tf.variable_scope(name, "precision_at_recall", (predictions, labels, weights)):
        now, after = thresholds.counts(labels, predictions, _bounds(num_thresholds), weights)
        value, update = precision(now, "value"), precision(after, "update_op")
        return _collect(metrics_collections, value, updates_collections, update)
