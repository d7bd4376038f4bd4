"""Decisions by threshold: counts, precision and recall at thresholds, area under a curve, best trade-offs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import bool as boolean
from thalweg.graph.dtypes import float32
from thalweg.graph.tensor import Tensor
from thalweg.metrics.accumulation import Metric, collected, fitted, metric_variable, quotient
from thalweg.nn.weight_broadcasting import broadcast_weights
from thalweg.ops.array.constants import identity
from thalweg.ops.array.gather import gather
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.flow.checks import assert_greater_equal, assert_less_equal
from thalweg.ops.math.arithmetic import add, multiply, subtract
from thalweg.ops.math.casting import cast
from thalweg.ops.math.reductions import reduce_sum
from thalweg.ops.math.scans import cumsum
from thalweg.platform import logging
from thalweg.state.variable_scope import variable_scope

_TINY = 1e-7  # Keeps quotients finite, and puts the outermost thresholds outside of [0, 1].


class Counts(NamedTuple):
    """One number for each threshold; None for the counts that are not computed."""

    tp: Any = None
    fn: Any = None
    tn: Any = None
    fp: Any = None


_NAMES = Counts("true_positives", "false_negatives", "true_negatives", "false_positives")


def counts(
    labels: Any, predictions: Any, thresholds: Any, weights: Any, include: str = "tp fn tn fp"
) -> tuple[Counts, Counts]:
    """The counts so far and after the batch, for predictions above each of the thresholds.

    Each prediction is put between two of the sorted thresholds, the weights there are summed, and sums from either end
    are the counts: the time grows with the number of elements, not with elements times thresholds.
    """
    predictions = convert_to_tensor(predictions)
    zero, one = (cast(bound, predictions.dtype) for bound in (0.0, 1.0))
    in_range = [
        assert_greater_equal(predictions, zero, message="predictions must be in [0, 1]"),
        assert_less_equal(predictions, one, message="predictions must be in [0, 1]"),
    ]
    with control_dependencies(in_range):
        labels, predictions, weights = fitted(cast(labels, boolean), cast(predictions, float32), weights)
    values = np.asarray(thresholds, np.float32)
    order = np.argsort(values, kind="stable")
    number = len(values)
    flat = reshape(predictions, [1, -1])
    if weights is None:
        mass = apply_one("OnesLike", flat)
    else:
        mass = reshape(broadcast_weights(cast(weights, float32), predictions), [1, -1])
    # How many thresholds lie below each prediction.
    place = apply_one("LowerBound", values[order].reshape(1, -1), flat)
    truth = cast(reshape(labels, [1, -1]), float32)
    positive = multiply(mass, truth)
    back = np.argsort(order)

    def sums(weight: Tensor) -> tuple[Tensor, Tensor]:
        """The weight above each threshold, and the rest."""
        held = apply_one("UnsortedSegmentSum", reshape(weight, [-1]), reshape(place, [-1]), number + 1)
        above: Any = cumsum(held, exclusive=True, reverse=True)
        below: Any = cumsum(held)
        if (back == np.arange(number)).all():
            return above[:-1], below[:-1]
        return gather(above, back), gather(below, back)

    wanted = include.split()
    found: dict[str, Tensor] = {}
    if "tp" in wanted or "fn" in wanted:
        found["tp"], found["fn"] = sums(positive)
    if "fp" in wanted or "tn" in wanted:
        found["fp"], found["tn"] = sums(subtract(mass, positive))
    now, after = {}, {}
    for key in wanted:
        variable = metric_variable([number], float32, getattr(_NAMES, key))
        now[key] = convert_to_tensor(variable)
        after[key] = convert_to_tensor(variable.assign_add(found[key]))
    return Counts(**now), Counts(**after)


def _metric_of_counts(
    default: str, name: str | None, labels: Any, predictions: Any, weights: Any, thresholds: Any, include: str,
    measure: Callable[[Counts, str], Tensor], metrics_collections: Any, updates_collections: Any,
) -> Metric:  # fmt: skip
    with variable_scope(name, default, [labels, predictions, weights]):
        now, after = counts(labels, predictions, thresholds, weights, include)
        value, update = measure(now, "value"), measure(after, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


def _counter(kind: str) -> Callable[..., Metric]:
    default = getattr(_NAMES, kind)

    def count(
        labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
        updates_collections: Any = None, name: str | None = None,
    ) -> Metric:  # fmt: skip
        return _metric_of_counts(
            default, name, labels, predictions, weights, thresholds, kind,
            lambda counts, _: identity(getattr(counts, kind)), metrics_collections, updates_collections,
        )  # fmt: skip

    count.__name__ = count.__qualname__ = f"{default}_at_thresholds"
    count.__doc__ = f"""Sums the weights of the {default.replace("_", " ")} at each threshold.

    Args:
        labels: The truth; converted to bool.
        predictions: Numbers in [0, 1]; those above a threshold are positive.
        thresholds: A list of numbers.
        weights: None, or a scalar, or a tensor that fits `predictions`.
        metrics_collections: Collections that the value joins.
        updates_collections: Collections that the update joins.
        name: A variable scope.

    Returns:
        (value, update_op), vectors as long as `thresholds`; see `tf.metrics.mean`.
    """
    return export(f"metrics.{default}_at_thresholds")(count)


true_positives_at_thresholds = _counter("tp")
false_negatives_at_thresholds = _counter("fn")
true_negatives_at_thresholds = _counter("tn")
false_positives_at_thresholds = _counter("fp")


def _share(hits: Any, misses: Any, name: str | None = None) -> Tensor:
    """The hits among hits and misses; 0 if there are neither."""
    return apply_one("RealDiv", hits, add(add(hits, misses), _TINY), name=name)


@export("metrics.precision_at_thresholds")
def precision_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the precision at each threshold; for the arguments see `true_positives_at_thresholds`."""
    return _metric_of_counts(
        "precision_at_thresholds", name, labels, predictions, weights, thresholds, "tp fp",
        lambda counts, scope: _share(counts.tp, counts.fp, f"precision_{scope}"), metrics_collections,
        updates_collections,
    )  # fmt: skip


@export("metrics.recall_at_thresholds")
def recall_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the recall at each threshold; for the arguments see `true_positives_at_thresholds`."""
    return _metric_of_counts(
        "recall_at_thresholds", name, labels, predictions, weights, thresholds, "tp fn",
        lambda counts, scope: _share(counts.tp, counts.fn, f"recall_{scope}"), metrics_collections,
        updates_collections,
    )  # fmt: skip


def _threshold_grid(num_thresholds: int, last: float) -> list[float]:
    if num_thresholds < 2:
        raise ValueError(f"num_thresholds must be at least 2, got {num_thresholds}.")
    inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
    return [-_TINY, *inner, last]


@export("metrics.auc")
def auc(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
    updates_collections: Any = None, curve: str = "ROC", name: str | None = None,
    summation_method: str = "trapezoidal", thresholds: Any = None,
) -> Metric:  # fmt: skip
    """Computes the area under a curve, approximately: from its points at some thresholds.

    Args:
        labels: The truth; converted to bool.
        predictions: Numbers in [0, 1].
        weights: None, or a scalar, or a tensor that fits `predictions`.
        num_thresholds: How many thresholds.
        metrics_collections: Collections that the value joins.
        updates_collections: Collections that the update joins.
        curve: 'ROC' (true over false positive rate) or 'PR' (precision over recall).
        name: A variable scope.
        summation_method: 'trapezoidal'; 'careful_interpolation' (right for 'PR'); 'minoring' or 'majoring' for a bound
            from below or above.
        thresholds: A list of thresholds to use instead, besides those around [0, 1].

    Returns:
        (value, update_op); see `tf.metrics.mean`.

    Raises:
        ValueError: If `curve` or `summation_method` is unknown.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    if summation_method not in ("trapezoidal", "careful_interpolation", "minoring", "majoring"):
        raise ValueError(f"Invalid summation_method: {summation_method}")
    if curve == "PR" and summation_method == "trapezoidal":
        logging.warn("Trapezoidal rule is known to produce incorrect PR-AUCs; use 'careful_interpolation' instead.")
    at = (
        [-_TINY, *sorted(thresholds), 1 + _TINY]
        if thresholds is not None
        else _threshold_grid(num_thresholds, 1 + _TINY)
    )

    def area(counts: Counts, scope: str) -> Tensor:
        if curve == "PR" and summation_method == "careful_interpolation":
            return _interpolated_area(counts, scope)
        tiny = 1e-6
        hits = add(counts.tp, tiny)
        rate = apply_one("RealDiv", hits, add(add(counts.tp, counts.fn), tiny))
        if curve == "ROC":
            x, y = apply_one("RealDiv", counts.fp, add(add(counts.fp, counts.tn), tiny)), rate
        else:
            x, y = rate, apply_one("RealDiv", hits, add(add(counts.tp, counts.fp), tiny))
        width = subtract(x[:-1], x[1:])
        if summation_method in ("trapezoidal", "careful_interpolation"):
            height = multiply(add(y[:-1], y[1:]), 0.5)
        else:
            height = apply_one("Minimum" if summation_method == "minoring" else "Maximum", y[:-1], y[1:])
        return reduce_sum(multiply(width, height), name=scope)

    return _metric_of_counts(
        "auc", name, labels, predictions, weights, at, "tp fn tn fp", area, metrics_collections, updates_collections
    )


def _interpolated_area(counts: Counts, name: str) -> Tensor:
    """The area under the precision-recall curve, with true positives linear in positives between two points.

    See Davis and Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006.
    """
    positives: Any = add(counts.tp, counts.fp)
    start, end = positives[:-1], positives[1:]
    gained = subtract(counts.tp[:-1], counts.tp[1:])
    slope = quotient(gained, subtract(start, end))
    intercept = subtract(counts.tp[1:], multiply(slope, end))
    both = apply_one("LogicalAnd", apply_one("Greater", start, 0.0), apply_one("Greater", end, 0.0))
    ratio = apply_one("Select", both, quotient(start, end), apply_one("OnesLike", end))
    part = multiply(slope, add(gained, multiply(intercept, apply_one("Log", ratio))))
    return reduce_sum(quotient(part, add(counts.tp[1:], counts.fn[1:])), name=name)


@export("metrics.sensitivity_at_specificity")
def sensitivity_at_specificity(
    labels: Any, predictions: Any, specificity: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the sensitivity (recall) at the threshold whose specificity is nearest to the given one.

    For the other arguments see `auc`.

    Raises:
        ValueError: If `specificity` is not in [0, 1].
    """
    if not 0 <= specificity <= 1:
        raise ValueError(f"`specificity` must be in the range [0, 1], got {specificity}.")

    def measure(counts: Counts, scope: str) -> Tensor:
        distance = apply_one("Abs", subtract(_share(counts.tn, counts.fp), specificity))
        at = apply_one("ArgMin", distance, 0)
        return _share(gather(counts.tp, at), gather(counts.fn, at), scope)

    return _metric_of_counts(
        "sensitivity_at_specificity", name, labels, predictions, weights, _threshold_grid(num_thresholds, 1 - _TINY),
        "tp fn tn fp", measure, metrics_collections, updates_collections,
    )  # fmt: skip


@export("metrics.specificity_at_sensitivity")
def specificity_at_sensitivity(
    labels: Any, predictions: Any, sensitivity: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the specificity at the highest of the thresholds whose sensitivity is nearest to the given one.

    For the other arguments see `auc`.

    Raises:
        ValueError: If `sensitivity` is not in [0, 1].
    """
    if not 0 <= sensitivity <= 1:
        raise ValueError(f"`sensitivity` must be in the range [0, 1], got {sensitivity}.")

    def measure(counts: Counts, scope: str) -> Tensor:
        distance = apply_one("Abs", subtract(_share(counts.tp, counts.fn), sensitivity))
        # ArgMin finds the first; the last one is the first from behind.
        behind = apply_one("ArgMin", apply_one("ReverseV2", distance, [0]), 0)
        at = subtract(np.int64(num_thresholds - 1), behind)
        return _share(gather(counts.tn, at), gather(counts.fp, at), scope)

    return _metric_of_counts(
        "specificity_at_sensitivity", name, labels, predictions, weights, _threshold_grid(num_thresholds, 1 - _TINY),
        "tp fn tn fp", measure, metrics_collections, updates_collections,
    )  # fmt: skip
