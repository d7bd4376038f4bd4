"""Loops over datasets, and functions of datasets that branch on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.autograph.running import run


def both(function: Any, *args: Any) -> list[Any]:
    """The values as a tf.function and in a plain graph."""
    return [run(kind(function)(*args)) for kind in (tf.function, tf.autograph.to_graph)]


def test_breaks_continues_and_returns() -> None:
    def total(n: Any) -> Any:
        found = np.int64(0)
        for x in tf.data.Dataset.range(n):
            if x % 2 == 0:
                continue
            if x > 9:
                break
            if found > 12:
                return found * 100
            found += x
        return found

    n = tf.constant(20, tf.int64)
    assert both(total, n) == [1600, 1600]
    assert both(total, tf.constant(5, tf.int64)) == [4, 4]
    assert both(total, tf.constant(0, tf.int64)) == [0, 0]


def test_structures_enumerations_and_loops_in_loops() -> None:
    def work(x: Any) -> Any:
        total = 0.0
        data = tf.data.Dataset.from_tensor_slices({"a": x, "b": (x * 2.0, x)})
        for _ in tf.range(2):
            for i, each in enumerate(data):
                total += each["a"] * each["b"][0] + tf.cast(i, tf.float32)
        for each, y in zip(data, x):  # noqa: B905
            total += each["a"] - y
        return total

    values = np.array([1.0, 2.0, 3.0], np.float32)
    expected = 2 * (2 * (1 + 4 + 9) + 3)
    assert both(work, tf.constant(values)) == [expected, expected]


def test_a_step_that_runs_again_starts_over() -> None:
    def work() -> Any:
        found = []
        for x in tf.data.Dataset.range(3):
            found.append(x)
        return tf.stack(found)

    result = tf.function(work)()
    with tf.Session() as session:
        assert session.run(result).tolist() == session.run(result).tolist() == [0, 1, 2]


def test_functions_of_datasets_are_converted() -> None:
    def halved(x: Any) -> Any:
        if x % 2 == 0:
            return x // 2
        return x * 10

    data = tf.data.Dataset.range(4).map(halved).filter(lambda x: x > 0 and x != 10)
    element = tf.data.make_one_shot_iterator(data).get_next()
    with tf.Session() as session:
        assert [int(session.run(element)) for _ in range(2)] == [1, 30]
