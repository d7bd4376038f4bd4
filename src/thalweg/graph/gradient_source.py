"""Which call of gradients() is under way in this thread: TensorArrays keep their gradients apart by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Current(threading.local):
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []


_current = _Current()


@contextmanager
def gradient_computation(name: str, context: Any = None) -> Iterator[None]:
    """A block that builds one gradient computation, with a name that is unique in the graph, in a context."""
    loop = None if context is None else context.enclosing_while()
    _current.calls.append((name, loop))
    try:
        yield
    finally:
        _current.calls.pop()


def current_computation() -> str | None:
    """The name of the innermost gradient computation under construction, if there is one."""
    return _current.calls[-1][0] if _current.calls else None


def is_repeated(op: Any) -> bool:
    """Whether gradients() was called inside of a loop that does not contain `op`: its gradient then runs many times."""
    loop = _current.calls[-1][1] if _current.calls else None
    return loop is not None and not loop.contains(op)
