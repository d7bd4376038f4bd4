"""Hooks that look at values and decide when to stop: logging, stopping at a step, waiting, feeding, last ops."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging
from thalweg.train.global_step import global_step_read
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from thalweg.train.hooks.timer import SecondOrStepTimer


def require_global_step(hook: Any) -> Any:
    """A tensor with the global step.

    Raises:
        RuntimeError: If there is no global step.
    """
    step = global_step_read()
    if step is None:
        raise RuntimeError(
            f"Global step should be created to use {type(hook).__name__}: call tf.train.get_or_create_global_step() "
            "and pass it to the optimizer's minimize()."
        )
    return step


def as_graph_element(element: Any) -> Any:
    """A tensor, operation or name as a tensor or operation of the default graph."""
    return get_default_graph().as_graph_element(element)


@export("train.LoggingTensorHook", "estimator.LoggingTensorHook")
class LoggingTensorHook(SessionRunHook):
    """Logs the values of tensors every so many steps or seconds, or at the end.

    The lines are of level INFO: `tf.logging.set_verbosity(tf.logging.INFO)` shows them.
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        """Takes the tensors and the interval.

        Args:
            tensors: From labels to tensors (or their names); or a list of tensors, which are labelled by their names.
            every_n_iter: Steps between lines.
            every_n_secs: Seconds between lines; exactly one of both must be given, unless `at_end` is true.
            at_end: Whether to log at the end too.
            formatter: From a dictionary of labels and values to the line.
        """
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if isinstance(tensors, Mapping):
            self._order = list(tensors)
            self._tensors = dict(tensors)
        else:
            self._order = [item if isinstance(item, str) else item.name for item in tensors]
            self._tensors = dict(zip(self._order, tensors, strict=True))
        self._formatter = formatter
        self._timer = None if only_at_end else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        self._log_at_end = at_end

    def begin(self) -> None:
        """Finds the tensors."""
        if self._timer is not None:
            self._timer.reset()
        self._iterations = 0
        self._current = {label: as_graph_element(tensor) for label, tensor in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetches the tensors if a line is due."""
        self._should_log = self._timer is not None and self._timer.should_trigger_for_step(self._iterations)
        return SessionRunArgs(self._current) if self._should_log else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Logs."""
        if self._should_log:
            self._log(run_values.results)
        self._iterations += 1

    def end(self, session: Any) -> None:
        """Logs once more if `at_end` is true."""
        if self._log_at_end:
            self._log(session.run(self._current))

    def _log(self, values: dict[str, Any]) -> None:
        elapsed = None
        if self._timer is not None:
            elapsed, _ = self._timer.update_last_triggered_step(self._iterations)
        if self._formatter is not None:
            logging.info("%s", self._formatter(values))
            return
        with np.printoptions(suppress=True):
            line = ", ".join(f"{label} = {values[label]}" for label in self._order)
        logging.info("%s%s", line, "" if elapsed is None else f" ({elapsed:.3f} sec)")


@export("train.StopAtStepHook", "estimator.StopAtStepHook")
class StopAtStepHook(SessionRunHook):
    """Stops at a value of the global step, or after a number of steps."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        """Takes a number of steps or a last step.

        Args:
            num_steps: How many steps to run, counted from the global step at the beginning (or after a restore).
            last_step: The global step to stop at.

        Raises:
            ValueError: If neither or both are given.
        """
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = require_global_step(self)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Computes the last step. If others have made it already, no step is run."""
        step = int(session.run(self._global_step))
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = step + self._num_steps
        elif step >= self._last_step:
            coord.request_stop()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetches the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Requests a stop at the last step."""
        assert self._last_step is not None
        # The fetched value may be from before the step's own update.
        if run_values.results + 1 < self._last_step:
            return
        if run_context.session.run(self._global_step) >= self._last_step:
            run_context.request_stop()


@export("train.GlobalStepWaiterHook", "estimator.GlobalStepWaiterHook")
class GlobalStepWaiterHook(SessionRunHook):
    """Holds a worker's first step back until the global step has come to a value."""

    def __init__(self, wait_until_step: int) -> None:
        """Takes the step to wait for."""
        self._wait_until_step = wait_until_step

    def begin(self) -> None:
        """Finds the global step."""
        self._is_waiting = self._wait_until_step > 0
        self._global_step = require_global_step(self)

    def before_run(self, run_context: SessionRunContext) -> None:
        """Waits."""
        if not self._is_waiting:
            return
        last_logged = None
        while (step := int(run_context.session.run(self._global_step))) < self._wait_until_step:
            if last_logged is None or step > last_logged + 1000:
                logging.info("Waiting for global step %d before starting training. Current step is %d.",
                             self._wait_until_step, step)  # fmt: skip
                last_logged = step
            time.sleep(0.5)
        self._is_waiting = False


@export("train.FinalOpsHook", "estimator.FinalOpsHook")
class FinalOpsHook(SessionRunHook):
    """Runs ops at the end, and keeps their values."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        """Takes what to run, in any form that `Session.run` takes, and what to feed."""
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """The values, once the session has ended."""
        return self._final_ops_values

    def end(self, session: Any) -> None:
        """Runs the ops."""
        if self._final_ops is None:
            return
        try:
            self._final_ops_values = session.run(self._final_ops, feed_dict=self._final_ops_feed_dict)
        except StopIteration as e:
            logging.warning(
                "An OutOfRangeError or StopIteration exception is raised by the code in FinalOpsHook: %s", e
            )
            raise


@export("train.FeedFnHook", "estimator.FeedFnHook")
class FeedFnHook(SessionRunHook):
    """Feeds every step with the result of a function."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        """Takes a function that returns a feed dictionary."""
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Calls the function."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
