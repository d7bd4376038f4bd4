"""Supervision: which processes of a launch to start, restart and stop, and with which exit code all of it ends.

A pure state machine: events in, instructions out, no I/O, time as an argument (seconds of any clock). `validate`
asserts every invariant. A launcher carries the instructions out (`local_launcher.py`, `ray_launcher.py`).
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from thalweg.dist.launch.plan import SERVING_JOB, Task

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 30.0


class State(Enum):
    """What a task does."""

    RUNNING = "running"
    PAUSING = "restarting"  # crashed; started again after a pause
    STOPPING = "stopping"
    ENDED = "ended"  # by itself, with exit code 0
    FAILED = "failed"  # by itself, with another exit code, and not started again
    STOPPED = "stopped"  # by the launcher


_OVER: Final = (State.ENDED, State.FAILED, State.STOPPED)


class Start(NamedTuple):
    """Instruction: start a task's process."""

    task: Task


class Signal(NamedTuple):
    """Instruction: send a signal to a task's processes."""

    task: Task
    signal: signal.Signals


class Note(NamedTuple):
    """Instruction: tell the user."""

    text: str


Instruction = Start | Signal | Note


@dataclass
class TaskState:
    """The state of one task. `due` is when to start it again (PAUSING), or to kill it (STOPPING)."""

    state: State = State.RUNNING
    restarts: int = 0
    exit_code: int | None = None
    due: float = 0.0


class Supervision:
    """The states of all tasks of a launch."""

    def __init__(self, tasks: Sequence[Task], restarts: int, grace: float = 5.0) -> None:
        """Takes the tasks.

        Args:
            tasks: All tasks; those of job "ps" are stopped when the others have ended.
            restarts: How often each task is started again after a crash.
            grace: The seconds between the request to stop and SIGKILL.
        """
        self._restarts = restarts
        self._grace = grace
        self._code: int | None = None  # decided, though not all processes have ended yet
        self._killing = False
        self.tasks = {task: TaskState() for task in tasks}

    @property
    def exit_code(self) -> int | None:
        """The exit code of the launch; None while a process is running or will be started."""
        if not all(each.state in _OVER for each in self.tasks.values()):
            return None
        return self._code or 0

    def next_due(self) -> float | None:
        """When `tick` has something to do."""
        due = [each.due for each in self.tasks.values() if each.state in (State.PAUSING, State.STOPPING)]
        return min(due, default=None)

    def begin(self) -> list[Instruction]:
        """Event: the launch begins."""
        return [Start(task) for task in self.tasks]

    def exited(self, task: Task, code: int, now: float, why: str = "") -> list[Instruction]:
        """Event: a process has ended.

        Args:
            task: Its task.
            code: Its exit code; a negative one is the number of the signal that ended it.
            now: The time.
            why: What happened, if the exit code does not tell.
        """
        found = self.tasks[task]
        found.exit_code = code
        if found.state is State.STOPPING:
            found.state = State.STOPPED
            return []
        assert found.state is State.RUNNING, found
        if code == 0:
            found.state = State.ENDED
            return self._stop_if_done(now)
        what = why or describe(code)
        if found.restarts >= self._restarts:
            found.state = State.FAILED
            self._code = self._code or shell_code(code)
            tried = f" after {found.restarts} restarts" if found.restarts else ""
            return [Note(f"{task} {what}{tried}: ending the launch."), *self._stop_all(now)]
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (2 * found.restarts))
        found.restarts += 1
        found.state, found.due = State.PAUSING, now + pause
        return [Note(f"{task} {what}: restart {found.restarts} of {self._restarts} in {pause:g} s.")]

    def interrupt(self, code: int, now: float) -> list[Instruction]:
        """Event: the user wants an end; a second time, at once."""
        self._killing = self._code is not None
        self._code = self._code or code
        return self._stop_all(now)

    def tick(self, now: float) -> list[Instruction]:
        """Event: time has passed."""
        instructions: list[Instruction] = []
        for task, found in self.tasks.items():
            if found.due > now:
                continue
            if found.state is State.PAUSING:
                found.state = State.RUNNING
                instructions.append(Start(task))
            elif found.state is State.STOPPING:
                found.due = now + self._grace  # Again, if even that was in vain.
                instructions.append(Signal(task, signal.SIGKILL))
        return instructions

    def _stop_if_done(self, now: float) -> list[Instruction]:
        training = [found for task, found in self.tasks.items() if task.job != SERVING_JOB]
        if training and all(found.state is State.ENDED for found in training):
            return self._stop_all(now)
        return []

    def _stop_all(self, now: float) -> list[Instruction]:
        instructions: list[Instruction] = []
        for task, found in self.tasks.items():
            if found.state is State.PAUSING:
                found.state = State.STOPPED
            elif found.state is State.RUNNING or (found.state is State.STOPPING and self._killing):
                found.state, found.due = State.STOPPING, now + self._grace
                instructions.append(Signal(task, signal.SIGKILL if self._killing else signal.SIGTERM))
        return instructions

    def validate(self) -> None:
        """Asserts the invariants."""
        for task, found in self.tasks.items():
            assert found.restarts <= self._restarts, f"{task} was started too often"
            assert found.state is not State.FAILED or self._code, "a failure without an exit code"
            assert found.state is not State.ENDED or found.exit_code == 0
        if self._code is not None:
            going_on = [
                str(task) for task, found in self.tasks.items() if found.state in (State.RUNNING, State.PAUSING)
            ]
            assert not going_on, f"{', '.join(going_on)} must be stopped"


def shell_code(code: int) -> int:
    """An exit code as shells give it: 128 and the number of the signal for a process that a signal has ended."""
    return 128 - code if code < 0 else code


def describe(code: int) -> str:
    """How a process has ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
