"""Random operations from many threads on each kind of queue, checked against a simple model."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thalweg as tf
from tests.queues.model import Call, State, explains, priority_of, step
from tests.queues.waiting import InThread
from thalweg._native import core

KINDS = ("fifo", "padding", "shuffle", "priority")
ORDER = {"fifo": "fifo", "padding": "fifo", "shuffle": "any", "priority": "priority"}

operations = st.one_of(
    st.just(("enqueue", 1)),
    st.tuples(st.just("enqueue_many"), st.integers(0, 3)),
    st.just(("dequeue", 1)),
    st.tuples(st.sampled_from(["dequeue_many", "up_to"]), st.integers(0, 3)),
    st.just(("size", 0)),
)
programs = st.lists(st.lists(operations, min_size=1, max_size=4), min_size=2, max_size=4)


class Machine:
    """One queue, its operations, and the history of its calls."""

    def __init__(self, kind: str, capacity: int) -> None:
        self._priority = kind == "priority"
        if kind == "fifo":
            self.queue = tf.FIFOQueue(capacity, tf.int64, shapes=[[]])
        elif kind == "padding":
            self.queue = tf.PaddingFIFOQueue(capacity, [tf.int64], [[]])
        elif kind == "shuffle":
            self.queue = tf.RandomShuffleQueue(capacity, 0, tf.int64, shapes=[[]])
        else:
            self.queue = tf.PriorityQueue(capacity, [tf.int64], shapes=[[]])
        self._value, self._count = tf.placeholder(tf.int64), tf.placeholder(tf.int32, [])
        value = [self._value % 3, self._value] if self._priority else [self._value]
        self._fetches = {
            "enqueue": self.queue.enqueue(value),
            "enqueue_many": self.queue.enqueue_many(value),
            "dequeue": self.queue.dequeue(),
            "dequeue_many": self.queue.dequeue_many(self._count),
            "up_to": self.queue.dequeue_up_to(self._count),
            "size": self.queue.size(),
            "close": self.queue.close(),
            "cancel": self.queue.close(cancel_pending_enqueues=True),
        }
        self.session = tf.Session()
        self.history: list[Call] = []
        self._clock, self._numbers = itertools.count(), itertools.count()
        self._cancelled: list[tuple[list[int], int, int]] = []
        self._lock = threading.Lock()

    def run(self, name: str, count: int = 0, timeout_ms: int = 0) -> None:
        """One operation; its calls go into the history."""
        values: list[int] = []
        if name.startswith("enqueue"):
            values = [next(self._numbers) for _ in range(count)]
        feeds = {self._value: values[0] if name == "enqueue" else values, self._count: count}
        options = tf.RunOptions(timeout_in_ms=timeout_ms) if timeout_ms else None
        began = next(self._clock)
        result: Any = None
        try:
            result = self.session.run(self._fetches[name], feeds, options=options)
        except (tf.errors.CancelledError, tf.errors.OutOfRangeError) as e:
            result = type(e).__name__
        ended = next(self._clock)
        with self._lock:
            if name.startswith("enqueue"):
                self._record_enqueues(values, result, began, ended)
            elif name in ("close", "cancel"):
                self.history.append(Call("close", None, result, began, ended))
            elif name == "size":
                self.history.append(Call("size", None, int(result), began, ended))
            else:
                if not isinstance(result, str):
                    elements = result[1] if self._priority else result
                    result = tuple(elements.tolist()) if name != "dequeue" else (int(elements),)
                self._record_dequeue("up_to" if name == "up_to" else "dequeue", count, result, began, ended)

    def _one_by_one(self, kind: str, values: Any, results: Any, began: int, ended: int) -> None:
        before = -1
        for value, result in zip(values, results, strict=True):
            number = next(self._clock)
            self.history.append(Call(kind, value, result, began, ended, number, before))
            before = number

    def _record_enqueues(self, values: list[int], result: Any, began: int, ended: int) -> None:
        if result == "CancelledError" and len(values) > 1:
            # Which rows were admitted before the cancellation is not known here; see `resolve`.
            self._cancelled.append((values, began, ended))
        else:
            self._one_by_one("enqueue", values, [result] * len(values), began, ended)

    def _record_dequeue(self, kind: str, count: int, result: Any, began: int, ended: int) -> None:
        if self._priority and isinstance(result, tuple):
            # A batch takes the first elements now, then waits, and may then take an element with a smaller priority.
            self._one_by_one("dequeue", [1] * len(result), [(element,) for element in result], began, ended)
        elif count > 0:
            self.history.append(Call(kind, count, result, began, ended))

    def resolve(self) -> None:
        """Adds cancelled batches to the history: dequeued rows had been enqueued, and they must be the first."""
        seen = {element for call in self.history if isinstance(call.result, tuple) for element in call.result}
        for values, began, ended in self._cancelled:
            admitted = [value in seen for value in values]
            assert admitted == sorted(admitted, reverse=True), "rows of a batch were admitted out of order"
            results = [None if each else "CancelledError" for each in admitted]
            self._one_by_one("enqueue", values, results, began, ended)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(threads=programs, capacity=st.integers(1, 4), closing=st.booleans())
def test_the_results_of_threads_have_a_sequential_explanation(
    kind: str, threads: Any, capacity: int, closing: bool
) -> None:
    with tf.Graph().as_default():
        machine = Machine(kind, capacity)
        with machine.session:

            def body(program: Any) -> None:
                for name, count in program:
                    machine.run(name, count)

            running = [InThread(body, program) for program in threads]
            if closing:
                closer = InThread(machine.run, "close")
            for thread in running:
                thread.is_waiting(0.01)
            machine.run("cancel")
            for thread in running:
                thread.result()
            if closing:
                closer.result()
            machine.run("up_to", 100)
            machine.run("up_to", 100)
    machine.resolve()
    assert explains(ORDER[kind], machine.history)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    program=st.lists(st.one_of(operations, st.just(("close", 0)), st.just(("cancel", 0))), max_size=12),
    capacity=st.integers(1, 4),
)
def test_sequential_operations_match_the_model(kind: str, program: Any, capacity: int) -> None:
    """Without concurrency the model decides everything, also whether a call waits."""
    with tf.Graph().as_default():
        machine = Machine(kind, capacity)
        state = State()
        with machine.session as session:
            for name, count in program:
                held = len(state.elements)
                waits = not state.closed and (
                    (name.startswith("enqueue") and count > 0 and held + count > capacity)
                    or (name in ("dequeue", "dequeue_many", "up_to") and held < count)
                )
                before = len(machine.history)
                if waits:
                    timeout_ms, already = 5, core.waits()
                    while core.waits() == already:  # On a busy machine, the time may be over before it has begun.
                        with pytest.raises(tf.errors.DeadlineExceededError):
                            machine.run(name, count, timeout_ms=timeout_ms)
                        timeout_ms *= 2
                    if name == "enqueue_many":
                        # The rows that found room stay; the model adds them here.
                        admitted = capacity - held
                        first = next(machine._numbers) - count
                        state = State((*state.elements, *range(first, first + admitted)))
                else:
                    machine.run(name, count)
                    for call in machine.history[before:]:
                        after = step(ORDER[kind], state, call)
                        assert after is not None, (state, call)
                        state = after
                assert session.run(machine._fetches["size"]) == len(state.elements)
                assert session.run(machine.queue.is_closed()) == state.closed


def test_the_model_refuses_what_cannot_be() -> None:
    def call(kind: str, value: Any, result: Any, began: int, ended: int) -> Call:
        return Call(kind, value, result, began, ended)

    one_then_two = [call("enqueue", 1, None, 0, 1), call("enqueue", 2, None, 2, 3)]
    assert explains("fifo", [*one_then_two, call("dequeue", 1, (1,), 4, 5)])
    assert not explains("fifo", [*one_then_two, call("dequeue", 1, (2,), 4, 5)])
    assert explains("any", [*one_then_two, call("dequeue", 1, (2,), 4, 5)])
    assert not explains("fifo", [*one_then_two, call("dequeue", 2, (1, 1), 4, 5)])
    assert not explains("fifo", [call("dequeue", 1, (1,), 0, 1), call("enqueue", 1, None, 2, 3)])
    assert not explains("fifo", [call("dequeue", 1, "OutOfRangeError", 0, 1)])
    assert not explains("fifo", [call("close", None, None, 0, 1), call("enqueue", 1, None, 2, 3)])
    assert priority_of(4) == 1
    assert not explains(
        "priority", [call("enqueue", 4, None, 0, 1), call("enqueue", 3, None, 2, 3), call("dequeue", 1, (4,), 4, 5)]
    )
