"""Datasets of Python generators: values, conversions, failures, and that they are closed."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data_pipeline.elements import elements, plain, rest, values

Dataset = tf.data.Dataset


def test_each_pass_calls_the_generator_anew() -> None:
    def numbers() -> Iterator[int]:
        yield from range(3)

    dataset = Dataset.from_generator(numbers, tf.int32, [])
    assert dataset.output_shapes.as_list() == []
    assert values(dataset.repeat(2)) == [0, 1, 2, 0, 1, 2]


def test_structures_and_conversions() -> None:
    def rows() -> Iterator[Any]:
        yield {"a": 1, "b": ("text", [1, 2])}
        yield {"a": np.int64(2), "b": (b"bytes", np.array([3.0]))}

    dataset = Dataset.from_generator(rows, {"a": tf.int64, "b": (tf.string, tf.float32)})
    assert values(dataset) == [{"a": 1, "b": (b"text", [1.0, 2.0])}, {"a": 2, "b": (b"bytes", [3.0])}]


def test_arguments_are_values_of_tensors() -> None:
    dataset = Dataset.from_generator(lambda n, s: (s + bytes([65 + i]) for i in range(n)), tf.string, [], args=(3, "x"))
    assert values(dataset) == [b"xA", b"xB", b"xC"]


@pytest.mark.parametrize(
    ("items", "shape", "text"),
    [
        ([1, "a"], None, "a"),
        ([1, 2.5], None, "2.5"),
        ([[1, 2]], [3], "shape"),
        ([(1, 2)], [], "shape"),
        ([2**40], [], "int32"),
    ],
)
def test_elements_of_other_types_and_shapes_are_errors_with_words(items: list[Any], shape: Any, text: str) -> None:
    dataset = Dataset.from_generator(lambda: iter(items), tf.int32, shape)
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        values(dataset)


def test_a_missing_component_is_an_error() -> None:
    dataset = Dataset.from_generator(lambda: iter([(1, 2), 3]), (tf.int32, tf.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected structure"):
        values(dataset)


def test_an_exception_reaches_the_consumer_with_its_text() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise RuntimeError("the disk is on fire")

    for prefetch in (0, 2):
        with tf.Graph().as_default():
            element = Dataset.from_generator(failing, tf.int32).prefetch(prefetch).make_one_shot_iterator().get_next()
            with tf.Session() as session:
                assert int(session.run(element)) == 1
                with pytest.raises(tf.errors.UnknownError, match="the disk is on fire"):
                    session.run(element)
                assert rest(session, element) == []


def test_a_generator_is_closed_when_the_consumer_goes_away() -> None:
    closed: list[str] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append("closed")

    def wait_for(count: int) -> None:
        # The thread that served the last element may hold the last reference to the pipeline.
        deadline = time.monotonic() + 60
        while len(closed) < count and time.monotonic() < deadline:
            time.sleep(0.001)

    iterator = Dataset.from_generator(numbers, tf.int64).prefetch(2).make_initializable_iterator()
    element = iterator.get_next()
    session = tf.Session()
    session.run(iterator.initializer)
    session.run(element)
    session.run(iterator.initializer)
    wait_for(1)
    assert closed == ["closed"]
    session.run(element)
    session.close()
    del session
    gc.collect()
    wait_for(2)
    assert closed == ["closed"] * 2


def test_a_generator_is_closed_at_its_end() -> None:
    closed: list[str] = []

    class Source:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            raise StopIteration

        def close(self) -> None:
            closed.append("closed")

    assert elements(Dataset.from_generator(Source, tf.int64)) == []
    assert closed == ["closed"]


def test_the_position_of_a_generator_cannot_be_saved() -> None:
    iterator = Dataset.from_generator(lambda: iter([1, 2]), tf.int64).make_initializable_iterator()
    position = tf.raw_ops._IteratorPosition(resource_handle=iterator._iterator_resource)
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="generator"):
            session.run(position)
        assert plain(session.run(iterator.get_next())) == 1


def test_only_functions_are_generators() -> None:
    with pytest.raises(TypeError, match="callable"):
        Dataset.from_generator([1, 2], tf.int32)
