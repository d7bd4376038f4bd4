"""Lookup tables: looking up, filling, changing, files, sharing, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def static(keys=("a", "b"), values=(1, 2), default=-1, **kwargs):
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(list(keys), list(values), **kwargs), default)


def run(fetch, feed=None):
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        return sess.run(fetch, feed)


@pytest.mark.parametrize(
    ("keys", "values", "default"),
    [(["a", "b"], [1, 2], -1), ([1, 2], ["x", "y" * 50], "?"), ([1.5, -0.0], [3.0, 4.0], 0.0)],
)
def test_lookup(keys, values, default):
    table = static(keys, values, default)
    out = run(table.lookup(tf.constant([[keys[1], keys[0]]])))
    want = [[values[1], values[0]]]
    assert out.tolist() == (np.array(want, object).astype(bytes).tolist() if isinstance(default, str) else want)
    assert run(table.size()) == 2


def test_missing_keys_give_the_default():
    table = static()
    assert run(table.lookup(tf.constant([["a", "z"], ["", "b"]]))).tolist() == [[1, -1], [-1, 2]]
    sparse = table.lookup(tf.SparseTensor([[0, 1]], ["b"], [2, 2]))
    assert run(sparse).values.tolist() == [2]
    assert static([0.0], [1]).lookup(tf.constant([-0.0])).shape.as_list() == [1]


def test_a_static_table_must_be_initialized_first():
    table = static()
    with tf.Session() as sess, pytest.raises(tf.errors.FailedPreconditionError, match="not initialized"):
        sess.run(table.lookup(tf.constant(["a"])))


def test_initializing_twice_is_allowed_with_equal_content_only():
    table = static()
    again = apply("InitializeTableV2", table.resource_handle, ["a", "b"], [1, 2])
    other = apply("InitializeTableV2", table.resource_handle, ["a", "b"], [1, 3])
    with tf.Session() as sess:
        sess.run(table.initializer)
        sess.run(again)
        with pytest.raises(tf.errors.FailedPreconditionError, match="different data"):
            sess.run(other)


def test_duplicate_keys():
    assert run(static(["a", "a"], [1, 1]).size()) == 1
    table = static(["a", "a"], [1, 2])
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"same key. Key a has 1 and trying to add value 2"):
        run(table.lookup(tf.constant(["a"])))


def test_mutable_tables():
    table = tf.lookup.MutableHashTable(tf.string, tf.int64, -1)
    insert, remove = table.insert(["a", "b", "c"], [1, 2, 3]), table.remove(["a", "zz"])
    with tf.Session() as sess:
        sess.run(insert)
        assert sess.run(table.lookup(tf.constant(["c", "d"]))).tolist() == [3, -1]
        sess.run(remove)
        assert sess.run(table.size()) == 2
        keys, values = sess.run(table.export())
        assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {b"b": 2, b"c": 3}
        sess.run(apply("LookupTableImportV2", table.resource_handle, ["q"], np.array([9])))
        assert sess.run(table.export())[0].tolist() == [b"q"]


def test_values_may_be_tensors():
    table = tf.lookup.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    with tf.Session() as sess:
        sess.run(table.insert(np.array([1, 2]), [[1.0, 2.0], [3.0, 4.0]]))
        out = table.lookup(tf.constant([2, 5], tf.int64))
        assert out.shape.as_list() == [2, 2]
        assert sess.run(out).tolist() == [[3.0, 4.0], [0.0, 0.0]]
        names = tf.lookup.MutableHashTable(tf.int64, tf.string, ["-", "-"])
        sess.run(names.insert(np.array([1]), [["x", "y"]]))
        assert sess.run(names.lookup(tf.constant([1, 2], tf.int64))).tolist() == [[b"x", b"y"], [b"-", b"-"]]


def test_text_files(tmp_path):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(b"one 1\ntwo 2\r\nthree 3")
    index = tf.lookup.TextFileIndex

    def table(**kwargs):
        options = {
            "key_dtype": tf.string, "key_index": index.WHOLE_LINE, "value_dtype": tf.int64,
            "value_index": index.LINE_NUMBER, "delimiter": " ", **kwargs,
        }  # fmt: skip
        return tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(path), **options), -1)

    assert run(table().lookup(tf.constant(["two 2", "one"]))).tolist() == [1, -1]
    assert run(table(key_index=0, value_index=1).lookup(tf.constant(["three", "x"]))).tolist() == [3, -1]
    assert run(table(vocab_size=2).size()) == 2
    assert run(table(value_index_offset=10).lookup(tf.constant(["one 1"]))).tolist() == [10]
    for bad, match in (
        (table(vocab_size=9), "vocab_size"),
        (table(key_index=5), "columns"),
        (table(value_index=0), "valid"),
    ):
        with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=match):
            sess.run(bad.initializer)
    missing = tf.lookup.TextFileInitializer(str(tmp_path / "none"), tf.string, -2, tf.int64, -1)
    with tf.Session() as sess, pytest.raises(tf.errors.NotFoundError):
        sess.run(tf.lookup.StaticHashTable(missing, -1).initializer)
    with pytest.raises(ValueError, match="int64"):
        table(value_dtype=tf.int32)


def test_wrong_types_and_shapes_are_refused():
    table = static()
    with pytest.raises(TypeError, match="string"):
        table.lookup(tf.constant([1]))
    mutable = tf.lookup.MutableHashTable(tf.string, tf.int64, -1)
    values = tf.placeholder(tf.int64)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2\].*\[3\]"):
            sess.run(mutable.insert(["a", "b"], values), {values: [1, 2, 3]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"int64.*float32"):
            sess.run(apply("LookupTableFindV2", mutable.resource_handle, ["a"], 1.0))
        with pytest.raises(tf.errors.InvalidArgumentError, match="a hash table"):
            sess.run(apply("ReadVariableOp", mutable.resource_handle, dtype=tf.float32))


def test_tables_of_old_graphs_work_by_reference():
    handle = apply("HashTable", key_dtype=tf.string, value_dtype=tf.int64)
    fill = apply("InitializeTable", handle, ["a"], np.array([5]))
    found = apply("LookupTableFind", handle, ["a", "b"], np.int64(-1))
    with tf.Session() as sess:
        sess.run(fill)
        assert sess.run(found).tolist() == [5, -1]
        assert sess.run(apply("LookupTableSize", handle)) == 1


def test_shared_tables():
    with tf.container("tables-test"):
        table = tf.lookup.MutableHashTable(tf.string, tf.int64, -1, shared_name="shared")
    with tf.Session() as one, tf.Session() as two:
        one.run(table.insert(["a"], [7]))
        assert two.run(table.lookup(tf.constant("a"))) == 7
    tf.Session.reset("", ["tables-test"])
    with tf.Session() as sess:
        assert sess.run(table.size()) == 0
