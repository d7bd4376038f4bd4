"""Input functions on queues: what they produce, how they end, the graphs they make, and what they refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def run_to_the_end(make: Callable[[], Any], limit: int = 50) -> list[Any]:
    """Everything that a pipeline gives before OutOfRangeError."""
    with tf.Graph().as_default():
        fetches = make()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coord)
            out = []
            try:
                for _ in range(limit):
                    out.append(session.run(fetches))
            except tf.errors.OutOfRangeError as e:
                assert "is closed and has insufficient elements" in str(e)
            finally:
                coord.request_stop()
                coord.join(threads)
            assert not any(thread.is_alive() for thread in threads)
            return out


def numbers(count: int, epochs: int | None = 1, **kwargs: Any) -> Any:
    return tf.train.range_input_producer(count, num_epochs=epochs, shuffle=False, **kwargs).dequeue()


def as_lists(values: list[Any]) -> list[Any]:
    return [np.asarray(value).tolist() for value in values]


def test_a_range_is_produced_for_so_many_epochs() -> None:
    assert as_lists(run_to_the_end(lambda: numbers(3, 2))) == [0, 1, 2, 0, 1, 2]
    assert len(run_to_the_end(lambda: numbers(3, None), limit=20)) == 20


def test_strings_are_shuffled_in_each_epoch() -> None:
    names = [f"file {i}" for i in range(10)]

    def make() -> Any:
        return tf.train.string_input_producer(names, num_epochs=2, seed=1).dequeue()

    seen = [name.decode() for name in run_to_the_end(make)]
    assert sorted(seen[:10]) == sorted(seen[10:]) == names
    assert seen[:10] != seen[10:]
    assert [name.decode() for name in run_to_the_end(make)] == seen


def test_slices_belong_together() -> None:
    def make() -> Any:
        return tf.train.slice_input_producer([[1, 2, 3], ["a", "b", "c"]], num_epochs=1)

    assert sorted((int(n), s) for n, s in run_to_the_end(make)) == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_an_empty_list_of_files_is_an_error_of_the_step() -> None:
    with pytest.raises(ValueError, match="non-null input tensor"):
        tf.train.string_input_producer([])
    files = tf.placeholder_with_default(tf.constant([], tf.string), [None])
    queue = tf.train.string_input_producer(files)
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        with pytest.raises(tf.errors.InvalidArgumentError, match="non-null input tensor"):
            coord.join(threads)
        # The queue was closed, so that no step waits for ever.
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(queue.dequeue())


def test_files_are_matched_when_the_variable_is_initialized(tmp_path: Path) -> None:
    names = tf.train.match_filenames_once(str(tmp_path / "*.txt"))
    assert names.name == "matching_filenames:0"
    queue = tf.train.string_input_producer(names, num_epochs=1, shuffle=False)
    for name in ("b.txt", "a.txt", "c.bin"):
        (tmp_path / name).write_text("")
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        (tmp_path / "late.txt").write_text("")
        session.run(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[0].enqueue_ops[0])
        assert [Path(name.decode()).name for name in session.run(queue.dequeue_many(2))] == ["a.txt", "b.txt"]


def test_batches_have_the_order_of_their_examples() -> None:
    assert as_lists(run_to_the_end(lambda: tf.train.batch([numbers(7)], 3))) == [[0, 1, 2], [3, 4, 5]]
    smaller = run_to_the_end(lambda: tf.train.batch([numbers(7)], 3, allow_smaller_final_batch=True))
    assert as_lists(smaller) == [[0, 1, 2], [3, 4, 5], [6]]
    rows = run_to_the_end(lambda: tf.train.batch([tf.fill([2], numbers(5))], 4, enqueue_many=True))
    assert as_lists(rows) == [[0, 0, 1, 1], [2, 2, 3, 3]]


def test_a_batch_has_the_structure_of_its_tensors() -> None:
    number = numbers(2)
    both = tf.train.batch({"n": number, "s": tf.as_string(number)}, 2)
    assert both["n"].shape.as_list() == [2]
    assert isinstance(tf.train.batch([number], 2), tf.Tensor)
    assert isinstance(tf.train.batch([number, number], 2), list)
    assert set(tf.train.batch({"only": number}, 2)) == {"only"}
    assert tf.train.batch([number], 2, allow_smaller_final_batch=True).shape.as_list() == [None]


def test_examples_of_different_sizes_are_padded() -> None:
    def make() -> Any:
        return tf.train.batch({"x": tf.range(numbers(4))}, 2, dynamic_pad=True)

    assert [value["x"].tolist() for value in run_to_the_end(make)] == [[[0], [0]], [[0, 1, 0], [0, 1, 2]]]


def test_examples_can_be_left_out() -> None:
    def make() -> Any:
        number = numbers(9)
        return tf.train.maybe_batch([number], tf.equal(number % 2, 0), 2)

    assert as_lists(run_to_the_end(make)) == [[0, 2], [4, 6]]

    def make_rows() -> Any:
        rows = numbers(5) * 10 + tf.range(2)
        return tf.train.maybe_batch([rows], [False, True], 2, enqueue_many=True)

    assert as_lists(run_to_the_end(make_rows)) == [[1, 11], [21, 31]]


def test_shuffled_batches_hold_every_example_once() -> None:
    def make(**kwargs: Any) -> Callable[[], Any]:
        return lambda: tf.train.shuffle_batch([numbers(40)], 8, 100, 20, **kwargs)

    batches = run_to_the_end(make(seed=3))
    assert [len(b) for b in batches] == [8] * 5
    assert sorted(np.concatenate(batches).tolist()) == list(range(40))
    assert np.concatenate(batches).tolist() != list(range(40))
    several = run_to_the_end(make(num_threads=4))
    assert sorted(np.concatenate(several).tolist()) == list(range(40))

    def kept() -> Any:
        number = numbers(40)
        return tf.train.maybe_shuffle_batch([number], 5, 30, 10, number < 20)

    assert sorted(np.concatenate(run_to_the_end(kept)).tolist()) == list(range(20))


@pytest.mark.parametrize("shuffled", [False, True])
def test_several_sources_are_joined(shuffled: bool) -> None:
    def make() -> Any:
        sources = [[numbers(10) + 100 * i, tf.constant(float(i))] for i in range(3)]
        if shuffled:
            return tf.train.shuffle_batch_join(sources, 5, 40, 10)
        return tf.train.batch_join(sources, 5)

    batches = run_to_the_end(make)
    values = np.concatenate([batch[0] for batch in batches])
    assert sorted(values.tolist()) == sorted(n + 100 * i for i in range(3) for n in range(10))
    for batch in batches:
        np.testing.assert_array_equal(batch[0] // 100, batch[1].astype(np.int64))

    def maybe() -> Any:
        sources = [[numbers(10)], [numbers(10) + 100]]
        if shuffled:
            return tf.train.maybe_shuffle_batch_join(sources, 5, 40, 10, True)
        return tf.train.maybe_batch_join(sources, True, 5)

    assert sum(len(batch) for batch in run_to_the_end(maybe)) == 20


def test_sparse_examples_become_a_sparse_batch() -> None:
    def example() -> Any:
        number = numbers(4)
        index = tf.reshape(tf.cast(number, tf.int64), [1, 1])
        return tf.SparseTensor(index, tf.reshape(number, [1]) * 10, [5])

    values = run_to_the_end(lambda: [tf.train.batch([example()], 2)])
    assert values[1][0].indices.tolist() == [[0, 2], [1, 3]]
    assert values[1][0].values.tolist() == [20, 30]
    assert values[1][0].dense_shape.tolist() == [2, 5]

    def rows() -> Any:
        number = tf.cast(numbers(3), tf.int64)
        sparse = tf.SparseTensor([[0, 0], [1, 1]], tf.stack([number, number + 10]), [2, 3])
        batch = tf.train.batch({"s": sparse, "n": tf.fill([2], number)}, 2, enqueue_many=True)
        assert batch["s"].get_shape().ndims == 2
        return [batch["s"], batch["n"]]

    for i, (sparse, dense) in enumerate(run_to_the_end(rows)):
        assert sparse.values.tolist() == [i, i + 10]
        assert sparse.indices.tolist() == [[0, 0], [1, 1]]
        assert dense.tolist() == [i, i]


def test_the_graph_is_the_one_that_tensorflow_makes() -> None:
    tf.train.string_input_producer(["a"], num_epochs=1)
    tf.train.batch([tf.constant(1.0)], 3, num_threads=2, name="b")
    tf.train.shuffle_batch([tf.constant(1.0)], 3, 100, 10)
    runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
    assert [(r.name, [op.name for op in r.enqueue_ops], r.close_op.name, r.cancel_op.name) for r in runners] == [
        (
            "input_producer", ["input_producer/input_producer_EnqueueMany"], "input_producer/input_producer_Close",
            "input_producer/input_producer_Close_1",
        ),
        (
            "b/fifo_queue", ["b/fifo_queue_enqueue"] * 2, "b/fifo_queue_Close", "b/fifo_queue_Close_1",
        ),
        (
            "shuffle_batch/random_shuffle_queue", ["shuffle_batch/random_shuffle_queue_enqueue"],
            "shuffle_batch/random_shuffle_queue_Close", "shuffle_batch/random_shuffle_queue_Close_1",
        ),
    ]  # fmt: skip
    assert [s.op.name for s in tf.get_collection(tf.GraphKeys.SUMMARIES)] == [
        "input_producer/fraction_of_32_full",
        "b/fraction_of_32_full",
        "shuffle_batch/fraction_over_10_of_90_full",
    ]
    assert [v.name for v in tf.local_variables()] == ["input_producer/limit_epochs/epochs:0"]
    graph = tf.get_default_graph()
    assert graph.get_operation_by_name("b").type == "QueueDequeueManyV2"
    assert graph.get_operation_by_name("input_producer").type == "FIFOQueueV2"


def test_the_summary_tells_how_full_a_queue_is() -> None:
    tf.train.batch([tf.constant(1.0)], 1, capacity=4, name="b")
    (summary,) = tf.get_collection(tf.GraphKeys.SUMMARIES)
    (runner,) = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
    with tf.Session() as session:
        session.run(runner.enqueue_ops[0])
        value = tf.Summary.FromString(session.run(summary)).value[0]
    assert (value.tag, value.simple_value) == ("b/fraction_of_4_full", 0.25)


def test_a_pipeline_survives_a_meta_graph() -> None:
    with tf.Graph().as_default():
        batch = tf.train.batch([numbers(4)], 2, name="pair")
        meta = tf.train.export_meta_graph()
        name = batch.name

    def make() -> Any:
        tf.train.import_meta_graph(meta)
        return tf.get_default_graph().get_tensor_by_name(name)

    assert as_lists(run_to_the_end(make)) == [[0, 1], [2, 3]]


def test_a_consumer_that_goes_away_leaves_no_thread() -> None:
    before = threading.active_count()
    batch = tf.train.shuffle_batch([numbers(100, None)], 2, 50, 10, num_threads=4)
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        session.run(batch)
        coord.request_stop()
        coord.join(threads)
        assert threading.active_count() == before
        # The queue is closed, and its remaining elements can still be dequeued.
        assert len(session.run(batch)) == 2
    session.close()


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: tf.train.batch([tf.placeholder(tf.int32, [None])], 3), ValueError, "must be fully defined"),
        (lambda: tf.train.batch([tf.placeholder(tf.int32)], 3), ValueError, "Cannot infer Tensor's rank"),
        (lambda: tf.train.batch([], 3), ValueError, "Expected at least one tensor in batch"),
        (lambda: tf.train.batch_join([], 3), ValueError, "Expected at least one set of tensors"),
        (lambda: tf.train.batch_join([[1], [1, 2]], 3), ValueError, "same length"),
        (lambda: tf.train.batch_join([[1], [1.0]], 3), TypeError, "int32 vs. float32"),
        (lambda: tf.train.shuffle_batch_join([{"a": 1}, {"b": 1}], 3, 10, 1), ValueError, "same keys"),
        (lambda: tf.train.string_input_producer(tf.constant("x")), ValueError, "rank at least 1"),
        (lambda: tf.train.slice_input_producer([]), ValueError, "Expected at least one tensor"),
        (lambda: tf.train.input_producer(tf.placeholder(tf.int32)), ValueError, "`element_shape` must be specified"),
        (lambda: tf.train.limit_epochs(tf.constant(1), 0), ValueError, "num_epochs must be > 0 not 0"),
        (lambda: tf.train.batch([tf.constant(1)], 3, num_threads=0), ValueError, "Must provide queue and enqueue_ops"),
        (lambda: tf.train.maybe_batch([tf.constant(1)], [True, False], 3), ValueError, "cannot be a vector"),
        (
            lambda: tf.train.maybe_batch([tf.constant([1, 2])], [[True, False]], 3, enqueue_many=True), ValueError,
            "must be 0 or 1 dimensions",
        ),
        (
            lambda: tf.train.maybe_batch([tf.constant(1)], tf.placeholder(tf.bool), 3), ValueError,
            "dimensions must be known",
        ),
        (lambda: tf.train.batch([tf.constant([1, 2])], 3, shapes=[[3]]), ValueError, "incompatible"),
        (lambda: tf.train.shuffle_batch([tf.constant(1)], 3, 10, 10), ValueError, "must be bigger than"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()
