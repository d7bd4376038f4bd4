"""Measurements: CPU time, memory and speed of the tasks, as the table shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from thalweg.dist.launch.display import Row
from thalweg.dist.launch.plan import Task
from thalweg.dist.launch.process_usage import Usage
from thalweg.dist.launch.supervision import TaskState

# Seconds between two measurements of a speed.
_INTERVAL: Final = 1.0


class Sample(NamedTuple):
    """What is known about a task's process at one moment."""

    pid: int | None = None
    usage: Usage | None = None
    steps: int | None = None
    place: str = ""


class _Point(NamedTuple):
    time: float
    pid: int | None
    cpu_seconds: float
    steps: int


class Measurements:
    """Turns samples into rows: differences over about a second become speeds."""

    def __init__(self) -> None:
        """Begins without samples."""
        self._points: dict[Task, _Point] = {}
        self._speeds: dict[Task, tuple[float | None, float | None]] = {}

    def rows(self, tasks: Mapping[Task, TaskState], samples: Mapping[Task, Sample]) -> list[Row]:
        """The rows of the table now."""
        now = time.monotonic()
        rows = []
        for task, state in tasks.items():
            sample = samples.get(task, Sample())
            cpu, speed = self._speed(task, sample, now)
            memory = sample.usage.memory if sample.usage is not None else None
            rows.append(
                Row(task, state.state.value, sample.pid, state.restarts, cpu, memory, sample.steps, speed, sample.place)
            )
        return rows

    def _speed(self, task: Task, sample: Sample, now: float) -> tuple[float | None, float | None]:
        """CPU time and steps per second."""
        if sample.usage is None:
            self._points.pop(task, None)
            self._speeds.pop(task, None)
            return None, None
        point = _Point(now, sample.pid, sample.usage.cpu_seconds, sample.steps or 0)
        last = self._points.get(task)
        if last is None or last.pid != point.pid:
            self._points[task] = point
            self._speeds.pop(task, None)
        elif now - last.time >= _INTERVAL:
            seconds = now - last.time
            steps = max(0, point.steps - last.steps) / seconds if sample.steps is not None else None
            self._speeds[task] = ((point.cpu_seconds - last.cpu_seconds) / seconds, steps)
            self._points[task] = point
        return self._speeds.get(task, (None, None))


def read_steps(path: str) -> int | None:
    """The number of steps in a status file (`TaskStatusHook`); None if there is none yet."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
