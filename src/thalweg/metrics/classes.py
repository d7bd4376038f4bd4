"""Metrics per class, from a confusion matrix or counts: mean intersection over union, mean per-class accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import float32, float64, int64
from thalweg.graph.tensor import Tensor
from thalweg.metrics.accumulation import Metric, collected, metric_variable, quotient
from thalweg.ops.array.search import confusion_matrix
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.math.arithmetic import add, multiply, subtract
from thalweg.ops.math.casting import cast
from thalweg.ops.math.reductions import reduce_sum
from thalweg.state.variable_scope import variable_scope


def _flat(x: Any) -> Tensor:
    tensor = convert_to_tensor(x)
    return tensor if tensor.shape.ndims == 1 else reshape(tensor, [-1])


@export("metrics.mean_iou")
def mean_iou(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the mean over the classes of intersection / union: `true positives / (true p. + false p. + false n.)`.

    Args:
        labels: Integers in [0, num_classes).
        predictions: Integers of the same shape.
        num_classes: The number of classes. Classes that never occur are left out of the mean.
        weights: None, or the weight of each element.
        metrics_collections: Collections that the value joins.
        updates_collections: Collections that the update joins.
        name: A variable scope.

    Returns:
        (value, update_op): the mean so far; and the update, which returns the confusion matrix.
    """
    with variable_scope(name, "mean_iou", [predictions, labels, weights]):
        convert_to_tensor(predictions).shape.assert_is_compatible_with(convert_to_tensor(labels).shape)
        total = metric_variable([num_classes, num_classes], float64, "total_confusion_matrix")
        matrix = confusion_matrix(
            cast(_flat(labels), int64), cast(_flat(predictions), int64), num_classes, float64,
            weights=None if weights is None else _flat(weights),
        )  # fmt: skip
        update = convert_to_tensor(total.assign_add(matrix))
        counts = convert_to_tensor(total)
        hits = cast(apply_one("MatrixDiagPart", counts), float32)
        sides = add(cast(reduce_sum(counts, 0), float32), cast(reduce_sum(counts, 1), float32))
        union = subtract(sides, hits)
        occurring = reduce_sum(cast(apply_one("NotEqual", union, 0.0), float32))
        value = apply_one("DivNoNan", reduce_sum(quotient(hits, union)), occurring, name="mean_iou")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.mean_per_class_accuracy")
def mean_per_class_accuracy(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the accuracy within each class, and the mean of these.

    For the arguments see `mean_iou`.

    Returns:
        (value, update_op): the mean so far; and the update, which returns the accuracy of each class.
    """
    with variable_scope(name, "mean_accuracy", [predictions, labels, weights]):
        labels = cast(_flat(labels), int64)
        predictions = _flat(predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
        total = metric_variable([num_classes], float32, "total")
        count = metric_variable([num_classes], float32, "count")
        correct = cast(apply_one("Equal", cast(predictions, int64), labels), float32)
        ones = apply_one("OnesLike", correct)
        if weights is not None:
            weights = cast(_flat(weights), float32)
            correct, ones = multiply(correct, weights), multiply(ones, weights)
        # Added row by row instead of scattered: a label out of range is an error before anything is counted.
        size = np.array([num_classes], np.int64)
        column = apply_one("ExpandDims", labels, -1)
        new_total = total.assign_add(apply_one("ScatterNd", column, ones, size))
        new_count = count.assign_add(apply_one("ScatterNd", column, correct, size))
        value = apply_one("Mean", quotient(count, total), [0], name="mean_accuracy")
        update = quotient(new_count, new_total, "update_op")
        return collected(value, update, metrics_collections, updates_collections)
