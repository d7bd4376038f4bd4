"""The projection of logits to probabilities (Martins and Astudillo, 2016), and its loss."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.sparsemax.sparsemax")
def sparsemax(logits: Any, name: str | None = None) -> Any:
    """The nearest probabilities to logits [batch, classes]; many are zero."""
    with tf.name_scope(name, "sparsemax", [logits]):
        z = tf.convert_to_tensor(logits, name="logits")
        z = z - tf.reduce_mean(z, axis=1, keepdims=True)
        ordered, _ = tf.nn.top_k(z, k=tf.shape(z)[1])
        sums = tf.cumsum(ordered, axis=1)
        ranks = tf.cast(tf.range(1, tf.shape(z)[1] + 1), z.dtype)
        support = tf.reduce_sum(tf.cast(1 + ranks * ordered > sums, tf.int32), axis=1)
        last = tf.stack([tf.range(tf.shape(z)[0]), tf.maximum(support, 1) - 1], axis=1)
        threshold = (tf.gather_nd(sums, last) - 1) / tf.cast(support, z.dtype)
        return tf.maximum(z - threshold[:, None], 0)


@export("contrib.sparsemax.sparsemax_loss")
def sparsemax_loss(logits: Any, sparsemax: Any, labels: Any, name: str | None = None) -> Any:
    """The loss of each example, for labels as rows."""
    with tf.name_scope(name, "sparsemax_loss", [logits, sparsemax, labels]):
        shifted = logits - tf.reduce_mean(logits, axis=1, keepdims=True)
        inside = tf.where(sparsemax > 0, sparsemax * (shifted - 0.5 * sparsemax), tf.zeros_like(sparsemax))
        outside = tf.where(labels > 0, labels * (0.5 * labels - shifted), tf.zeros_like(labels))
        return tf.reduce_sum(inside + outside, axis=1)
