"""Elements that cannot be computed in windows, and two iterators that write one cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _results(dataset: Any, count: int) -> list[Any]:
    """What `count` gets give: arrays, the names of errors, or 'end'."""
    element = tf.data.make_one_shot_iterator(dataset).get_next()
    found: list[Any] = []
    with tf.Session() as session:
        for _ in range(count):
            try:
                found.append(session.run(element).tolist())
            except tf.errors.OutOfRangeError:
                found.append("end")
            except tf.errors.InvalidArgumentError:
                found.append("error")
    return found


def _failing(count: int, *bad: int) -> Any:
    def check(i: tf.Tensor) -> tf.Tensor:
        right = tf.reduce_all(tf.not_equal(i, np.array(bad, np.int64)))
        with tf.control_dependencies([tf.Assert(right, [i])]):
            return tf.identity(i)

    return tf.data.Dataset.range(count).map(check)


@pytest.mark.parametrize(("arguments", "expected"), [
    ({"size": 2}, [[0, 1], "error", [4, 5], "end"]),  # As TensorFlow: the whole window is passed, not only its element.
    ({"size": 3}, ["error", [3, 4, 5], "end", "end"]),
    ({"size": 2, "shift": 1}, [[0, 1], "error", "error", [3, 4]]),
    ({"size": 2, "stride": 2, "shift": 1}, ["error", [1, 3], "error", [3, 5]]),
])  # fmt: skip
def test_windows_with_a_failed_element_fail_and_the_others_do_not(
    arguments: dict[str, int], expected: list[Any]
) -> None:
    windows = _failing(6, 2).window(**arguments).flat_map(lambda window: window.batch(3))
    assert _results(windows, 4) == expected


def test_a_second_writer_of_a_cache_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    dataset = tf.data.Dataset.range(3).cache(str(tmp_path / "cache"))
    first, second = (tf.data.make_one_shot_iterator(dataset).get_next() for _ in range(2))
    with tf.Session() as session:
        assert session.run(first) == 0
        with pytest.raises(tf.errors.AlreadyExistsError, match="concurrent caching iterator"):
            session.run(second)
        assert [session.run(first) for _ in range(2)] == [1, 2]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(first)
    assert [path.name for path in tmp_path.iterdir()] == ["cache.cache"]
    third = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as session:
        assert [session.run(third) for _ in range(3)] == [0, 1, 2]


def test_an_iterator_that_is_dropped_gives_the_cache_free(tmp_path: Path) -> None:
    dataset = tf.data.Dataset.range(3).cache(str(tmp_path / "cache"))
    iterator = tf.data.make_initializable_iterator(dataset)
    element = iterator.get_next()
    with tf.Session() as session:
        for _ in range(3):
            session.run(iterator.initializer)
            assert session.run(element) == 0
