"""Coordinator: lets a set of threads stop together, and carries the first exception of any of them to the caller."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


@export("train.Coordinator")
class Coordinator:
    """Coordinates the end of several threads.

    A thread calls `should_stop()` regularly, and `request_stop()` to stop all threads, with an exception if one is the
    reason. `join()` waits for them and raises the first exception that was given. An exception that only says that the
    input has ended (OutOfRangeError) is a clean stop.

    Example:
        >>> coord = tf.train.Coordinator()
        >>> with coord.stop_on_exception():
        ...     raise tf.errors.OutOfRangeError(None, None, "end of the input")
        >>> coord.should_stop()
        True
    """

    def __init__(self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None) -> None:
        """Takes the exceptions that mean a clean stop; `(OutOfRangeError,)` if None."""
        types = (errors.OutOfRangeError,) if clean_stop_exception_types is None else clean_stop_exception_types
        self._clean_types: tuple[type[BaseException], ...] = tuple(types)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._exception: ExcInfo | None = None
        self._joined = False
        self._threads: set[threading.Thread] = set()

    @property
    def joined(self) -> bool:
        """Whether `join` has returned since the last `clear_stop`."""
        return self._joined

    def _is_clean(self, exception: BaseException) -> bool:
        return isinstance(exception, self._clean_types)

    def request_stop(self, ex: Any = None) -> None:
        """Asks the threads to stop.

        Args:
            ex: The reason: an exception, or a tuple as `sys.exc_info()` gives it. The first one is kept for `join`.
                After `join` it is raised at once.
        """
        info = _exc_info(ex)
        if info is not None and self._is_clean(info[1]):
            info = None
        with self._lock:
            if self._joined:
                if info is not None:
                    raise info[1].with_traceback(info[2])
                return
            if self._stop.is_set():
                return
            if info is not None:
                logging.info("Error reported to Coordinator: %s, %s", info[0], info[1])
                self._exception = info
            self._stop.set()

    def clear_stop(self) -> None:
        """Makes `should_stop` false again, for another round."""
        with self._lock:
            self._joined = False
            self._exception = None
            self._stop.clear()

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """A context that requests a stop when an exception leaves it; the exception goes no further."""
        try:
            yield
        except Exception:
            self.request_stop(ex=sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits until a stop is requested, or for `timeout` seconds; returns whether one was."""
        return self._stop.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Adds a thread for `join` to wait for."""
        with self._lock:
            self._threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Waits for threads to end.

        Args:
            threads: Threads in addition to the registered ones.
            stop_grace_period_secs: How long threads may go on after a stop was requested.
            ignore_live_threads: Whether threads that go on even then are no error.

        Raises:
            RuntimeError: If a thread is still alive after the grace period.
            Exception: The exception that was given to `request_stop`.
        """
        with self._lock:
            waited_for = list(self._threads.union(threads or ()))
        # In short waits, so that a stop that is requested meanwhile starts the grace period.
        while any(thread.is_alive() for thread in waited_for) and not self.wait_for_stop(0):
            for thread in waited_for:
                if thread.is_alive() and not self.should_stop():
                    thread.join(0.1)
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waited_for:
            while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
                thread.join(min(left, 1.0))
        stragglers = [thread.name for thread in waited_for if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._threads = set()
            exception = self._exception
        if exception is not None:
            raise exception[1].with_traceback(exception[2])
        if stragglers:
            names = " ".join(stragglers)
            if not ignore_live_threads:
                raise RuntimeError(f"Coordinator stopped with threads still running: {names}")
            logging.info("Coordinator stopped with threads still running: %s", names)

    def raise_requested_exception(self) -> None:
        """Raises the exception that was given to `request_stop`, if there is one."""
        with self._lock:
            exception = self._exception
        if exception is not None:
            raise exception[1].with_traceback(exception[2])


def _exc_info(ex: Any) -> ExcInfo | None:
    """An exception or exc_info tuple as a tuple; None for None."""
    if ex is None:
        return None
    if isinstance(ex, tuple):
        if len(ex) != 3 or not isinstance(ex[1], BaseException):
            raise TypeError(f"ex must be an exception or a tuple as sys.exc_info() gives it, got {ex!r}.")
        return ex
    if not isinstance(ex, BaseException):
        raise TypeError(f"ex must be an exception or a tuple as sys.exc_info() gives it, got {ex!r}.")
    return type(ex), ex, ex.__traceback__


@export("train.LooperThread")
class LooperThread(threading.Thread):
    """A thread that calls a function again and again until its coordinator is asked to stop.

    An exception of the function stops the coordinator.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> None:
        """Registers the thread with the coordinator; `start()` begins.

        Args:
            coord: The coordinator.
            timer_interval_secs: Seconds between calls, counted from begin to begin; None for without a pause.
            target: The function; a subclass may override `run_loop` instead.
            args: Its arguments.
            kwargs: Its keyword arguments.
        """
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        super().__init__(daemon=True)
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._function = target
        self._arguments = tuple(args or ())
        self._keyword_arguments = dict(kwargs or {})
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
    ) -> LooperThread:
        """Makes and starts a LooperThread."""
        looper = LooperThread(coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """Loops until the coordinator stops."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                next_time = time.time()
                while not self._coord.wait_for_stop(max(0.0, next_time - time.time())):
                    next_time += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called once, before the first round."""

    def stop_loop(self) -> None:
        """Called once, after the last round."""

    def run_loop(self) -> None:
        """One round: calls the function."""
        if self._function is not None:
            self._function(*self._arguments, **self._keyword_arguments)
