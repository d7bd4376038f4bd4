"""The transformations of tf.data.experimental do what their documentation says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data_pipeline.elements import elements, plain, values

Dataset = tf.data.Dataset
experimental = tf.data.experimental


def test_map_and_batch_is_map_then_batch() -> None:
    for drop in (False, True):
        dataset = Dataset.range(7).apply(experimental.map_and_batch(lambda x: (x, x * 2), 3, 2, drop))
        assert values(dataset) == values(Dataset.range(7).map(lambda x: (x, x * 2)).batch(3, drop))
    assert dataset.output_shapes[0].as_list() == [3]
    with pytest.raises(ValueError, match="exclusive"):
        experimental.map_and_batch(lambda x: x, 3, num_parallel_batches=1, num_parallel_calls=2)


def test_shuffle_and_repeat_finishes_each_round() -> None:
    dataset = Dataset.range(10).apply(experimental.shuffle_and_repeat(20, 3, seed=2))
    order = values(dataset)
    assert [sorted(order[i : i + 10]) for i in (0, 10, 20)] == [list(range(10))] * 3
    assert order[:10] != order[10:20] and values(dataset) == order


def test_parallel_interleave_gives_the_order_of_interleave() -> None:
    dataset = Dataset.range(4).apply(experimental.parallel_interleave(lambda x: Dataset.range(x * 10, x * 10 + 3), 2))
    assert values(dataset) == [0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32]
    sloppy = experimental.parallel_interleave(lambda x: Dataset.range(x * 10, x * 10 + 3), 2, 1, sloppy=True)
    assert sorted(values(Dataset.range(4).apply(sloppy))) == sorted(values(dataset))


def test_groups_by_window() -> None:
    grouped = Dataset.range(10).apply(
        experimental.group_by_window(lambda x: x % 3, lambda key, group: group.batch(2), window_size=2)
    )
    assert values(grouped) == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
    sized = experimental.group_by_window(
        lambda x: x % 2, lambda key, group: group.batch(10), window_size_func=lambda key: key + 1
    )
    assert values(Dataset.range(6).apply(sized)) == [[0], [2], [1, 3], [4], [5]]
    with pytest.raises(ValueError, match="window_size"):
        experimental.group_by_window(lambda x: x, lambda k, g: g)
    with pytest.raises(ValueError, match="int64"):
        Dataset.range(3).apply(experimental.group_by_window(lambda x: 1.5, lambda k, g: g, 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero"):
        values(Dataset.range(3).apply(experimental.group_by_window(lambda x: x, lambda k, g: g.batch(1), 0)))


def test_the_position_within_a_group_is_restored() -> None:
    dataset = Dataset.range(8).apply(experimental.group_by_window(lambda x: x % 2, lambda key, group: group, 3))
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    resource = iterator._iterator_resource
    position, text = tf.raw_ops._IteratorPosition(resource_handle=resource), tf.placeholder(tf.string, [])
    restore = tf.raw_ops._RestoreIteratorPosition(resource_handle=resource, position=text)
    with tf.Session() as session:
        session.run(iterator.initializer)
        first = [int(session.run(element)) for _ in range(2)]
        saved = session.run(position)
        expected = [int(session.run(element)) for _ in range(6)]
        session.run(iterator.initializer)
        session.run(restore, {text: saved})
        assert [int(session.run(element)) for _ in range(6)] == expected
    assert first + expected == [0, 2, 4, 1, 3, 5, 6, 7]


def test_groups_by_reducer() -> None:
    reducer = experimental.Reducer(lambda key: np.int64(0), lambda total, x: total + x, lambda total: total)
    assert values(Dataset.range(7).apply(experimental.group_by_reducer(lambda x: x % 2, reducer))) == [12, 9]
    pairs = experimental.Reducer(
        lambda key: (key, np.int64(0)), lambda state, x: (state[0], state[1] + 1), lambda key, count: (key, count)
    )
    assert values(Dataset.range(7).apply(experimental.group_by_reducer(lambda x: x % 3, pairs))) == [
        (0, 3),
        (1, 2),
        (2, 2),
    ]


def test_buckets_by_length() -> None:
    dataset = Dataset.from_tensor_slices([1, 5, 2, 6, 1, 3]).map(lambda n: tf.range(n))
    bucketed = dataset.apply(experimental.bucket_by_sequence_length(tf.size, [3, 6], [2, 1, 1]))
    assert [e.shape for e in elements(bucketed)] == [(1, 5), (2, 2), (1, 6), (1, 3), (1, 1)]
    padded = dataset.filter(lambda x: tf.size(x) < 6).apply(
        experimental.bucket_by_sequence_length(tf.size, [3, 6], [2, 1, 1], pad_to_bucket_boundary=True)
    )
    assert [e.shape for e in elements(padded)] == [(1, 5), (2, 2), (1, 5), (1, 2)]
    with pytest.raises(ValueError, match="bucket_batch_sizes"):
        experimental.bucket_by_sequence_length(tf.size, [3], [1])


def test_choosing_and_sampling() -> None:
    datasets = [Dataset.from_tensors(letter).repeat(3) for letter in ("a", "b", "c")]
    chosen = experimental.choose_from_datasets(datasets, Dataset.from_tensor_slices(np.array([2, 0, 2, 1, 2, 2, 0])))
    assert values(chosen) == [b"c", b"a", b"c", b"b", b"c", b"a"]
    endless = [Dataset.from_tensors(i).repeat() for i in range(3)]
    drawn = values(experimental.sample_from_datasets(endless, [0.0, 0.25, 0.75], seed=1), 400)
    assert 0 not in drawn and 60 < drawn.count(1) < 140
    assert values(experimental.sample_from_datasets(endless, seed=3), 20) == values(
        experimental.sample_from_datasets(endless, seed=3), 20
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
        values(experimental.choose_from_datasets(datasets, Dataset.range(5, 6)))
    with pytest.raises(TypeError, match="same type"):
        experimental.sample_from_datasets([Dataset.range(3), Dataset.from_tensors(1.0)])


def test_dense_rows_as_sparse_batches() -> None:
    dataset = Dataset.range(4).map(lambda n: tf.fill([n], n)).apply(experimental.dense_to_sparse_batch(3, [4]))
    first, second = elements(dataset)
    assert first.indices.tolist() == [[1, 0], [2, 0], [2, 1]]
    assert first.values.tolist() == [1, 2, 2] and first.dense_shape.tolist() == [3, 4]
    assert second.values.tolist() == [3, 3, 3]
    with pytest.raises(tf.errors.DataLossError, match="exceeds"):
        elements(Dataset.from_tensors([1, 2, 3]).apply(experimental.dense_to_sparse_batch(1, [2])))


def test_rejection_changes_the_distribution() -> None:
    data = np.random.default_rng(0).integers(0, 10, 2000) == 0
    for initial in (None, [0.9, 0.1]):
        with tf.Graph().as_default():
            dataset = Dataset.from_tensor_slices(data.astype(np.int32))
            resampled = dataset.apply(
                experimental.rejection_resample(lambda x: x, [0.5, 0.5], initial_dist=initial, seed=1)
            ).batch(10_000)
            (batch,) = elements(resampled)
            assert batch[0].tolist() == batch[1].tolist()
            assert 0.4 < batch[0].mean() < 0.6


def test_unique_and_take_while() -> None:
    assert values(Dataset.from_tensor_slices([b"a", b"b", b"a"]).apply(experimental.unique())) == [b"a", b"b"]
    with pytest.raises(TypeError, match="unique"):
        Dataset.from_tensors(1.0).apply(experimental.unique())
    assert values(Dataset.range(9).apply(experimental.take_while(lambda x: x * x < 10))) == [0, 1, 2, 3]


def test_counters_and_random_numbers() -> None:
    assert values(experimental.Counter(3, -2), 3) == [3, 1, -1]
    assert values(experimental.Counter(1, 2, tf.int32).map(lambda x: x), 3) == [1, 3, 5]
    numbers = experimental.RandomDataset(seed=4)
    assert values(numbers, 5) == values(numbers, 5)
    assert all(0 <= x < 2**32 for x in values(numbers, 20))


def test_states_that_change_their_shape() -> None:
    def grow(state: Any, x: Any) -> Any:
        new = tf.concat([state, [x]], 0)
        return new, tf.size(new)

    dataset = Dataset.range(4).apply(experimental.scan(tf.zeros([0], tf.int64), grow))
    assert values(dataset) == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="pair"):
        Dataset.range(3).apply(experimental.scan(np.int64(0), lambda s, x: s))


def test_prefetching_to_a_device_is_prefetching() -> None:
    assert values(Dataset.range(3).apply(experimental.prefetch_to_device("/cpu:0"))) == [0, 1, 2]
    assert plain(elements(Dataset.range(3).apply(experimental.copy_to_device("/cpu:0")))) == [0, 1, 2]


def test_the_names_of_policies() -> None:
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = experimental.AutoShardPolicy.DATA
    assert options.experimental_distribute.auto_shard_policy.name == "DATA"
    assert experimental.AUTOTUNE == -1 and experimental.INFINITE_CARDINALITY == -1


def test_configurations_of_the_service() -> None:
    service = tf.data.experimental.service
    dispatcher = service.DispatcherConfig(port=5050, work_dir="/tmp/journal", fault_tolerant_mode=True)
    assert dispatcher == (5050, "grpc", "/tmp/journal", True, None, 0, 0, None, 0)
    assert dispatcher.protocol == "grpc" and dispatcher.job_gc_timeout_ms == 0
    worker = service.WorkerConfig("localhost:5050", heartbeat_interval_ms=100)
    assert worker == ("localhost:5050", "localhost:%port%", 0, "grpc", 100, 0, None, "localhost:%dts_port%")
    assert worker._replace(port=3).port == 3
