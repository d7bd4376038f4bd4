"""Feature columns against the values, variable names and errors of tensorflow 2.21's compat.v1."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from tests.ops.example_bytes import example

fc = tf.feature_column


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def features():
    return {
        "x": tf.constant([[1.0], [2.0], [30.0]]),
        "v": tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "s": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], ["a", "b", "zz"], [3, 2]),
        "d": tf.constant([["a"], ["c"], ["q"]]),
        "i": tf.constant([[0], [2], [1]], tf.int64),
        "si": tf.SparseTensor([[0, 0], [2, 0], [2, 1]], tf.constant([1, 0, 7], tf.int64), [3, 2]),
        "w": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [2.0, 3.0, 4.0], [3, 2]),
        "bad": tf.constant([[0], [-2], [7]], tf.int64),
    }


def run(output):
    """The output, with 1, 1.5, 2, ... in every variable."""
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for variable in tf.global_variables():
            count = variable.shape.num_elements()
            variable.load((np.arange(count) * 0.5 + 1).reshape(variable.shape.as_list()).astype(np.float32), sess)
        return sess.run(output)


def variables():
    return {v.op.name: v.shape.as_list() for v in tf.global_variables()}


X = fc.numeric_column("x")
PAIR = fc.numeric_column("v", shape=2)
BUCKETS = fc.bucketized_column(X, [0.0, 2.0, 10.0])
WORDS = fc.categorical_column_with_vocabulary_list("s", ["a", "b", "c"])
OPEN_WORDS = fc.categorical_column_with_vocabulary_list("s", ["a", "b", "c"], num_oov_buckets=3)
HASHED = fc.categorical_column_with_hash_bucket("s", 5)
IDS = fc.categorical_column_with_identity("i", 3)
WEIGHTED = fc.weighted_categorical_column(WORDS, "w")
ind, emb = fc.indicator_column, fc.embedding_column

INPUTS = {
    "numeric": ([X], [[1], [2], [30]]),
    "vector": ([PAIR], [[1, 2], [3, 4], [5, 6]]),
    "normalized": ([fc.numeric_column("x", normalizer_fn=lambda t: t * 2)], [[2], [4], [60]]),
    "buckets": ([BUCKETS], [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
    "buckets of a vector": (
        [fc.bucketized_column(PAIR, [2.0, 5.0])],
        [[1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]],
    ),
    "hashed": ([ind(HASHED)], [[0, 0, 1, 0, 1], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0]]),
    "hashed integers": (
        [ind(fc.categorical_column_with_hash_bucket("si", 5, tf.int64))],
        [[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 1, 0]],
    ),
    "hashed, dense": (
        [ind(fc.categorical_column_with_hash_bucket("d", 5))],
        [[0, 0, 0, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]],
    ),
    "vocabulary": ([ind(WORDS)], [[1, 1, 0], [0, 0, 0], [0, 0, 0]]),
    "vocabulary and buckets": ([ind(OPEN_WORDS)], [[1, 1, 0, 0, 0, 0], [0] * 6, [0, 0, 0, 0, 1, 0]]),
    "vocabulary with a default": (
        [ind(fc.categorical_column_with_vocabulary_list("s", ["a", "b", "c"], default_value=2))],
        [[1, 1, 0], [0, 0, 0], [0, 0, 1]],
    ),
    "integers as words": (
        [ind(fc.categorical_column_with_vocabulary_list("si", [7, 1], dtype=tf.int32))],
        [[0, 1], [0, 0], [1, 0]],
    ),
    "identity": ([ind(IDS)], [[1, 0, 0], [0, 0, 1], [0, 1, 0]]),
    "ids out of range": ([ind(fc.categorical_column_with_identity("bad", 3))], [[1, 0, 0], [0, 0, 0], [0, 0, 0]]),
    "ids out of range with a default": (
        [ind(fc.categorical_column_with_identity("bad", 3, default_value=2))],
        [[1, 0, 0], [0, 0, 1], [0, 0, 1]],
    ),
    "weights": ([ind(WEIGHTED)], [[2, 3, 0], [0, 0, 0], [0, 0, 0]]),
    "crossed": (
        [ind(fc.crossed_column(["d", BUCKETS], 7))],
        [[0, 1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0]],
    ),
    "crossed with a key": (
        [ind(fc.crossed_column([BUCKETS, IDS], 7, hash_key=5))],
        [[0, 0, 0, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0]],
    ),
    "crossed, sparse": (
        [ind(fc.crossed_column(["s", "d"], 11))],
        [[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], [0] * 11, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]],
    ),
    "embedding": ([emb(WORDS, 2)], [[1.5, 2], [0, 0], [0, 0]]),
    "embedding, summed": ([emb(WORDS, 2, combiner="sum")], [[3, 4], [0, 0], [0, 0]]),
    "embedding, sqrtn": ([emb(OPEN_WORDS, 2, combiner="sqrtn")], [[2.1213202, 2.828427], [0, 0], [5, 5.5]]),
    "embedding, weighted": ([emb(WEIGHTED, 2)], [[1.6, 2.1], [0, 0], [0, 0]]),
    "embedding, clipped": ([emb(WORDS, 2, max_norm=1.0)], [[0.5896976, 0.80645955], [0, 0], [0, 0]]),
    "embedding of ids": ([emb(IDS, 3)], [[1, 1.5, 2], [4, 4.5, 5], [2.5, 3, 3.5]]),
    "all of them, by name": (
        [X, emb(HASHED, 2), BUCKETS, ind(WORDS)],
        [[4, 4.5, 1, 1, 0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 2, 0, 0, 1, 0], [3, 3.5, 0, 0, 0, 30, 0, 0, 0, 1]],
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_input_layer(name):
    columns, expected = INPUTS[name]
    out = fc.input_layer(features(), columns)
    assert out.shape.as_list()[1] == len(expected[0])
    np.testing.assert_allclose(run(out), expected, rtol=1e-6)


def test_names_and_shapes_of_variables_are_tensorflows():
    other = fc.categorical_column_with_vocabulary_list("d", ["a", "b", "c"])
    shared = fc.shared_embedding_columns([WORDS, other], 2)
    out = fc.input_layer(features(), [*shared, emb(IDS, 3), emb(WEIGHTED, 4)])
    assert variables() == {
        "input_layer/d_s_shared_embedding/embedding_weights": [3, 2],
        "input_layer/i_embedding/embedding_weights": [3, 3],
        "input_layer/s_weighted_by_w_embedding/embedding_weights": [3, 4],
    }
    assert tf.get_collection(tf.GraphKeys.MODEL_VARIABLES) == tf.global_variables()
    assert tf.trainable_variables() == tf.global_variables()
    assert [column.name for column in shared] == ["s_shared_embedding", "d_shared_embedding"]
    assert run(out)[:, :2].tolist() == [[1, 1.5], [3, 3.5], [0, 0]]


LINEAR = {
    "numeric": ([X], {}, [[2], [3], [31]], {"x": [1, 1]}),
    "vector": ([PAIR], {}, [[5], [10], [15]], {"v": [2, 1]}),
    "buckets": ([BUCKETS], {}, [[2.5], [3], [3.5]], {"x_bucketized": [4, 1]}),
    "buckets of a vector": (
        [fc.bucketized_column(PAIR, [2.0, 5.0])], {}, [[5], [5.5], [6.5]], {"v_bucketized": [6, 1]}
    ),
    "vocabulary": ([WORDS], {}, [[3.5], [1], [1]], {"s": [3, 1]}),
    "vocabulary and buckets": ([OPEN_WORDS], {}, [[3.5], [1], [4]], {"s": [6, 1]}),
    "weights": ([WEIGHTED], {}, [[7.5], [1], [1]], {"s_weighted_by_w": [3, 1]}),
    "crossed": ([fc.crossed_column(["d", BUCKETS], 7)], {}, [[2.5], [2.5], [3]], {"d_X_x_bucketized": [7, 1]}),
    "indicator": ([ind(WORDS)], {}, [[3.5], [1], [1]], {"s_indicator": [3, 1]}),
    "two units": ([X, WORDS], {"units": 2}, [[5, 7], [3, 4.5], [31, 46.5]], {"s": [3, 2], "x": [1, 2]}),
    "mean": ([X, WORDS], {"sparse_combiner": "mean"}, [[3.25], [3], [31]], {"s": [3, 1], "x": [1, 1]}),
    "sqrtn": ([WEIGHTED], {"sparse_combiner": "sqrtn"}, [[2.8027756], [1], [1]], {"s_weighted_by_w": [3, 1]}),
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_linear_model(name):
    columns, options, expected, weights = LINEAR[name]
    seen: dict = {}
    out = fc.linear_model(features(), columns, cols_to_vars=seen, **options)
    units = options.get("units", 1)
    named = {f"linear_model/{column}/weights": shape for column, shape in weights.items()}
    assert variables() == {**named, "linear_model/bias_weights": [units]}
    assert [v.op.name for v in seen["bias"]] == ["linear_model/bias_weights"]
    assert all(len(seen[column]) == 1 for column in columns)
    assert out.shape.as_list()[1] == units
    np.testing.assert_allclose(run(out), expected, rtol=1e-6)


def test_variables_and_tensors_of_columns_are_reported_and_made_once(graph):
    seen, tensors = {}, {}
    column = emb(WORDS, 2)
    fc.input_layer(features(), [X, column, ind(WORDS)], cols_to_vars=seen, cols_to_output_tensors=tensors)
    assert [v.op.name for v in seen[column]] == ["input_layer/s_embedding/embedding_weights"]
    assert seen[X] == []
    assert tensors[X].op.name == "input_layer/x/Reshape"
    assert len([op for op in graph.get_operations() if op.type == "LookupTableFindV2"]) == 1


def test_scopes_share_variables():
    for _ in range(2):
        with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            fc.input_layer(features(), [emb(WORDS, 2)])
    assert list(variables()) == ["m/input_layer/s_embedding/embedding_weights"]
    fc.input_layer(features(), [emb(WORDS, 2)], trainable=False)
    assert list(variables())[1:] == ["input_layer/s_embedding/embedding_weights"]
    assert len(tf.trainable_variables()) == 1


def test_from_examples_to_inputs_by_the_spec():
    columns = [X, PAIR, ind(WORDS), emb(fc.categorical_column_with_identity("i", 3), 2), fc.numeric_column("q", 1, 3.0)]
    spec = fc.make_parse_example_spec(columns)
    assert spec == {
        "x": tf.FixedLenFeature((1,), tf.float32), "v": tf.FixedLenFeature((2,), tf.float32),
        "s": tf.VarLenFeature(tf.string), "i": tf.VarLenFeature(tf.int64),
        "q": tf.FixedLenFeature((1,), tf.float32, (3.0,)),
    }  # fmt: skip
    rows = [example(x=1.0, v=[2.0, 3.0], s=[b"c", b"a"], i=2), example(x=4.0, v=[5.0, 6.0], q=7.0)]
    out = run(fc.input_layer(tf.parse_example(rows, spec), columns))
    assert out.tolist() == [[3, 3.5, 3, 1, 0, 1, 2, 3, 1], [0, 0, 7, 0, 0, 0, 5, 6, 4]]


def test_weights_and_crosses_in_the_spec():
    spec = fc.make_parse_example_spec([WEIGHTED, fc.crossed_column(["d", BUCKETS], 7)])
    assert set(spec) == {"s", "w", "d", "x"}
    with pytest.raises(ValueError, match="different parse_spec for key x"):
        fc.make_parse_example_spec([X, fc.categorical_column_with_hash_bucket("x", 3)])


def test_a_vocabulary_in_a_file(tmp_path):
    path = tmp_path / "words"
    path.write_text("a\nb\nc\n")
    column = fc.categorical_column_with_vocabulary_file("s", str(path), num_oov_buckets=1)
    assert column.vocabulary_size == 3
    assert run(fc.input_layer(features(), [ind(column)])).tolist() == [[1, 1, 0, 0], [0] * 4, [0, 0, 0, 1]]
    two = fc.categorical_column_with_vocabulary_file("s", str(path), vocabulary_size=2, default_value=0)
    assert run(fc.linear_model(features(), [two])).tolist() == [[3.5], [1], [2]]


def test_embeddings_from_a_checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as sess:
        weights = tf.get_variable("table", initializer=tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        sess.run(weights.initializer)
        path = tf.train.Saver().save(sess, str(tmp_path / "model"))
    column = emb(IDS, 2, ckpt_to_load_from=path, tensor_name_in_ckpt="table")
    out = fc.input_layer(features(), [column])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(out).tolist() == [[1, 2], [5, 6], [3, 4]]


def test_embeddings_are_trained():
    out = fc.linear_model(features(), [emb(WORDS, 2, initializer=tf.ones_initializer()), X])
    loss = tf.reduce_sum(tf.square(out - 1.0))
    step = tf.train.GradientDescentOptimizer(0.0001).minimize(loss)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        before = sess.run(loss)
        for _ in range(50):
            sess.run(step)
        assert sess.run(loss) < before


def test_features_of_lower_rank_and_values_that_mean_nothing():
    words = fc.categorical_column_with_vocabulary_list("y", ["a", "b"])
    assert run(fc.input_layer({"y": [1.0, 2.0]}, [fc.numeric_column("y")])).tolist() == [[1], [2]]
    assert run(fc.input_layer({"y": tf.constant(["a", "b"])}, [ind(words)])).tolist() == [[1, 0], [0, 1]]
    hashed = fc.categorical_column_with_hash_bucket("y", 4)
    assert run(fc.input_layer({"y": tf.constant([["a"], [""]])}, [ind(hashed)])).tolist() == [[0, 0, 0, 1], [0] * 4]
    ids = fc.categorical_column_with_identity("y", 4)
    assert run(fc.input_layer({"y": tf.constant([[1], [-1]])}, [ind(ids)])).tolist() == [[0, 1, 0, 0], [0] * 4]
    weighted = ind(fc.weighted_categorical_column(words, "w"))
    dense = {"y": tf.constant([["a"], ["b"]]), "w": tf.constant([[2.0], [3.0]])}
    assert run(fc.input_layer(dense, [weighted])).tolist() == [[2, 0], [0, 3]]


def test_sequences():
    given = {
        "w": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["a", "b", "b"], [2, 2]),
        "n": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [2, 2]),
        "p": tf.SparseTensor([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 4]),
    }
    words = fc.sequence_categorical_column_with_vocabulary_list("w", ["a", "b"])
    out, lengths = fc.sequence_input_layer(given, [emb(words, 2), fc.sequence_numeric_column("n")])
    got, steps = run((out, lengths))
    assert got.tolist() == [[[1, 1, 1.5], [2, 2, 2.5]], [[3, 2, 2.5], [0, 0, 0]]]
    assert steps.tolist() == [2, 1]
    out, lengths = fc.sequence_input_layer(given, [fc.sequence_numeric_column("p", shape=2), ind(words)])
    got, steps = run((out, lengths))
    assert got.tolist() == [[[1, 2, 1, 0], [3, 4, 0, 1]], [[5, 6, 0, 1], [0, 0, 0, 0]]]
    assert steps.tolist() == [2, 1]
    with pytest.raises(ValueError, match="must not be a SequenceCategoricalColumn"):
        fc.input_layer(given, [ind(words)])
    with pytest.raises(ValueError, match="_SequenceDenseColumn"):
        fc.sequence_input_layer(given, [X])
    assert fc.sequence_categorical_column_with_identity("k", 3).num_buckets == 3
    assert fc.sequence_categorical_column_with_hash_bucket("k", 4).num_buckets == 4


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fc.numeric_column(5), ValueError, "key must be a string"),
        (lambda: fc.numeric_column("x", shape=[0]), ValueError, "must be greater than 0"),
        (lambda: fc.numeric_column("x", shape=[1.5]), TypeError, "must be integer"),
        (lambda: fc.numeric_column("x", dtype=tf.string), ValueError, "convertible to float"),
        (lambda: fc.numeric_column("x", shape=2, default_value=[1.0, 2.0, 3.0]), ValueError, "equal to given shape"),
        (lambda: fc.numeric_column("x", default_value="a"), TypeError, "compatible with dtype"),
        (lambda: fc.numeric_column("x", default_value=2.5, dtype=tf.int32), TypeError, "compatible with dtype"),
        (lambda: fc.numeric_column("x", normalizer_fn=3), TypeError, "must be a callable"),
        (lambda: fc.bucketized_column(WORDS, [1.0]), ValueError, "generated with numeric_column"),
        (lambda: fc.bucketized_column(X, [2.0, 1.0]), ValueError, "sorted list"),
        (lambda: fc.bucketized_column(X, []), ValueError, "must not be empty"),
        (lambda: fc.bucketized_column(fc.numeric_column("x", [2, 2]), [1.0]), ValueError, "one-dimensional"),
        (lambda: fc.categorical_column_with_hash_bucket("s", 0), ValueError, "at least 1"),
        (lambda: fc.categorical_column_with_hash_bucket("s", None), ValueError, "must be set"),
        (lambda: fc.categorical_column_with_hash_bucket("s", 3, tf.float32), ValueError, "string or integer"),
        (lambda: fc.categorical_column_with_vocabulary_list("s", []), ValueError, "non-empty"),
        (lambda: fc.categorical_column_with_vocabulary_list("s", ["a", "a"]), ValueError, "Duplicate keys"),
        (lambda: fc.categorical_column_with_vocabulary_list("s", ["a"], None, 0, 1), ValueError, "Can't specify both"),
        (lambda: fc.categorical_column_with_vocabulary_list("s", ["a"], None, -1, -1), ValueError, "Invalid num_oov"),
        (lambda: fc.categorical_column_with_vocabulary_list("s", ["a"], tf.int64), ValueError, "do not match"),
        (lambda: fc.categorical_column_with_vocabulary_file("s", ""), ValueError, "Missing vocabulary_file"),
        (lambda: fc.categorical_column_with_vocabulary_file("s", "/no/such"), ValueError, "does not exist"),
        (lambda: fc.categorical_column_with_vocabulary_file("s", "/no/such", 0), ValueError, "Invalid vocabulary_size"),
        (lambda: fc.categorical_column_with_identity("i", 0), ValueError, "num_buckets 0 < 1"),
        (lambda: fc.categorical_column_with_identity("i", 3, 5), ValueError, "not in range"),
        (lambda: fc.weighted_categorical_column(WORDS, "w", tf.string), ValueError, "not convertible to float"),
        (lambda: fc.crossed_column(["a"], 5), ValueError, "length > 1"),
        (lambda: fc.crossed_column(["a", "b"], 0), ValueError, "hash_bucket_size must be > 1"),
        (lambda: fc.crossed_column(["a", HASHED], 5), ValueError, "not supported for crossing"),
        (lambda: fc.crossed_column(["a", X], 5), ValueError, "Unsupported key type"),
        (lambda: emb(WORDS, 0), ValueError, "Invalid dimension 0"),
        (lambda: emb(WORDS, 2, initializer=3), ValueError, "must be callable"),
        (lambda: emb(WORDS, 2, ckpt_to_load_from="x"), ValueError, "Must specify both"),
        (lambda: ind(X), ValueError, "must be a CategoricalColumn"),
        (lambda: fc.shared_embedding_columns([WORDS, IDS], 2), ValueError, "same type"),
        (lambda: fc.shared_embedding_columns([WORDS, OPEN_WORDS], 2), ValueError, "same number of buckets"),
        (lambda: fc.input_layer(features(), [WORDS]), ValueError, "must be a _DenseColumn"),
        (lambda: fc.input_layer(features(), ["x"]), ValueError, "must be a _FeatureColumn"),
        (lambda: fc.input_layer(features(), [X, X]), ValueError, "Duplicate feature column name"),
        (lambda: fc.input_layer(features(), []), ValueError, "must not be empty"),
        (lambda: fc.input_layer(features(), [fc.numeric_column("none")]), ValueError, "not in features dictionary"),
        (lambda: fc.input_layer(features(), [fc.numeric_column("x", 3)]), ValueError, "Cannot reshape"),
        (lambda: fc.input_layer(features(), [fc.numeric_column("w")]), ValueError, "SparseTensor is not supported"),
        (lambda: fc.input_layer({"y": tf.constant(1.0)}, [fc.numeric_column("y")]), ValueError, "cannot have rank 0"),
        (lambda: fc.input_layer(features(), [ind(fc.categorical_column_with_hash_bucket("x", 3))]), ValueError,
         "must be string or integer"),
        (lambda: fc.input_layer(features(), [ind(fc.categorical_column_with_identity("d", 3))]), ValueError,
         "not integer"),
        (lambda: fc.linear_model(features(), ["x"]), ValueError, "must be a _FeatureColumn"),
        (lambda: fc.linear_model(features(), [HASHED, WORDS]), ValueError, "Duplicate feature column name"),
    ],
)  # fmt: skip
def test_bad_columns_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
