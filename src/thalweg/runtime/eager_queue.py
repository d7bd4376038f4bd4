"""Asynchronous mode: the ops of a thread run in their order on another thread, and their tensors get values later.

The thread lives while there is something to run. The first op that fails takes all that wait behind it with it: the
program would not have reached them. Its error is raised by the next op, and by whatever looks at a value that never
came, until `clear_error`.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thalweg import errors
from thalweg.graph import eager_tensor
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_tensor import EagerTensor

_MOST_WAITING = 10_000  # Ops; then the program waits for one of them.
_MOST_SECONDS_AT_EXIT = 10.0  # An op may wait for something that never comes.


class EagerQueue:
    """The ops that one thread has called and that have not run yet."""

    def __init__(self) -> None:
        """Starts empty, without a thread."""
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Callable[..., Any], Sequence[Any], list[Any]]] = deque()
        self._runs = False
        self._error: BaseException | None = None
        _all_queues.add(self)

    def put(self, run: Callable[..., Any], inputs: Sequence[Any], types: Sequence[DType]) -> Any:
        """Lets an op run later: its output, or a list if there is not exactly one, without values."""
        outputs = [eager_tensor.pending(dtype.as_datatype_enum) for dtype in types]
        for output in outputs:
            output.__dict__["queue"] = self
        with self._changed:
            while len(self._waiting) >= _MOST_WAITING:
                self._changed.wait()
            self._raise_error()
            self._waiting.append((run, tuple(inputs), outputs))
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="thalweg-eager", daemon=True).start()
        return outputs[0] if len(outputs) == 1 else outputs

    def _run(self) -> None:
        """The thread: runs what waits, and ends when nothing does."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._runs = False
                    self._changed.notify_all()
                    return
                run, inputs, outputs = self._waiting[0]
            error: BaseException | None = None
            try:
                made = run(inputs)
                for output, result in zip(outputs, made if type(made) is list else [made], strict=True):
                    output._native = result._native
            except BaseException as e:
                error = e
            del inputs
            with self._changed:
                if error is None:
                    self._waiting.popleft()
                    for output in outputs:
                        output.__dict__.pop("queue", None)
                else:
                    self._fail(error)
                self._changed.notify_all()
            del outputs, run

    def _fail(self, error: BaseException) -> None:
        self._error = error
        for _, _, outputs in self._waiting:
            for output in outputs:
                output.__dict__["failure"] = error
                output.__dict__.pop("queue", None)
        self._waiting.clear()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def wait_for(self, tensor: EagerTensor) -> None:
        """Returns when an op of this queue that returned the tensor has run, or failed."""
        with self._changed:
            while "queue" in tensor.__dict__:
                self._changed.wait()

    def wait(self) -> None:
        """Returns when all ops have run.

        Raises:
            errors.OpError: If one of them has failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._runs))
            self._raise_error()

    def clear_error(self, timeout: float | None = None) -> None:
        """Waits, at most so many seconds, and forgets that an op has failed."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._runs), timeout)
            self._error = None

    def forked(self) -> None:
        """In a new process, which does not have the thread: what waited there never comes."""
        self._changed = threading.Condition()
        self._runs = False
        if self._waiting:
            self._fail(errors.AbortedError(None, None, "The process was forked while ops were waiting to run."))


class _Open(threading.local):
    """The queue of a thread that is in asynchronous mode; None in the others."""

    queue: EagerQueue | None = None


open_queue = _Open()
_all_queues: weakref.WeakSet[EagerQueue] = weakref.WeakSet()


def set_asynchronous(asynchronous: bool) -> None:
    """Changes the mode of this thread; waits for what it has called when it goes back.

    Raises:
        errors.OpError: If one of these ops has failed.
    """
    queue = open_queue.queue
    if asynchronous == (queue is not None):
        return
    open_queue.queue = EagerQueue() if asynchronous else None
    if queue is not None:
        queue.wait()


@contextmanager
def synchronously() -> Iterator[None]:
    """A block whose ops have run when their calls return, after those that were called before."""
    queue, open_queue.queue = open_queue.queue, None
    try:
        if queue is not None:
            queue.wait()
        yield
    finally:
        open_queue.queue = queue


def _value_waited_for(tensor: EagerTensor) -> Any:
    """The core's value of a tensor that did not have it when it was looked for."""
    queue = tensor.__dict__.get("queue")
    if queue is not None:
        queue.wait_for(tensor)
    remote = tensor.__dict__.get("remote")
    if remote is not None:
        tensor._native = remote.fetch(tensor.dtype)  # Looked at: from now on the value is here, too.
    failure = tensor.__dict__.get("failure")
    if failure is not None:
        raise failure
    return object.__getattribute__(tensor, "_native")


eager_tensor.set_waiting(_value_waited_for)


@atexit.register
def _wait_for_all() -> None:
    for queue in list(_all_queues):
        queue.clear_error(_MOST_SECONDS_AT_EXIT)


def _after_fork() -> None:
    for queue in list(_all_queues):
        queue.forked()


os.register_at_fork(after_in_child=_after_fork)
