"""ProfilerHook: traces a step now and then, as a file for chrome://tracing and as run metadata for TensorBoard."""

from __future__ import annotations

import os
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.platform import gfile, logging
from thalweg.platform.file_object import GFile
from thalweg.profiler.timeline import Timeline
from thalweg.summary.file_writer import FileWriterCache
from thalweg.train.hooks.basic_hooks import require_global_step
from thalweg.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from thalweg.train.hooks.timer import SecondOrStepTimer


@export("train.ProfilerHook", "estimator.ProfilerHook")
class ProfilerHook(SessionRunHook):
    """Traces one step every N steps or seconds.

    Writes `timeline-<step>.json` into a folder, and the run metadata as 'step_<step>' into its event file.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        """Takes the interval and the folder.

        Args:
            save_steps: Steps between traces.
            save_secs: Seconds between traces; exactly one of both must be given.
            output_dir: The folder.
            show_dataflow: See `Timeline`.
            show_memory: Whether to add a row with the bytes of the operations' outputs.
        """
        self._output_dir = os.fspath(output_dir)
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = require_global_step(self)
        self._next_step: int | None = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for a trace if it is time."""
        from tensorboard.compat.proto.config_pb2 import RunOptions  # Start-up time: protobuf is slow to import.

        # Never the first step, which includes compilation.
        self._request = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = RunOptions(trace_level=RunOptions.FULL_TRACE) if self._request else None
        return SessionRunArgs({"global_step": self._global_step}, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes the trace."""
        step = int(run_values.results["global_step"]) + 1
        if self._next_step is None:
            self._timer.update_last_triggered_step(step - 1)
        if self._request:
            step = int(run_context.session.run(self._global_step))
            self._timer.update_last_triggered_step(step)
            self._write(step, run_values.run_metadata)
        self._next_step = step + 1

    def _write(self, step: int, metadata: Any) -> None:
        gfile.MakeDirs(self._output_dir)
        path = os.path.join(self._output_dir, f"timeline-{step}.json")
        logging.info("Saving timeline for %d into '%s'.", step, path)
        trace = Timeline(metadata.step_stats).generate_chrome_trace_format(self._show_dataflow, self._show_memory)
        with GFile(path, "w") as file:
            file.write(trace)
        FileWriterCache.get(self._output_dir).add_run_metadata(metadata, f"step_{step}", step)
