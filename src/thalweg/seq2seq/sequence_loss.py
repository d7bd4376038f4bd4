"""Losses of sequences of logits, and repeating a batch for beam search."""

from __future__ import annotations

from typing import Any

from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.filling import tile
from thalweg.ops.array.shapes_of_tensors import reshape, size_of_axis
from thalweg.ops.array.shapes_of_tensors import shape as shape_of
from thalweg.ops.math.casting import cast
from thalweg.ops.math.comparison import not_equal
from thalweg.ops.math.reductions import reduce_sum
from thalweg.ops.nn.softmax import sparse_softmax_cross_entropy_with_logits

# Keeps sequences whose weights are all zero from dividing by zero.
_TINY = 1e-12


@export("contrib.seq2seq.sequence_loss")
def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Tensor:
    """The weighted cross entropy of sequences.

    Args:
        logits: [batch, time, classes].
        targets: The right classes, [batch, time].
        weights: [batch, time]; zero for positions that do not count.
        average_across_timesteps: Whether to sum over time and divide by the weights.
        average_across_batch: Whether to sum over the batch and divide by the weights.
        sum_over_timesteps: Whether to sum over time and divide by the number of weights that are not zero.
        sum_over_batch: Whether to sum over the batch and divide by the number of weights that are not zero.
        softmax_loss_function: A function of `labels` and `logits` to use instead of cross entropy.
        name: The name scope.

    Returns:
        A scalar; a vector if only one average is asked for; [batch, time] if none is.

    Raises:
        ValueError: If a rank is wrong, or an axis is to be averaged and summed.
    """
    if average_across_timesteps and sum_over_timesteps:
        raise ValueError("average_across_timesteps and sum_over_timesteps cannot be set to True at same time.")
    if average_across_batch and sum_over_batch:
        raise ValueError("average_across_batch and sum_over_batch cannot be set to True at same time.")
    logits, targets, weights = (convert_to_tensor(value) for value in (logits, targets, weights))
    for value, rank, what in ((logits, 3, "Logits"), (targets, 2, "Targets"), (weights, 2, "Weights")):
        if value.shape.ndims != rank:
            raise ValueError(f"{what} must be a tensor of rank {rank}, got the shape {value.shape}.")
    with name_scope(name, "sequence_loss", [logits, targets, weights]):
        classes = logits.shape.as_list()[2]
        flat = reshape(logits, [-1, classes if classes is not None else size_of_axis(logits, 2)])
        flat_targets = reshape(targets, [-1])
        function: Any = softmax_loss_function or sparse_softmax_cross_entropy_with_logits
        losses = apply_one("Mul", function(labels=flat_targets, logits=flat), reshape(weights, [-1]), name="mul")
        if average_across_timesteps and average_across_batch:
            return _average(losses, weights, None)
        counted = cast(not_equal(weights, 0.0), losses.dtype)
        if sum_over_timesteps and sum_over_batch:
            return _average(losses, counted, None)
        losses = reshape(losses, shape_of(targets))
        losses.set_shape(targets.shape)
        for chosen, divisors, axis in (
            (average_across_timesteps, weights, 1),
            (average_across_batch, weights, 0),
            (sum_over_timesteps, counted, 1),
            (sum_over_batch, counted, 0),
        ):
            if chosen:
                return _average(losses, divisors, [axis])
        return losses


def _average(losses: Any, weights: Any, axis: list[int] | None) -> Tensor:
    total = apply_one("AddV2", reduce_sum(weights, axis=axis), _TINY, name="add")
    return apply_one("RealDiv", reduce_sum(losses, axis=axis), total, name="truediv")


@export("contrib.seq2seq.tile_batch")
def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeats each entry of a batch: [a, b] becomes [a, a, b, b].

    Args:
        t: A tensor [batch, ...], or a structure of them.
        multiplier: How often.
        name: The name scope.
    """
    with name_scope(name, "tile_batch", [*nest.flatten(t), multiplier]):
        return nest.map_structure(lambda tensor: _tiled(tensor, multiplier), t)


def _tiled(value: Any, multiplier: int) -> Tensor:
    tensor = convert_to_tensor(value, name="t")
    rank = tensor.shape.ndims
    if not rank:
        raise ValueError(f"t must have statically known rank of at least 1, got the shape {tensor.shape}.")
    repeated = tile(apply_one("ExpandDims", tensor, 1), [1, multiplier, *[1] * (rank - 1)])
    sizes = tensor.shape.as_list()
    rest: Any = sizes[1:] if None not in sizes[1:] else None
    if rest is not None:
        return reshape(repeated, [-1, *rest])
    inner = apply_one("StridedSlice", shape_of(tensor), [1], [rank], [1])
    result = reshape(repeated, apply_one("ConcatV2", [[-1], inner], 0))
    result.set_shape([None if sizes[0] is None else sizes[0] * multiplier, *sizes[1:]])
    return result
