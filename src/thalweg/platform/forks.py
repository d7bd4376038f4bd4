"""Locks in forked processes: a child that needs a lock which another thread of its parent held gets an error.

The thread that would release the lock does not exist in the child, which would wait for ever. The core does the same
for its own locks (`core/thread/forks.h`).
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Final, NoReturn

from thalweg import errors

_owners: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


class _LostLock:
    """In place of a lock whose holder is in another process."""

    def acquire(self, *_: object, **__: object) -> NoReturn:
        raise errors.FailedPreconditionError(
            None, None,
            "this process was forked while another thread of its parent was building a graph or compiling a step: it "
            "cannot use that graph or session. Fork before the first step or between steps, or start processes that do "
            "not share the parent's memory: multiprocessing.set_start_method('spawn') or 'forkserver'",
        )  # fmt: skip

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        """Never reached."""


def watch_lock(owner: Any) -> None:
    """Looks after the attribute `_lock` of an object in every process that is forked from now on."""
    _owners.add(owner)


def _replace_lost_locks() -> None:
    for owner in list(_owners):
        if owner._lock.acquire(blocking=False):
            owner._lock.release()
        else:
            owner._lock = _LostLock()


os.register_at_fork(after_in_child=_replace_lost_locks)
