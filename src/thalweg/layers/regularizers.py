"""Regularizers and initializers under the names that programs of TensorFlow 1 take from `tf.contrib.layers`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, cast

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import add_to_collection, get_collection, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.reductions import reduce_sum
from thalweg.ops.nn.bias import l2_loss
from thalweg.ops.random.generators import random_uniform, truncated_normal
from thalweg.state.initializers import _fans

Regularizer = Callable[[Any], Any]


def _checked_scale(scale: Any) -> float:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real) and float(scale) < 0:
        raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
    result: float = scale
    return result


def _scaled(scale: Any, scope: str | None, name: str, norm: Regularizer) -> Regularizer:
    factor = _checked_scale(scale)
    if isinstance(factor, float) and factor == 0.0:
        return lambda _: None

    def regularizer(weights: Any) -> Any:
        with name_scope(scope, name, [weights]) as opened:
            return apply_one("Mul", factor, norm(weights), name=opened)

    return regularizer


@export("contrib.layers.l1_regularizer")
def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """A function of weights: `scale` times the sum of their absolute values."""
    return _scaled(scale, scope, "l1_regularizer", lambda weights: reduce_sum(apply_one("Abs", weights)))


@export("contrib.layers.l2_regularizer")
def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """A function of weights: `scale` times half the sum of their squares."""
    return _scaled(scale, scope, "l2_regularizer", l2_loss)


@export("contrib.layers.l1_l2_regularizer")
def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Regularizer:
    """A function of weights: the sum of an L1 and an L2 regularizer."""
    both = [l1_regularizer(scale_l1), l2_regularizer(scale_l2)]
    return cast(Regularizer, sum_regularizer(both, scope or "l1_l2_regularizer"))


@export("contrib.layers.sum_regularizer")
def sum_regularizer(regularizer_list: Any, scope: str | None = None) -> Regularizer | None:
    """A function of weights: the sum of several regularizers; None if there are none, or all of them return None."""
    given = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not given:
        return None

    def regularizer(weights: Any) -> Any:
        with name_scope(scope, "sum_regularizer", [weights]) as opened:
            terms = [term for term in (one(weights) for one in given) if term is not None]
            return apply_one("AddN", terms, name=opened) if terms else None

    return regularizer


@export("contrib.layers.apply_regularization")
def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> Any:
    """The sum of a regularizer over weights, which joins GraphKeys.REGULARIZATION_LOSSES.

    Args:
        regularizer: A function of a weight.
        weights_list: The weights; GraphKeys.WEIGHTS if None.

    Raises:
        ValueError: If there are no weights.
    """
    weights = list(weights_list) if weights_list else get_collection(GraphKeys.WEIGHTS)
    if not weights:
        raise ValueError("No weights to regularize.")
    with name_scope("get_regularization_penalty", values=weights) as scope:
        penalties = [penalty for penalty in (regularizer(weight) for weight in weights) if penalty is not None]
        total = apply_one("AddN", penalties or [0.0], name=scope)
    add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


@export("contrib.layers.variance_scaling_initializer")
def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = dtypes.float32,
) -> Callable[..., Any]:
    """An initializer with variance `factor` / n; the truncated normal one aims at 1.3 times that, as it always did.

    Args:
        factor: A factor.
        mode: 'FAN_IN', 'FAN_OUT' or 'FAN_AVG': what n is.
        uniform: Whether values are uniform instead of normal.
        seed: The seed of the op.
        dtype: The type of the elements.

    Raises:
        TypeError: If the type is not a floating one, or the mode is unknown.
    """
    if not as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

    def initializer(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Any:
        if not as_dtype(dtype).is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        whole = shape if partition_info is None else partition_info.full_shape
        fan_in, fan_out = _fans([int(size or 0) for size in TensorShape(whole).as_list()])
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            return random_uniform(shape, -limit, limit, dtype, seed)
        return truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / n), dtype, seed)

    return initializer


@export("contrib.layers.xavier_initializer", "contrib.layers.xavier_initializer_conv2d")
def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = dtypes.float32
) -> Callable[..., Any]:
    """An initializer that keeps the scale of gradients in all layers (Glorot and Bengio, 2010)."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)
