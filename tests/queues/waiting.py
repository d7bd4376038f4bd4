"""Steps that wait: run on threads of their own, and told apart from steps that have finished."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tf


class InThread:
    """A call on a thread of its own; `result` waits for it, and raises what it raised."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._value: Any = None
        self._error: BaseException | None = None

        def body() -> None:
            try:
                self._value = function(*args)
            except BaseException as e:
                self._error = e

        self._thread = threading.Thread(target=body, daemon=True)
        self._thread.start()

    def is_waiting(self, seconds: float = 0.05) -> bool:
        self._thread.join(seconds)
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the call did not end"
        if self._error is not None:
            raise self._error
        return self._value


def assert_waits(session: Any, fetches: Any, feed_dict: Any = None) -> None:
    """The step cannot go on by itself; it is ended by a timeout."""
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(fetches, feed_dict, options=tf.RunOptions(timeout_in_ms=20))
