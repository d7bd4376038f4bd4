"""Iterators: the four kinds, sharing, saving, and many threads at once."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data_pipeline.elements import plain, rest
from tests.queues.waiting import Begun

Dataset = tf.data.Dataset


def test_a_reinitializable_iterator_switches_datasets() -> None:
    training, validation = Dataset.range(3), Dataset.range(10, 12)
    iterator = tf.data.Iterator.from_structure(training.output_types, training.output_shapes)
    element = iterator.get_next()
    start_training, start_validation = iterator.make_initializer(training), iterator.make_initializer(validation)
    with tf.Session() as session:
        for _ in range(2):
            session.run(start_training)
            assert plain(rest(session, element)) == [0, 1, 2]
            session.run(start_validation)
            assert plain(rest(session, element)) == [10, 11]


def test_a_feedable_iterator_goes_where_its_handle_says() -> None:
    training = Dataset.range(100).make_one_shot_iterator()
    validation = Dataset.range(1000, 1003).make_initializable_iterator()
    handle = tf.placeholder(tf.string, [])
    iterator = tf.data.Iterator.from_string_handle(handle, tf.int64, tf.TensorShape([]))
    element = iterator.get_next()
    with tf.Session() as session:
        training_handle, validation_handle = session.run([training.string_handle(), validation.string_handle()])
        for first in (0, 2):
            assert int(session.run(element, {handle: training_handle})) == first
            assert int(session.run(element, {handle: training_handle})) == first + 1
            session.run(validation.initializer)
            assert int(session.run(element, {handle: validation_handle})) == 1000


def test_two_get_nexts_share_one_position() -> None:
    iterator = Dataset.range(10).make_one_shot_iterator()
    a, b = iterator.get_next(), iterator.get_next()
    with tf.Session() as session:
        assert sorted(int(x) for x in session.run([a, b])) == [0, 1]
        assert int(session.run(a)) == 2


def test_iterators_of_one_name_are_one_within_a_session_only() -> None:
    first = Dataset.range(10).make_initializable_iterator(shared_name="shared")
    second = Dataset.range(10).make_initializable_iterator(shared_name="shared")
    a, b = first.get_next(), second.get_next()
    with tf.Session() as session:
        session.run(first.initializer)
        assert [int(session.run(x)) for x in (a, b, a)] == [0, 1, 2]
        with tf.Session() as other, pytest.raises(tf.errors.FailedPreconditionError):
            other.run(a)


def test_types_shapes_and_classes() -> None:
    dataset = Dataset.from_tensor_slices({"a": np.zeros([4, 2]), "b": [b"x"] * 4}).batch(2)
    iterator = dataset.make_one_shot_iterator()
    for thing in (dataset, iterator):
        assert tf.data.get_output_types(thing) == {"a": tf.float64, "b": tf.string}
        assert tf.data.get_output_shapes(thing)["a"].as_list() == [None, 2]
        assert tf.data.get_output_classes(thing) == {"a": tf.Tensor, "b": tf.Tensor}
    element = iterator.get_next()
    assert element["a"].shape.as_list() == [None, 2]
    assert element["b"].dtype == tf.string


def test_names_of_the_nodes() -> None:
    iterator = Dataset.range(3).batch(2).make_initializable_iterator()
    iterator.get_next()
    types = {op.name: op.type for op in tf.get_default_graph().get_operations() if op.type != "Const"}
    assert types == {
        "RangeDataset": "RangeDataset", "BatchDatasetV2": "BatchDatasetV2", "IteratorV2": "IteratorV2",
        "MakeIterator": "MakeIterator", "IteratorGetNext": "IteratorGetNext",
    }  # fmt: skip


def test_a_pipeline_survives_its_graph_def() -> None:
    iterator = Dataset.range(5).map(lambda x: x * x, 2).shuffle(1).batch(3).make_initializable_iterator()
    element = tf.identity(iterator.get_next(), name="element")
    graph_def = tf.get_default_graph().as_graph_def()
    start = iterator.initializer.name
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        session.run(start)
        assert session.run(element.name).tolist() == [0, 1, 4]


def test_the_position_is_part_of_a_checkpoint(tmp_path: Any) -> None:
    dataset = Dataset.range(20).shuffle(5, seed=1).map(lambda x: x + 1, 2).batch(2).prefetch(2)
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(3):
            session.run(element)
        path = saver.save(session, str(tmp_path / "model"))
        expected = plain(rest(session, element))
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="initialized"):
            saver.restore(session, path)
        session.run(iterator.initializer)
        saver.restore(session, path)
        assert plain(rest(session, element)) == expected


def test_a_monitored_training_resumes_its_input(tmp_path: Any) -> None:
    seen: list[int] = []
    for _ in range(2):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            iterator = Dataset.range(100).make_initializable_iterator()
            element = iterator.get_next()
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            tf.add_to_collection(
                tf.GraphKeys.SAVEABLE_OBJECTS, tf.data.experimental.make_saveable_from_iterator(iterator)
            )
            train = tf.group(step.assign_add(1))
            hook = tf.data.experimental.CheckpointInputPipelineHook(str(tmp_path))
            with tf.train.SingularMonitoredSession([hook]) as session:
                for _ in range(3):
                    seen.append(int(session.run([element, train])[0]))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_serialized_iterators_are_variants() -> None:
    iterator = Dataset.range(9).make_initializable_iterator()
    element = iterator.get_next()
    resource = iterator._iterator_resource
    variant = tf.raw_ops.SerializeIterator(resource_handle=resource)
    fed = tf.placeholder(tf.variant, [])
    restore = tf.raw_ops.DeserializeIterator(resource_handle=resource, serialized=fed)
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run(element)
        saved = session.run(variant)
        session.run(element)
        session.run(restore, {fed: saved})
        assert int(session.run(element)) == 1


def test_sixteen_threads_take_every_element_once() -> None:
    for transform in (lambda d: d, lambda d: d.prefetch(4), lambda d: d.map(lambda x: x + 0, 3).prefetch(2)):
        with tf.Graph().as_default():
            element = transform(Dataset.range(400)).make_one_shot_iterator().get_next()
            found: list[int] = []
            with tf.Session() as session:
                session.run(element)

                def take(session: Any = session, element: Any = element, found: list[int] = found) -> None:
                    found.extend(int(x) for x in rest(session, element))

                threads = [threading.Thread(target=take) for _ in range(16)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert sorted(found) == list(range(1, 400))


def test_a_waiting_get_next_ends_when_its_session_is_closed() -> None:
    queue = tf.FIFOQueue(1, tf.int64, shapes=[()])
    for calls in (None, 2):
        dataset = Dataset.range(3).map(lambda x: x + queue.dequeue(), calls).prefetch(1)
        iterator = dataset.make_initializable_iterator()
        element = iterator.get_next()
        session = tf.Session()
        session.run(iterator.initializer)
        errors: list[Any] = []
        begun = Begun()

        def wait(session: Any = session, fetches: Any = (element, begun.zero), errors: list[Any] = errors) -> None:
            with pytest.raises(tf.errors.CancelledError):
                session.run(fetches)
            errors.append("cancelled")

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait(4)
        session.close()
        for thread in threads:
            thread.join(60)
        assert errors == ["cancelled"] * 4


def test_a_waiting_get_next_times_out_and_its_element_is_not_lost() -> None:
    queue = tf.FIFOQueue(9, tf.int64, shapes=[()])
    iterator = Dataset.range(3).map(lambda x: x * 10 + queue.dequeue()).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(element, options=tf.RunOptions(timeout_in_ms=50))
        session.run(queue.enqueue_many([np.array([1, 1, 1], np.int64)]))
        assert plain(rest(session, element)) == [1, 11, 21]


def test_sessions_may_go_while_their_pipelines_work() -> None:
    def slow(x: Any) -> Any:
        time.sleep(0.002)
        return x

    for _ in range(5):
        with tf.Graph().as_default():
            dataset = Dataset.range(1000).map(lambda x: tf.py_func(slow, [x], tf.int64), 3).prefetch(100)
            iterator = dataset.repeat().make_initializable_iterator()
            element = iterator.get_next()
            session = tf.Session()
            session.run(iterator.initializer)
            session.run(element)
            session.run(iterator.initializer)
            session.run(element)
            session.close()
            del session


def test_prefetching_works_ahead_but_not_beyond_its_buffer() -> None:
    seen: list[int] = []

    def note(x: Any) -> Any:
        seen.append(int(x))
        return x

    dataset = Dataset.range(100).map(lambda x: tf.py_func(note, [x], tf.int64)).prefetch(4)
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        session.run(element)
        deadline = time.monotonic() + 60
        while len(seen) < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.02)
        # Refilled when it is half empty: four were buffered, and perhaps one took the place of the first.
        assert 4 <= len(seen) <= 5


def test_an_optional_says_whether_there_is_more() -> None:
    optional = tf.data.experimental.get_next_as_optional(Dataset.range(1).make_one_shot_iterator())
    has, value = optional.has_value(), optional.get_value()
    made = tf.data.experimental.Optional.from_value((1, "x"))
    none = tf.data.experimental.Optional.none_from_structure(made.value_structure)
    with tf.Session() as session:
        assert plain(session.run([has, value])) == [True, 0]
        assert not session.run(has)
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
            session.run(value)
        assert plain(session.run(made.get_value())) == (1, b"x")
        assert not session.run(none.has_value())


def test_positions_are_saved_while_every_stage_is_at_work() -> None:
    dataset = Dataset.range(10_000).prefetch(3).map(lambda x: x + 1, 3).prefetch(2).map(lambda x: x - 1, 2)
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    position = tf.raw_ops._IteratorPosition(resource_handle=iterator._iterator_resource)
    with tf.Session() as session:
        session.run(iterator.initializer)
        for i in range(150):
            assert int(session.run(element)) == i
            session.run(position)
