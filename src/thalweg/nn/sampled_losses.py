"""Losses over many classes from a sample of them: noise-contrastive estimation and sampled softmax."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import int32, int64
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import stop_gradient
from thalweg.ops.array.joining import concat
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.math.arithmetic import add, multiply, subtract
from thalweg.ops.math.casting import cast
from thalweg.ops.math.matmul import matmul
from thalweg.ops.math.reductions import reduce_sum
from thalweg.ops.nn.candidate_sampling import compute_accidental_hits, log_uniform_candidate_sampler
from thalweg.ops.nn.embedding import embedding_lookup
from thalweg.ops.nn.softmax import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)


def _sampled_logits(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int,
    sampled_values: Any, subtract_log_q: bool, remove_accidental_hits: bool, partition_strategy: str, seed: int | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The logits of the true classes `[batch, num_true]` and of the sampled ones `[batch, num_sampled]`."""
    inputs = convert_to_tensor(inputs)
    labels = cast(convert_to_tensor(labels), int64)
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes, seed)
    sampled, true_expected, sampled_expected = (stop_gradient(value) for value in sampled_values)
    sampled = cast(sampled, int64)
    flat = reshape(labels, [-1])

    # Two lookups instead of one that is split: the gradients stay IndexedSlices, and nothing is padded.
    true_weights = _rows(weights, flat, partition_strategy, inputs)
    sampled_weights = _rows(weights, sampled, partition_strategy, inputs)
    true_logits = _row_products(inputs, true_weights, num_true)
    sampled_logits = matmul(inputs, sampled_weights, transpose_b=True)

    true_shift = reshape(_rows(biases, flat, partition_strategy, inputs), [-1, num_true])
    sampled_shift = _rows(biases, sampled, partition_strategy, inputs)
    if subtract_log_q:
        # Corrects for how often the sampler draws a class. Joined to the biases first: vectors are cheap.
        true_shift = subtract(true_shift, cast(apply_one("Log", true_expected), inputs.dtype))
        sampled_shift = subtract(sampled_shift, cast(apply_one("Log", sampled_expected), inputs.dtype))
    true_logits = add(true_logits, true_shift)
    sampled_logits = add(sampled_logits, sampled_shift)
    if remove_accidental_hits:
        rows, places, lowest = compute_accidental_hits(labels, sampled, num_true)
        where = apply_one("Pack", [rows, cast(places, int32)], axis=1)
        if num_true > 1:
            # A sample can be hit by several equal classes of a row: the sum must not become infinite.
            lowest = multiply(lowest, 0.5 / num_true)
        sampled_logits = apply_one("TensorScatterAdd", sampled_logits, where, cast(lowest, inputs.dtype))
    return true_logits, sampled_logits


def _rows(params: Any, ids: Tensor, partition_strategy: str, like: Tensor) -> Tensor:
    tensor: Tensor = cast(embedding_lookup(params, ids, partition_strategy), like.dtype)
    return tensor


def _row_products(inputs: Tensor, true_weights: Tensor, num_true: int) -> Tensor:
    """The product of each input with the weights of its true classes: `[batch, num_true]`."""
    if num_true == 1:
        return reduce_sum(multiply(inputs, true_weights), 1, keepdims=True)
    size: Any = inputs.shape.as_list()[1] if inputs.shape.ndims == 2 else None
    if size is None:
        size = apply_one("StridedSlice", apply_one("Shape", inputs), [1], [2], [1], shrink_axis_mask=1)
        shape: Any = apply_one("Pack", [-1, num_true, size])
    else:
        shape = [-1, num_true, size]
    return reduce_sum(multiply(apply_one("ExpandDims", inputs, 1), reshape(true_weights, shape)), 2)


def _targets(true_logits: Tensor, sampled_logits: Tensor, num_true: int) -> Tensor:
    """Labels for the logits side by side: the true classes share a probability of 1."""
    ones = apply_one("OnesLike", true_logits)
    return concat(
        [ones if num_true == 1 else multiply(ones, 1.0 / num_true), apply_one("ZerosLike", sampled_logits)], 1
    )


@export("nn.nce_loss")
def nce_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None, remove_accidental_hits: bool = False, partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:  # fmt: skip
    """Returns the loss of noise-contrastive estimation: telling the true classes from sampled ones.

    Args:
        weights: `[num_classes, dim]`, or a list of shards: the embeddings of the classes.
        biases: `[num_classes]`: their biases.
        labels: Integers `[batch, num_true]`: the true classes.
        inputs: `[batch, dim]`: the activations of the network.
        num_sampled: How many classes to draw for the batch.
        num_classes: The number of classes.
        num_true: How many true classes each example has.
        sampled_values: The result of a `*_candidate_sampler` function; log-uniform if None.
        remove_accidental_hits: Whether sampled classes that are true ones are left out.
        partition_strategy: How `weights` are spread over shards; see `tf.nn.embedding_lookup`.
        name: A name scope.

    Returns:
        A vector: the loss of each example.
    """
    with name_scope(name, "nce_loss", [inputs, labels]):
        true_logits, sampled_logits = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
            remove_accidental_hits, partition_strategy, None,
        )  # fmt: skip
        logits = concat([true_logits, sampled_logits], 1)
        targets = _targets(true_logits, sampled_logits, num_true)
        losses = sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name="sampled_losses")
        return reduce_sum(losses, 1)


@export("nn.sampled_softmax_loss")
def sampled_softmax_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None, remove_accidental_hits: bool = True, partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss", seed: int | None = None,
) -> Tensor:  # fmt: skip
    """Returns the softmax cross entropy over the true classes and a sample of the others; for training only.

    For the arguments see `nce_loss`; `seed` is that of the sampler.

    Returns:
        A vector: the loss of each example.
    """
    with name_scope(name, "sampled_softmax_loss", [inputs, labels]):
        true_logits, sampled_logits = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
            remove_accidental_hits, partition_strategy, seed,
        )  # fmt: skip
        logits = concat([true_logits, sampled_logits], 1)
        if num_true == 1:
            # The true class stands in column 0, so that no matrix of labels is needed.
            first = apply_one("ZerosLike", reshape(cast(labels, int64), [-1]))
            return sparse_softmax_cross_entropy_with_logits(labels=first, logits=logits, name="sampled_losses")
        targets = stop_gradient(_targets(true_logits, sampled_logits, num_true))
        return softmax_cross_entropy_with_logits_v2(labels=targets, logits=logits, name="sampled_losses")
