"""`tf.losses`: functions from labels and predictions to one number, which also joins the graph's losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import float32, float64
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.nn.loss_collection import add_loss
from thalweg.nn.weight_broadcasting import (
    assert_broadcastable,
    broadcast_weights,
    fit_weights,
    remove_squeezable_dimensions,
)
from thalweg.ops.array.constants import stop_gradient
from thalweg.ops.array.shapes_of_tensors import size
from thalweg.ops.math.arithmetic import add, multiply, negative, square, squared_difference, subtract
from thalweg.ops.math.casting import cast
from thalweg.ops.math.extremes_and_powers import minimum
from thalweg.ops.math.reductions import reduce_sum
from thalweg.ops.nn.softmax import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from thalweg.platform.deprecation import deprecated_argument_lookup


@export("losses.Reduction")
class Reduction:
    """How the weighted losses of the elements become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All of them."""
        return (
            cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )  # fmt: skip

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises ValueError for anything else."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}.")


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


def _num_present(losses: Tensor, weights: Tensor, per_batch: bool = False) -> Tensor:
    """How many elements have a weight other than 0; one number per row of dimension 0 if `per_batch`."""
    with name_scope("num_present") as scope:
        constant = constant_value(weights) if weights.shape.ndims == 0 else None
        if constant is not None and not per_batch:
            # The usual case: one weight for all.
            if constant == 0:
                return convert_to_tensor(np.zeros((), weights.dtype.as_numpy_dtype))
            tensor: Tensor = cast(size(losses), weights.dtype, name=scope)
            return tensor
        present = broadcast_weights(cast(apply_one("NotEqual", weights, 0.0), losses.dtype), losses)
        if not per_batch:
            return reduce_sum(present, name=scope)
        return reduce_sum(present, _inner_axes(present), keepdims=True, name=scope)


def _inner_axes(x: Tensor) -> Any:
    """All dimensions but the first."""
    rank = x.shape.ndims
    return list(range(1, rank)) if rank is not None else apply_one("Range", 1, apply_one("Rank", x), 1)


@export("losses.compute_weighted_loss")
def compute_weighted_loss(
    losses: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Weighs the losses of single elements and reduces them to one number.

    Args:
        losses: A tensor.
        weights: A scalar, or a tensor of the rank of `losses` whose sizes are those of `losses` or 1.
        scope: A name scope.
        loss_collection: The collection that the result joins; None for none.
        reduction: One of `tf.losses.Reduction`: how the elements are summed or averaged.

    Returns:
        A scalar, or with `Reduction.NONE` a tensor of the shape of `losses`.

    Raises:
        ValueError: If `weights` is None or does not fit `losses`.

    Example:
        >>> loss = tf.losses.compute_weighted_loss([1.0, 2.0, 6.0], weights=[1.0, 1.0, 0.0])
        >>> with tf.Session() as s:
        ...     print(s.run(loss))
        1.5
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss", [losses, weights]):
        losses = convert_to_tensor(losses)
        if weights is None:
            raise ValueError("`weights` cannot be None")
        given = losses.dtype.base_dtype
        work = float64 if given is float64 else float32
        weights = cast(
            convert_to_tensor(weights, None if isinstance(weights, Tensor) else _dtype_of_numbers(weights)), work
        )
        with control_dependencies(assert_broadcastable(weights, losses)):
            losses = cast(losses, work)
            constant = constant_value(weights) if weights.shape.ndims == 0 else None
            weighted = losses if constant is not None and constant == 1 else multiply(losses, weights)
            loss = weighted
            if reduction != Reduction.NONE:
                loss = reduce_sum(weighted)
                if reduction == Reduction.MEAN:
                    loss = _safe_mean(loss, reduce_sum(broadcast_weights(weights, weighted)))
                elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
                    loss = _safe_mean(loss, _num_present(weighted, weights))
                elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
                    loss = _safe_mean(loss, cast(size(weighted), work, name="num_elements"))
            result: Tensor = cast(loss, given)
        add_loss(result, loss_collection)
        return result


def _dtype_of_numbers(weights: Any) -> Any:
    """float32 for weights that are Python numbers; None for weights that have a type."""
    return float32 if isinstance(weights, (int, float)) else None


def _safe_mean(total: Tensor, count: Tensor) -> Tensor:
    return apply_one("DivNoNan", total, count, name="value")


def _check_given(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is None:
            raise ValueError(f"{name} must not be None.")


def _as_floats(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Both as float32, after the check that their shapes agree."""
    predictions = cast(predictions, float32)
    labels = cast(labels, float32)
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


@export("losses.absolute_difference")
def absolute_difference(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean of |predictions - labels|; for the arguments see `compute_weighted_loss`."""
    _check_given(labels=labels, predictions=predictions)
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as inner:
        labels, predictions = _as_floats(labels, predictions)
        losses = apply_one("Abs", subtract(predictions, labels))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@export("losses.cosine_distance")
def cosine_distance(
    labels: Any, predictions: Any, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _DEFAULT, dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Returns the mean of 1 - labels . predictions, both of which should be of unit length along `axis`."""
    axis = deprecated_argument_lookup("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    _check_given(labels=labels, predictions=predictions)
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as inner:
        labels, predictions = _as_floats(labels, predictions)
        losses = subtract(1.0, reduce_sum(multiply(predictions, labels), [axis], keepdims=True))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@export("losses.hinge_loss")
def hinge_loss(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean of max(0, 1 - y logits), where y is -1 for a label of 0 and 1 for a label of 1."""
    _check_given(labels=labels, logits=logits)
    with name_scope(scope, "hinge_loss", [logits, labels, weights]) as inner:
        labels, logits = _as_floats(labels, logits)
        signs = subtract(multiply(2.0, labels), 1.0)
        losses = apply_one("Relu", subtract(1.0, multiply(signs, logits)))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@export("losses.huber_loss")
def huber_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean of a loss that is quadratic up to an error of `delta`, and linear beyond."""
    _check_given(labels=labels, predictions=predictions)
    with name_scope(scope, "huber_loss", [predictions, labels, weights]) as inner:
        labels, predictions = _as_floats(labels, predictions)
        error = apply_one("Abs", subtract(predictions, labels))
        limit = convert_to_tensor(delta, float32)
        quadratic = minimum(error, limit)
        # min(error, delta) + the rest makes the gradient delta beyond delta, and the error below.
        losses = add(multiply(0.5, square(quadratic)), multiply(limit, subtract(error, quadratic)))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@export("losses.log_loss")
def log_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean cross entropy of probabilities; `epsilon` keeps the logarithms finite."""
    _check_given(labels=labels, predictions=predictions)
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as inner:
        labels, predictions = _as_floats(labels, predictions)
        yes = negative(multiply(labels, apply_one("Log", add(predictions, epsilon))))
        no = multiply(subtract(1.0, labels), apply_one("Log", add(subtract(1.0, predictions), epsilon)))
        return compute_weighted_loss(subtract(yes, no), weights, inner, loss_collection, reduction)


@export("losses.mean_pairwise_squared_error")
def mean_pairwise_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES
) -> Tensor:
    """Returns the squared differences between the errors of all pairs of elements of an example, on average.

    Args:
        labels: The true values, of the shape of `predictions`.
        predictions: A tensor whose dimension 0 is the batch.
        weights: A scalar, or weights `[batch, 1, ...]`, one per example.
        scope: A name scope.
        loss_collection: The collection that the result joins; None for none.

    Returns:
        A scalar.
    """
    _check_given(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        labels, predictions = _as_floats(labels, predictions)
        weights = cast(weights, float32)
        with control_dependencies(assert_broadcastable(weights, labels)):
            errors = subtract(predictions, labels)
            axes = _inner_axes(errors)
            count = _num_present(errors, weights, per_batch=True)
            squares = reduce_sum(square(errors), axes, keepdims=True)
            others = apply_one("Maximum", subtract(count, 1.0), 0.0)
            mean_square = multiply(2.0, apply_one("DivNoNan", squares, others))
            pairs = apply_one("Maximum", multiply(count, subtract(count, 1.0)), 0.0)
            square_of_sum = square(reduce_sum(errors, axes, keepdims=True))
            mean_product = multiply(2.0, apply_one("DivNoNan", square_of_sum, pairs))
            total = reduce_sum(multiply(subtract(mean_square, mean_product), weights))
            present = apply_one("Greater", reduce_sum(count), 0.0)
            loss = apply_one("Select", present, total, apply_one("ZerosLike", total), name="value")
        add_loss(loss, loss_collection)
        return loss


@export("losses.mean_squared_error")
def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean of (predictions - labels)²; for the arguments see `compute_weighted_loss`."""
    _check_given(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as inner:
        labels, predictions = _as_floats(labels, predictions)
        losses = squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@export("losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean of `tf.nn.sigmoid_cross_entropy_with_logits`.

    Args:
        multi_class_labels: Numbers in [0, 1], of the shape of `logits`: each class is decided by itself.
        logits: Unscaled log probabilities.
        weights: A scalar, or a tensor that fits `logits`.
        label_smoothing: If s > 0, labels are moved towards 1/2: `labels (1 - s) + s/2`.
        scope: A name scope.
        loss_collection: The collection that the result joins; None for none.
        reduction: One of `tf.losses.Reduction`.

    Returns:
        A scalar, or with `Reduction.NONE` a tensor of the shape of `logits`.
    """
    _check_given(multi_class_labels=multi_class_labels, logits=logits)
    with name_scope(scope, "sigmoid_cross_entropy_loss", [logits, multi_class_labels, weights]) as inner:
        logits = convert_to_tensor(logits)
        labels = cast(multi_class_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            labels = add(multiply(labels, 1 - label_smoothing), 0.5 * label_smoothing)
        losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@export("losses.softmax_cross_entropy")
def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean of `tf.nn.softmax_cross_entropy_with_logits`; nothing flows back into the labels.

    Args:
        onehot_labels: Probabilities of the classes, of the shape of `logits`.
        logits: Unscaled log probabilities `[..., classes]`.
        weights: A scalar, or a tensor that fits one loss per row.
        label_smoothing: If s > 0, labels are moved towards equal ones: `labels (1 - s) + s / classes`.
        scope: A name scope.
        loss_collection: The collection that the result joins; None for none.
        reduction: One of `tf.losses.Reduction`.

    Returns:
        A scalar, or with `Reduction.NONE` a tensor of the shape of `logits` without its last dimension.
    """
    _check_given(onehot_labels=onehot_labels, logits=logits)
    with name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]) as inner:
        logits = convert_to_tensor(logits)
        labels = cast(onehot_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            last = labels.shape.as_list()[-1] if labels.shape.ndims else None
            if last is None:
                sizes = apply_one("Shape", labels)
                last = cast(
                    apply_one("StridedSlice", sizes, [-1], [0], [1], end_mask=1, shrink_axis_mask=1), logits.dtype
                )
            share = label_smoothing / last
            labels = add(multiply(labels, 1.0 - label_smoothing), share)
        labels = stop_gradient(labels, name="labels_stop_gradient")
        losses = softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@export("losses.sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:  # fmt: skip
    """Returns the mean of `tf.nn.sparse_softmax_cross_entropy_with_logits`.

    Args:
        labels: Integers in [0, classes), of the shape of `logits` without its last dimension (one of 1 is dropped).
        logits: Unscaled log probabilities `[..., classes]`.
        weights: A scalar, or a tensor that fits one loss per row.
        scope: A name scope.
        loss_collection: The collection that the result joins; None for none.
        reduction: One of `tf.losses.Reduction`.

    Returns:
        A scalar, or with `Reduction.NONE` a tensor of the shape of `labels`.
    """
    _check_given(labels=labels, logits=logits)
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]) as inner:
        labels, logits = remove_squeezable_dimensions(labels, logits, expected_rank_diff=1)
        if weights is not None:
            weights = fit_weights(weights, labels)
        losses = sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)
