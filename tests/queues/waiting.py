"""Steps that wait: run on threads of their own, and told apart from steps that have finished."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core


class InThread:
    """A call on a thread of its own; `result` waits for it, and raises what it raised."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._waits_before = core.waits()

        def body() -> None:
            try:
                self._value = function(*args)
            except BaseException as e:
                self._error = e

        self._thread = threading.Thread(target=body, daemon=True)
        self._thread.start()

    def is_waiting(self, seconds: float = 0.02) -> bool:
        """Whether it still waits after some time, which counts from when it is in line."""
        while self._thread.is_alive() and core.waits() == self._waits_before:
            self._thread.join(0.001)
        self._thread.join(seconds)
        return self._thread.is_alive()

    def is_alive(self, seconds: float) -> bool:
        """Whether it has not ended after some time."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the call did not end"
        if self._error is not None:
            raise self._error
        return self._value


def after_waits(count: int, function: Callable[..., Any], *args: Any) -> InThread:
    """A call on a thread of its own that is made when so many more operations are in line."""
    awaited = core.waits() + count

    def body() -> Any:
        while core.waits() < awaited:
            time.sleep(0.001)
        return function(*args)

    return InThread(body)


class Begun:
    """A tensor `zero` whose kernel signals that a step has begun."""

    def __init__(self) -> None:
        self._steps = threading.Semaphore(0)
        self.zero = tf.py_func(self._signal, [], tf.int32)
        self.zero.set_shape([])

    def _signal(self) -> Any:
        self._steps.release()
        return np.int32(0)

    def wait(self, steps: int = 1) -> None:
        for _ in range(steps):
            assert self._steps.acquire(timeout=60), "the step did not begin"


def assert_waits(session: Any, fetches: Any, feed_dict: Any = None) -> None:
    """The step cannot go on by itself; it is ended by a timeout."""
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(fetches, feed_dict, options=tf.RunOptions(timeout_in_ms=20))
