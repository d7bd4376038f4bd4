"""Connections to the tasks of a cluster, made when they are first needed."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from thalweg import errors
from thalweg.dist.directory import Directory
from thalweg.dist.hosts import host_identity
from thalweg.dist.messages import METHODS, parsed, request_of
from thalweg.dist.names import short_task
from thalweg.platform import logging

_LOG_SECONDS = 10.0
_ATTEMPT_MS = 5000


class Peers:
    """The connections of one process to tasks of its cluster. Thread-safe."""

    def __init__(self, network: Any, directory: Directory, tcp: bool = False) -> None:
        """Takes the core's NetworkTask; `tcp` avoids Unix sockets and shared memory on this host, too."""
        self._network = network
        self._directory = directory
        self._tcp = tcp
        # Tasks with the same text share memory with this one; without any, its own devices still do.
        self.host = ("" if tcp else host_identity()) or secrets.token_hex(16)
        self._lock = threading.Lock()
        self._latest: dict[str, Any] = {}
        self._connecting: dict[str, threading.Lock] = {}

    def address(self, task: str) -> str:
        """The present address of a task."""
        return self._directory.address(task)

    def forget(self) -> None:
        """Drops all connections: the task is closed."""
        with self._lock:
            self._latest.clear()

    def try_connect(
        self, task: str, incarnation: int | None = None, address: str = "", attempt_ms: int = _ATTEMPT_MS
    ) -> Any:
        """A connection to a task, or to one incarnation of it.

        Args:
            task: The full name of the task.
            incarnation: The incarnation, if only one will do.
            address: Where it is, if not where the directory says.
            attempt_ms: How long it may take to answer.

        Raises:
            errors.UnavailableError: If the task cannot be reached.
            errors.AbortedError: If another incarnation of it answers.
        """
        with self._lock:
            gate = self._connecting.setdefault(task, threading.Lock())
        with gate:
            if incarnation is not None:
                known = self._network.find(task, incarnation)
            else:
                known = self._latest.get(task)
                known = known if known is not None and not known.is_lost else None
            if known is None:
                where = address or self._directory.address(task)
                known = self._network.connect(where, attempt_ms, self._tcp)
                if known.task != task:
                    known.close("another task was expected at this address")
                    raise errors.UnavailableError(
                        None,
                        None,
                        f"{where} should be {short_task(task)}, and is {short_task(known.task) or 'a client'}.",
                    )
                self._latest[task] = known
            if incarnation is not None and known.incarnation != incarnation:
                raise errors.AbortedError(None, None, f"{short_task(task)} has been restarted.")
            return known

    def wait_for(self, tasks: Collection[str], should_stop: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """Connections to all of some tasks; waits for those that are not there yet, and says so in the log.

        Raises:
            errors.UnauthenticatedError: If a task does not accept the cluster's key, or does not know it.
            errors.FailedPreconditionError: If a task belongs to another cluster.
            errors.CancelledError: If `should_stop` says so.
        """
        found: dict[str, Any] = {}
        said = time.monotonic()
        pause = 0.005
        # Short at first: a task that was cut off is found by a new attempt sooner than by one that is under way.
        attempt_ms = 1000.0
        while True:
            for task in tasks:
                if task not in found:
                    try:
                        found[task] = self.try_connect(task, attempt_ms=int(attempt_ms))
                    except (errors.UnavailableError, errors.DeadlineExceededError):
                        pass
            missing = [task for task in tasks if task not in found]
            if not missing:
                return found
            if should_stop():
                raise errors.CancelledError(None, None, f"Stopped waiting for {', '.join(map(short_task, missing))}.")
            if time.monotonic() - said > _LOG_SECONDS:
                said = time.monotonic()
                for task in missing:
                    logging.info("CreateSession still waiting for response from worker: %s", task)
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 1.5, 0.25)
            attempt_ms = min(attempt_ms * 1.2, _ATTEMPT_MS)

    def measure_clock(self, connection: Any) -> None:
        """Finds how far the clock of a task on another host is off, so that traces show one time."""
        if connection.shares_memory:
            return  # One host, one clock.
        best = None
        for _ in range(5):
            before = time.time_ns()
            there = self.call(connection, "clock").nanoseconds
            after = time.time_ns()
            if best is None or after - before < best:
                best = after - before
                connection.clock_offset = (before + after) // 2 - there

    def call(self, connection: Any, method: str, timeout_ms: int = 0, **fields: Any) -> Any:
        """Calls a method of a peer: the answer. Errors of the peer are raised here."""
        return parsed(
            METHODS[method][1], self._network.call(connection, method, request_of(method, **fields), timeout_ms)
        )
