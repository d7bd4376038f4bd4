"""Values of a checkpoint for variables that are made after it was restored, where ops run at once.

Where a variable belongs is known when it is an attribute of an object, which is later than when it is made. So each new
variable is given another class first, in which the first use of its handle looks for its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from thalweg.graph.func_graph import init_scope
from thalweg.state.creators import made_eagerly
from thalweg.state.variable import Variable

_MOST_STATUSES = 4  # They keep the objects alive for which values may be left.
_MOST_LOOKS = 3  # A variable may be used before it is an attribute: by its own initializer or regularizer.


class Status(Protocol):
    """What is left of a checkpoint for the objects below a root."""

    @property
    def root(self) -> Any:
        """The root."""

    def restore_late(self, is_awaited: Callable[[Any], bool]) -> None:
        """Gives the variables their values that are awaited, and that the checkpoint has."""


_statuses: list[Status] = []


def restore_later(status: Status) -> None:
    """From now on, variables that come to be reachable from the root of a status get their values from it."""
    end_restoring(status.root)
    _statuses.append(status)
    del _statuses[:-_MOST_STATUSES]
    if _await not in made_eagerly:
        made_eagerly.append(_await)


def end_restoring(root: Any) -> None:
    """Forgets what is left of an earlier checkpoint for the same objects."""
    _statuses[:] = [status for status in _statuses if status.root is not root]
    if not _statuses and _await in made_eagerly:
        made_eagerly.remove(_await)


class _AwaitedVariable(Variable):
    """A variable that may have a value in a checkpoint."""

    _looks_left: int

    @property
    def _handle(self) -> Any:
        self._looks_left -= 1
        if self._looks_left == 0:
            self.__class__ = Variable  # type: ignore[assignment]

        def is_awaited(value: Any) -> bool:
            if value is not self and type(value) is not _AwaitedVariable:
                return False
            # Before its value is assigned, which uses the handle.
            value.__class__ = Variable  # type: ignore[assignment]
            return True

        with init_scope():
            for status in list(reversed(_statuses)):
                status.restore_late(is_awaited)
        return self.__dict__["_handle"]

    @_handle.setter
    def _handle(self, handle: Any) -> None:
        self.__dict__["_handle"] = handle


def _await(made: Any) -> None:
    variable: Any = made
    if type(made) is Variable:
        variable._looks_left = _MOST_LOOKS
        variable.__class__ = _AwaitedVariable
