"""Metrics that are means: of values, of errors, of hits."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import float32
from thalweg.metrics.accumulation import Metric, collected, fitted, metric_variable, quotient
from thalweg.nn.weight_broadcasting import broadcast_weights, remove_squeezable_dimensions
from thalweg.ops.array.shapes_of_tensors import size
from thalweg.ops.math.arithmetic import multiply, square, subtract
from thalweg.ops.math.casting import cast
from thalweg.ops.math.reductions import reduce_sum
from thalweg.state.variable_scope import variable_scope


@export("metrics.mean")
def mean(
    values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the weighted mean of all values so far.

    Like every metric, it returns two nodes: run `update_op` once per batch, and `value` to see the result. Initialize
    with `tf.local_variables_initializer()`.

    Args:
        values: A tensor.
        weights: None, a scalar, or a tensor of the rank of `values` whose sizes are those of `values` or 1.
        metrics_collections: Collections that the value joins.
        updates_collections: Collections that the update joins.
        name: A variable scope.

    Returns:
        (value, update_op): the mean so far, and the operation that adds the batch and returns the mean after it.

    Example:
        >>> x = tf.placeholder(tf.float32, [None])
        >>> value, update = tf.metrics.mean(x)
        >>> with tf.Session() as s:
        ...     s.run(tf.local_variables_initializer())
        ...     for batch in ([1.0, 2.0], [6.0]):
        ...         _ = s.run(update, {x: batch})
        ...     print(s.run(value))
        3.0
    """
    with variable_scope(name, "mean", [values, weights]):
        values = cast(values, float32)
        total = metric_variable([], float32, "total")
        count = metric_variable([], float32, "count")
        if weights is None:
            number = cast(size(values), float32)
        else:
            _, values, weights = fitted(None, values, weights)
            weights = broadcast_weights(cast(weights, float32), values)
            values = multiply(values, weights)
            number = reduce_sum(weights)
        new_total = total.assign_add(reduce_sum(values))
        # Both see the batch or neither: a batch whose values fail is not counted.
        with control_dependencies([values]):
            new_count = count.assign_add(number)
        value = quotient(total, count, "value")
        update = quotient(new_total, new_count, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.mean_tensor")
def mean_tensor(
    values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the weighted mean of tensors, element by element; for the arguments see `mean`."""
    with variable_scope(name, "mean", [values, weights]):
        values = cast(values, float32)
        total = metric_variable(values.shape, float32, "total_tensor")
        count = metric_variable(values.shape, float32, "count_tensor")
        number = apply_one("OnesLike", values)
        if weights is not None:
            _, values, weights = fitted(None, values, weights)
            weights = broadcast_weights(cast(weights, float32), values)
            values = multiply(values, weights)
            number = multiply(number, weights)
        new_total = total.assign_add(values)
        with control_dependencies([values]):
            new_count = count.assign_add(number)
        value = quotient(total, count, "value")
        update = quotient(new_total, new_count, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.accuracy")
def accuracy(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes how often predictions equal labels; for the other arguments see `mean`."""
    labels, predictions, weights = fitted(labels, predictions, weights)
    if labels.dtype.base_dtype != predictions.dtype.base_dtype:
        predictions = cast(predictions, labels.dtype)
    correct = cast(apply_one("Equal", predictions, labels), float32)
    return mean(correct, weights, metrics_collections, updates_collections, name or "accuracy")


@export("metrics.percentage_below")
def percentage_below(
    values: Any, threshold: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the share of values below a threshold; for the other arguments see `mean`."""
    below = cast(apply_one("Less", values, threshold), float32)
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


@export("metrics.mean_absolute_error")
def mean_absolute_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the mean of |predictions - labels|; for the other arguments see `mean`."""
    labels, predictions, weights = fitted(labels, predictions, weights)
    errors = apply_one("Abs", subtract(predictions, labels))
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


@export("metrics.mean_relative_error")
def mean_relative_error(
    labels: Any, predictions: Any, normalizer: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the mean of |predictions - labels| / normalizer; elements whose normalizer is 0 count as 0.

    For the other arguments see `mean`.
    """
    labels, predictions, weights = fitted(labels, predictions, weights)
    predictions, normalizer = remove_squeezable_dimensions(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    errors = apply_one("DivNoNan", apply_one("Abs", subtract(labels, predictions)), normalizer)
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_relative_error")


@export("metrics.mean_squared_error")
def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the mean of (predictions - labels)²; for the other arguments see `mean`."""
    labels, predictions, weights = fitted(labels, predictions, weights)
    errors = square(subtract(labels, predictions))
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_squared_error")


@export("metrics.root_mean_squared_error")
def root_mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the root of `mean_squared_error`."""
    value, update = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    return collected(apply_one("Sqrt", value), apply_one("Sqrt", update), metrics_collections, updates_collections)


@export("metrics.mean_cosine_distance")
def mean_cosine_distance(
    labels: Any, predictions: Any, dim: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the mean of 1 - labels . predictions along dimension `dim`, in which both have unit length.

    For the other arguments see `mean`.
    """
    labels, predictions, weights = fitted(labels, predictions, weights)
    products = multiply(convert_to_tensor(predictions), labels)
    similarity = reduce_sum(products, [dim], keepdims=True)
    value, update = mean(similarity, weights, None, None, name or "mean_cosine_distance")
    return collected(subtract(1.0, value), subtract(1.0, update), metrics_collections, updates_collections)
