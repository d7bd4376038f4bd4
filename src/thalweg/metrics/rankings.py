"""Metrics of the k best classes: precision, recall and average precision at k."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor, is_sparse
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import float64, int64
from thalweg.graph.tensor import Tensor
from thalweg.metrics.accumulation import Metric, collected, metric_variable
from thalweg.nn.weight_broadcasting import broadcast_weights
from thalweg.ops.array.constants import identity
from thalweg.ops.array.joining import concat
from thalweg.ops.array.shapes_of_tensors import rank, shape, size
from thalweg.ops.array.sorting import top_k
from thalweg.ops.math.arithmetic import add, multiply
from thalweg.ops.math.casting import cast
from thalweg.ops.math.reductions import reduce_sum
from thalweg.ops.math.scans import cumsum
from thalweg.ops.sparse.rows import sparse_retain
from thalweg.ops.sparse.sets import set_difference, set_intersection, set_size
from thalweg.ops.sparse.tensors import as_sparse, sparse_reshape, sparse_tensor_to_dense


def _scope_name(name: str, k: int | None, class_id: int | None = None) -> str:
    text = f"{name}_scope_name" if k is None else f"{name}_at_{k}"
    return text if class_id is None else f"{text}_class{class_id}"


def _with_label_dimension(labels: Any, predictions: Tensor) -> Any:
    """Labels with a dimension for several of them; one is added if there is one label each."""
    wanted = predictions.shape.ndims
    if is_sparse(labels):
        labels = as_sparse(labels)
        given = labels.dense_shape.shape.as_list()[0]
        if given is None or wanted is None or given == wanted:
            return SparseTensor(labels.indices, cast(labels.values, int64), labels.dense_shape)
        labels = sparse_reshape(labels, concat([labels.dense_shape, [1]], 0))
        return SparseTensor(labels.indices, cast(labels.values, int64), labels.dense_shape)
    labels = cast(labels, int64)
    given = labels.shape.ndims
    if given is not None and wanted is not None:
        return labels if given == wanted else apply_one("ExpandDims", labels, -1)
    same = apply_one("Equal", rank(labels), rank(predictions))
    return cond(same, lambda: identity(labels), lambda: apply_one("ExpandDims", labels, -1))


def _ids_of_class(ids: Any, class_id: int | None) -> Any:
    """The ids that are `class_id`, as a SparseTensor; all of them if it is None."""
    if class_id is None:
        return ids
    if is_sparse(ids):
        return sparse_retain(ids, apply_one("Equal", ids.values, convert_to_tensor(class_id, int64)))
    outer = apply_one("StridedSlice", shape(ids), [0], [-1], [1], begin_mask=1)
    wanted = apply_one("Fill", concat([outer, [1]], 0), convert_to_tensor(class_id, int64))
    return set_intersection(wanted, ids)


def _accumulated_set_size(kind: str, found: SparseTensor, k: int | None, class_id: int | None, weights: Any) -> Metric:
    """The weighted size of sets, summed up over all rows and steps."""
    with name_scope(None, _scope_name(kind, k, class_id)) as scope:
        sizes = cast(set_size(found), float64)
        if weights is not None:
            sizes = multiply(sizes, broadcast_weights(cast(weights, float64), sizes))
        variable = metric_variable([], float64, scope)
        return convert_to_tensor(variable), convert_to_tensor(variable.assign_add(reduce_sum(sizes), name="update"))


@export("metrics.precision_at_top_k")
def precision_at_top_k(
    labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes `precision_at_k` from the classes predicted, `predictions_idx`: `[D1, ... DN, k]`."""
    with name_scope(name, _scope_name("precision", k, class_id), [predictions_idx, labels, weights]) as scope:
        best = cast(predictions_idx, int64)
        labels = _ids_of_class(_with_label_dimension(labels, best), class_id)
        best = _ids_of_class(best, class_id)
        hit, hit_update = _accumulated_set_size("true_positive", set_intersection(best, labels), k, class_id, weights)
        miss, miss_update = _accumulated_set_size("false_positive", set_difference(best, labels), k, class_id, weights)
        value = apply_one("RealDiv", hit, add(hit, miss), name=scope)
        update = apply_one("RealDiv", hit_update, add(hit_update, miss_update), name="update")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.precision_at_k", "metrics.sparse_precision_at_k")
def precision_at_k(
    labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the share of labels among the k best classes; NaN before the first step.

    Args:
        labels: int64 Tensor or SparseTensor `[D1, ... DN, num_labels]`, or a Tensor `[D1, ... DN]` of one label each.
        predictions: `[D1, ... DN, num_classes]`: a score for each class.
        k: How many of the best classes count as predicted.
        class_id: Only this class is looked at, if given.
        weights: None, or a scalar, or a tensor that fits `[D1, ... DN]`.
        metrics_collections: Collections that the value joins.
        updates_collections: Collections that the update joins.
        name: A name scope.

    Returns:
        (value, update_op), of float64; see `tf.metrics.mean`.
    """
    with name_scope(name, _scope_name("precision", k, class_id), [predictions, labels, weights]) as scope:
        best = top_k(predictions, k).indices
        return precision_at_top_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, scope)


@export("metrics.recall_at_top_k")
def recall_at_top_k(
    labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes `recall_at_k` from the classes predicted, `predictions_idx`: `[D1, ... DN, k]`."""
    with name_scope(name, _scope_name("recall", k, class_id), [predictions_idx, labels, weights]) as scope:
        best = cast(predictions_idx, int64)
        labels = _ids_of_class(_with_label_dimension(labels, best), class_id)
        best = _ids_of_class(best, class_id)
        hit, hit_update = _accumulated_set_size("true_positive", set_intersection(best, labels), k, class_id, weights)
        missed = set_difference(best, labels, aminusb=False)
        miss, miss_update = _accumulated_set_size("false_negative", missed, k, class_id, weights)
        value = apply_one("RealDiv", hit, add(hit, miss), name=scope)
        update = apply_one("RealDiv", hit_update, add(hit_update, miss_update), name="update")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.recall_at_k")
def recall_at_k(
    labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the share of the labels that are among the k best classes; NaN before the first step.

    For the arguments see `precision_at_k`.
    """
    with name_scope(name, _scope_name("recall", k, class_id), [predictions, labels, weights]) as scope:
        best = top_k(predictions, k).indices
        return recall_at_top_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, scope)


def _average_precision(labels: Any, best: Tensor, k: int) -> Tensor:
    """Of each row: the precision at each of the ranks that hold a label, averaged over the labels (at most k)."""
    if is_sparse(labels):
        relevant = set_size(labels)
        dense = sparse_tensor_to_dense(labels, default_value=-1, validate_indices=False)
    else:
        dense = labels
        relevant = reduce_sum(cast(apply_one("GreaterEqual", labels, convert_to_tensor(0, int64)), int64), -1)
    equal = apply_one("Equal", apply_one("ExpandDims", best, -1), apply_one("ExpandDims", dense, -2))
    hits = cast(apply_one("Any", equal, [-1]), float64)
    precision = apply_one("RealDiv", cumsum(hits, -1), cumsum(apply_one("OnesLike", hits), -1))
    count = apply_one("Minimum", cast(relevant, float64), convert_to_tensor(float(k), float64))
    return apply_one("RealDiv", reduce_sum(multiply(precision, hits), -1), count)


@export("metrics.average_precision_at_k", "metrics.sparse_average_precision_at_k")
def average_precision_at_k(
    labels: Any, predictions: Any, k: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes the mean over all rows of the average precision at the ranks of the labels among the k best classes.

    For the arguments see `precision_at_k`.

    Raises:
        ValueError: If `k` is below 1.
    """
    if k < 1:
        raise ValueError(f"Invalid k={k}.")
    with name_scope(name, _scope_name("average_precision", k), [predictions, labels, weights]) as scope:
        best = top_k(convert_to_tensor(predictions), k).indices
        return average_precision_at_top_k(labels, best, weights, metrics_collections, updates_collections, scope)


def average_precision_at_top_k(
    labels: Any, predictions_idx: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """Computes `average_precision_at_k` from the classes predicted, `predictions_idx`: `[D1, ... DN, k]`.

    Raises:
        ValueError: If k is unknown.
    """
    best = cast(predictions_idx, int64)
    k = None if not best.shape.ndims else best.shape.as_list()[-1]
    if k is None:
        raise ValueError(f"The last dimension of predictions_idx, k, must be known; the shape is {best.shape}.")
    with name_scope(name, _scope_name("average_precision", k), [best, labels, weights]) as scope:
        rows = _average_precision(_with_label_dimension(labels, best), best, k)
        number = cast(size(rows), float64)
        if weights is not None:
            weights = broadcast_weights(cast(weights, float64), rows)
            rows = multiply(rows, weights)
            number = reduce_sum(weights)
        # The variable's name in TensorFlow's checkpoints.
        most = metric_variable([], float64, "max_1")
        total = metric_variable([], float64, "total")
        new_total, new_most = total.assign_add(reduce_sum(rows)), most.assign_add(number)
        value = apply_one("DivNoNan", total, most, name="mean")
        update = apply_one("DivNoNan", new_total, new_most, name=scope)
        return collected(value, update, metrics_collections, updates_collections)
