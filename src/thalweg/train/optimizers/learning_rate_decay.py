"""Learning-rate schedules: functions of the global step, as tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.casting import cast
from thalweg.ops.random.generators import random_normal
from thalweg.state.variable import Variable


def _value(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    tensor = convert_to_tensor(x, name=name)
    return tensor if dtype is None else cast(tensor, dtype)


def _progress(global_step: Any, decay_steps: Any, dtype: Any, staircase: bool = False) -> Any:
    """How many times `decay_steps` have passed."""
    ratio = _value(global_step, dtype) / _value(decay_steps, dtype)
    return apply_one("Floor", ratio) if staircase else ratio


def _require_step(global_step: Any, what: str) -> None:
    if global_step is None:
        raise ValueError(f"global_step is required for {what}.")


@export("train.exponential_decay")
def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Returns `learning_rate * decay_rate ** (global_step / decay_steps)`.

    Args:
        learning_rate: The rate at step 0: a number or a tensor.
        global_step: The number of the step.
        decay_steps: After how many steps the rate has been multiplied by `decay_rate`.
        decay_rate: The factor.
        staircase: Whether the rate changes only every `decay_steps` steps.
        name: A name scope for the new nodes.

    Raises:
        ValueError: If there is no `global_step`.

    Example:
        >>> rate = tf.train.exponential_decay(0.1, tf.constant(20), decay_steps=10, decay_rate=0.5)
        >>> with tf.Session() as sess:
        ...     print(f"{sess.run(rate):.3f}")
        0.025
    """
    _require_step(global_step, "exponential_decay")
    with name_scope(name, "ExponentialDecay", [learning_rate, global_step, decay_steps, decay_rate]) as scope:
        rate = _value(learning_rate, name="learning_rate")
        power = apply_one(
            "Pow", _value(decay_rate, rate.dtype), _progress(global_step, decay_steps, rate.dtype, staircase)
        )
        return apply_one("Mul", rate, power, name=scope)


@export("train.natural_exp_decay")
def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Returns `learning_rate * exp(-decay_rate * global_step / decay_steps)`; the rest as `exponential_decay`."""
    _require_step(global_step, "natural_exp_decay")
    with name_scope(name, "NaturalExpDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate = _value(learning_rate, name="learning_rate")
        exponent = -_value(decay_rate, rate.dtype) * _progress(global_step, decay_steps, rate.dtype, staircase)
        return apply_one("Mul", rate, apply_one("Exp", exponent), name=scope)


@export("train.inverse_time_decay")
def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Returns `learning_rate / (1 + decay_rate * global_step / decay_steps)`; the rest as `exponential_decay`."""
    _require_step(global_step, "inverse_time_decay")
    with name_scope(name, "InverseTimeDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate = _value(learning_rate, name="learning_rate")
        divisor = 1 + _value(decay_rate, rate.dtype) * _progress(global_step, decay_steps, rate.dtype, staircase)
        return apply_one("RealDiv", rate, divisor, name=scope)


@export("train.piecewise_constant", "train.piecewise_constant_decay")
def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """Returns `values[0]` while `x <= boundaries[0]`, then `values[1]` while `x <= boundaries[1]`, and so on.

    Args:
        x: A scalar, usually the global step.
        boundaries: Increasing values of the type of `x`.
        values: One more than there are boundaries, all of one type.
        name: A name scope for the new nodes.

    Raises:
        ValueError: If the types do not go together, or the numbers of values and boundaries.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with name_scope(name, "PiecewiseConstant", [x, *boundaries, *values]):
        step = _value(x)
        limits = [_boundary(b, step) for b in boundaries]
        rates = [_value(v) for v in values]
        for rate in rates[1:]:
            if rate.dtype.base_dtype is not rates[0].dtype.base_dtype:
                raise ValueError(
                    f"Values must have elements all with the same dtype ({rates[0].dtype.base_dtype.name} vs "
                    f"{rate.dtype.base_dtype.name})."
                )
        result = rates[-1]
        for limit, rate in zip(reversed(limits), reversed(rates[:-1]), strict=True):
            result = apply_one("Select", apply_one("LessEqual", step, limit), rate, result)
        return apply_one("Identity", result)


def _boundary(boundary: Any, step: Tensor) -> Any:
    kind = step.dtype.base_dtype
    if not isinstance(boundary, (Tensor, Variable)):
        return convert_to_tensor(boundary, kind)
    found = boundary.dtype.base_dtype
    if found is kind:
        return _value(boundary)
    # Steps count in int64, boundaries are often written as int32.
    if found is dtypes.int32 and kind is dtypes.int64:
        return cast(boundary, kind)
    raise ValueError(f"Boundaries ({found.name}) must have the same dtype as x ({kind.name}).")


@export("train.polynomial_decay")
def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """Returns a rate that falls to `end_learning_rate` within `decay_steps` steps, by a power of the remaining part.

    Args:
        learning_rate: The rate at step 0.
        global_step: The number of the step.
        decay_steps: How many steps the fall takes.
        end_learning_rate: The rate at its end.
        power: 1.0 is a straight line.
        cycle: Whether, after that, the rate jumps up again to fall once more within twice, then three times the steps.
        name: A name scope for the new nodes.

    Raises:
        ValueError: If there is no `global_step`.
    """
    _require_step(global_step, "polynomial_decay")
    with name_scope(name, "PolynomialDecay", [learning_rate, global_step, decay_steps, end_learning_rate]) as scope:
        start = _value(learning_rate, name="learning_rate")
        dtype = start.dtype.base_dtype
        step, steps, end = _value(global_step, dtype), _value(decay_steps, dtype), _value(end_learning_rate, dtype)
        if cycle:
            started = apply_one("Equal", step, _value(0, dtype))
            rounds = apply_one("Select", started, _value(1, dtype), apply_one("Ceil", step / steps))
            steps = steps * rounds
        else:
            step = apply_one("Minimum", step, steps)
        left = apply_one("Pow", 1 - step / steps, _value(power, dtype))
        return apply_one("AddV2", (start - end) * left, end, name=scope)


def _cosine(progress: Any) -> Any:
    """From 1 down to 0 while `progress` goes from 0 to 1."""
    return 0.5 * (1 + apply_one("Cos", math.pi * progress))


@export("train.cosine_decay")
def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0, name: str | None = None
) -> Tensor:
    """Returns a rate that falls from `learning_rate` to `alpha * learning_rate` along half a period of a cosine."""
    _require_step(global_step, "cosine_decay")
    with name_scope(name, "CosineDecay", [learning_rate, global_step]):
        rate = _value(learning_rate, name="learning_rate")
        cosine = _cosine(_capped_progress(global_step, decay_steps, rate.dtype.base_dtype))
        return apply_one("Mul", rate, (1 - alpha) * cosine + alpha)


def _capped_progress(global_step: Any, decay_steps: Any, dtype: Any) -> Any:
    steps = _value(decay_steps, dtype)
    return apply_one("Minimum", _value(global_step, dtype), steps) / steps


@export("train.cosine_decay_restarts")
def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Returns a rate that falls along a cosine, again and again (arXiv:1608.03983).

    Args:
        learning_rate: The rate at step 0.
        global_step: The number of the step.
        first_decay_steps: How many steps the first fall takes.
        t_mul: Each fall takes so many times the steps of the one before.
        m_mul: Each fall starts from so many times the rate of the one before.
        alpha: The smallest rate, as a part of `learning_rate`.
        name: A name scope for the new nodes.
    """
    _require_step(global_step, "cosine decay restarts")
    with name_scope(name, "SGDRDecay", [learning_rate, global_step]):
        rate = _value(learning_rate, name="learning_rate")
        dtype = rate.dtype.base_dtype
        progress: Any = _progress(global_step, first_decay_steps, dtype)
        growth, height = _value(t_mul, dtype), _value(m_mul, dtype)

        def even() -> tuple[Any, Any]:
            restarts = apply_one("Floor", progress)
            return restarts, progress - restarts

        def growing() -> tuple[Any, Any]:
            # The falls before restart r take (1 - t ** r) / (1 - t) times the first one.
            logarithm = apply_one("Log", 1.0 - progress * (1.0 - growth)) / apply_one("Log", growth)
            restarts = apply_one("Floor", logarithm)
            size = apply_one("Pow", growth, restarts)
            return restarts, (progress - (1.0 - size) / (1.0 - growth)) / size

        restarts, within = _choose(apply_one("Equal", growth, _value(1.0, dtype)), even, growing)
        cosine = apply_one("Pow", height, restarts) * _cosine(within)
        return apply_one("Mul", rate, (1 - alpha) * cosine + alpha)


def _choose(condition: Tensor, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    return cond(condition, if_true, if_false)


@export("train.linear_cosine_decay")
def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Tensor:
    """Returns `learning_rate * ((alpha + linear) * cosine + beta)`, both falling within `decay_steps` steps.

    Args:
        learning_rate: The rate at step 0.
        global_step: The number of the step.
        decay_steps: How many steps the fall takes.
        num_periods: How many periods of the cosine it takes.
        alpha: Added to the linear part.
        beta: Added at the end.
        name: A name scope for the new nodes.
    """
    _require_step(global_step, "linear cosine decay")
    with name_scope(name, "LinearCosineDecay", [learning_rate, global_step]) as scope:
        return _linear_cosine(learning_rate, global_step, decay_steps, None, num_periods, alpha, beta, scope)


@export("train.noisy_linear_cosine_decay")
def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Tensor:
    """As `linear_cosine_decay`, with noise of variance `initial_variance / (1 + step) ** variance_decay` added."""
    _require_step(global_step, "noisy linear cosine decay")
    with name_scope(name, "NoisyLinearCosineDecay", [learning_rate, global_step]) as scope:
        noise = (initial_variance, variance_decay)
        return _linear_cosine(learning_rate, global_step, decay_steps, noise, num_periods, alpha, beta, scope)


def _linear_cosine(
    learning_rate: Any, global_step: Any, decay_steps: Any, noise: tuple[float, float] | None, num_periods: float,
    alpha: float, beta: float, name: str,
) -> Tensor:  # fmt: skip
    rate = _value(learning_rate, name="learning_rate")
    dtype = rate.dtype.base_dtype
    steps: Any = _value(decay_steps, dtype)
    step: Any = apply_one("Minimum", _value(global_step, dtype), steps)
    linear: Any = (steps - step) / steps
    if noise is not None:
        variance = noise[0] / apply_one("Pow", 1.0 + step, _value(noise[1], dtype))
        linear = linear + random_normal(linear.shape, stddev=apply_one("Sqrt", variance), dtype=dtype)
    cosine = 0.5 * (1.0 + apply_one("Cos", 2.0 * num_periods * math.pi * (step / steps)))
    return apply_one("Mul", rate, (alpha + linear) * cosine + beta, name=name)
