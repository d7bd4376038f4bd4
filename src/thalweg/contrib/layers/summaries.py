"""Summaries of activations, variables and collections."""

from __future__ import annotations

import functools
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value


@export("contrib.layers.summarize_tensor")
def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """A scalar summary of a scalar, a histogram of anything else; None if the rank is unknown or it is no number."""
    if (tensor.shape.ndims is None) or not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        return None
    name = tag or f"{tensor.op.name}_summary"
    return tf.summary.scalar(name, tensor) if tensor.shape.ndims == 0 else tf.summary.histogram(name, tensor)


@export("contrib.layers.summarize_activation")
def summarize_activation(op: Any) -> Any:
    """A histogram of an activation, and for rectified ones the fraction of zeros."""
    kind = op.op.type
    if kind in ("Relu", "Softplus", "Relu6"):
        tf.summary.scalar(op.op.name + "/zeros", tf.reduce_mean(tf.to_float(tf.equal(op, tf.cast(0.0, op.dtype)))))
    if kind == "Relu6":
        tf.summary.scalar(op.op.name + "/sixes", tf.reduce_mean(tf.to_float(tf.equal(op, tf.cast(6.0, op.dtype)))))
    return tf.summary.histogram(op.op.name + "/activation", op)


@export("contrib.layers.summarize_tensors")
def summarize_tensors(tensors: Any, summarizer: Any = summarize_tensor) -> list[Any]:
    """A summary of each tensor."""
    return [summarizer(tensor) for tensor in tensors]


@export("contrib.layers.summarize_collection")
def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Any = summarize_tensor
) -> list[Any]:
    """A summary of each tensor of a collection whose name matches."""
    return summarize_tensors(tf.get_collection(collection, name_filter), summarizer)


@export("contrib.layers.summarize_activations")
def summarize_activations(name_filter: str | None = None, summarizer: Any = summarize_activation) -> list[Any]:
    """A summary of each tensor in GraphKeys.ACTIVATIONS."""
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)


summarize_variables = functools.partial(summarize_collection, tf.GraphKeys.GLOBAL_VARIABLES)
summarize_weights = functools.partial(summarize_collection, tf.GraphKeys.WEIGHTS)
summarize_biases = functools.partial(summarize_collection, tf.GraphKeys.BIASES)
for _name in ("summarize_variables", "summarize_weights", "summarize_biases"):
    export_value(globals()[_name], f"contrib.layers.{_name}")
