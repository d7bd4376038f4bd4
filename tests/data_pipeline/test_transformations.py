"""Each transformation of structured elements: values, static shapes and types, order."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data_pipeline.elements import elements, plain, values

Dataset = tf.data.Dataset
Pair = collections.namedtuple("Pair", ["left", "right"])


def test_slices_keep_the_structure_of_their_source() -> None:
    source = {"x": np.arange(3, dtype=np.float32), "y": (np.array([b"a", b"b", b"c"]), np.eye(3))}
    dataset = Dataset.from_tensor_slices(source)
    assert dataset.output_types == {"x": tf.float32, "y": (tf.string, tf.float64)}
    assert dataset.output_shapes["y"][1].as_list() == [3]
    assert values(dataset)[1] == {"x": 1.0, "y": (b"b", [0.0, 1.0, 0.0])}


def test_namedtuples_stay_namedtuples() -> None:
    dataset = Dataset.from_tensors(Pair(1, 2.0)).map(lambda pair: Pair(pair.right, pair.left))
    (element,) = elements(dataset)
    assert type(element) is Pair
    assert plain(element) == (2.0, 1)


def test_large_slices_share_memory_and_small_ones_do_not_change_their_source() -> None:
    large = np.arange(4 * 1000, dtype=np.float64).reshape(4, 1000)
    assert [e.tolist() for e in elements(Dataset.from_tensor_slices(large))] == large.tolist()


def test_a_batch_has_a_static_size_if_the_remainder_is_dropped() -> None:
    dataset = Dataset.range(10)
    assert dataset.batch(4).output_shapes.as_list() == [None]
    assert dataset.batch(4, drop_remainder=True).output_shapes.as_list() == [4]
    assert values(dataset.batch(4, drop_remainder=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert values(dataset.batch(4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_strings_are_batched() -> None:
    dataset = Dataset.from_tensor_slices([b"a", b"", b"a longer string than fits inside"]).batch(2)
    assert values(dataset) == [[b"a", b""], [b"a longer string than fits inside"]]


def test_a_batch_size_far_beyond_the_data_needs_no_memory() -> None:
    assert values(Dataset.range(3).batch(1 << 50)) == [[0, 1, 2]]


def test_padded_batches_pad_to_the_longest_or_to_a_given_size() -> None:
    dataset = Dataset.range(1, 4).map(lambda n: (tf.fill([n], n), tf.fill([n], "x")))
    padded = dataset.padded_batch(2, ([None], [4]), (np.int64(-1), "-"))
    assert padded.output_shapes[1].as_list() == [None, 4]
    assert values(padded) == [
        ([[1, -1], [2, 2]], [[b"x", b"-", b"-", b"-"], [b"x", b"x", b"-", b"-"]]),
        ([[3, 3, 3]], [[b"x", b"x", b"x", b"-"]]),
    ]


def test_padding_of_several_dimensions() -> None:
    dataset = Dataset.range(1, 3).map(lambda n: tf.ones([n, 3 - n], tf.int32))
    assert values(dataset.padded_batch(2, [None, None])) == [[[[1, 1], [0, 0]], [[1, 0], [1, 0]]]]


def test_unbatch_undoes_batch() -> None:
    dataset = Dataset.from_tensor_slices((np.arange(5), np.eye(5))).batch(2).unbatch()
    assert dataset.output_shapes[1].as_list() == [5]
    assert [x for x, _ in values(dataset)] == [0, 1, 2, 3, 4]


def test_windows_are_datasets() -> None:
    windows = Dataset.range(7).window(3, shift=2, drop_remainder=True)
    assert values(windows.flat_map(lambda w: w.batch(3))) == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    pairs = Dataset.zip((Dataset.range(4), Dataset.range(4, 8))).window(2)
    joined = pairs.flat_map(lambda a, b: Dataset.zip((a.batch(2), b.batch(2))))
    assert values(joined) == [([0, 1], [4, 5]), ([2, 3], [6, 7])]


def test_shuffling_keeps_the_elements_and_follows_its_seed() -> None:
    dataset = Dataset.range(50).shuffle(20, seed=7)
    first = values(dataset)
    assert sorted(first) == list(range(50)) and first != list(range(50))
    assert values(dataset) == first
    assert values(Dataset.range(50).shuffle(20, seed=8)) != first


def test_shuffling_moves_an_element_forward_by_less_than_the_buffer() -> None:
    order = values(Dataset.range(100).shuffle(10, seed=1))
    assert all(value <= place + 9 for place, value in enumerate(order))


@pytest.mark.parametrize("again", [True, False])
def test_each_round_has_an_order_of_its_own_unless_told_otherwise(again: bool) -> None:
    dataset = Dataset.range(20).shuffle(20, seed=3, reshuffle_each_iteration=again).repeat(2)
    order = values(dataset)
    assert sorted(order[:20]) == sorted(order[20:]) == list(range(20))
    assert (order[:20] != order[20:]) == again


def test_a_seed_gives_tensorflows_order() -> None:
    # What TensorFlow 1.15 gives for these programs.
    assert values(Dataset.range(12).shuffle(12, seed=7)) == [4, 10, 2, 3, 9, 8, 5, 1, 6, 7, 0, 11]
    assert values(Dataset.range(12).shuffle(4, seed=7, reshuffle_each_iteration=False)) == [
        3, 4, 0, 5, 1, 8, 2, 10, 6, 7, 9, 11,
    ]  # fmt: skip
    assert values(Dataset.range(12).shuffle(12, seed=7).map(lambda x: x).repeat(2)) == [
        4, 10, 2, 3, 9, 8, 5, 1, 6, 7, 0, 11, 1, 11, 3, 2, 10, 0, 5, 9, 6, 8, 7, 4,
    ]  # fmt: skip
    fused = [3, 4, 0, 5, 1, 8, 2, 10, 6, 7, 9, 11, 1, 0, 5, 2, 6, 4, 9, 3, 7, 10, 11, 8]
    assert values(Dataset.range(12).shuffle(4, seed=7).repeat(2)) == fused
    assert values(Dataset.range(12).apply(tf.data.experimental.shuffle_and_repeat(4, 2, seed=7))) == fused
    repeated = [2, 4, 0, 3, 8, 1, 9, 10, 5, 1, 0, 2, 3, 7, 6, 7, 5, 8, 10, 11, 6, 11, 4, 9]
    assert values(Dataset.range(12).repeat(2).shuffle(5, seed=7)) == repeated
    random = tf.data.experimental.RandomDataset(seed=5).take(3)
    assert values(random) == [3568415791, 2798973839, 2476249224]


def test_the_seed_of_the_graph_counts() -> None:
    def order(seed: int) -> Any:
        with tf.Graph().as_default():
            tf.set_random_seed(seed)
            return values(Dataset.range(30).shuffle(30))

    assert order(1) == order(1) != order(2)


def test_without_a_seed_two_runs_differ() -> None:
    dataset = Dataset.range(100).shuffle(100)
    assert values(dataset) != values(dataset)


def test_a_cache_computes_once(tmp_path: Any) -> None:
    for filename in ("", str(tmp_path / "cache")):
        calls: list[int] = []

        def count(x: Any, calls: list[int] = calls) -> Any:
            calls.append(int(x))
            return x

        dataset = Dataset.range(3).map(lambda x: tf.py_func(count, [x], tf.int64)).cache(filename).repeat(3)
        assert values(dataset) == [0, 1, 2] * 3
        assert calls == [0, 1, 2]
    assert values(Dataset.range(9).cache(str(tmp_path / "cache"))) == [0, 1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["cache.cache"]


def test_a_cache_that_was_not_filled_leaves_nothing_behind(tmp_path: Any) -> None:
    assert values(Dataset.range(9).cache(str(tmp_path / "cache")).take(3)) == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_cache_is_an_error(tmp_path: Any) -> None:
    dataset = Dataset.range(3).cache(str(tmp_path / "cache"))
    values(dataset)
    path = tmp_path / "cache.cache"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(tf.errors.DataLossError, match=r"cache\.cache"):
        values(dataset)


def test_map_functions_see_variables_and_tables() -> None:
    variable = tf.Variable(10, dtype=tf.int64, use_resource=True)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0, 1], ["zero", "one"], tf.int64), "many")
    dataset = Dataset.range(3).map(lambda x: (x + variable, table.lookup(x)))
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run([variable.initializer, tf.tables_initializer()])
        session.run(iterator.initializer)
        assert plain(session.run(element)) == (10, b"zero")
        session.run(variable.assign(100))
        assert plain(session.run(element)) == (101, b"one")
        assert plain(session.run(element)) == (102, b"many")


def test_random_ops_inside_a_map_differ_from_element_to_element() -> None:
    dataset = Dataset.range(20).map(lambda x: tf.random_uniform([], seed=1))
    assert len(set(values(dataset))) == 20


def test_control_flow_inside_a_map() -> None:
    dataset = Dataset.range(5).map(lambda x: tf.cond(x > 2, lambda: x, lambda: -x))
    assert values(dataset) == [0, -1, -2, 3, 4]
    looped = Dataset.range(4).map(
        lambda n: tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), (0 * n, 0 * n))[1]
    )
    assert values(looped) == [0, 0, 1, 3]


def test_a_map_that_waits_for_a_queue_holds_no_thread_and_gives_what_comes() -> None:
    queue = tf.FIFOQueue(10, tf.int64, shapes=[()])
    for calls in (None, 3):
        with tf.Graph().as_default():
            queue = tf.FIFOQueue(10, tf.int64, shapes=[()])
            dataset = Dataset.range(3).map(lambda x, q=queue: x * 0 + q.dequeue(), calls)
            iterator = dataset.make_initializable_iterator()
            element = iterator.get_next()
            fill = queue.enqueue_many([np.array([7, 7, 7], np.int64)])
            with tf.Session() as session:
                session.run(iterator.initializer)
                session.run(fill)
                assert [int(session.run(element)) for _ in range(3)] == [7, 7, 7]


def test_parallel_maps_keep_the_order() -> None:
    dataset = Dataset.range(300).map(lambda x: x * 2, num_parallel_calls=4)
    assert values(dataset) == list(range(0, 600, 2))


def test_a_sloppy_pipeline_gives_the_same_elements() -> None:
    options = tf.data.Options()
    options.experimental_deterministic = False
    dataset = Dataset.range(200).map(lambda x: x + 1, num_parallel_calls=4).with_options(options)
    assert sorted(values(dataset)) == list(range(1, 201))
    woven = Dataset.range(4).interleave(lambda x: Dataset.range(5), 3, 1, num_parallel_calls=3, deterministic=False)
    assert sorted(values(woven)) == sorted([0, 1, 2, 3, 4] * 4)


def test_reduce_folds_structures() -> None:
    dataset = Dataset.from_tensor_slices((np.arange(5), np.ones(5, np.float32)))
    state = dataset.reduce((np.int64(0), 0.0), lambda s, e: (s[0] + e[0], s[1] + e[1]))
    grown = Dataset.range(4).reduce(tf.zeros([0], tf.int64), lambda s, x: tf.concat([s, [x]], 0))
    assert grown.shape.as_list() == [None]
    with tf.Session() as session:
        assert plain(session.run(state)) == (10, 5.0)
        assert session.run(grown).tolist() == [0, 1, 2, 3]


def test_elements_that_are_sparse() -> None:
    sparse = tf.SparseTensor([[0, 0], [1, 2], [3, 1]], [1, 2, 3], [4, 3])
    assert [e.values.tolist() for e in elements(Dataset.from_tensor_slices(sparse))] == [[1], [2], [], [3]]
    (batch, *_) = elements(Dataset.from_sparse_tensor_slices(sparse).batch(4))
    assert batch.indices.tolist() == [[0, 0], [1, 2], [3, 1]]
    assert batch.dense_shape.tolist() == [4, 3]
    dense = Dataset.from_tensor_slices(sparse).map(lambda s: tf.sparse_tensor_to_dense(s))
    assert values(dense) == [[1, 0, 0], [0, 0, 2], [0, 0, 0], [0, 3, 0]]
    rows = Dataset.from_tensors(sparse).unbatch()
    assert [e.values.tolist() for e in elements(rows)] == [[1], [2], [], [3]]
    assert rows.output_classes is tf.SparseTensor


def test_get_single_element() -> None:
    with tf.Session() as session:
        assert int(session.run(tf.data.experimental.get_single_element(Dataset.range(3, 4)))) == 3
        for length, text in ((0, "empty"), (2, "more than one")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(tf.data.experimental.get_single_element(Dataset.range(length)))


def test_options_are_merged_and_checked() -> None:
    first, second = tf.data.Options(), tf.data.Options()
    first.experimental_deterministic = False
    second.experimental_optimization.map_fusion = True
    merged = first.merge(second)
    assert merged.experimental_deterministic is False and merged.experimental_optimization.map_fusion is True
    assert merged != first and first.merge(tf.data.Options()) == first
    with pytest.raises(TypeError, match="bool"):
        first.experimental_deterministic = 3
    with pytest.raises(AttributeError, match="nonsense"):
        first.nonsense = 3
