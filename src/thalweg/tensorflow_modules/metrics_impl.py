"""Names of `tensorflow.python.ops.metrics_impl` and `confusion_matrix` that are not public."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.metrics import accumulation
from thalweg.metrics import thresholds as thresholds_of_metrics
from thalweg.metrics.rankings import average_precision_at_top_k as _streaming_sparse_average_precision_at_top_k
from thalweg.nn.weight_broadcasting import remove_squeezable_dimensions as remove_squeezable_dimensions


def _remove_squeezable_dimensions(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    labels, predictions, weights = accumulation.fitted(labels, predictions, weights)
    return predictions, labels, weights


def metric_variable(shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None) -> Any:
    """A local variable that starts at zero; its shape may change if `validate_shape` is False."""
    return accumulation.metric_variable(shape, tf.as_dtype(dtype), name, validate_shape)


def _safe_div(numerator: Any, denominator: Any, name: str | None = None) -> Any:
    return accumulation.quotient(numerator, denominator, name)


_safe_scalar_div = _safe_div


def _confusion_matrix_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, includes: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The counts for each threshold so far, and the operations that add a batch, by the names tp, fn, tn and fp."""
    known = thresholds_of_metrics.Counts._fields
    for include in includes or ():
        if include not in known:
            raise ValueError(f"Invalid key: {include}.")
    now, after = thresholds_of_metrics.counts(labels, predictions, thresholds, weights, " ".join(includes or known))
    wanted = includes or known
    return {key: getattr(now, key) for key in wanted}, {key: getattr(after, key) for key in wanted}


def _aggregate_variable(v: Any, collections: Any) -> Any:
    value = tf.identity(v)
    if collections:
        tf.add_to_collections(collections, value)
    return value


__all__ = ["_streaming_sparse_average_precision_at_top_k"]
