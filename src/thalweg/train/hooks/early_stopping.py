"""EarlyStoppingHook: stops the training when a metric has not improved for a while."""

from __future__ import annotations

import math
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues


@export("train.EarlyStoppingHook")
class EarlyStoppingHook(SessionRunHook):
    """Stops when a metric has not improved for `patience` measurements.

    Attributes:
        best: The best value so far, None before the first.
        stopped: Whether this hook has stopped the training.

    Example:
        >>> loss = tf.constant(1.0)
        >>> hook = tf.train.EarlyStoppingHook(loss, patience=2)
        >>> steps = 0
        >>> with tf.train.MonitoredSession(hooks=[hook]) as session:
        ...     while not session.should_stop():
        ...         _ = session.run(loss)
        ...         steps += 1
        >>> steps
        3
    """

    def __init__(
        self, metric: Any, patience: int, min_delta: float = 0.0, mode: str = "min", every_n_steps: int = 1
    ) -> None:
        """Takes the metric to watch.

        Args:
            metric: A scalar tensor, or its name.
            patience: For how many measurements in a row the metric may fail to improve.
            min_delta: By how much a value must be better than the best one to count.
            mode: 'min' if lower is better, 'max' if higher is.
            every_n_steps: Steps between measurements of the metric.

        Raises:
            ValueError: If an argument makes no sense.
        """
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', got {mode!r}.")
        if patience < 1 or every_n_steps < 1 or not min_delta >= 0:
            raise ValueError(
                "patience and every_n_steps must be at least 1, and min_delta at least 0; got "
                f"patience={patience}, every_n_steps={every_n_steps}, min_delta={min_delta}."
            )
        self._metric = metric
        self._patience = patience
        self._min_delta = min_delta
        self._sign = 1.0 if mode == "min" else -1.0
        self._every_n_steps = every_n_steps
        self.best: float | None = None
        self.stopped = False

    def begin(self) -> None:
        """Starts counting."""
        self.best = None
        self.stopped = False
        self._without_improvement = 0
        self._steps = 0

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetches the metric if it is time."""
        self._request = self._steps % self._every_n_steps == 0
        self._steps += 1
        return SessionRunArgs(self._metric) if self._request else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Compares the metric with the best one."""
        if not self._request:
            return
        value = float(run_values.results)
        # NaN is no improvement.
        improves = not math.isnan(value) and (
            self.best is None or self._sign * value < self._sign * self.best - self._min_delta
        )
        if improves:
            self.best = value
            self._without_improvement = 0
            return
        self._without_improvement += 1
        if self._without_improvement >= self._patience:
            logging.info("No improvement over %s for %d steps: stopping.", self.best, self._without_improvement)
            self.stopped = True
            run_context.request_stop()
