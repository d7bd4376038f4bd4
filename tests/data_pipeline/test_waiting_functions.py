"""Functions of the user's that wait: finished elements are delivered, and each stage makes its calls, no fewer."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tf

PATIENCE = 30.0


class Calls:
    """The calls of a Python function of a dataset: which have begun, and when they may end."""

    def __init__(self, count: int, delays: int | None = None) -> None:
        self.begun: list[int] = []
        self.open = [threading.Event() for _ in range(count)]
        self._changed = threading.Condition()
        self._random = None if delays is None else random.Random(delays)

    def __call__(self, number: Any) -> Any:
        with self._changed:
            self.begun.append(int(number))
            self._changed.notify_all()
        if self._random is not None:
            time.sleep(self._random.choice([0.0, 0.0, 0.001, 0.003]))
        assert self.open[int(number)].wait(PATIENCE), f"call {number} was never let go"
        return number

    def await_begun(self, count: int) -> list[int]:
        """Waits until so many calls have begun; those that have."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.begun) >= count, 5.0)
            return sorted(self.begun)

    def map(self, dataset: Any, **options: Any) -> Any:
        return dataset.map(lambda n: tf.py_func(self, [n], tf.int64, stateful=True), **options)


def unordered(dataset: Any) -> Any:
    options = tf.data.Options()
    options.experimental_deterministic = False
    return dataset.with_options(options)


def opened(dataset: Any, body: Callable[[Callable[[], int]], None]) -> None:
    element = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=int(PATIENCE * 1000))) as session:
        body(lambda: int(session.run(element)))


@pytest.mark.parametrize("seed", range(6))
def test_a_finished_element_is_delivered_while_other_calls_wait(seed: int) -> None:
    calls = Calls(10, seed)
    chosen = random.Random(seed)

    def body(get: Callable[[], int]) -> None:
        calls.open[0].set()
        assert get() == 0
        for delivered in range(1, 10):
            begun = calls.await_begun(min(10, delivered + 4))
            assert len(begun) == min(10, delivered + 4)
            one = chosen.choice([n for n in begun if not calls.open[n].is_set()])
            calls.open[one].set()
            assert get() == one

    opened(unordered(calls.map(tf.data.Dataset.range(10), num_parallel_calls=4)), body)


def test_a_function_may_wait_for_the_call_after_it() -> None:
    started = [threading.Event() for _ in range(33)]

    def wait_for_next(number: Any) -> Any:
        started[int(number)].set()
        if number >= 8:  # Those before are fast: a stage that measures them might call several at once.
            assert started[int(number) + 1].wait(PATIENCE)
        return number

    dataset = tf.data.Dataset.range(32).map(lambda n: tf.py_func(wait_for_next, [n], tf.int64), num_parallel_calls=2)
    started[32].set()

    def body(get: Callable[[], int]) -> None:
        assert [get() for _ in range(32)] == list(range(32))

    opened(dataset, body)


def test_an_input_may_wait_for_the_consumer_of_a_parallel_map() -> None:
    got = [threading.Event() for _ in range(40)]

    def numbers() -> Any:
        for n in range(40):
            if n >= 30:
                assert got[n - 1].wait(PATIENCE)
            yield n

    dataset = tf.data.Dataset.from_generator(numbers, tf.int64, []).map(lambda n: n + 1, num_parallel_calls=3)

    def body(get: Callable[[], int]) -> None:
        for n in range(40):
            assert get() == n + 1
            got[n].set()

    opened(dataset, body)


@pytest.mark.parametrize("seed", range(8))
def test_prefetch_fills_its_buffer_after_each_element(seed: int) -> None:
    calls = Calls(40, seed)
    for event in calls.open:
        event.set()
    pause = random.Random(seed)

    def body(get: Callable[[], int]) -> None:
        for n in range(12):
            assert get() == n
            if pause.random() < 0.5:
                assert calls.await_begun(n + 5)[: n + 5] == list(range(n + 5))
        time.sleep(0.05)
        assert len(calls.begun) == 16  # and no more than that

    opened(calls.map(tf.data.Dataset.range(40)).prefetch(4), body)


def test_a_sloppy_interleave_gives_what_is_ready_while_its_input_waits() -> None:
    go_on = threading.Event()

    def inputs() -> Any:
        yield 0
        yield 100
        assert go_on.wait(PATIENCE)
        yield 200

    dataset = tf.data.Dataset.from_generator(inputs, tf.int64, []).interleave(
        lambda start: tf.data.Dataset.range(start, start + 5), cycle_length=3, block_length=1, num_parallel_calls=3
    )

    def body(get: Callable[[], int]) -> None:
        assert sorted(get() for _ in range(10)) == [*range(5), *range(100, 105)]
        go_on.set()
        assert [get() for _ in range(5)] == [*range(200, 205)]

    opened(unordered(dataset), body)


STAGES: dict[str, Callable[[Any], Any]] = {
    "parallel": lambda d: d.map(lambda n: n, num_parallel_calls=3),
    "interleave": lambda d: d.interleave(
        lambda n: tf.data.Dataset.from_tensors(n), cycle_length=2, block_length=1, num_parallel_calls=2
    ),
    "prefetch": lambda d: d.prefetch(2),
    "batch": lambda d: d.batch(3).apply(tf.data.experimental.unbatch()),
    "shuffle": lambda d: d.shuffle(4, seed=1).apply(tf.data.experimental.enumerate_dataset()).map(lambda _, n: n),
    "generator": lambda d: d,
    "cache": lambda d: d.cache(),
    "filter": lambda d: d.filter(lambda n: n >= 0),
    "repeat": lambda d: d.repeat(2),
}


@pytest.mark.parametrize("seed", range(12))
def test_random_pipelines_under_random_delays_end_with_all_elements(seed: int) -> None:
    chosen = random.Random(seed)
    delays = random.Random(seed + 1000)
    count = 30

    def slow(n: Any) -> Any:
        time.sleep(delays.choice([0.0, 0.0, 0.0, 0.001, 0.002]))
        return n

    def numbers() -> Any:
        for n in range(count):
            yield slow(n)

    dataset = tf.data.Dataset.from_generator(numbers, tf.int64, []) if seed % 2 else tf.data.Dataset.range(count)
    expected = list(range(count))
    for _ in range(5):
        name = chosen.choice(sorted(STAGES))
        dataset = STAGES[name](dataset)
        expected = expected * 2 if name == "repeat" else expected
        if chosen.random() < 0.5:
            parallel = chosen.choice([None, 2, 4])
            dataset = dataset.map(lambda n: tf.ensure_shape(tf.py_func(slow, [n], tf.int64), []), parallel)
    if chosen.random() < 0.5:
        dataset = unordered(dataset)

    def body(get: Callable[[], int]) -> None:
        assert sorted(get() for _ in expected) == sorted(expected)
        with pytest.raises(tf.errors.OutOfRangeError):
            get()

    opened(dataset, body)
