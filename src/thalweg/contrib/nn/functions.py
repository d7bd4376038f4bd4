"""tf.contrib.nn: further losses, embeddings of the past, and old names."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.nn.alpha_dropout")
def alpha_dropout(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None
) -> Any:
    """Dropout that keeps mean and variance of SELUs (Klambauer et al., 2017).

    Raises:
        ValueError: If `keep_prob` is no probability.
    """
    with tf.name_scope(name, "alpha_dropout", [x]):
        x = tf.convert_to_tensor(x, name="x")
        if isinstance(keep_prob, (float, int)) and not 0 < keep_prob <= 1.0:
            raise ValueError(f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep_prob}")
        if isinstance(keep_prob, (float, int)) and keep_prob == 1:
            return x
        alpha = -1.7580993408473766
        shape = tf.shape(x) if noise_shape is None else noise_shape
        keep_prob = tf.cast(keep_prob, x.dtype)
        kept = tf.cast(tf.floor(keep_prob + tf.random_uniform(shape, seed=seed, dtype=x.dtype)), x.dtype)
        mixed = x * kept + alpha * (1 - kept)
        a = tf.rsqrt(keep_prob + keep_prob * tf.square(tf.constant(alpha, x.dtype)) * (1 - keep_prob))
        result = a * mixed - a * alpha * (1 - keep_prob)
        result.set_shape(x.shape)
        return result


@export("contrib.nn.deprecated_flipped_softmax_cross_entropy_with_logits")
def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> Any:
    """The cross entropy, with logits first."""
    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


@export("contrib.nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits")
def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> Any:
    """The cross entropy of numbered classes, with logits first."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


@export("contrib.nn.deprecated_flipped_sigmoid_cross_entropy_with_logits")
def deprecated_flipped_sigmoid_cross_entropy_with_logits(logits: Any, targets: Any, name: str | None = None) -> Any:
    """The cross entropy of independent classes, with logits first."""
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)


@export("contrib.nn.rank_sampled_softmax_loss")
def rank_sampled_softmax_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_resampled: int, num_classes: int,
    num_true: int, sampled_values: Any, resampling_temperature: Any, remove_accidental_hits: bool,
    partition_strategy: str, name: str | None = None,
) -> Any:  # fmt: skip
    """A sampled softmax whose samples are drawn again, the likely ones first.

    Raises:
        ValueError: If more are drawn again than were drawn.
    """
    if num_resampled > num_sampled:
        raise ValueError(f"num_resampled ({num_resampled}) cannot be larger than num_sampled ({num_sampled})")
    with tf.name_scope(name, "rank_sampled_softmax_loss", [labels, inputs]):
        if sampled_values is None:
            sampled_values = tf.nn.log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes)
        sampled, true_expected, sampled_expected = sampled_values
        rows = tf.nn.embedding_lookup(weights, tf.cast(sampled, tf.int64), partition_strategy)
        logits = tf.matmul(inputs, rows, transpose_b=True) + tf.nn.embedding_lookup(biases, sampled, partition_strategy)
        scores = tf.reduce_logsumexp(logits / resampling_temperature, axis=0)
        _, chosen = tf.nn.top_k(scores, num_resampled, sorted=False)
        values = (tf.gather(sampled, chosen), true_expected, tf.gather(sampled_expected, chosen))
        return tf.nn.sampled_softmax_loss(
            weights, biases, labels, inputs, num_resampled, num_classes, num_true, values, remove_accidental_hits,
            partition_strategy,
        )  # fmt: skip


@export("contrib.nn.scaled_softplus")
def scaled_softplus(x: Any, alpha: Any, clip: Any = None, name: str | None = None) -> Any:
    """`alpha * ln(1 + exp(x / alpha))`, at most `clip`: nearer to relu for a smaller `alpha`."""
    clipped = [] if clip is None else [clip]
    with tf.name_scope(name, "scaled_softplus", [x, alpha, *clipped]):
        x = tf.convert_to_tensor(x, name="x")
        alpha = tf.convert_to_tensor(alpha, dtype=x.dtype, name="alpha")
        result = alpha * tf.nn.softplus(x / alpha)
        return result if clip is None else tf.minimum(result, tf.convert_to_tensor(clip, dtype=x.dtype, name="clip"))


@export("contrib.nn.conv1d_transpose")
def conv1d_transpose(
    input: Any, filters: Any, output_shape: Any, strides: Any, padding: str = "SAME", data_format: str = "NWC",
    dilations: Any = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The gradient of a convolution over sequences as a layer of its own: see `tf.nn.conv1d_transpose`."""
    return tf.nn.conv1d_transpose(
        input, filters, output_shape, strides, padding=padding, data_format=data_format, dilations=dilations, name=name
    )


@export("contrib.nn.sampled_sparse_softmax_loss")
def sampled_sparse_softmax_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, sampled_values: Any = None,
    remove_accidental_hits: bool = True, partition_strategy: str = "mod", name: str = "sampled_sparse_softmax_loss",
) -> Any:  # fmt: skip
    """A sampled softmax with one true class an example: [batch]."""
    with tf.name_scope(name):
        column = tf.reshape(tf.cast(labels, tf.int64), [-1, 1])
        return tf.nn.sampled_softmax_loss(
            weights, biases, column, inputs, num_sampled, num_classes, 1, sampled_values, remove_accidental_hits,
            partition_strategy,
        )  # fmt: skip
