"""Forked processes: those of an idle parent run steps, those of a parent in a step get an error and do not hang."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def _exit_code_of_child(body: Callable[[], int]) -> int:
    """Forks; the child ends with what `body` returns. -14: it was still running after some seconds."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            code = body()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_of_an_idle_parent_runs_all_kinds_of_steps() -> None:
    x = tf.placeholder(tf.float32, [None, None])
    total = tf.reduce_sum(tf.matmul(x, x))
    numbers = tf.data.Dataset.range(100).map(lambda i: i * 2, num_parallel_calls=2).prefetch(2)
    element = tf.data.make_one_shot_iterator(numbers).get_next()
    late = tf.FIFOQueue(1, tf.int32, shapes=[()]).dequeue()
    ones = np.ones([300, 300], np.float32)

    def work(session: tf.Session) -> int:
        assert session.run(total, {x: ones}) == 300.0**3
        session.run(element)
        try:
            session.run(late, options=tf.RunOptions(timeout_in_ms=50))
        except tf.errors.DeadlineExceededError:
            return 0
        return 1

    with tf.Session() as session:
        assert work(session) == 0  # All pools have threads now, which a child lacks.
        for _ in range(3):
            assert _exit_code_of_child(lambda: work(session)) == 0
        with tf.Session() as other:
            assert _exit_code_of_child(lambda: work(other)) == 0


def test_a_child_of_a_parent_that_runs_steps_gets_an_error() -> None:
    queue = tf.FIFOQueue(1, tf.int32, shapes=[()])
    taken, fill = queue.dequeue(), queue.enqueue(1)
    y = tf.constant(1.0) + tf.random_uniform([])
    began = threading.Event()

    def note(i: np.ndarray) -> np.ndarray:
        began.set()
        return i

    def child(session: tf.Session) -> int:
        for fetch in (y, y + 1.0):  # Compiled before, and not.
            try:
                session.run(fetch)
            except tf.errors.FailedPreconditionError as error:
                if "forked while its parent was running a step" not in str(error):
                    return 2
            else:
                return 1
        return 0

    with tf.Session() as session:
        session.run(y)
        started = tf.py_func(note, [np.int64(0)], tf.int64)
        thread = threading.Thread(target=session.run, args=([started, taken],))
        thread.start()
        assert began.wait(60)
        for _ in range(5):
            assert _exit_code_of_child(lambda: child(session)) == 0
        session.run(fill)
        thread.join()
        assert _exit_code_of_child(lambda: 0 if session.run(y) > 0 else 1) == 0


@pytest.mark.parametrize("owner", ["graph", "session"])
def test_a_child_of_a_parent_that_builds_or_compiles_gets_an_error(owner: str) -> None:
    x = tf.constant(1.0)
    held, release = threading.Event(), threading.Event()

    def hold(lock: Any) -> None:
        with lock:
            held.set()
            release.wait(60)

    def child(session: tf.Session) -> int:
        try:
            session.run(x + 1.0 if owner == "graph" else x)
        except tf.errors.FailedPreconditionError as error:
            return 0 if "building a graph or compiling a step" in str(error) else 2
        return 1

    with tf.Session() as session:
        lock = session.graph._lock if owner == "graph" else session._lock
        thread = threading.Thread(target=hold, args=(lock,))
        thread.start()
        assert held.wait(60)
        assert _exit_code_of_child(lambda: child(session)) == 0
        release.set()
        thread.join()
        assert _exit_code_of_child(lambda: 0 if session.run(x) == 1.0 else 1) == 0
