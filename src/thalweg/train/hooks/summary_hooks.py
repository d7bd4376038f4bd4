"""Hooks that write to event files: summaries, and the speed of the training."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging
from thalweg.summary.file_writer import FileWriterCache
from thalweg.train.global_step import get_global_step
from thalweg.train.hooks.basic_hooks import require_global_step
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from thalweg.train.hooks.timer import SecondOrStepTimer


@export("train.SummarySaverHook", "estimator.SummarySaverHook")
class SummarySaverHook(SessionRunHook):
    """Writes summaries every N steps or seconds."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        """Takes the summaries, the event file and the interval.

        Args:
            save_steps: Steps between summaries.
            save_secs: Seconds between summaries; exactly one of both must be given.
            output_dir: The folder, if there is no `summary_writer`.
            summary_writer: A FileWriter.
            scaffold: A Scaffold whose summary op to run.
            summary_op: A summary op, or a list of them; exactly one of both must be given.
        """
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Opens the event file, and finds the global step."""
        self._global_step = require_global_step(self)
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._next_step: int | None = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetches the summaries if they are due."""
        self._request = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        requests = {"global_step": self._global_step}
        if self._request:
            summaries = self._summaries()
            if summaries is not None:
                requests["summary"] = summaries
        return SessionRunArgs(requests)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes the summaries."""
        from tensorboard.compat.proto.event_pb2 import SessionLog  # Start-up time: protobuf is slow to import.

        if self._summary_writer is None:
            return
        step = int(run_values.results["global_step"]) + 1
        if self._next_step is None or self._request:
            step = int(run_context.session.run(self._global_step))
        if self._next_step is None:
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)
        if self._request:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._summary_writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Any = None) -> None:
        """Flushes the event file."""
        if self._summary_writer is not None:
            self._summary_writer.flush()

    def _summaries(self) -> list[Any] | None:
        op = self._summary_op
        if op is None:
            op = self._scaffold.summary_op
        if op is None:
            return None
        return list(op) if isinstance(op, (list, tuple)) else [op]


@export("train.StepCounterHook", "estimator.StepCounterHook")
class StepCounterHook(SessionRunHook):
    """Logs and writes how many steps there are per second."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
    ) -> None:
        """Takes the interval and the event file.

        Args:
            every_n_steps: Steps between measurements.
            every_n_secs: Seconds between measurements; exactly one of both must be given.
            output_dir: The folder of the event file.
            summary_writer: A FileWriter, in place of `output_dir`.
        """
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._last_seen: int | None = None
        self._warnings_left = 5

    def begin(self) -> None:
        """Opens the event file, and finds the global step."""
        self._global_step = require_global_step(self)
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._tag = f"{get_global_step().op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetches the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Measures if it is time."""
        seen = int(run_values.results)
        if self._timer.should_trigger_for_step(seen + 1):
            step = int(run_context.session.run(self._global_step))
            if self._timer.should_trigger_for_step(step):
                elapsed_secs, elapsed_steps = self._timer.update_last_triggered_step(step)
                if elapsed_secs:
                    assert elapsed_steps is not None
                    self._log_and_record(elapsed_steps, elapsed_secs, step)
        if seen == self._last_seen and self._warnings_left > 0:
            self._warnings_left -= 1
            logging.warning(
                "It seems that global step (tf.train.get_global_step) has not been increased. Current value (could be "
                "stable): %s vs previous value: %s. You could increase the global step by passing "
                "tf.train.get_global_step() to Optimizer.apply_gradients or Optimizer.minimize.",
                seen,
                self._last_seen,
            )
        self._last_seen = seen

    def _log_and_record(self, elapsed_steps: int, elapsed_secs: float, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary  # Start-up time: protobuf is slow to import.

        steps_per_sec = elapsed_steps / elapsed_secs
        if self._summary_writer is not None:
            value = Summary.Value(tag=self._tag, simple_value=steps_per_sec)
            self._summary_writer.add_summary(Summary(value=[value]), step)
        logging.info("%s: %g", self._tag, steps_per_sec)
