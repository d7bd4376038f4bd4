"""The arguments that datasets and iterators refuse, and the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data_pipeline.elements import plain, rest, values

Dataset = tf.data.Dataset
InvalidArgument = tf.errors.InvalidArgumentError


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda n: Dataset.range(3).batch(n), "Batch size must be greater than zero"),
        (lambda n: Dataset.range(3).shuffle(n), "buffer_size must be greater than zero"),
        (lambda n: Dataset.range(3).window(n), "Window size must be greater than zero"),
        (lambda n: Dataset.range(3).window(1, n), "Window shift"),
        (lambda n: Dataset.range(3).window(1, 1, n), "Window stride"),
        (lambda n: Dataset.range(3, 9, n), "step must be a non-zero"),
        (lambda n: Dataset.range(3).map(lambda x: x, num_parallel_calls=n), "num_parallel_calls"),
        (lambda n: Dataset.range(3).interleave(lambda x: Dataset.range(x), n), "cycle_length must be greater"),
        (lambda n: Dataset.range(3).interleave(lambda x: Dataset.range(x), 1, n), "block_length"),
        (lambda n: Dataset.range(3).padded_batch(n, []), "Batch size"),
        (lambda n: Dataset.range(3).apply(tf.data.experimental.shuffle_and_repeat(n)), "buffer_size"),
        (lambda n: Dataset.range(3).shard(tf.placeholder_with_default(n, []), 0), "Number of shards"),
    ],
)
def test_sizes_that_must_be_positive(make: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        values(make(np.int64(0)))


def test_sizes_that_must_not_be_negative() -> None:
    for make in (lambda: Dataset.range(3).batch(-1), lambda: Dataset.range(3).prefetch(-2)):
        with pytest.raises(InvalidArgument):
            values(make())


def test_shards_are_checked_while_the_graph_is_built() -> None:
    with pytest.raises(InvalidArgument, match="num_shards must be >= 1"):
        Dataset.range(3).shard(0, 0)
    with pytest.raises(InvalidArgument, match="index"):
        Dataset.range(3).shard(2, 2)


def test_structures_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match="different types"):
        Dataset.range(3).concatenate(Dataset.from_tensors(1.0))
    with pytest.raises(TypeError, match="tuple"):
        Dataset.zip([Dataset.range(3)])
    with pytest.raises(TypeError, match="Dataset"):
        Dataset.zip(3)
    with pytest.raises(ValueError, match="3"):
        Dataset.from_tensor_slices((np.zeros(3), np.zeros(4)))
    with pytest.raises(ValueError, match="scalar"):
        Dataset.from_tensor_slices(3)
    with pytest.raises(TypeError, match="sparse_tensor"):
        Dataset.from_sparse_tensor_slices([1, 2])
    with pytest.raises(ValueError, match="different batch sizes"):
        Dataset.from_tensors((np.zeros(2), np.zeros(3))).unbatch()
    with pytest.raises(ValueError, match="scalar"):
        Dataset.range(3).unbatch()
    with pytest.raises(RuntimeError, match="iter"):
        iter(Dataset.range(3))


def test_functions_that_return_the_wrong_thing() -> None:
    with pytest.raises(ValueError, match="scalar boolean"):
        Dataset.range(3).filter(lambda x: x)
    with pytest.raises(TypeError, match="Dataset"):
        Dataset.range(3).flat_map(lambda x: x)
    with pytest.raises(ValueError, match="function"):
        Dataset.range(3).map(3)
    with pytest.raises(TypeError, match="return value"):
        Dataset.range(3).map(lambda x: None)
    with pytest.raises(TypeError, match="match"):
        Dataset.range(3).reduce(np.int32(0), lambda s, x: x)
    with pytest.raises(TypeError, match="Dataset"):
        Dataset.range(3).apply(lambda d: 3)


def test_elements_of_different_shapes_cannot_be_batched() -> None:
    dataset = Dataset.range(3).map(lambda n: tf.fill([n], n)).batch(2)
    with pytest.raises(InvalidArgument, match=r"different shapes in component 0.*\[0\].*\[1\]"):
        values(dataset)


def test_elements_that_do_not_fit_into_their_padding() -> None:
    ragged = Dataset.range(3).map(lambda n: tf.fill([n], n))
    with pytest.raises(tf.errors.DataLossError, match="smaller size"):
        values(ragged.padded_batch(3, [1]))
    with pytest.raises(TypeError, match="Padding value"):
        ragged.padded_batch(3, [None], 1.5)
    with pytest.raises(ValueError, match="not compatible"):
        Dataset.range(3).padded_batch(2, [1])


def test_a_failing_element_fails_its_own_get_next_only() -> None:
    for calls in (None, 1, 2):
        with tf.Graph().as_default():
            dataset = Dataset.from_tensor_slices([4, 2, 0, 1]).map(lambda x: 4 // x, calls).prefetch(2)
            element = dataset.make_one_shot_iterator().get_next()
            with tf.Session() as session:
                assert [int(session.run(element)) for _ in range(2)] == [1, 2]
                with pytest.raises(InvalidArgument, match="zero"):
                    session.run(element)
                assert plain(rest(session, element)) == [4]


def test_ignore_errors_leaves_failing_elements_out() -> None:
    dataset = Dataset.from_tensor_slices([0, 4, 0, 2, 0]).map(lambda x: 4 // x)
    assert values(dataset.apply(tf.data.experimental.ignore_errors())) == [1, 2]


def test_a_failing_element_takes_its_batch_along() -> None:
    dataset = Dataset.from_tensor_slices([1, 0, 2, 4, 1]).map(lambda x: 4 // x).batch(2)
    assert values(dataset.apply(tf.data.experimental.ignore_errors())) == [[2, 1], [4]]


def test_zipped_inputs_stay_in_step_when_one_fails() -> None:
    failing = Dataset.from_tensor_slices([1, 0, 2]).map(lambda x: 4 // x)
    dataset = Dataset.zip((failing, Dataset.range(3))).apply(tf.data.experimental.ignore_errors())
    assert values(dataset) == [(4, 0), (2, 2)]


def test_an_error_names_the_node_of_the_function() -> None:
    dataset = Dataset.range(1).map(lambda x: tf.check_numerics(tf.constant(np.nan), "not a number"))
    with pytest.raises(InvalidArgument, match="not a number"):
        values(dataset)


def test_an_iterator_needs_its_initializer() -> None:
    iterator = Dataset.range(3).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"):
        session.run(element)


def test_the_end_is_an_error_with_words() -> None:
    element = Dataset.range(0).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                session.run(element)


def test_one_shot_iterators_refuse_state_and_placeholders() -> None:
    variable = tf.Variable(1, dtype=tf.int64, use_resource=True)
    with pytest.raises(ValueError, match="stateful"):
        Dataset.range(3).map(lambda x: x + variable).make_one_shot_iterator()
    with pytest.raises(ValueError, match="placeholder"):
        Dataset.range(tf.placeholder(tf.int64, [])).make_one_shot_iterator()
    with pytest.raises(ValueError, match="initializer"):
        _ = Dataset.range(3).make_one_shot_iterator().initializer


def test_one_shot_iterators_take_what_depends_on_the_world_outside() -> None:
    count = tf.check_numerics(tf.py_func(lambda: np.float32(2), [], tf.float32), "not a number")
    element = Dataset.range(tf.cast(count, tf.int64)).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert plain(rest(session, element)) == [0, 1]
    with pytest.raises(ValueError, match="stateful"):
        Dataset.from_tensors(tf.random_uniform([])).make_one_shot_iterator()


def test_an_iterator_refuses_datasets_of_another_structure() -> None:
    iterator = tf.data.Iterator.from_structure(tf.int64, [])
    for dataset in (Dataset.from_tensors(1.0), Dataset.from_tensors((np.int64(1),))):
        with pytest.raises(TypeError, match="output types"):
            iterator.make_initializer(dataset)
    with pytest.raises(TypeError, match="output shapes"):
        iterator.make_initializer(Dataset.from_tensors(np.zeros(3, np.int64)))
    with pytest.raises(ValueError, match="initializer"):
        _ = iterator.initializer


def test_string_handles_of_nothing() -> None:
    handle = tf.placeholder(tf.string, [])
    element = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    other = tf.data.make_one_shot_iterator(Dataset.from_tensors(1.5))
    with tf.Session() as session:
        for text in ("", "nonsense", "iterator:nonsense"):
            with pytest.raises((InvalidArgument, tf.errors.NotFoundError)):
                session.run(element, {handle: text})
        with pytest.raises(InvalidArgument, match="float32"):
            session.run(element, {handle: session.run(other.string_handle())})


def test_a_position_of_another_pipeline_is_refused() -> None:
    first = Dataset.range(5).batch(2).make_initializable_iterator()
    second = Dataset.range(5).repeat(2).make_initializable_iterator()
    text = tf.placeholder(tf.string, [])
    position = tf.raw_ops._IteratorPosition(resource_handle=first._iterator_resource)
    restore = tf.raw_ops._RestoreIteratorPosition(resource_handle=second._iterator_resource, position=text)
    with tf.Session() as session:
        session.run([first.initializer, second.initializer])
        saved = session.run(position)
        with pytest.raises(InvalidArgument, match="another pipeline"):
            session.run(restore, {text: saved})
        for damaged in (saved[:-3], b"", b"\xff" * 40):
            with pytest.raises(tf.errors.OpError):
                session.run(restore, {text: damaged})
        assert int(session.run(second.get_next())) == 0
