"""MasterState: what a master knows of one session: its tasks, their incarnations, its steps and who has which parts.

A pure state machine: events in, instructions out, no I/O. `validate` asserts every invariant. The engine
(`master_engine.py`) carries the instructions out and reports what came of them.

A step is *registering* until every task that takes part has given its parts a number, then *ready*. It becomes *broken*
when a task refuses, or is lost: an incarnation of a task holds state and registered parts, and both are gone with it.
A session that needs a lost task is of no use any more, and says so; steps that do not need the task go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from thalweg import errors


class Register(NamedTuple):
    """Instruction: register the parts of a step with a task."""

    task: str
    step: int


class Deregister(NamedTuple):
    """Instruction: drop parts that a task has registered."""

    task: str
    numbers: tuple[int, ...]


class CloseWorkerSession(NamedTuple):
    """Instruction: drop all that a task keeps for the session, apart from its variables and other resources."""

    task: str


Instruction = Register | Deregister | CloseWorkerSession


@dataclass
class _Step:
    """A step: its tasks with the incarnations that it was planned for, and the numbers that they have given."""

    tasks: dict[str, int]
    numbers: dict[str, int] = field(default_factory=dict)
    broken: errors.OpError | None = None


class MasterState:
    """The state of one session of a master."""

    def __init__(self, own_task: str) -> None:
        """Begins with no other task."""
        self._own = own_task
        self._incarnations: dict[str, int] = {}  # of the tasks that are connected
        self._lost: dict[str, str] = {}  # why tasks that were connected are not any more
        self._steps: dict[int, _Step] = {}
        self._used: set[str] = set()  # tasks that were asked to register parts: they have made a session
        self._last_step = 0
        self._closed = False

    # Tasks.

    def found(self, task: str, incarnation: int) -> None:
        """Event: a task has been connected to, for the first time in this session."""
        self.check_task(task)
        self._incarnations[task] = incarnation

    def lost(self, task: str, incarnation: int, why: str) -> None:
        """Event: the connection to an incarnation of a task is lost."""
        if self._incarnations.get(task) != incarnation:
            return
        del self._incarnations[task]
        self._lost[task] = why
        for step in self._steps.values():
            if step.tasks.get(task) == incarnation and step.broken is None:
                step.broken = self._unavailable(task)

    def check_task(self, task: str) -> None:
        """Raises UnavailableError if the session has lost a task."""
        if task in self._lost:
            raise self._unavailable(task)

    def incarnation(self, task: str) -> int | None:
        """The incarnation of a task that is connected, else None."""
        return self._incarnations.get(task)

    def _unavailable(self, task: str) -> errors.OpError:
        return errors.UnavailableError(
            None, None, f"{self._lost[task]} This session cannot use it any more: create a new one."
        )

    # Steps.

    def begin_step(self, tasks: Collection[str]) -> tuple[int, list[Instruction]]:
        """Event: a step over some tasks was planned. Its number, and what to do.

        Raises:
            errors.UnavailableError: If one of the tasks is not connected.
            errors.CancelledError: If the session is closed.
        """
        if self._closed:
            raise errors.CancelledError(None, None, "The session has been closed.")
        others = [task for task in tasks if task != self._own]
        for task in others:
            self.check_task(task)
            if task not in self._incarnations:
                raise errors.UnavailableError(None, None, f"Task {task} is not connected.")
        self._used.update(others)
        self._last_step += 1
        self._steps[self._last_step] = _Step({task: self._incarnations[task] for task in others})
        return self._last_step, [Register(task, self._last_step) for task in others]

    def registered(self, step: int, task: str, number: int) -> list[Instruction]:
        """Event: a task has registered its parts of a step under a number."""
        if self._closed:
            return self._close_at(task)
        known = self._steps.get(step)
        if known is not None and known.broken is None:
            known.numbers[task] = number
            return []
        return [Deregister(task, (number,))] if task in self._incarnations else []

    def refused(self, step: int, task: str, error: errors.OpError) -> list[Instruction]:
        """Event: a task, maybe the master's own, cannot take its parts of a step."""
        if self._closed:
            return self._close_at(task)
        known = self._steps.get(step)
        if known is None:
            return []
        known.broken = known.broken or error
        return self.drop_step(step)

    def _close_at(self, task: str) -> list[Instruction]:
        # The task may have handled the call after that which closed the session, and made the session once more.
        return [CloseWorkerSession(task)] if task in self._incarnations else []

    def numbers(self, step: int) -> Mapping[str, int]:
        """The numbers of a step's parts, by task.

        Raises:
            errors.OpError: If the step is broken.
        """
        known = self._steps.get(step)
        if known is None:
            raise errors.CancelledError(None, None, "The step was dropped.")
        if known.broken is not None:
            raise known.broken
        return known.numbers

    def drop_step(self, step: int) -> list[Instruction]:
        """Event: a step is not needed any more."""
        known = self._steps.pop(step, None)
        return list(self._deregister([known] if known is not None else []))

    def _deregister(self, steps: Iterable[_Step]) -> Iterable[Instruction]:
        numbers: dict[str, list[int]] = {}
        for step in steps:
            for task, number in step.numbers.items():
                if self._incarnations.get(task) == step.tasks[task]:
                    numbers.setdefault(task, []).append(number)
        return [Deregister(task, tuple(found)) for task, found in numbers.items()]

    def close(self) -> list[Instruction]:
        """Event: the session is closed."""
        if self._closed:
            return []
        self._closed = True
        self._steps.clear()
        return [CloseWorkerSession(task) for task in sorted(self._used & set(self._incarnations))]

    def validate(self) -> None:
        """Asserts the invariants."""
        assert not set(self._incarnations) & set(self._lost), "a task is connected and lost"
        assert self._own not in self._incarnations, "the master's own task is not a peer"
        for number, step in self._steps.items():
            assert 0 < number <= self._last_step
            assert set(step.numbers) <= set(step.tasks), "a task has registered what it was not asked for"
            if step.broken is None:
                for task, incarnation in step.tasks.items():
                    assert self._incarnations.get(task) == incarnation, "a sound step has lost a task"
        assert not (self._closed and self._steps), "a closed session has steps"
        assert self._used <= set(self._incarnations) | set(self._lost), "a task was used that was never connected"
