"""Targets of sessions: a place where the cluster runtime, a higher layer, says how to connect to them.

It is imported with the package: nothing heavy belongs here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from thalweg import errors

if TYPE_CHECKING:
    from thalweg.runtime.engine import Engine


class Connector(NamedTuple):
    """What connects to targets.

    Attributes:
        connect: From a target and a ConfigProto to an engine.
        reset: Forgets the state in containers of a target's cluster.
    """

    connect: Callable[[str, Any], Engine]
    reset: Callable[[str, list[str], Any], None]


_loaders: list[Callable[[], Connector]] = []


def set_connector(load: Callable[[], Connector]) -> None:
    """Sets the function that loads what connects to targets."""
    _loaders[:] = [load]


def connector(target: str) -> Connector:
    """What connects to a target.

    Raises:
        errors.NotFoundError: If there is nothing that does.
    """
    if not _loaders:
        raise errors.NotFoundError(None, None, f"No session factory is registered for the target {target!r}.")
    return _loaders[0]()


def target_text(target: Any) -> str:
    """A target as text.

    Raises:
        TypeError: If it is neither text nor bytes.
    """
    if isinstance(target, bytes):
        return target.decode()
    if not isinstance(target, str):
        raise TypeError(f"Argument `target` must be a string, but got {target!r}")
    return target
