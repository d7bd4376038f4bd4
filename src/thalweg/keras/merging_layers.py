"""tf.keras.layers: layers of several inputs, and the functions of the same names."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.keras.layer_base import Layer
from thalweg.keras.public_names import tf


class _Merge(Layer):
    """A function of a list of tensors."""

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Where all masks that there are count a step."""
        masks = [each for each in mask or () if each is not None]
        return functools.reduce(tf.logical_and, masks) if masks else None

    def call(self, inputs: Any) -> Any:
        """Merges them.

        Raises:
            ValueError: If there are not several inputs.
        """
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError("A merge layer should be called on a list of at least 2 inputs.")
        return self._merge(list(inputs))

    def _merge(self, inputs: list[Any]) -> Any:
        raise NotImplementedError


def _export_elementwise() -> None:
    functions: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
        "Add": ("The sum of the inputs.", lambda xs: functools.reduce(operator.add, xs)),
        "Multiply": ("The product of the inputs.", lambda xs: functools.reduce(operator.mul, xs)),
        "Average": ("The mean of the inputs.", lambda xs: functools.reduce(operator.add, xs) / len(xs)),
        "Maximum": ("The largest elements of the inputs.", lambda xs: functools.reduce(tf.maximum, xs)),
        "Minimum": ("The smallest elements of the inputs.", lambda xs: functools.reduce(tf.minimum, xs)),
        "Subtract": ("The first input minus the second.", lambda xs: xs[0] - xs[1]),
    }
    for name, (doc, function) in functions.items():

        def merge(self: Any, inputs: list[Any], function: Any = function) -> Any:
            return function(inputs)

        made = type(name, (_Merge,), {"_merge": merge, "__doc__": doc, "__module__": __name__})
        export_value(made, f"keras.layers.{name}")
        _export_function(made, doc)


def _export_function(layer: Any, doc: str) -> None:
    def function(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return layer(*args, **kwargs)(inputs)

    function.__name__, function.__doc__ = layer.__name__.lower(), doc
    export(f"keras.layers.{function.__name__}")(function)


_export_elementwise()


@export("keras.layers.Concatenate")
class Concatenate(_Merge):
    """The inputs one after the other along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        """Takes the axis."""
        super().__init__(**kwargs)
        self.axis = axis

    def _merge(self, inputs: list[Any]) -> Any:
        return tf.concat(inputs, axis=self.axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The masks one after the other, where the axis is that of the steps; else where all count."""
        if mask is None or all(each is None for each in mask):
            return None
        if self.axis not in (1, 1 - inputs[0].shape.ndims):
            return super().compute_mask(inputs, mask)
        whole = [
            tf.ones(tf.shape(x)[:2], tf.bool) if each is None else each for x, each in zip(inputs, mask, strict=True)
        ]
        return tf.concat(whole, axis=1)


@export("keras.layers.Dot")
class Dot(_Merge):
    """Sums of products of two inputs along an axis of each."""

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        """Takes the axis, or one of each, and whether both are brought to norm one first."""
        super().__init__(**kwargs)
        self.axes, self.normalize = axes, normalize

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """None."""
        return None

    def _merge(self, inputs: list[Any]) -> Any:
        first, second = inputs
        axes = [self.axes] * 2 if isinstance(self.axes, int) else list(self.axes)
        axes = [axis % x.shape.ndims for axis, x in zip(axes, inputs, strict=True)]
        if self.normalize:
            first, second = tf.nn.l2_normalize(first, axis=axes[0]), tf.nn.l2_normalize(second, axis=axes[1])
        return batch_dot(first, second, axes)


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """Products of the examples of two batches, summed along an axis of each.

    Args:
        x: A batch.
        y: Another one of the same size.
        axes: The axis, or one of each; the last of x and the last but one of y if None.
    """
    ranks = (x.shape.ndims, y.shape.ndims)
    if axes is None:
        axes = [ranks[0] - 1, ranks[1] - 1 if ranks[1] == 2 else ranks[1] - 2]
    axes = [axes, axes] if isinstance(axes, int) else list(axes)
    axes = [axis % rank for axis, rank in zip(axes, ranks, strict=True)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    left = ["Z", *letters[: ranks[0] - 1]]
    right = ["Z", *letters[ranks[0] - 1 : ranks[0] + ranks[1] - 2]]
    right[axes[1]] = left[axes[0]]
    out = [each for each in left if each != left[axes[0]]] + [each for each in right[1:] if each != right[axes[1]]]
    result = tf.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}".replace("Z", "z"), x, y)
    return tf.expand_dims(result, 1) if len(out) == 1 else result


export_value(batch_dot, "keras.backend.batch_dot")
_export_function(Concatenate, "The inputs one after the other along an axis.")
_export_function(Dot, "Sums of products of two inputs along an axis of each.")
