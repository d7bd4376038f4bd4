"""tf.contrib.metrics: the metrics of tf.metrics under their older names, with predictions before labels."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_SPACES = ("contrib.metrics", "contrib.slim.metrics")


def _export(function: Any, name: str) -> None:
    for space in _SPACES:
        export_value(function, f"{space}.{name}")


def _swapped(metric: Any, old_name: str) -> Any:
    """A metric that takes (predictions, labels, …) instead of (labels, predictions, …)."""

    def function(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Any:
        return metric(labels, predictions, *args, **kwargs)

    function.__name__ = function.__qualname__ = old_name
    function.__doc__ = f"`tf.metrics.{metric.__name__}`, with predictions before labels."
    return function


# Old name: name in tf.metrics. The others of their arguments come in the same order.
for _old, _new in {
    "streaming_accuracy": "accuracy",
    "streaming_auc": "auc",
    "streaming_false_negatives": "false_negatives",
    "streaming_false_positives": "false_positives",
    "streaming_true_negatives": "true_negatives",
    "streaming_true_positives": "true_positives",
    "streaming_mean_absolute_error": "mean_absolute_error",
    "streaming_mean_squared_error": "mean_squared_error",
    "streaming_root_mean_squared_error": "root_mean_squared_error",
    "streaming_precision": "precision",
    "streaming_recall": "recall",
    "streaming_sensitivity_at_specificity": "sensitivity_at_specificity",
    "streaming_specificity_at_sensitivity": "specificity_at_sensitivity",
    "streaming_sparse_recall_at_k": "recall_at_k",
    "streaming_sparse_precision_at_k": "precision_at_k",
    "streaming_sparse_average_precision_at_k": "average_precision_at_k",
    "streaming_false_negatives_at_thresholds": "false_negatives_at_thresholds",
    "streaming_false_positives_at_thresholds": "false_positives_at_thresholds",
    "streaming_true_negatives_at_thresholds": "true_negatives_at_thresholds",
    "streaming_true_positives_at_thresholds": "true_positives_at_thresholds",
    "streaming_precision_at_thresholds": "precision_at_thresholds",
    "streaming_recall_at_thresholds": "recall_at_thresholds",
}.items():
    _export(_swapped(getattr(tf.metrics, _new), _old), _old)
for _old, _new in {
    "streaming_mean": "mean", "streaming_mean_tensor": "mean_tensor", "streaming_percentage_less": "percentage_below",
}.items():  # fmt: skip
    _export(getattr(tf.metrics, _new), _old)


def streaming_mean_iou(predictions: Any, labels: Any, num_classes: int, *args: Any, **kwargs: Any) -> Any:
    """`tf.metrics.mean_iou`, with predictions before labels."""
    return tf.metrics.mean_iou(labels, predictions, num_classes, *args, **kwargs)


def streaming_mean_relative_error(predictions: Any, labels: Any, normalizer: Any, *args: Any, **kwargs: Any) -> Any:
    """`tf.metrics.mean_relative_error`, with predictions before labels."""
    return tf.metrics.mean_relative_error(labels, predictions, normalizer, *args, **kwargs)


def streaming_mean_cosine_distance(predictions: Any, labels: Any, dim: int, *args: Any, **kwargs: Any) -> Any:
    """`tf.metrics.mean_cosine_distance`, with predictions before labels."""
    return tf.metrics.mean_cosine_distance(labels, predictions, dim, *args, **kwargs)


def streaming_recall_at_k(predictions: Any, labels: Any, k: int, *args: Any, **kwargs: Any) -> Any:
    """How often the label is among the `k` largest predictions."""
    hits = tf.to_float(tf.nn.in_top_k(predictions, labels, k))
    return tf.metrics.mean(hits, *args, **kwargs)


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """The fraction of predictions of one batch that equal the labels.

    Raises:
        ValueError: If types differ, or are no integers, bools or strings.
    """
    kinds = (tf.bool, tf.string)
    if not (labels.dtype.is_integer or labels.dtype in kinds):
        raise ValueError(f"Labels should have bool, integer, or string dtype, not {labels.dtype}")
    if predictions.dtype != labels.dtype:
        raise ValueError(
            f"Dtypes of predictions and labels should match. "
            f"Given: predictions ({predictions.dtype}) and labels ({labels.dtype})"
        )
    predictions.shape.assert_is_compatible_with(labels.shape)
    with tf.name_scope(name, "accuracy", values=[predictions, labels]):
        right = tf.to_float(tf.equal(predictions, labels))
        if weights is None:
            return tf.reduce_mean(right)
        weights = tf.ones_like(right) * tf.to_float(weights)
        return tf.reduce_sum(right * weights) / tf.reduce_sum(weights)


def aggregate_metrics(*value_update_tuples: Any) -> tuple[list[Any], list[Any]]:
    """The values of several metrics, and their updates.

    Raises:
        ValueError: If there are none.
    """
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of several metrics by name, and their updates by name."""
    values, updates = aggregate_metrics(*names_to_tuples.values())
    return dict(zip(names_to_tuples, values, strict=True)), dict(zip(names_to_tuples, updates, strict=True))


def streaming_concat(
    values: Any, axis: int = 0, max_size: int | None = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """All values of all batches, one after the other.

    Raises:
        ValueError: If the axis does not fit, or sizes of the other axes are unknown.
    """
    with tf.variable_scope(name, "streaming_concat", (values,)):
        values = tf.convert_to_tensor(values)
        rank = values.shape.ndims
        if rank is None or not -rank <= axis < rank:
            raise ValueError(f"axis={axis} not in [{-(rank or 0)}, {rank})")
        axis %= rank
        order = [axis, *(i for i in range(rank) if i != axis)]
        if None in values.shape.as_list()[:axis] + values.shape.as_list()[axis + 1 :]:
            raise ValueError(
                f"all dimensions of `values` other than the dimension to concatenate along must have "
                f"statically known size; the shape is {values.shape}, axis={axis}"
            )
        rows = tf.transpose(values, order)
        shape = [0, *rows.shape.as_list()[1:]]
        kept = tf.Variable(
            tf.zeros(shape, values.dtype), validate_shape=False, trainable=False, name="array",
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        )  # fmt: skip
        added = rows if max_size is None else rows[: tf.maximum(max_size - tf.shape(kept)[0], 0)]
        update = tf.assign(kept, tf.concat([kept, added], 0), validate_shape=False)
        back = [order.index(i) for i in range(rank)]
        value, update = tf.transpose(tf.identity(kept), back), tf.transpose(update, back)
        for collections, tensor in ((metrics_collections, value), (updates_collections, update)):
            for collection in collections or ():
                tf.add_to_collection(collection, tensor)
        return value, update


def streaming_covariance(
    predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The covariance of all batches; NaN before the second value.

    Means and the co-moment are updated together, from those of the batch (Chan et al., 1979): the difference of two
    large sums would lose digits.
    """
    with tf.variable_scope(name, "covariance", (predictions, labels)):
        predictions, labels = tf.to_float(predictions), tf.to_float(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        weight = tf.ones_like(predictions) if weights is None else tf.ones_like(predictions) * tf.to_float(weights)
        names = ("count", "mean_prediction", "mean_label", "comoment")
        variables = [_accumulator(each) for each in names]
        count, first, second, comoment = (tf.identity(variable) for variable in variables)
        batch = tf.reduce_sum(weight)
        means = [tf.div_no_nan(tf.reduce_sum(weight * values), batch) for values in (predictions, labels)]
        share = tf.div_no_nan(batch, count + batch)
        deltas = [means[0] - first, means[1] - second]
        within = tf.reduce_sum(weight * (predictions - means[0]) * (labels - means[1]))
        changes = [batch, deltas[0] * share, deltas[1] * share, within + deltas[0] * deltas[1] * count * share]
        with tf.control_dependencies([count, first, second, comoment, *changes]):
            updated = [tf.assign_add(variable, change) for variable, change in zip(variables, changes, strict=True)]

        def covariance(number: Any, moment: Any) -> Any:
            return tf.where(number > 1, moment / tf.maximum(number - 1, 1e-12), tf.constant(float("nan")))

        with tf.control_dependencies(updated):
            update = covariance(updated[0], updated[3])
        value = covariance(count, comoment)
        for collections, tensor in ((metrics_collections, value), (updates_collections, update)):
            for collection in collections or ():
                tf.add_to_collection(collection, tensor)
        return value, update


def _accumulator(name: str) -> Any:
    return tf.get_variable(
        name, [], tf.float32, tf.zeros_initializer(), trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
    )  # fmt: skip


def streaming_pearson_correlation(
    predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The correlation of all batches."""
    with tf.variable_scope(name, "pearson_r", (predictions, labels)):
        pairs = [
            (predictions, labels, "covariance"),
            (predictions, predictions, "variance_p"),
            (labels, labels, "variance_l"),
        ]
        found = [streaming_covariance(a, b, weights, name=n) for a, b, n in pairs]
        value = found[0][0] / tf.sqrt(found[1][0] * found[2][0])
        update = found[0][1] / tf.sqrt(found[1][1] * found[2][1])
        for collections, tensor in ((metrics_collections, value), (updates_collections, update)):
            for collection in collections or ():
                tf.add_to_collection(collection, tensor)
        return value, update


def f1_score(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The largest F1 score over thresholds."""
    with tf.variable_scope(name, "f1", (labels, predictions, weights)):
        epsilon = 1e-7
        thresholds = [(i + 1) * 1.0 / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        thresholds = [0.0 - epsilon, *thresholds, 1.0 + epsilon]
        precision = tf.metrics.precision_at_thresholds(labels, predictions, thresholds, weights)
        recall = tf.metrics.recall_at_thresholds(labels, predictions, thresholds, weights)

        def best(p: Any, r: Any) -> Any:
            return tf.reduce_max(2.0 * p * r / (p + r + epsilon))

        value, update = best(precision[0], recall[0]), best(precision[1], recall[1])
        for collections, tensor in ((metrics_collections, value), (updates_collections, update)):
            for collection in collections or ():
                tf.add_to_collection(collection, tensor)
        return value, update


for _function in (
    streaming_mean_iou, streaming_mean_relative_error, streaming_mean_cosine_distance, streaming_recall_at_k, accuracy,
    aggregate_metrics, aggregate_metric_map, streaming_concat, streaming_covariance, streaming_pearson_correlation,
    f1_score,
):  # fmt: skip
    _export(_function, _function.__name__)


@export("contrib.metrics.cohen_kappa")
def cohen_kappa(
    labels: Any, predictions_idx: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Cohen's kappa: the agreement of two raters beyond chance, over all batches.

    Raises:
        ValueError: If there are fewer than two classes.
    """
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be >= 2. Found: {num_classes}")
    with tf.variable_scope(name, "cohen_kappa", (labels, predictions_idx)):
        matrix = tf.get_variable(
            "matrix", [num_classes, num_classes], tf.float32, tf.zeros_initializer(), trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        )  # fmt: skip
        batch = tf.confusion_matrix(
            tf.reshape(labels, [-1]), tf.reshape(predictions_idx, [-1]), num_classes, tf.float32,
            weights=None if weights is None else tf.reshape(weights, [-1]),
        )  # fmt: skip

        def kappa(counts: Any) -> Any:
            total = tf.reduce_sum(counts)
            expected = tf.reduce_sum(tf.reduce_sum(counts, 0) * tf.reduce_sum(counts, 1)) / tf.maximum(total, 1e-12)
            beyond = total - expected
            return tf.where(tf.equal(beyond, 0.0), tf.zeros_like(beyond), (tf.trace(counts) - expected) / beyond)

        value, update = kappa(tf.identity(matrix)), kappa(tf.assign_add(matrix, batch))
        for collections, tensor in ((metrics_collections, value), (updates_collections, update)):
            for collection in collections or ():
                tf.add_to_collection(collection, tensor)
        return value, update
