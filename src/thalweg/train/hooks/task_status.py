"""TaskStatusHook: tells the launcher of this process how many steps it has run."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from thalweg.train.hooks.session_run_hook import SessionRunContext, SessionRunHook, SessionRunValues

# The environment variable by which a launcher names the file.
STATUS_FILE: Final = "THALWEG_TASK_STATUS"
_INTERVAL: Final = 0.5


class TaskStatusHook(SessionRunHook):
    """Writes the number of steps that this process has run into a file, at most twice a second.

    `tf.train.MonitoredTrainingSession` adds it in processes that `thalweg launch` has started.
    """

    def __init__(self, path: str) -> None:
        """Takes the path of the file."""
        self._path = path
        self._steps = 0
        self._next = 0.0

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Counts the step."""
        self._steps += 1
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _INTERVAL
            self._write()

    def end(self, session: Any) -> None:
        """Writes the last number."""
        self._write()

    def _write(self) -> None:
        try:
            with open(self._path, "w", encoding="utf-8") as file:
                file.write(str(self._steps))
        except OSError:
            pass  # The launcher is gone, and this process will be stopped.


def task_status_hooks() -> list[SessionRunHook]:
    """The hook, if a launcher has started this process."""
    path = os.environ.get(STATUS_FILE, "")
    return [TaskStatusHook(path)] if path else []
