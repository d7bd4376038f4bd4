"""SecondOrStepTimer: tells whether an action that is done every N seconds or steps is due."""

from __future__ import annotations

import time

from thalweg.graph.definitions.op_registry import export


@export("train.SecondOrStepTimer")
class SecondOrStepTimer:
    """A timer by seconds or by steps, whichever was given. It triggers for the first step at once.

    Example:
        >>> timer = tf.train.SecondOrStepTimer(every_steps=10)
        >>> timer.should_trigger_for_step(1)
        True
        >>> timer.update_last_triggered_step(1)
        (None, None)
        >>> timer.should_trigger_for_step(10), timer.should_trigger_for_step(11)
        (False, True)
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        """Takes seconds or steps.

        Raises:
            ValueError: If neither or both are given.
        """
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        """Forgets when it was triggered."""
        self._last_triggered_step: int | None = None
        self._last_triggered_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at a step."""
        if self._last_triggered_step is None:
            return True
        if self._last_triggered_step == step:
            return False
        if self._every_secs is not None:
            assert self._last_triggered_time is not None
            return time.time() >= self._last_triggered_time + self._every_secs
        assert self._every_steps is not None
        return step >= self._last_triggered_step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Notes that it was triggered; returns the seconds and steps since the last time, or (None, None)."""
        now = time.time()
        elapsed: tuple[float | None, int | None] = (None, None)
        if self._last_triggered_step is not None and self._last_triggered_time is not None:
            elapsed = now - self._last_triggered_time, step - self._last_triggered_step
        self._last_triggered_time, self._last_triggered_step = now, step
        return elapsed

    def last_triggered_step(self) -> int | None:
        """Returns the step of the last time, or None."""
        return self._last_triggered_step
