"""Shared by all metrics: their variables, the fitting of labels, predictions and weights, and the results."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collections
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor import Tensor
from thalweg.nn.weight_broadcasting import fit_weights, remove_squeezable_dimensions
from thalweg.ops.array.filling import zeros
from thalweg.state.policies import VariableAggregation, VariableSynchronization
from thalweg.state.variable import Variable

# (the value so far, the operation that adds a batch and returns the value after it)
Metric = tuple[Tensor, Any]


def metric_variable(shape: Any, dtype: DType, name: str | None, validate_shape: bool = True) -> Variable:
    """A variable that starts at zero: local to the process, and not trained."""
    return Variable(
        lambda: zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        name=name,
        validate_shape=validate_shape,
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation.SUM,
    )


def fitted(labels: Any, predictions: Any, weights: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """Labels, predictions and weights with dimensions of 1 dropped or added where their ranks differ by one."""
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return labels, predictions, None
    return labels, predictions, fit_weights(weights, predictions)


def collected(value: Tensor, update: Any, metrics_collections: Any, updates_collections: Any) -> Metric:
    """Adds the two results of a metric to the collections asked for, and returns them."""
    if metrics_collections:
        add_to_collections(metrics_collections, value)
    if updates_collections:
        add_to_collections(updates_collections, update)
    return value, update


def quotient(numerator: Any, denominator: Any, name: str | None = None) -> Tensor:
    """The quotient, and 0 where the denominator is not positive."""
    return apply_one("DivNoNan", numerator, apply_one("Maximum", denominator, 0.0), name=name)
