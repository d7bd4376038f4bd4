"""Losses of sequences of logits, and models with a graph per bucket of lengths."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.legacy_seq2seq.sequence_loss_by_example")
def sequence_loss_by_example(
    logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True, softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The weighted cross entropy of each example, summed over the steps: [batch].

    Raises:
        ValueError: If there are not as many targets and weights as logits.
    """
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(
            f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, {len(targets)}."
        )
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        steps = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                target = tf.reshape(target, [-1])
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logit)
            else:
                loss = softmax_loss_function(labels=target, logits=logit)
            steps.append(loss * weight)
        total = tf.add_n(steps)
        return total / (tf.add_n(list(weights)) + 1e-12) if average_across_timesteps else total


@export("contrib.legacy_seq2seq.sequence_loss")
def sequence_loss(
    logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True, average_across_batch: bool = True,
    softmax_loss_function: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The weighted cross entropy of a batch: a scalar."""
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost = tf.reduce_sum(
            sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
        )
        return cost / tf.cast(tf.shape(targets[0])[0], cost.dtype) if average_across_batch else cost


@export("contrib.legacy_seq2seq.model_with_buckets")
def model_with_buckets(
    encoder_inputs: Any, decoder_inputs: Any, targets: Any, weights: Any, buckets: Any, seq2seq: Any,
    softmax_loss_function: Any = None, per_example_loss: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Outputs and losses of a model for each bucket of (encoder length, decoder length), with shared variables.

    Raises:
        ValueError: If inputs, targets or weights are shorter than the largest bucket.
    """
    longest = buckets[-1]
    for what, given, length in (
        ("encoder_inputs", encoder_inputs, longest[0]), ("targets", targets, longest[1]), ("weights", weights,
        longest[1]),
    ):  # fmt: skip
        if len(given) < length:
            raise ValueError(f"Length of {what} ({len(given)}) must be at least that of last bucket ({length}).")
    losses, outputs = [], []
    with tf.name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for j, (source, target) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if j > 0 else None):
                bucket_outputs, _ = seq2seq(encoder_inputs[:source], decoder_inputs[:target])
                outputs.append(bucket_outputs)
                loss = sequence_loss_by_example if per_example_loss else sequence_loss
                losses.append(
                    loss(outputs[-1], targets[:target], weights[:target], softmax_loss_function=softmax_loss_function)
                )
    return outputs, losses
