"""tf.contrib.metrics of counts: rates of errors, metrics of the best classes, and the number of values."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export
from thalweg.metrics import rankings, thresholds


def _collected(value: Any, update: Any, metrics_collections: Any, updates_collections: Any) -> tuple[Any, Any]:
    for collections, tensor in ((metrics_collections, value), (updates_collections, update)):
        for collection in collections or ():
            tf.add_to_collection(collection, tensor)
    return value, update


@export(
    "contrib.metrics.streaming_sparse_precision_at_top_k",
    "contrib.slim.metrics.streaming_sparse_precision_at_top_k",
)
def streaming_sparse_precision_at_top_k(
    top_k_predictions: Any, labels: Any, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The share of labels among the best classes, `top_k_predictions`: `[D1, ... DN, k]`."""
    k = _number_of_classes(top_k_predictions)
    return tf.metrics.precision_at_top_k(
        labels, top_k_predictions, k, class_id, weights, metrics_collections, updates_collections, name
    )


@export("contrib.metrics.sparse_recall_at_top_k", "contrib.slim.metrics.sparse_recall_at_top_k")
def sparse_recall_at_top_k(
    labels: Any, top_k_predictions: Any, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The share of the labels that are among the best classes, `top_k_predictions`: `[D1, ... DN, k]`."""
    k = _number_of_classes(top_k_predictions)
    return tf.metrics.recall_at_top_k(
        labels, top_k_predictions, k, class_id, weights, metrics_collections, updates_collections, name
    )


@export(
    "contrib.metrics.streaming_sparse_average_precision_at_top_k",
    "contrib.slim.metrics.streaming_sparse_average_precision_at_top_k",
)
def streaming_sparse_average_precision_at_top_k(
    top_k_predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The average precision at the ranks of the labels among the best classes, `top_k_predictions`."""
    return rankings.average_precision_at_top_k(
        labels, top_k_predictions, weights, metrics_collections, updates_collections, name
    )


def _number_of_classes(top_k_predictions: Any) -> int | None:
    shape = tf.convert_to_tensor(top_k_predictions).shape.with_rank_at_least(1)
    size: int | None = shape.as_list()[-1] if shape.ndims else None
    return size


def _rate(part: Any, rest: Any, name: str) -> Any:
    """The share of some counts in the sum of two; 0 where there is nothing."""
    return tf.div_no_nan(part, part + rest, name=name)


def _rate_of(kind: str, part: str, rest: str, doc: str) -> Any:
    spaces = ("contrib.metrics", "contrib.slim.metrics")

    @export(*(f"{space}.streaming_{kind}_rate" for space in spaces))
    def rate(
        predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
        updates_collections: Any = None, name: str | None = None,
    ) -> Any:  # fmt: skip
        with tf.variable_scope(name, f"{kind}_rate", (predictions, labels, weights)):
            labels, predictions = tf.cast(labels, tf.bool), tf.cast(predictions, tf.bool)
            wrong, wrong_update = getattr(tf.metrics, part)(labels, predictions, weights)
            right, right_update = getattr(tf.metrics, rest)(labels, predictions, weights)
            value, update = _rate(wrong, right, "value"), _rate(wrong_update, right_update, "update_op")
            return _collected(value, update, metrics_collections, updates_collections)

    @export(*(f"{space}.streaming_{kind}_rate_at_thresholds" for space in spaces))
    def rate_at_thresholds(
        predictions: Any, labels: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
        updates_collections: Any = None, name: str | None = None,
    ) -> Any:  # fmt: skip
        with tf.variable_scope(name, f"{kind}_rate_at_thresholds", (predictions, labels, weights)):
            now, after = _counts(labels, predictions, thresholds, weights, part, rest)
            value = _rate(now[0], now[1], f"{kind}_rate_value")
            update = _rate(after[0], after[1], f"{kind}_rate_update_op")
            return _collected(value, update, metrics_collections, updates_collections)

    for function, ending in ((rate, "rate"), (rate_at_thresholds, "rate_at_thresholds")):
        function.__name__ = function.__qualname__ = f"streaming_{kind}_{ending}"
    rate.__doc__ = f"{doc}, of all batches; 0 before the first."
    rate_at_thresholds.__doc__ = f"{doc}, for predictions above each of the thresholds."
    return rate, rate_at_thresholds


def _counts(labels: Any, predictions: Any, bounds: Any, weights: Any, *kinds: str) -> tuple[list[Any], list[Any]]:
    letters = ["".join(word[0] for word in kind.split("_")) for kind in kinds]
    now, after = thresholds.counts(labels, predictions, bounds, weights, " ".join(letters))
    return [getattr(now, each) for each in letters], [getattr(after, each) for each in letters]


streaming_false_positive_rate, streaming_false_positive_rate_at_thresholds = _rate_of(
    "false_positive", "false_positives", "true_negatives", "The share of negatives that are predicted to be positive"
)
streaming_false_negative_rate, streaming_false_negative_rate_at_thresholds = _rate_of(
    "false_negative", "false_negatives", "true_positives", "The share of positives that are predicted to be negative"
)


@export("contrib.metrics.count", "contrib.slim.metrics.count")
def count(
    values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The number of values of all batches, or the sum of their weights."""
    with tf.variable_scope(name, "count", (values, weights)):
        values = tf.to_float(values)
        number = tf.get_variable(
            "count", [], tf.float32, tf.zeros_initializer(), trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        )  # fmt: skip
        if weights is None:
            batch = tf.to_float(tf.size(values))
        else:
            batch = tf.reduce_sum(tf.ones_like(values) * tf.to_float(weights))
        with tf.control_dependencies([values]):
            update = tf.identity(tf.assign_add(number, batch))
        return _collected(tf.identity(number), update, metrics_collections, updates_collections)
