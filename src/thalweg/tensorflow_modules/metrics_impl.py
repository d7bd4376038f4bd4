"""Names of `tensorflow.python.ops.metrics_impl` and `confusion_matrix` that are not public."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.metrics import accumulation
from thalweg.nn.weight_broadcasting import remove_squeezable_dimensions as remove_squeezable_dimensions


def _remove_squeezable_dimensions(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    labels, predictions, weights = accumulation.fitted(labels, predictions, weights)
    return predictions, labels, weights


def metric_variable(shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None) -> Any:
    """A local variable that starts at zero."""
    return accumulation.metric_variable(shape, tf.as_dtype(dtype), name or "Variable")


def _safe_div(numerator: Any, denominator: Any, name: str | None = None) -> Any:
    return accumulation.quotient(numerator, denominator, name)


_safe_scalar_div = _safe_div


def _aggregate_variable(v: Any, collections: Any) -> Any:
    value = tf.identity(v)
    if collections:
        tf.add_to_collections(collections, value)
    return value
