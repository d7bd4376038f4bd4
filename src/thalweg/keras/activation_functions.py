"""tf.keras.activations: functions of a tensor by name."""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.named_objects import Registry
from thalweg.keras.public_names import tf

_registry: Final = Registry("activation function")


def linear(x: Any) -> Any:
    """The input."""
    return x


def relu(x: Any, alpha: Any = 0.0, max_value: Any = None, threshold: Any = 0.0) -> Any:
    """max(x, 0); with a slope `alpha` below `threshold`, and at most `max_value`."""
    if alpha == 0.0 and threshold == 0.0:
        return tf.nn.relu(x) if max_value is None else tf.clip_by_value(x, 0.0, float(max_value))
    result = tf.where(x >= threshold, x, alpha * (x - threshold))
    return result if max_value is None else tf.minimum(result, float(max_value))


def hard_sigmoid(x: Any) -> Any:
    """0.2 x + 0.5 between 0 and 1."""
    return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


def softmax(x: Any, axis: int = -1) -> Any:
    """Probabilities along an axis.

    Raises:
        ValueError: For a vector.
    """
    if x.shape.ndims is not None and x.shape.ndims < 2:
        raise ValueError(f"Cannot apply softmax to a tensor that is 1D. Received input: {x}")
    return tf.nn.softmax(x, axis=axis)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """X above zero, alpha (exp(x) - 1) below."""
    result = tf.nn.elu(x)
    return result if alpha == 1 else tf.where(x > 0, result, alpha * result)


def selu(x: Any) -> Any:
    """The scaled elu of self-normalizing networks."""
    return tf.nn.selu(x)


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return tf.nn.softplus(x)


def softsign(x: Any) -> Any:
    """X / (1 + |x|)."""
    return tf.nn.softsign(x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return tf.tanh(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return tf.sigmoid(x)


def exponential(x: Any) -> Any:
    """exp(x)."""
    return tf.exp(x)


for _function in (
    linear, relu, hard_sigmoid, softmax, elu, selu, softplus, softsign, tanh, sigmoid, exponential,
):  # fmt: skip
    _registry.add(_function.__name__, _function)
    export(f"keras.activations.{_function.__name__}")(_function)


@export("keras.activations.get")
def get(identifier: Any) -> Any:
    """The activation of a name, or a function itself; `linear` of None."""
    return linear if identifier is None else _registry.get(identifier)


@export("keras.activations.serialize")
def serialize(activation: Any) -> Any:
    """The name of an activation."""
    return _registry.serialize(activation)


@export("keras.activations.deserialize")
def deserialize(name: Any, custom_objects: Any = None) -> Any:
    """The activation of a name."""
    return _registry.deserialize(name, custom_objects)
