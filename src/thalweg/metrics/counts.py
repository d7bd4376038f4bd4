"""Counts of right and wrong decisions, and their ratios: precision and recall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import bool as boolean
from thalweg.graph.dtypes import float32
from thalweg.graph.tensor import Tensor
from thalweg.metrics.accumulation import Metric, collected, fitted, metric_variable
from thalweg.nn.weight_broadcasting import broadcast_weights
from thalweg.ops.array.constants import identity
from thalweg.ops.math.arithmetic import add, multiply
from thalweg.ops.math.casting import cast
from thalweg.ops.math.reductions import reduce_sum
from thalweg.state.variable_scope import variable_scope


def _counter(name: str, label: bool, prediction: bool) -> Callable[..., Metric]:
    """Makes the metric that counts elements with this label and this prediction."""

    def count(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
        updates_collections: Any = None, name: str | None = None,
    ) -> Metric:  # fmt: skip
        with variable_scope(name, count.__name__, [predictions, labels, weights]):
            labels, predictions, weights = fitted(cast(labels, boolean), cast(predictions, boolean), weights)
            truth = labels if label else apply_one("LogicalNot", labels)
            guess = predictions if prediction else apply_one("LogicalNot", predictions)
            hits = cast(apply_one("LogicalAnd", truth, guess), float32)
            total = metric_variable([], float32, "count")
            if weights is not None:
                hits = multiply(hits, broadcast_weights(cast(weights, float32), hits))
            update = convert_to_tensor(total.assign_add(reduce_sum(hits)))
            return collected(identity(total), update, metrics_collections, updates_collections)

    count.__name__ = count.__qualname__ = name
    what = "true" if label else "false"
    guess = "true" if prediction else "false"
    count.__doc__ = f"""Sums the weights of the elements whose label is {what} and whose prediction is {guess}.

    Args:
        labels: The truth; converted to bool.
        predictions: Converted to bool.
        weights: None, or a scalar, or a tensor that fits `predictions`.
        metrics_collections: Collections that the value joins.
        updates_collections: Collections that the update joins.
        name: A variable scope.

    Returns:
        (value, update_op); see `tf.metrics.mean`.
    """
    return export(f"metrics.{name}")(count)


true_positives = _counter("true_positives", True, True)
false_positives = _counter("false_positives", False, True)
true_negatives = _counter("true_negatives", False, False)
false_negatives = _counter("false_negatives", True, False)


def _share(hits: Any, misses: Any, name: str) -> Tensor:
    return apply_one("DivNoNan", hits, add(hits, misses), name=name)


def _ratio(
    default: str, misses: Callable[..., Metric], labels: Any, predictions: Any, weights: Any, metrics_collections: Any,
    updates_collections: Any, name: str | None,
) -> Metric:  # fmt: skip
    with variable_scope(name, default, [predictions, labels, weights]):
        labels, predictions, weights = fitted(cast(labels, boolean), cast(predictions, boolean), weights)
        hit, hit_update = true_positives(labels, predictions, weights)
        miss, miss_update = misses(labels, predictions, weights)
        value = _share(hit, miss, "value")
        update = _share(hit_update, miss_update, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.precision")
def precision(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the share of true positives among the positive predictions; 0 if there are none.

    For the arguments see `true_positives`.
    """
    return _ratio(
        "precision", false_positives, labels, predictions, weights, metrics_collections, updates_collections, name
    )


@export("metrics.recall")
def recall(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the share of the positive elements that are predicted as such; 0 if there are none.

    For the arguments see `true_positives`.
    """
    return _ratio(
        "recall", false_negatives, labels, predictions, weights, metrics_collections, updates_collections, name
    )
