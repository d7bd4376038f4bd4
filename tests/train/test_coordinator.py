"""Coordinator, LooperThread and QueueRunner: threads stop together, and their exceptions reach the caller."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import thalweg as tf


def test_join_raises_the_first_exception_of_a_thread() -> None:
    coord = tf.train.Coordinator()

    def fail() -> None:
        with coord.stop_on_exception():
            raise ValueError("first")

    def wait() -> None:
        coord.wait_for_stop()
        coord.request_stop(ValueError("second"))

    threads = [threading.Thread(target=f) for f in (wait, fail)]
    for thread in threads:
        thread.start()
    with pytest.raises(ValueError, match="first") as info:
        coord.join(threads)
    # The traceback leads to where it happened.
    assert any(frame.name == "fail" for frame in info.traceback)
    assert coord.joined
    assert coord.should_stop()


def test_the_end_of_the_input_is_a_clean_stop() -> None:
    coord = tf.train.Coordinator()
    with coord.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "end")
    assert coord.should_stop()
    coord.join([])
    strict = tf.train.Coordinator(clean_stop_exception_types=())
    with strict.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "end")
    with pytest.raises(tf.errors.OutOfRangeError):
        strict.raise_requested_exception()
    with pytest.raises(tf.errors.OutOfRangeError):
        strict.join([])


def test_exc_info_and_exceptions_are_accepted_and_nothing_else() -> None:
    coord = tf.train.Coordinator()
    try:
        raise KeyError("x")
    except KeyError:
        coord.request_stop(sys.exc_info())
    with pytest.raises(KeyError):
        coord.join()
    with pytest.raises(TypeError, match="exception"):
        tf.train.Coordinator().request_stop("not an exception")


def test_after_join_a_late_exception_is_raised_at_once() -> None:
    coord = tf.train.Coordinator()
    coord.request_stop()
    coord.join([])
    with pytest.raises(ValueError, match="late"):
        coord.request_stop(ValueError("late"))
    coord.clear_stop()
    assert not coord.should_stop()
    assert not coord.joined


def test_a_thread_that_goes_on_is_named() -> None:
    coord = tf.train.Coordinator()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="stubborn")
    thread.start()
    coord.request_stop()
    with pytest.raises(RuntimeError, match="stubborn"):
        coord.join([thread], stop_grace_period_secs=0.02)
    coord.clear_stop()
    coord.request_stop()
    coord.join([thread], stop_grace_period_secs=0.02, ignore_live_threads=True)
    release.set()
    thread.join()


def test_a_looper_calls_until_it_is_stopped() -> None:
    coord = tf.train.Coordinator()
    calls: list[int] = []

    def count(step: int) -> None:
        calls.append(step)
        if len(calls) == 3:
            coord.request_stop()

    tf.train.LooperThread.loop(coord, 0.001, count, args=(7,))
    coord.join()
    assert calls == [7, 7, 7]
    with pytest.raises(ValueError, match="Coordinator"):
        tf.train.LooperThread("no coordinator", 1.0)


def test_a_looper_that_fails_stops_its_coordinator() -> None:
    coord = tf.train.Coordinator()
    tf.train.LooperThread.loop(coord, None, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        coord.join()


class _Queue:
    """The interface that a QueueRunner needs of a queue, on a variable: the enqueue op fails after some elements."""

    name = "queue"

    def __init__(self, error: type[Exception], size: int = 3) -> None:
        self.filled = tf.Variable(0, name="filled")
        self.closed = tf.Variable(0, name="closed")
        self._error, self._size, self._count = error, size, 0
        with tf.control_dependencies([tf.py_func(self._check, [], [], stateful=True)]):
            self.enqueue = self.filled.assign_add(1)

    def _check(self) -> None:
        self._count += 1
        if self._count > self._size:
            raise self._error(None, None, "no more")

    def close(self, cancel_pending_enqueues: bool = False) -> Any:
        return self.closed.assign_add(100 if cancel_pending_enqueues else 1).op


def test_a_queue_runner_fills_and_closes_its_queue() -> None:
    queue = _Queue(tf.errors.OutOfRangeError)
    runner = tf.train.QueueRunner(queue, [queue.enqueue.op])
    tf.train.add_queue_runner(runner)
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = tf.train.start_queue_runners(session, coord)
        assert len(threads) == 2
        threads[0].join()
        assert session.run([queue.filled, queue.closed]) == [3, 1]
        coord.request_stop()
        coord.join(threads)
        # Stopping the coordinator has cancelled waiting enqueues.
        assert session.run(queue.closed) == 101
    assert runner.exceptions_raised == []


def test_the_exception_of_a_queue_runner_reaches_the_coordinator() -> None:
    queue = _Queue(tf.errors.InvalidArgumentError)
    runner = tf.train.QueueRunner(queue, [queue.enqueue.op])
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = runner.create_threads(session, coord, start=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
            coord.join(threads)


def test_queue_runners_check_their_arguments() -> None:
    with pytest.raises(ValueError, match="queue and enqueue_ops"):
        tf.train.QueueRunner()
    queue = _Queue(tf.errors.OutOfRangeError)
    with pytest.raises(TypeError, match="queue_closed_exception_types"):
        tf.train.QueueRunner(queue, [queue.enqueue], queue_closed_exception_types=(KeyError,))
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()


def test_queue_runners_survive_a_meta_graph() -> None:
    queue = _Queue(tf.errors.OutOfRangeError)
    queue.name = queue.filled.op.name
    runner = tf.train.QueueRunner(
        queue, [queue.enqueue.op], queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError)
    )
    proto = runner.to_proto()
    assert list(proto.enqueue_op_name) == [queue.enqueue.op.name]
    assert list(proto.queue_closed_exception_types) == [tf.errors.OUT_OF_RANGE, tf.errors.CANCELLED]
    again = tf.train.QueueRunner.from_proto(proto)
    assert again.close_op is runner.close_op
    assert again.queue_closed_exception_types == runner.queue_closed_exception_types
    assert runner.to_proto(export_scope="elsewhere") is None
