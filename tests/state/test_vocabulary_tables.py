"""Vocabulary and index tables, dense tables, malformed files, and the content of checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply

lookup = tf.contrib.lookup


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def run(fetches, feed=None):
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        return sess.run(fetches, feed)


def int64(*values):
    return tf.constant(list(values), tf.int64)


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words"
    path.write_bytes(b"emerson\nlake\npalmer\n")
    return str(path)


# The buckets are those of tensorflow 2.21.
def test_words_that_are_not_in_the_vocabulary_go_into_buckets(words):
    table = lookup.index_table_from_file(words, num_oov_buckets=10)
    out = run((table.lookup(tf.constant(["lake", "king", "palmer", "", "\0x"])), table.size()))
    assert out[0].tolist() == [1, 11, 2, 6, 10]
    assert out[1] == 13
    assert table.name == "hash_table"


def test_strong_hashes():
    table = lookup.index_table_from_tensor(["a"], num_oov_buckets=10, hasher_spec=lookup.StrongHashSpec([1, 2]))
    assert run(table.lookup(tf.constant([["a", "x"], ["y", "z"]]))).tolist() == [[0, 1], [6, 1]]
    with pytest.raises(ValueError, match="size 2"):
        lookup.StrongHashSpec([1])
    with pytest.raises(TypeError, match="HasherSpec"):
        lookup.index_table_from_tensor(["a"], num_oov_buckets=1, hasher_spec="fast")


def test_integers_as_keys():
    table = lookup.index_table_from_tensor([10, 20], num_oov_buckets=5, dtype=tf.int32)
    assert run(table.lookup(tf.constant([20, 7, 8, 10], tf.int32))).tolist() == [1, 5, 4, 0]
    plain = lookup.index_table_from_tensor([10, 20], dtype=tf.int32)
    assert run(plain.lookup(tf.constant([20, 7], tf.int32))).tolist() == [1, -1]


def test_static_vocabulary_tables(words):
    index = tf.lookup.TextFileIndex
    init = tf.lookup.TextFileInitializer(words, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    table = tf.lookup.StaticVocabularyTable(init, 10)
    sparse = tf.SparseTensor([[0, 1], [1, 0]], ["king", "lake"], [2, 2])
    dense, ids, size = run((table.lookup(tf.constant(["palmer"])), table.lookup(sparse), table.size()))
    assert (dense.tolist(), ids.values.tolist(), size) == ([2], [11, 1], 13)
    only_buckets = tf.lookup.StaticVocabularyTable(None, 5, lookup_key_dtype=tf.int64)
    assert run(only_buckets.lookup(int64(7, 8))).tolist() == [3, 2]
    assert run(only_buckets.size()) == 5
    for bad, error in (
        (lambda: tf.lookup.StaticVocabularyTable(init, 0), ValueError),
        (lambda: tf.lookup.StaticVocabularyTable(init, 1, lookup_key_dtype=tf.float32), TypeError),
        (lambda: tf.lookup.StaticVocabularyTable(init, 1, lookup_key_dtype=tf.int64), TypeError),
        (lambda: tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(["a"], ["b"]), 1), TypeError),
        (lambda: lookup.IdTableWithHashBuckets(None, 0), ValueError),
        (lambda: table.lookup(int64(5)), TypeError),
    ):
        with pytest.raises(error):
            bad()


def test_ids_back_to_words(words):
    table = lookup.index_to_string_table_from_file(words, default_value="?")
    assert run(table.lookup(int64(2, 0, 9))).tolist() == [b"palmer", b"emerson", b"?"]
    table = lookup.index_to_string_table_from_tensor(["x", "y"])
    assert run(table.lookup(int64(1, -1))).tolist() == [b"y", b"UNK"]
    assert run(lookup.string_to_index(tf.constant(["y", "q"]), ["x", "y"])).tolist() == [1, -1]
    assert run(lookup.index_to_string(int64(0), ["x", "y"])).tolist() == [b"x"]


def test_node_names_are_tensorflows(words, graph):
    table = lookup.index_table_from_file(words, num_oov_buckets=2)
    out = table.lookup(tf.constant(["a"]))
    names = {op.name for op in graph.get_operations()}
    assert out.op.name == "hash_table_Lookup/SelectV2"
    assert {
        "string_to_index/hash_table/asset_path", "string_to_index/hash_table/hash_table",
        "string_to_index/hash_table/table_init/InitializeTableFromTextFileV2", "hash_table_Lookup/hash_bucket",
        "hash_table_Lookup/hash_table_Lookup/LookupTableFindV2",
    } <= names  # fmt: skip
    assert [t.op.name for t in tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)] == [
        "string_to_index/hash_table/asset_path"
    ]


def test_tables_of_one_file_share_their_memory(words):
    one, two = lookup.index_table_from_file(words), lookup.index_table_from_file(words)
    with tf.Session() as sess:
        sess.run(one.initializer)
        assert sess.run(two.size()) == 3
        assert sess.run(lookup.index_table_from_file(words, vocab_size=2).size()) == 0


@pytest.mark.parametrize(
    ("content", "options", "error", "message"),
    [
        (None, {}, tf.errors.NotFoundError, "No such file"),
        (b"", {}, tf.errors.InvalidArgumentError, "the file is empty"),
        (b"a\nb\nc\n", {"vocab_size": 5}, tf.errors.InvalidArgumentError, "expected 5 but got 3"),
        (b"a\nb\na\n", {}, tf.errors.FailedPreconditionError, "Key a has 0 and trying to add value 2"),
        (b"a\n\nb\n", {}, tf.errors.InvalidArgumentError, "empty line found at position 3"),
        (b"a\r\n\r\nb\n", {}, tf.errors.InvalidArgumentError, "empty line found at position 5"),
        (b"a b\n", {"key_column_index": 1}, tf.errors.InvalidArgumentError, "expected at least 2 got 1"),
        (
            b"a\tx\n",
            {"value_column_index": 1},
            tf.errors.InvalidArgumentError,
            "Field x in line 0 is not a valid int64",
        ),
        (b"a\n", {"delimiter": ",,"}, tf.errors.InvalidArgumentError, "only 1 char"),
        (b"x\n", {"key_dtype": tf.int64}, tf.errors.InvalidArgumentError, "Field x in line 0 is not a valid int64"),
    ],
)
def test_files_that_make_no_table(content, options, error, message, tmp_path):
    path = tmp_path / "vocabulary"
    if content is not None:
        path.write_bytes(content)
    table = lookup.index_table_from_file(str(path), **options)
    with pytest.raises(error) as raised:
        run(table.size())
    assert message in str(raised.value)


def test_a_folder_is_no_vocabulary(tmp_path):
    table = lookup.index_table_from_file(str(tmp_path))
    with pytest.raises(tf.errors.FailedPreconditionError, match="directory"):
        run(table.size())


def test_odd_but_good_files(tmp_path):
    path = tmp_path / "vocabulary"
    path.write_bytes(b"a\0b\r\n  \nlast")
    table = lookup.index_table_from_file(str(path))
    assert run(table.lookup(tf.constant(["a\0b", "  ", "last", "a"]))).tolist() == [0, 1, 2, -1]


def test_arguments_that_make_no_table():
    for bad in (
        lambda: lookup.index_table_from_file(""),
        lambda: lookup.index_table_from_file("x", num_oov_buckets=-1),
        lambda: lookup.index_table_from_file("x", vocab_size=0),
        lambda: lookup.index_table_from_tensor(None),
        lambda: lookup.index_table_from_tensor([1, 2]),
        lambda: lookup.index_to_string_table_from_file(None),
        lambda: lookup.index_to_string_table_from_tensor(None),
        lambda: tf.lookup.TextFileInitializer("x", tf.string, -3, tf.int64, -1),
        lambda: tf.lookup.TextFileInitializer("x", tf.float32, -2, tf.int64, -1),
        lambda: tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), [1, 2]),
    ):
        with pytest.raises(ValueError, match=r"."):
            bad()
    for bad in (
        lambda: lookup.index_table_from_file("x", key_dtype=tf.float32),
        lambda: lookup.index_table_from_tensor([1.0], dtype=tf.float32),
    ):
        with pytest.raises(TypeError, match="integer or string"):
            bad()


def dense(**options):
    options = {"empty_key": -1, "deleted_key": -2, **options}
    return tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -7, **options)


def test_dense_tables():
    table = dense(initial_num_buckets=4)
    with tf.Session() as sess:
        sess.run(table.insert(int64(5, 6, 7), int64(1, 2, 3)))
        assert sess.run(table.lookup(int64(6, 9))).tolist() == [2, -7]
        keys, values = sess.run(table.export())
        assert keys.tolist() == [[-1], [5], [6], [7]]  # as TensorFlow has them
        assert values.tolist() == [[0], [1], [2], [3]]
        sess.run(table.insert(int64(13, 21), int64(4, 5)))
        keys, values = sess.run(table.export())
        assert sorted(keys.ravel().tolist()) == [-1, -1, -1, 5, 6, 7, 13, 21]
        sess.run(table.remove(int64(5, 99)))
        assert sess.run(table.size()) == 4
        sess.run(
            apply("LookupTableImportV2", table.resource_handle, int64([-1], [8], [-2], [9]), int64([0], [1], [0], [2]))
        )
        assert sess.run(table.lookup(int64(8, 9, 5))).tolist() == [1, 2, -7]
        assert sess.run(table.size()) == 2


def test_dense_tables_of_vectors_and_strings():
    table = tf.lookup.experimental.DenseHashTable(tf.string, tf.float32, [0.0, 0.0], "", "X", initial_num_buckets=4)
    pairs = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.0, [0, 0], [-1, -1], initial_num_buckets=4)
    found = pairs.lookup(tf.constant([[3, 4], [9, 9]], tf.int64))
    assert found.shape.as_list() == [2]
    with tf.Session() as sess:
        sess.run(table.insert(["a", "b"], [[1.0, 2.0], [3.0, 4.0]]))
        assert sess.run(table.lookup(tf.constant(["b", "z"]))).tolist() == [[3, 4], [0, 0]]
        keys, values = sess.run(table.export())
        assert keys.tolist() == [[b"a"], [b""], [b"b"], [b""]]
        assert values.tolist() == [[1, 2], [0, 0], [3, 4], [0, 0]]
        sess.run(pairs.insert(tf.constant([[1, 2], [3, 4]], tf.int64), [1.0, 2.0]))
        assert sess.run(found).tolist() == [2, 0]
        keys, values = sess.run(pairs.export())
        assert keys.tolist() == [[3, 4], [0, 0], [0, 0], [1, 2]]
        assert values.tolist() == [[2], [0], [0], [1]]


def test_dense_tables_refuse_special_keys_and_bad_sizes():
    table = dense()
    for op, message in (
        (table.lookup(int64(-1)), "Using the empty_key as a table key is not allowed"),
        (table.insert(int64(-2), int64(1)), "Using the deleted_key as a table key is not allowed"),
        (table.remove(int64(-1)), "Using the empty_key"),
        (dense(deleted_key=-1).lookup(int64(1)), "cannot be equal"),
        (dense(initial_num_buckets=12).size(), "power of 2, got: 12"),
        (dense(initial_num_buckets=2).size(), "at least 4"),
        (apply("LookupTableImportV2", table.resource_handle, int64([1, 2]), int64([1])), "as many buckets"),
    ):
        with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=message):
            sess.run(op)


def test_dense_tables_are_saved(tmp_path):
    table = dense(name="counts")
    with tf.Session() as sess:
        sess.run(table.insert(int64(5, 6), int64(1, 2)))
        path = tf.train.Saver().save(sess, str(tmp_path / "model"))
        sess.run(table.insert(int64(5, 7), int64(9, 9)))
        tf.train.Saver().restore(sess, path)
        assert sess.run(table.lookup(int64(5, 6, 7))).tolist() == [1, 2, -7]
    assert {name for name, _ in tf.train.list_variables(path)} == {"counts-keys", "counts-values"}


def test_anonymous_tables_are_new_each_time():
    handle = apply("AnonymousMutableHashTable", key_dtype=tf.string, value_dtype=tf.int64)
    insert = apply("LookupTableInsertV2", handle, ["a"], int64(1))
    with tf.control_dependencies([insert]):
        size = apply("LookupTableSizeV2", handle)
    with tf.Session() as sess:
        assert [sess.run(size), sess.run(size)] == [1, 1]
        assert sess.run(apply("LookupTableSizeV2", handle)) == 0


@pytest.mark.parametrize("dtype", [tf.string, tf.int64, tf.int32, tf.float32])
def test_random_changes_agree_with_a_dict(dtype):
    rng = np.random.default_rng(7)
    table = tf.lookup.MutableHashTable(dtype, tf.int64, -1)
    keys, values = tf.placeholder(dtype, [None]), tf.placeholder(tf.int64, [None])
    insert, remove, find = table.insert(keys, values), table.remove(keys), table.lookup(keys)
    model: dict[object, int] = {}

    def draw(count):
        numbers = rng.integers(0, 300, count)
        if dtype is tf.string:
            return np.array([b"k" * int(n % 40) + b"%d" % n for n in numbers], object)
        return numbers.astype(dtype.as_numpy_dtype)

    with tf.Session() as sess:
        for step in range(60):
            some = draw(rng.integers(1, 60))
            if step % 3 == 2:
                sess.run(remove, {keys: some})
                for key in some.tolist():
                    model.pop(key, None)
            else:
                given = rng.integers(0, 1000, len(some))
                sess.run(insert, {keys: some, values: given})
                model.update(zip(some.tolist(), given.tolist(), strict=True))
            probe = draw(100)
            assert sess.run(find, {keys: probe}).tolist() == [model.get(key, -1) for key in probe.tolist()]
        stored = sess.run(table.export())
        assert dict(zip(stored[0].tolist(), stored[1].tolist(), strict=True)) == model


def test_a_large_lookup_in_parallel():
    count = 50000
    table = lookup.index_table_from_tensor([f"word-{i * 17}" for i in range(count)])
    places = np.random.default_rng(0).integers(0, 2 * count, 100000)
    out = run(table.lookup(tf.constant([f"word-{i * 17}" for i in places])))
    assert out.tolist() == [i if i < count else -1 for i in places.tolist()]
