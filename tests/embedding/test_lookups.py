"""Looking up rows of embedding variables: combiners, parts, feature columns, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def filled(session: Any, table: Any, keys: Any, values: np.ndarray) -> None:
    session.run(tf.global_variables_initializer())
    session.run(tf.nn.insert_rows(table, keys, values))


@pytest.mark.parametrize("parts", [0, 3])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_combiners_agree_with_a_dense_variable(parts: int, combiner: str, weighted: bool) -> None:
    values = np.random.default_rng(1).normal(size=[6, 3]).astype(np.float32)
    words = np.array([b"a", b"bb", b"ccc", b"", b"e\0f", b"g" * 50])
    places = [[0, 0], [0, 1], [1, 0], [3, 0], [3, 2]]
    numbers = [0, 5, 3, 4, 0]
    table = tf.get_embedding_variable(
        "table", 3, tf.string, partitioner=tf.fixed_size_partitioner(parts) if parts else None
    )
    ids = tf.SparseTensor(places, tf.constant(words[numbers]), [4, 3])
    dense_ids = tf.SparseTensor(places, numbers, [4, 3])
    weights = tf.SparseTensor(places, [1.0, 2.0, 0.5, 3.0, 1.0], [4, 3]) if weighted else None
    found = tf.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner)
    expected = tf.nn.safe_embedding_lookup_sparse(tf.constant(values), dense_ids, weights, combiner)
    with tf.Session() as session:
        filled(session, table, words, values)
        a, b = session.run([found, expected])
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_negative_ids_are_ids_like_any_other() -> None:
    table = tf.get_embedding_variable("table", 1, initializer=tf.ones_initializer())
    ids = tf.SparseTensor([[0, 0], [1, 0]], np.array([-5, 3]), [2, 1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(tf.nn.safe_embedding_lookup_sparse(table, ids)).tolist() == [[1], [1]]


def test_a_lookup_changes_nothing_and_first_values_depend_on_id_and_seed_only() -> None:
    options = tf.EmbeddingOptions(seed=3)
    a = tf.get_embedding_variable("a", 4, options=options)
    b = tf.get_embedding_variable("b", 4, options=options, partitioner=tf.fixed_size_partitioner(4))
    c = tf.get_embedding_variable("c", 4)
    ids = np.array([[1, 2], [1, -3]])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, parts, other = session.run([tf.nn.embedding_lookup(v, ids) for v in (a, b, c)])
        assert session.run(a.size()) == 0
    assert (first == parts).all() and first.shape == (2, 2, 4)
    assert (first[0, 0] == first[1, 0]).all() and (first[0, 0] != first[0, 1]).all() and (first != other).all()
    assert np.abs(first).max() <= 1.0  # two standard deviations of 1 / sqrt(4)


@pytest.mark.parametrize(
    ("initializer", "low", "high"),
    [
        (tf.zeros_initializer(), 0, 0),
        (tf.ones_initializer, 1, 1),
        (0.25, 0.25, 0.25),
        (tf.constant_initializer(2.0), 2, 2),
        (tf.random_uniform_initializer(3.0, 4.0), 3, 4),
        (tf.random_normal_initializer(10.0, 0.1), 9, 11),
        (tf.truncated_normal_initializer(0.0, 0.5), -1, 1),
    ],
)
def test_initializers(initializer: Any, low: float, high: float) -> None:
    table = tf.get_embedding_variable("table", 7, initializer=initializer)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        rows = session.run(table.lookup(np.arange(200)))
    assert rows.min() >= low and rows.max() <= high
    if low != high:
        assert abs(rows.mean() - (low + high) / 2) < 0.1 and len(np.unique(rows)) > 1000


def test_feature_columns_with_open_ids() -> None:
    column = tf.feature_column.categorical_column_with_embedding("word", tf.string)
    embedded = tf.feature_column.embedding_column(column, 3, combiner="sum", initializer=tf.zeros_initializer())
    words = tf.placeholder(tf.string, [None, 2])
    layer = tf.feature_column.input_layer({"word": words}, [embedded])
    step = tf.train.GradientDescentOptimizer(1.0).minimize(-tf.reduce_sum(layer))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {words: [["red", "blue"], ["red", ""]]})
        out = session.run(layer, {words: [["red", "green"], ["blue", "blue"]]})
    assert out.tolist() == [[2, 2, 2], [2, 2, 2]]
    numbers = tf.feature_column.categorical_column_with_embedding("n")
    with pytest.raises(ValueError, match="open ids"):
        tf.feature_column.input_layer({"n": tf.constant([[1]])}, [tf.feature_column.indicator_column(numbers)])
    with pytest.raises(ValueError, match="int64 or string"):
        tf.feature_column.categorical_column_with_embedding("n", tf.float32)


def test_admission_and_eviction_options_and_statistics() -> None:
    options = tf.EmbeddingOptions(admit_after=2, max_rows=500, steps_to_live=50)
    table = tf.get_embedding_variable("table", 2, options=options)
    ids = tf.placeholder(tf.int64, [None])
    step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(table.lookup(ids)))
    stats = table.statistics()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {ids: [1, 2, 3]})
        assert session.run(stats["rows"]) == 0
        session.run(step, {ids: [1, 2]})
        found = session.run(stats)
        assert (found["rows"], found["admissions"], found["rejections"], found["misses"]) == (2, 2, 3, 5)
        session.run(step, {ids: np.repeat(np.arange(1000, 3000), 2)})
        assert session.run(stats["rows"]) <= 500
        for _ in range(60):
            session.run(step, {ids: [1]})
        session.run(table.evict())
        assert session.run(stats["rows"]) == 1


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_reduced_precision_learns(precision: str) -> None:
    table = tf.get_embedding_variable("table", 8, options=tf.EmbeddingOptions(precision=precision))
    target = np.linspace(-1, 1, 8, dtype=np.float32)
    loss = tf.reduce_mean(tf.square(table.lookup([1, 2, 3]) - target))
    step = tf.train.AdagradOptimizer(0.3).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(200):
            session.run(step)
        assert session.run(loss) < 1e-3


def test_reuse_and_scopes() -> None:
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        first = tf.get_embedding_variable("table", 2)
        assert tf.get_embedding_variable("table", 2) is first and first.op.name == "a/table"
        with pytest.raises(ValueError, match="rows of 2"):
            tf.get_embedding_variable("table", 3)
        tf.get_variable("w", [2])
        with pytest.raises(ValueError, match="not an embedding variable"):
            tf.get_embedding_variable("w", 2)
    with pytest.raises(ValueError, match="already exists"), tf.variable_scope("a"):
        tf.get_embedding_variable("table", 2)
    with pytest.raises(ValueError, match="does not exist"), tf.variable_scope("b", reuse=True):
        tf.get_embedding_variable("table", 2)


def test_bad_arguments_are_refused() -> None:
    table = tf.get_embedding_variable("table", 2)
    for build, match in (
        (lambda: tf.get_embedding_variable("x", 0), "positive"),
        (lambda: tf.get_embedding_variable("x", 2, tf.float32), "int64 or string"),
        (lambda: tf.get_embedding_variable("x", 2, initializer=tf.glorot_uniform_initializer()), "initializer"),
        (lambda: tf.get_embedding_variable("x", 2, partitioner=tf.variable_axis_size_partitioner(1)), "partitioner"),
        (lambda: tf.EmbeddingOptions(precision="int4"), "precision"),
        (lambda: tf.EmbeddingOptions(admit_after=256), "admit_after"),
        (lambda: tf.EmbeddingOptions(max_rows=-1), "max_rows"),
        (lambda: tf.EmbeddingOptions(ram_bytes=1), "folder"),
        (lambda: table.insert([1, 2], np.zeros([2, 3])), "3"),
    ):
        with pytest.raises(ValueError, match=match):
            build()
    with pytest.raises(TypeError, match="int64"):
        table.lookup(["a"])
    with pytest.raises(NotImplementedError, match="insert"):
        table.assign(np.zeros([1, 2]))
    keys, rows = tf.placeholder(tf.int64), tf.placeholder(tf.float32)
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="not initialized"):
            session.run(table.lookup([1]))
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="one row of 2"):
            session.run(table.insert(keys, rows), {keys: [1, 2], rows: np.zeros([2, 3])})
        with pytest.raises(tf.errors.InvalidArgumentError, match="no slot"):
            session.run(table.export(["Adam"]))
