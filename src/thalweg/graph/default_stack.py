"""Which graphs and sessions are the default of a thread: the open `with graph.as_default()` and `with session` blocks.

Below Graph and Session, which only put themselves here.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from thalweg.graph.definitions.op_registry import export

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


class _DefaultGraphs(threading.local):
    """The open `with graph.as_default()` blocks of a thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Graph] = []


default_graphs = _DefaultGraphs()


class default_graph_scope:
    """`with` block in which `graph` is the default of the current thread."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        """Takes the graph."""
        self._graph = graph

    def __enter__(self) -> Graph:
        default_graphs.stack.append(self._graph)
        return self._graph

    def __exit__(self, *exc_info: object) -> None:
        stack = default_graphs.stack
        if not stack or stack[-1] is not self._graph:
            raise AssertionError("Nesting violated for default stack of Graph objects: leave the innermost one first.")
        stack.pop()


class AnySession(Protocol):
    """What can be a default session: Session, and whatever else runs steps of one graph."""

    @property
    def graph(self) -> Graph:
        """The graph whose steps it runs."""
        ...

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs one step and returns the values of `fetches`."""
        ...


S = TypeVar("S", bound=AnySession)


class _DefaultSessions(threading.local):
    """The open `with session` blocks of a thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[AnySession] = []


default_sessions = _DefaultSessions()


@export("get_default_session")
def get_default_session() -> AnySession | None:
    """Returns the innermost session that a `with` block of this thread made the default, or None."""
    stack = default_sessions.stack
    return stack[-1] if stack else None


class default_session_scope(Generic[S]):
    """`with` block in which a session is the default of the current thread."""

    def __init__(self, session: S) -> None:
        """Takes the session."""
        self._session = session

    def __enter__(self) -> S:
        default_sessions.stack.append(self._session)
        return self._session

    def __exit__(self, *_: object) -> None:
        stack = default_sessions.stack
        if not stack or stack[-1] is not self._session:
            raise AssertionError(f"Nesting violated by default session {self._session!r}: leave the inner block first.")
        stack.pop()
