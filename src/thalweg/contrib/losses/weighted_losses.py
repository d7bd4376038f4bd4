"""tf.contrib.losses and tf.contrib.slim.losses: losses with predictions before labels, in GraphKeys.LOSSES."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_SPACES = ("contrib.slim.losses", "contrib.losses")


def _public(function: Any) -> Any:
    for space in _SPACES:
        export_value(function, f"{space}.{function.__name__}")
    return function


for _name in ("get_losses", "get_regularization_losses", "get_total_loss"):
    for _space in _SPACES:
        export_value(getattr(tf.losses, _name), f"{_space}.{_name}")


@_public
@add_arg_scope
def add_loss(loss: Any, loss_collection: str = tf.GraphKeys.LOSSES) -> None:
    """Adds a loss to a collection."""
    if loss_collection:
        tf.add_to_collection(loss_collection, loss)


def _aligned(weights: Any, losses: Any) -> Any:
    """Weights with as many axes as the losses: those that are missing are the last ones, unlike in tf.losses.

    Raises:
        ValueError: If a rank is unknown, or the weights have more axes.
    """
    weights = tf.to_float(weights)
    rank, wanted = weights.shape.ndims, losses.shape.ndims
    if rank is None or wanted is None:
        name = "weights" if rank is None else "losses"
        raise ValueError(f"{name}.shape.ndims cannot be None: weights {weights.shape}, losses {losses.shape}")
    if rank > 1 and rank > wanted and weights.shape.dims[-1].is_compatible_with(1):
        weights, rank = tf.squeeze(weights, [-1]), rank - 1
    for _ in range(wanted - rank if rank else 0):
        weights = tf.expand_dims(weights, -1)
    return weights


@_public
@add_arg_scope
def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: Any = None) -> Any:
    """The weighted mean of losses, over those whose weight is not zero; added to GraphKeys.LOSSES by `add_loss`.

    Raises:
        ValueError: If the rank of losses or weights is unknown.
    """
    with tf.name_scope(scope, "weighted_loss", [losses, weights]) as scope:
        losses = tf.convert_to_tensor(losses)
        value = tf.losses.compute_weighted_loss(losses, _aligned(weights, losses), scope, loss_collection=None)
        add_loss(value)
        return value


def _elements(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The losses of the elements, without weights and not in a collection."""
    return function(*args, **kwargs, loss_collection=None, reduction=tf.losses.Reduction.NONE)


@_public
@add_arg_scope
def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Any:
    """The mean absolute difference."""
    with tf.name_scope(scope, "absolute_difference", [predictions, labels]) as scope:
        return compute_weighted_loss(_elements(tf.losses.absolute_difference, labels, predictions), weights, scope)


@_public
@add_arg_scope
def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Any:
    """The mean squared difference."""
    with tf.name_scope(scope, "mean_squared_error", [predictions, labels]) as scope:
        return compute_weighted_loss(_elements(tf.losses.mean_squared_error, labels, predictions), weights, scope)


@_public
@add_arg_scope
def mean_pairwise_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Any:
    """The mean squared difference of the differences between elements of an example.

    Pairs of an element with itself count, unlike in `tf.losses.mean_pairwise_squared_error`.
    """
    with tf.name_scope(scope, "mean_pairwise_squared_error", [predictions, labels]):
        predictions, labels = tf.to_float(predictions), tf.to_float(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        differences = predictions - labels
        weights = _aligned(weights, differences)
        axes = list(range(1, differences.shape.ndims))
        present = tf.reduce_sum(tf.to_float(tf.not_equal(weights, 0.0)) * tf.ones_like(differences), axes)
        squares = tf.div_no_nan(tf.reduce_sum(tf.square(differences), axes), present)
        mean = tf.div_no_nan(tf.reduce_sum(differences, axes), present)
        losses = 2.0 * (squares - tf.square(mean))
        one_weight = weights if weights.shape.ndims == 0 else tf.reshape(weights, [-1])
        total = tf.reduce_sum(losses * one_weight)
        value = tf.where(tf.reduce_sum(present) > 0, total, tf.zeros_like(total), name="value")
        add_loss(value)
        return value


@_public
@add_arg_scope
def log_loss(predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: Any = None) -> Any:
    """The cross entropy of probabilities."""
    with tf.name_scope(scope, "log_loss", [predictions, labels]) as scope:
        losses = _elements(tf.losses.log_loss, labels, predictions, epsilon=epsilon)
        return compute_weighted_loss(losses, weights, scope)


@_public
@add_arg_scope
def hinge_loss(logits: Any, labels: Any = None, scope: Any = None) -> Any:
    """The hinge loss of each element; not in a collection.

    Raises:
        ValueError: If the shapes differ.
    """
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        logits, labels = tf.to_float(logits), tf.to_float(labels)
        logits.shape.assert_is_compatible_with(labels.shape)
        return tf.nn.relu(1 - (2 * labels - 1) * logits)


@_public
@add_arg_scope
def cosine_distance(
    predictions: Any, labels: Any = None, axis: Any = None, weights: Any = 1.0, scope: Any = None, dim: Any = None
) -> Any:
    """One minus the product along an axis, of vectors of length 1.

    Raises:
        ValueError: If there is no axis, or the shapes differ.
    """
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    with tf.name_scope(scope, "cosine_distance_loss", [predictions, labels]) as scope:
        predictions, labels = tf.to_float(predictions), tf.to_float(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        losses = 1 - tf.reduce_sum(predictions * labels, axis=[axis])
        return compute_weighted_loss(losses, weights, scope)


@_public
@add_arg_scope
def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None
) -> Any:
    """The cross entropy of independent classes."""
    with tf.name_scope(scope, "sigmoid_cross_entropy_loss", [logits, multi_class_labels]) as scope:
        losses = _elements(tf.losses.sigmoid_cross_entropy, multi_class_labels, logits, label_smoothing=label_smoothing)
        return compute_weighted_loss(losses, weights, scope)


@_public
@add_arg_scope
def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None
) -> Any:
    """The cross entropy of classes, with labels as rows."""
    with tf.name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels]) as scope:
        losses = _elements(tf.losses.softmax_cross_entropy, onehot_labels, logits, label_smoothing=label_smoothing)
        return compute_weighted_loss(losses, weights, scope)


@_public
@add_arg_scope
def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: Any = None) -> Any:
    """The cross entropy of classes, with labels as numbers."""
    with tf.name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels]) as scope:
        labels = tf.convert_to_tensor(labels)
        labels = tf.reshape(labels, [-1]) if labels.shape.ndims == 2 and labels.shape.as_list()[1] == 1 else labels
        losses = _elements(tf.losses.sparse_softmax_cross_entropy, labels, logits)
        return compute_weighted_loss(losses, weights, scope)


@export("contrib.losses.metric_learning.pairwise_distance")
def pairwise_distance(feature: Any, squared: bool = False) -> Any:
    """The distances between all rows of a matrix."""
    squares = tf.reduce_sum(tf.square(feature), axis=1, keepdims=True)
    distances = tf.maximum(squares + tf.transpose(squares) - 2.0 * tf.matmul(feature, feature, transpose_b=True), 0.0)
    zeros = tf.less_equal(distances, 0.0)
    if not squared:
        distances = tf.sqrt(distances + tf.to_float(zeros) * 1e-16)
    distances *= tf.to_float(tf.logical_not(zeros))
    return distances * (1.0 - tf.eye(tf.shape(feature)[0]))


@export("contrib.losses.metric_learning.contrastive_loss")
def contrastive_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0) -> Any:
    """Pulls pairs of one class together and pushes others a margin apart."""
    distances = tf.sqrt(tf.reduce_sum(tf.squared_difference(embeddings_anchor, embeddings_positive), 1))
    labels = tf.to_float(labels)
    return tf.reduce_mean(
        labels * tf.square(distances) + (1.0 - labels) * tf.square(tf.maximum(margin - distances, 0.0)),
        name="contrastive_loss",
    )


@export("contrib.losses.metric_learning.npairs_loss")
def npairs_loss(
    labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002, print_losses: bool = False
) -> Any:
    """The loss of N pairs (Sohn, 2016)."""
    norms = tf.reduce_mean(tf.reduce_sum(tf.square(embeddings_anchor), 1)) + tf.reduce_mean(
        tf.reduce_sum(tf.square(embeddings_positive), 1)
    )
    similarity = tf.matmul(embeddings_anchor, embeddings_positive, transpose_b=True)
    column = tf.reshape(labels, [-1, 1])
    same = tf.to_float(tf.equal(column, tf.transpose(column)))
    same /= tf.reduce_sum(same, 1, keepdims=True)
    entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=similarity, labels=same))
    return norms * 0.25 * reg_lambda + entropy


@export("contrib.losses.metric_learning.triplet_semihard_loss")
def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Any:
    """The loss of triplets whose negative is the nearest one beyond the positive (Schroff et al., 2015)."""
    column = tf.reshape(labels, [-1, 1])
    distances = pairwise_distance(embeddings, squared=True)
    same = tf.equal(column, tf.transpose(column))
    count = tf.size(labels)
    # Row (i, j): anchor i with positive j, against every negative k.
    tiled = tf.tile(distances, [count, 1])
    positive = tf.reshape(tf.transpose(distances), [-1, 1])
    beyond = tf.logical_and(tf.tile(tf.logical_not(same), [count, 1]), tf.greater(tiled, positive))
    exists = tf.transpose(tf.reshape(tf.reduce_any(beyond, 1), [count, count]))
    large = tf.reduce_max(tiled, 1, keepdims=True)
    nearest = tf.reduce_min(tf.where(beyond, tiled, large + tf.zeros_like(tiled)), 1)
    outside = tf.transpose(tf.reshape(nearest, [count, count]))
    negatives = tf.where(tf.logical_not(same), distances, tf.zeros_like(distances))
    inside = tf.tile(tf.reduce_max(negatives, 1, keepdims=True), [1, count])
    losses = margin + distances - tf.where(exists, outside, inside)
    pairs = tf.to_float(same) - tf.eye(count)
    return tf.truediv(
        tf.reduce_sum(tf.maximum(losses * pairs, 0.0)), tf.reduce_sum(pairs), name="triplet_semihard_loss"
    )


@export("contrib.losses.metric_learning.lifted_struct_loss")
def lifted_struct_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Any:
    """Pulls each pair of a class together against all negatives of both (Song et al., 2016)."""
    column = tf.reshape(labels, [-1, 1])
    count = tf.size(labels)
    distances = pairwise_distance(embeddings)
    same = tf.equal(column, tf.transpose(column))
    apart = margin - distances
    negative = tf.logical_not(same)
    low = tf.reduce_min(apart, 1, keepdims=True)
    best = tf.reduce_max(tf.where(negative, apart - low, tf.zeros_like(apart)), 1, keepdims=True) + low
    # The largest of both rows, so that no exponential of a pair overflows.
    largest = tf.maximum(best, tf.transpose(best))
    tiled = tf.tile(apart, [count, 1])
    others = tf.to_float(tf.tile(negative, [count, 1]))
    sums = tf.reduce_sum(tf.exp(tiled - tf.reshape(largest, [-1, 1])) * others, 1, keepdims=True)
    sums = tf.reshape(sums, [count, count])
    losses = tf.log(sums + tf.transpose(sums)) + largest + distances
    pairs = tf.to_float(same) - tf.eye(count)
    return tf.truediv(
        0.25 * tf.reduce_sum(tf.square(tf.maximum(losses * pairs, 0.0))), tf.reduce_sum(pairs) / 2.0,
        name="liftedstruct_loss",
    )  # fmt: skip


@export("contrib.losses.metric_learning.npairs_loss_multilabel")
def npairs_loss_multilabel(
    sparse_labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002,
    print_losses: bool = False,
) -> Any:  # fmt: skip
    """The loss of N pairs with several labels each; the more labels two examples share, the more they belong together.

    Raises:
        TypeError: If the labels are no SparseTensors.
    """
    if not all(isinstance(labels, tf.SparseTensor) for labels in sparse_labels):
        raise TypeError(f"sparse_labels must be a list of SparseTensors, but got {sparse_labels}")
    norms = tf.reduce_mean(tf.reduce_sum(tf.square(embeddings_anchor), 1)) + tf.reduce_mean(
        tf.reduce_sum(tf.square(embeddings_positive), 1)
    )
    similarity = tf.matmul(embeddings_anchor, embeddings_positive, transpose_b=True)
    sets = [tf.cast(tf.reshape(tf.sparse_tensor_to_dense(labels), [1, -1]), tf.float32) for labels in sparse_labels]
    rows = tf.concat(sets, 0)
    shared = tf.matmul(rows, rows, transpose_b=True)
    shared /= tf.reduce_sum(shared, 1, keepdims=True)
    entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=similarity, labels=shared))
    return norms * 0.25 * reg_lambda + entropy
