"""Sixteen threads run overlapping steps on one graph: queues, accumulators, staging areas and variables at once.

    pytest tests/stress --stress-seconds 60

In the suite it is short. `make sanitize` runs it under the thread sanitizer.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

ENDS = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


class Program:
    """A pipeline: numbers go from a counter through two queues into sums; every one must arrive exactly once."""

    def __init__(self) -> None:
        self.counter = tf.get_variable("counter", initializer=np.int64(0), dtype=tf.int64)
        self.total = tf.get_variable("total", initializer=np.int64(0), dtype=tf.int64)
        self.arrived = tf.get_variable("arrived", initializer=np.int64(0), dtype=tf.int64)
        self.row = tf.get_variable("row", initializer=np.zeros(1000, np.float32))
        self.raw = tf.FIFOQueue(20, tf.int64, shapes=[[]], name="raw")
        self.mixed = tf.RandomShuffleQueue(50, 5, [tf.int64, tf.string], shapes=[[], []], name="mixed")
        self.area = tf.contrib.staging.StagingArea([tf.float32], shapes=[[1000]], capacity=4)
        self.accumulator = tf.ConditionalAccumulator(tf.float32, shape=[100], reduction_type="SUM")

        # Adding gives every enqueue a number of its own; a step that is cancelled loses it, and reports that.
        self.number = tf.placeholder(tf.int64, [])
        self.produce = self.raw.enqueue(self.number)
        batch = self.raw.dequeue_many(3)
        self.move = self.mixed.enqueue_many([batch, tf.as_string(batch)])
        self.move_one = self._move_one()
        numbers, names = self.mixed.dequeue_many(2)
        same = tf.Assert(tf.reduce_all(tf.equal(tf.as_string(numbers), names)), [numbers, names])
        with tf.control_dependencies([same]):
            self.consume = tf.group(
                self.total.assign_add(tf.reduce_sum(numbers), read_value=False),
                self.arrived.assign_add(2, read_value=False),
            )
        self.stage = self.area.put([self.row + 1.0])
        (staged,) = self.area.get()
        self.unstage = tf.group(self.row.assign(staged, read_value=False))
        self.apply = self.accumulator.apply_grad(tf.ones([100]), local_step=2**60)
        self.take = tf.reduce_max(self.accumulator.take_grad(3))
        self.sizes = [self.raw.size(), self.mixed.size(), self.area.size(), self.accumulator.num_accumulated()]
        self.read = self.row.read_value()
        self.close_raw = self.raw.close()
        self.close_mixed = self.mixed.close(cancel_pending_enqueues=False)

    def _move_one(self) -> Any:
        one = self.raw.dequeue()
        return self.mixed.enqueue([one, tf.as_string(one)])


def repeat(body: Callable[[], Any], end: float, failures: list[BaseException]) -> None:
    try:
        while time.monotonic() < end:
            body()
    except ENDS:
        pass
    except BaseException as e:
        failures.append(e)


def test_every_number_arrives_once(stress_seconds: float) -> None:
    program = Program()
    produced: list[int] = []
    lock = threading.Lock()
    failures: list[BaseException] = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        end = time.monotonic() + stress_seconds
        short = tf.RunOptions(timeout_in_ms=20)

        def produce() -> None:
            with lock:
                number = len(produced)
                produced.append(number)
            session.run(program.produce, {program.number: number})

        def impatient(fetch: Any) -> Callable[[], None]:
            def body() -> None:
                with contextlib.suppress(tf.errors.DeadlineExceededError):
                    session.run(fetch, options=short)

            return body

        def look() -> None:
            raw, mixed, staged, _ = session.run(program.sizes)
            assert 0 <= raw <= 20 + 3
            assert 0 <= mixed <= 50 + 2
            assert 0 <= staged <= 4
            row = session.run(program.read)
            assert row.min() == row.max(), "a read saw a half-written value"

        for_ever = end + 3600
        endless: list[tuple[Callable[[], Any], float]] = [
            *[(lambda: session.run(program.move_one), for_ever)] * 3,
            *[(lambda: session.run(program.consume), for_ever)] * 3,
        ]
        timed: list[tuple[Callable[[], Any], float]] = [
            *[(produce, end)] * 4,
            (impatient(program.stage), end),
            (impatient(program.unstage), end),
            (lambda: session.run(program.apply), end),
            (impatient(program.take), end),
            (look, end),
            (look, end),
        ]
        threads = [threading.Thread(target=repeat, args=(body, until, failures)) for body, until in endless + timed]
        assert len(threads) == 16
        for thread in threads:
            thread.start()
        for thread in threads[len(endless) :]:
            thread.join()
        session.run(program.close_raw)
        for thread in threads[:3]:
            thread.join()
        session.run(program.close_mixed)
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        left = session.run(program.mixed.size())
        rest = session.run(program.mixed.dequeue_many(int(left)))[0] if left else np.zeros(0, np.int64)
        total, arrived = session.run([program.total, program.arrived])
    assert arrived + len(rest) == len(produced) > 0
    assert total + rest.sum() == sum(produced)


def test_a_session_closed_under_load_ends_every_step(stress_seconds: float) -> None:
    end = time.monotonic() + stress_seconds / 2
    while True:
        with tf.Graph().as_default():
            program = Program()
            session = tf.Session()
            session.run(tf.global_variables_initializer())
            others: list[BaseException] = []

            def body(fetch: Any, session: Any = session, program: Any = program, others: Any = others) -> None:
                try:
                    while True:
                        session.run(fetch, {program.number: 1})
                except (tf.errors.CancelledError, RuntimeError):
                    pass
                except BaseException as e:
                    others.append(e)

            kinds = (program.produce, program.move, program.consume, program.stage, program.take, program.sizes)
            threads = [threading.Thread(target=body, args=(kinds[i % len(kinds)],)) for i in range(16)]
            for thread in threads:
                thread.start()
            time.sleep(0.05)
            session.close()
            for thread in threads:
                thread.join(30)
            assert not any(thread.is_alive() for thread in threads)
            assert not others, others[0]
        if time.monotonic() >= end:
            break


@pytest.mark.parametrize("kind", ["fifo", "shuffle", "padding", "priority"])
def test_pairs_leave_nothing_behind(kind: str) -> None:
    """Many elements pass through a queue; bench/stress_queues.py watches the memory while ten million do."""
    with tf.Graph().as_default():
        make: dict[str, Callable[[], Any]] = {
            "fifo": lambda: tf.FIFOQueue(10, tf.int64, shapes=[[]]),
            "shuffle": lambda: tf.RandomShuffleQueue(10, 0, tf.int64, shapes=[[]]),
            "padding": lambda: tf.PaddingFIFOQueue(10, [tf.int64], [[]]),
            "priority": lambda: tf.PriorityQueue(10, []),
        }
        queue = make[kind]()

        def body(i: Any, total: Any) -> Any:
            with tf.control_dependencies([queue.enqueue(i)]):
                return i + 1, total + queue.dequeue()

        count = np.int64(20_000)
        _, total = tf.while_loop(lambda i, _: i < count, body, [np.int64(0), np.int64(0)], parallel_iterations=1)
        with tf.Session() as session:
            assert session.run(total) == count * (count - 1) // 2
            assert session.run(queue.size()) == 0
