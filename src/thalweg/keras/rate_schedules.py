"""tf.keras.optimizers.schedules: learning rates as functions of the step."""

from __future__ import annotations

import math
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.public_names import tf


@export("keras.optimizers.schedules.LearningRateSchedule")
class LearningRateSchedule:
    """A function of the step; a subclass defines `__call__`."""

    _arguments: tuple[str, ...] = ()

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        raise NotImplementedError("Learning rate schedule must override __call__")

    def get_config(self) -> dict[str, Any]:
        """The arguments that make such a schedule."""
        return {name: getattr(self, name) for name in self._arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        """Makes a schedule from a result of `get_config`."""
        return cls(**config)


def _ratio(step: Any, steps: Any) -> Any:
    return tf.cast(step, tf.float32) / tf.cast(steps, tf.float32)


@export("keras.optimizers.schedules.ExponentialDecay")
class ExponentialDecay(LearningRateSchedule):
    """rate * decay_rate ** (step / decay_steps).

    Example:
        >>> schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
        >>> with tf.eager():
        ...     print(round(float(schedule(20)), 4))
        0.025
    """

    _arguments = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase", "name")

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False,
                 name: str | None = None) -> None:  # fmt: skip
        """Takes the rate at the start; `staircase` rounds the exponent down."""
        self.initial_learning_rate, self.decay_steps, self.decay_rate = initial_learning_rate, decay_steps, decay_rate
        self.staircase, self.name = staircase, name

    def _exponent(self, step: Any) -> Any:
        exponent = _ratio(step, self.decay_steps)
        return tf.floor(exponent) if self.staircase else exponent

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        return self.initial_learning_rate * tf.pow(tf.cast(self.decay_rate, tf.float32), self._exponent(step))


@export("keras.optimizers.schedules.InverseTimeDecay")
class InverseTimeDecay(ExponentialDecay):
    """rate / (1 + decay_rate * step / decay_steps)."""

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        return self.initial_learning_rate / (1.0 + self.decay_rate * self._exponent(step))


@export("keras.optimizers.schedules.PiecewiseConstantDecay")
class PiecewiseConstantDecay(LearningRateSchedule):
    """One rate up to and with each boundary, and another one after the last."""

    _arguments = ("boundaries", "values", "name")

    def __init__(self, boundaries: Any, values: Any, name: str | None = None) -> None:
        """Takes the boundaries and one value more.

        Raises:
            ValueError: If that is not so.
        """
        if len(boundaries) != len(values) - 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values.")
        self.boundaries, self.values, self.name = list(boundaries), list(values), name

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        passed = tf.cast(tf.cast(step, tf.float32) > tf.cast(self.boundaries, tf.float32), tf.int32)
        return tf.gather(tf.cast(self.values, tf.float32), tf.reduce_sum(passed))


@export("keras.optimizers.schedules.PolynomialDecay")
class PolynomialDecay(LearningRateSchedule):
    """From one rate to another along a power of the remaining steps."""

    _arguments = ("initial_learning_rate", "decay_steps", "end_learning_rate", "power", "cycle", "name")

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, end_learning_rate: Any = 0.0001, power: Any = 1.0,
                 cycle: bool = False, name: str | None = None) -> None:  # fmt: skip
        """Takes both rates; with `cycle` the steps begin again, and are multiplied."""
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power, self.cycle, self.name = end_learning_rate, power, cycle, name

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        now, steps = tf.cast(step, tf.float32), tf.cast(self.decay_steps, tf.float32)
        if self.cycle:
            steps *= tf.maximum(tf.ceil(now / steps), 1.0)
        else:
            now = tf.minimum(now, steps)
        span = self.initial_learning_rate - self.end_learning_rate
        return span * tf.pow(1.0 - now / steps, self.power) + self.end_learning_rate


@export("keras.optimizers.schedules.CosineDecay")
class CosineDecay(LearningRateSchedule):
    """Half a cosine, from the rate down to a share `alpha` of it."""

    _arguments = ("initial_learning_rate", "decay_steps", "alpha", "name")

    def __init__(
        self, initial_learning_rate: Any, decay_steps: Any, alpha: float = 0.0, name: str | None = None
    ) -> None:
        """Takes the rate at the start."""
        self.initial_learning_rate, self.decay_steps, self.alpha, self.name = (
            initial_learning_rate, decay_steps, alpha, name,
        )  # fmt: skip

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        share = 0.5 * (1.0 + tf.cos(math.pi * tf.minimum(_ratio(step, self.decay_steps), 1.0)))
        return self.initial_learning_rate * ((1.0 - self.alpha) * share + self.alpha)
