"""Embedding look-ups: one table, sharded tables, combined rows; and confusion matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

TABLE = np.arange(22, dtype=np.float32).reshape(11, 2)


def _run(fetch: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetch)


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


def test_one_table_is_a_gather() -> None:
    found = tf.nn.embedding_lookup(TABLE, [[3, 0], [10, 3]])
    assert found.shape.as_list() == [2, 2, 2]
    assert np.array_equal(_run(found), TABLE[[[3, 0], [10, 3]]])
    with pytest.raises(tf.errors.InvalidArgumentError):
        _run(tf.nn.embedding_lookup(TABLE, [11]))


@pytest.mark.parametrize("count", [2, 3, 4, 11])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_shards_hold_rows_by_remainder_or_by_range(count: int, dtype: Any) -> None:
    ids = tf.constant([[0, 10, 5], [7, 7, 1]], dtype)
    by_mod = [tf.constant(TABLE[i::count]) for i in range(count)]
    by_div = [tf.constant(part) for part in np.array_split(TABLE, count)]
    expected = TABLE[_run(ids)]
    assert np.array_equal(_run(tf.nn.embedding_lookup(by_mod, ids)), expected)
    assert np.array_equal(_run(tf.nn.embedding_lookup(by_div, ids, "div")), expected)


def test_rows_are_clipped_to_a_norm() -> None:
    found = _run(tf.nn.embedding_lookup(TABLE, [0, 1, 5], max_norm=4.0))
    norms = np.linalg.norm(TABLE[[0, 1, 5]], axis=1, keepdims=True)
    np.testing.assert_allclose(found, TABLE[[0, 1, 5]] * np.minimum(1, 4 / np.maximum(norms, 1e-9)), rtol=1e-6)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="strategy"):
        tf.nn.embedding_lookup(TABLE, [0], "modulo")
    with pytest.raises(ValueError, match="at least one"):
        tf.nn.embedding_lookup([], [0])
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.nn.embedding_lookup_sparse(TABLE, [0], None)
    with pytest.raises(ValueError, match="combiner"):
        tf.nn.embedding_lookup_sparse(TABLE, _ids(), None, combiner="product")


def _ids(*values: int) -> Any:
    return tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant(values or (3, 1, 3), tf.int64), [2, 2])


def _weights(*values: float) -> Any:
    return tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant(values or (2.0, 1.0, 0.5)), [2, 2])


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_rows_are_combined(combiner: str) -> None:
    divide = {"sum": lambda w: 1.0, "mean": np.sum, "sqrtn": lambda w: np.sqrt(np.sum(np.square(w)))}[combiner]
    for weights, w in ((None, [[1.0, 1.0], [1.0]]), (_weights(), [[2.0, 1.0], [0.5]])):
        found = _run(tf.nn.embedding_lookup_sparse(TABLE, _ids(), weights, combiner=combiner))
        expected = [(TABLE[[3, 1]] * np.array(w[0])[:, None]).sum(0) / divide(w[0]), TABLE[3] * w[1][0] / divide(w[1])]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_safe_look_up_drops_invalid_ids_and_fills_empty_rows() -> None:
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([3, -1, -5], tf.int64), [4, 2])
    found = _run(tf.nn.safe_embedding_lookup_sparse(TABLE, ids))
    assert np.array_equal(found, [TABLE[3], [0, 0], [0, 0], [0, 0]])
    found = _run(tf.nn.safe_embedding_lookup_sparse(TABLE, ids, default_id=2))
    assert np.array_equal(found, TABLE[[3, 2, 2, 2]])


def test_safe_look_up_takes_higher_ranks_and_weights() -> None:
    at = [[0, 0, 0], [0, 1, 1], [1, 0, 0]]
    ids = tf.SparseTensor(at, tf.constant([3, 4, 5], tf.int64), [2, 2, 2])
    weights = tf.SparseTensor(at, tf.constant([2.0, 0.0, 1.0]), [2, 2, 2])
    found = _run(tf.nn.safe_embedding_lookup_sparse(TABLE, ids, weights))
    assert np.array_equal(found, [[TABLE[3], [0, 0]], [TABLE[5], [0, 0]]])


def test_gradients_reach_the_rows_that_were_looked_up() -> None:
    table = tf.constant(TABLE)
    shards = [table[:6], table[6:]]
    loss = tf.reduce_sum(tf.nn.embedding_lookup(shards, [7, 7, 0], "div"))
    expected = np.zeros_like(TABLE)
    expected[7], expected[0] = 2, 1
    assert np.array_equal(_run(tf.convert_to_tensor(tf.gradients(loss, table)[0])), expected)


def test_confusion_matrix_counts_labels_by_predictions() -> None:
    assert _run(tf.confusion_matrix([1, 2, 1], [1, 0, 2])).tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 0]]
    weighted = tf.confusion_matrix([0, 1], [0, 1], num_classes=2, dtype=tf.float32, weights=[0.5, 2.0])
    assert _run(weighted).tolist() == [[0.5, 0.0], [0.0, 2.0]]
    for labels in ([3], [-1]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            _run(tf.confusion_matrix(labels, [0], num_classes=2))


def test_order_of_elements() -> None:
    cases = [([], True, True), ([1], True, True), ([1, 1], True, False), ([1, 2], True, True), ([2, 1], False, False)]
    for values, not_decreasing, increasing in cases:
        x = tf.constant(values, tf.int32)
        assert bool(_run(tf.is_non_decreasing(x))) is not_decreasing
        assert bool(_run(tf.is_strictly_increasing(x))) is increasing


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_rows_without_ids_are_zeros_with_weights_too(combiner: str) -> None:
    ids = tf.SparseTensor([[0, 0], [2, 0], [3, 0]], tf.constant([1, 0, 1], tf.int64), [4, 1])
    weights = tf.SparseTensor(ids.indices, [2.0, 3.0, 0.0], [4, 1])
    rows = tf.nn.embedding_lookup_sparse(tf.constant([[1.0, 2.0], [3.0, 4.0]]), ids, weights, combiner=combiner)
    with tf.Session() as session:
        assert session.run(rows).tolist() == [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]


def test_rows_are_gathered_on_the_devices_of_their_shards_without_reading_the_shards() -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        table = tf.get_variable("table", [6, 4], partitioner=tf.fixed_size_partitioner(2))
        before = {op.name for op in graph.get_operations()}
        rows = tf.nn.embedding_lookup(table, [1, 5], "div")
        tf.gradients(rows, list(table), colocate_gradients_with_ops=True)
        made = [op for op in graph.get_operations() if op.name not in before]
    gathers = [op for op in made if op.type == "ResourceGather"]
    assert [op.device for op in gathers] == ["/job:ps/task:0", "/job:ps/task:1"]
    assert not [op for op in made if op.type == "ReadVariableOp"]
    # A gradient that is tied to a gather asks for no other device than the gather.
    assert {op.device for op in made if "Gather_grad" in op.name} == {"/job:ps/task:0"}
