"""WorkerState: what a task keeps for the masters that use it: sessions, and the numbers of registered parts.

A pure state machine: events in, instructions out, no I/O. `validate` asserts every invariant. The task server
(`task_server.py`) carries the instructions out. Everything here goes when its master goes; variables, queues and other
resources belong to the task's devices and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from thalweg import errors


class OpenSession(NamedTuple):
    """Instruction: make a session on the task's devices."""

    session: str


class DropParts(NamedTuple):
    """Instruction: forget registered parts."""

    numbers: tuple[int, ...]


class DropSession(NamedTuple):
    """Instruction: end the steps of a session, and forget it."""

    session: str


Instruction = OpenSession | DropParts | DropSession


@dataclass
class _Session:
    """A session of a master: the connection that the master uses, and the parts that it has registered."""

    connection: int
    numbers: set[int] = field(default_factory=set)


_REMEMBERED_CONNECTIONS = 10000


class WorkerState:
    """The sessions of one task."""

    def __init__(self) -> None:
        """Begins with none."""
        self._sessions: dict[str, _Session] = {}
        self._lost: dict[int, None] = {}  # the latest ones, in order: a call may be handled after the loss

    def register(self, session: str, connection: int) -> list[Instruction]:
        """Event: a master asks to register parts; the session is made if it is new.

        Raises:
            errors.AbortedError: If the connection is lost meanwhile.
            errors.PermissionDeniedError: If the session is that of another connection.
        """
        if connection in self._lost:
            raise errors.AbortedError(None, None, "The master is gone.")
        if self._find(session, connection) is None:
            self._sessions[session] = _Session(connection)
            return [OpenSession(session)]
        return []

    def _find(self, session: str, connection: int) -> _Session | None:
        known = self._sessions.get(session)
        if known is not None and known.connection != connection:
            raise errors.PermissionDeniedError(None, None, "The session belongs to another master.")
        return known

    def registered(self, session: str, number: int) -> list[Instruction]:
        """Event: parts were registered under a number."""
        known = self._sessions.get(session)
        if known is None:  # Closed, or its master lost, while the parts were compiled.
            return [DropParts((number,))]
        known.numbers.add(number)
        return []

    def deregister(self, session: str, connection: int, numbers: Sequence[int]) -> list[Instruction]:
        """Event: a master does not need some parts any more. Numbers of others are ignored.

        Raises:
            errors.PermissionDeniedError: If the session is that of another connection.
        """
        known = self._find(session, connection)
        found = tuple(number for number in numbers if known is not None and number in known.numbers)
        if known is not None:
            known.numbers.difference_update(found)
        return [DropParts(found)] if found else []

    def close(self, session: str, connection: int) -> list[Instruction]:
        """Event: a master has closed a session.

        Raises:
            errors.PermissionDeniedError: If the session is that of another connection.
        """
        known = self._find(session, connection)
        if known is None:
            return []
        del self._sessions[session]
        parts = [DropParts(tuple(sorted(known.numbers)))] if known.numbers else []
        return [*parts, DropSession(session)]

    def lost(self, connection: int) -> list[Instruction]:
        """Event: a connection is lost: the sessions of its master end."""
        self._lost[connection] = None
        if len(self._lost) > _REMEMBERED_CONNECTIONS:
            del self._lost[next(iter(self._lost))]
        gone = [name for name, session in self._sessions.items() if session.connection == connection]
        return [instruction for name in gone for instruction in self.close(name, connection)]

    def validate(self) -> None:
        """Asserts the invariants."""
        numbers = [number for session in self._sessions.values() for number in session.numbers]
        assert len(numbers) == len(set(numbers)), "two sessions have the same part"
        assert all(session.connection not in self._lost for session in self._sessions.values())
