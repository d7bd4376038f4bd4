"""Parsing Examples and SequenceExamples: values, shapes, names, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from tests.ops.example_bytes import example, feature, field, floats, ints, map_of, sequence_example, texts, varint

F, V, S, Q = tf.FixedLenFeature, tf.VarLenFeature, tf.SparseFeature, tf.FixedLenSequenceFeature
GOOD = example(a=[1.0, 2.0], b=3, c=[b"x", b"yy"])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def run(fetches, feed=None):
    with tf.Session() as sess:
        return sess.run(fetches, feed)


def parse(serialized, **features):
    return run(tf.parse_example(serialized, features))


def sparse(value):
    return [part.tolist() for part in value]


def test_dense_features():
    out = parse([GOOD, example(a=[3.0, 4.0], b=-5)], a=F([2], tf.float32), b=F([], tf.int64))
    assert out["a"].tolist() == [[1, 2], [3, 4]]
    assert out["b"].tolist() == [3, -5]
    assert out["a"].dtype == np.float32
    assert out["b"].dtype == np.int64
    strings = parse([GOOD], c=F([1, 2], tf.string))
    assert strings["c"].tolist() == [[[b"x", b"yy"]]]


def test_defaults_stand_in_for_absent_and_for_empty_features():
    spec = {"a": F([2], tf.float32, [7.0, 8.0]), "s": F([], tf.string, "none"), "b": F([1], tf.int64, [9])}
    out = run(tf.parse_example([b"", example(a=None, s=b"here", b=None)], spec))
    assert out["a"].tolist() == [[7, 8], [7, 8]]
    assert out["s"].tolist() == [b"none", b"here"]
    assert out["b"].tolist() == [[9], [9]]


def test_a_default_can_be_a_tensor():
    out = run(tf.parse_example([b""], {"a": F([2], tf.float32, tf.constant([1.0, 2.0]))}))
    assert out["a"].tolist() == [[1, 2]]


def test_sparse_features():
    out = parse([GOOD, b"", example(c=[b"z"])], c=V(tf.string), zz=V(tf.int64))
    assert sparse(out["c"]) == [[[0, 0], [0, 1], [2, 0]], [b"x", b"yy", b"z"], [3, 2]]
    assert sparse(out["zz"]) == [[], [], [3, 0]]
    assert out["zz"].indices.shape == (0, 2)


def test_padded_features():
    rows = [example(a=[1.0, 2.0, 3.0, 4.0]), example(a=[5.0, 6.0]), b""]
    plain = parse(rows, a=Q([2], tf.float32, allow_missing=True))["a"]
    assert plain.tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]], [[0, 0], [0, 0]]]
    filled = parse(rows, a=Q([], tf.float32, allow_missing=True, default_value=-1.0))["a"]
    assert filled.tolist() == [[1, 2, 3, 4], [5, 6, -1, -1], [-1, -1, -1, -1]]
    assert parse(rows, zz=Q([2], tf.string, allow_missing=True))["zz"].shape == (3, 0, 2)
    words = parse([example(w=[b"a" * 40]), b""], w=Q([], tf.string, allow_missing=True))["w"]
    assert words.tolist() == [[b"a" * 40], [b""]]
    assert parse([b"", b""], zz=Q([0], tf.int64, allow_missing=True))["zz"].shape == (2, 0, 0)


def test_sparse_features_of_indices_and_values():
    rows = [example(ix=[5, 3], v=[1.0, 2.0]), example(ix=[0], v=[9.0])]
    out = parse(rows, s=S("ix", "v", tf.float32, 10))["s"]
    assert sparse(out) == [[[0, 3], [0, 5], [1, 0]], [2.0, 1.0, 9.0], [2, 10]]
    kept = parse(rows, s=S("ix", "v", tf.float32, 10, already_sorted=True))["s"]
    assert sparse(kept) == [[[0, 5], [0, 3], [1, 0]], [1.0, 2.0, 9.0], [2, 10]]
    matrix = parse([example(r=[1, 0], c=[2, 3], v=[1.0, 2.0])], m=S(["r", "c"], "v", tf.float32, [4, 5]))["m"]
    assert sparse(matrix) == [[[0, 0, 3], [0, 1, 2]], [2.0, 1.0], [1, 4, 5]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 indices for 2 values"):
        parse([example(ix=[5], v=[1.0, 2.0])], s=S("ix", "v", tf.float32, 10))


def test_no_examples():
    out = parse(np.array([], object), e=V(tf.int64), d=F([2], tf.float32), q=Q([2], tf.float32, allow_missing=True))
    assert sparse(out["e"]) == [[], [], [0, 0]]
    assert out["d"].shape == (0, 2)
    assert out["q"].shape == (0, 0, 2)


def test_one_example_has_no_batch_dimension():
    spec = {"a": F([2], tf.float32), "b": F([], tf.int64), "c": V(tf.string), "s": S("i", "k", tf.float32, 9),
            "q": Q([1], tf.int64, allow_missing=True)}  # fmt: skip
    row = example(a=[1.0, 2.0], b=3, c=[b"x", b"yy"], q=[5, 6], i=4, k=8.0)
    out = tf.parse_single_example(row, spec)
    assert out["a"].shape.as_list() == [2]
    assert out["c"].indices.shape.as_list() == [None, 1]
    got = run(out)
    assert got["a"].tolist() == [1, 2]
    assert got["b"] == 3
    assert sparse(got["c"]) == [[[0], [1]], [b"x", b"yy"], [2]]
    assert got["q"].tolist() == [[5], [6]]
    assert sparse(got["s"]) == [[[4]], [8.0], [9]]
    assert run(tf.parse_example(row, {"b": F([], tf.int64)}))["b"] == 3


def test_one_example_of_unknown_shape_is_checked_when_it_runs():
    row = tf.placeholder(tf.string)
    out = tf.parse_single_example(row, {"b": F([], tf.int64)})["b"]
    assert out.shape.as_list() == []
    assert run(out, {row: GOOD}) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be a scalar"):
        run(out, {row: [GOOD]})
    with pytest.raises(ValueError, match="must be a scalar"):
        tf.parse_single_example([GOOD], {"b": F([], tf.int64)})


def test_node_names_are_tensorflows(graph):
    spec = {"b": F([], tf.int64), "v/w x": F([1], tf.float32, [1.0]), "c": V(tf.string)}
    out = tf.parse_example([GOOD], spec)
    assert list(out) == ["c", "b", "v/w x"]
    assert out["b"].op.name == "ParseExample/ParseExampleV2"
    assert "ParseExample/key_v/w_x" in {op.name for op in graph.get_operations()}
    assert tf.parse_example([GOOD], spec, name="X")["b"].op.name == "X/X"
    assert tf.parse_single_example(GOOD, spec)["b"].op.name == "ParseSingleExample/ParseExample/ParseExampleV2"
    lists = {"f": Q([], tf.int64)}
    _, parsed = tf.parse_single_sequence_example(GOOD, None, lists)
    assert parsed["f"].op.name == "ParseSingleSequenceExample/ParseSequenceExample/ParseSequenceExampleV2"
    _, parsed, _ = tf.io.parse_sequence_example([GOOD], None, lists)
    assert parsed["f"].op.name == "ParseSequenceExample/ParseSequenceExample/ParseSequenceExampleV2"


def test_static_shapes():
    rows = tf.placeholder(tf.string, [None])
    out = tf.parse_example(rows, {"a": F([2], tf.float32), "q": Q([3], tf.int64, allow_missing=True)})
    assert out["a"].shape.as_list() == [None, 2]
    assert out["q"].shape.as_list() == [None, None, 3]
    assert tf.parse_example(tf.placeholder(tf.string), {"a": F([2], tf.float32)})["a"].shape.ndims is None


def one(feature_bytes):
    """An Example with one feature "a" of these bytes."""
    return field(1, field(1, field(1, b"a") + field(2, feature_bytes)))


@pytest.mark.parametrize(
    ("serialized", "expected"),
    [
        (example(a=[1.0]) + example(a=[2.0, 3.0]), [2, 3]),  # the last entry of a key counts
        (example(a=[1.0]) + example(b=[2.0]), [1]),  # maps are merged
        (example(a=[1.0]) + example(a=None), []),
        (one(floats(1.0) + floats(2.0)), [1, 2]),  # lists are merged
        (one(ints(5) + floats(2.0)), [2]),  # of several kinds the last counts
        (one(field(2, b"\x0d\x00\x00\x80\x3f" * 2)), [1, 1]),  # not packed
        (one(field(2, b"\x0d\x00\x00\x80\x3f" + field(1, b"\x00\x00\x00\x40"))), [1, 2]),
        (one(field(7, b"xx") + floats(2.0) + varint(9 << 3) + varint(1 << 63)), [2]),  # unknown fields
        (field(5, b"junk") + example(a=[2.0]) + b"\x49" + b"8" * 8 + b"\x4d" + b"4" * 4, [2]),
        (field(1, field(1, field(2, floats(4.0)) + field(1, b"a"))), [4]),  # the value first
        (field(1, field(1, field(1, b"a"))), []),
        (one(b""), []),
        (one(field(2, b"")), []),
    ],
)
def test_every_spelling_of_the_wire_format(serialized, expected):
    assert parse([serialized], a=V(tf.float32))["a"].values.tolist() == expected


def test_integers_of_all_sizes():
    values = [0, 1, 127, 128, -1, 2**63 - 1, -(2**63), 300]
    assert parse([one(ints(*values))], a=V(tf.int64))["a"].values.tolist() == values
    unpacked = field(3, b"".join(b"\x08" + varint(v) for v in values))
    assert parse([one(unpacked)], a=F([8], tf.int64))["a"].tolist() == [values]


def test_a_key_may_be_absent_or_empty():
    anonymous = field(1, field(1, field(2, ints(5))))
    assert parse([anonymous, example(**{"": [6]})], **{"": V(tf.int64)})[""].values.tolist() == [5, 6]


@pytest.mark.parametrize("names", [None, ["first", "second"]])
@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"zz": F([], tf.float32)}, "Name: {name}, Feature: zz (data type: float) is required but could not be found."),
        ({"a": F([], tf.float32)}, "Name: {name}, Key: a, Index: 0.  Number of float values != expected.  "
         "Values size: 2 but output shape: []"),
        ({"c": F([3], tf.string)}, "Number of bytes values != expected.  Values size: 2 but output shape: [3]"),
        ({"a": F([2], tf.int64)}, "Name: {name}, Key: a, Index: 0.  Data types don't match. Data type: float but "
         "expected type: int64"),
        ({"b": V(tf.string)}, "Name: {name}, Key: b, Index: 0.  Data types don't match. Expected type: string, "
         "Actual type: int64"),
        ({"c": Q([3], tf.string, allow_missing=True)}, "Number of bytes values is not a multiple of stride length. "
         "Saw 2 values but output shape is: [?,3]"),
        ({"a": Q([0], tf.float32, allow_missing=True)}, "not a multiple of stride length"),
        ({"e": F([0], tf.float32)}, "is required but could not be found"),
    ],
)  # fmt: skip
def test_examples_that_do_not_fit(features, message, names):
    out = tf.parse_example([GOOD, GOOD], features, example_names=names)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        run(out)
    assert message.format(name=names[0] if names else "<unknown>") in str(error.value)


def test_the_first_of_several_bad_examples_is_named():
    rows = [GOOD] * 3000
    rows[2500], rows[1200] = b"\xff", example(a=[1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Key: a, Index: 1200\."):
        parse(rows, a=F([2], tf.float32))


@pytest.mark.parametrize(
    "serialized",
    [b"\xff\xff", b"\x0a", b"\x0a\x05abc", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b\x0c", b"\x00\x00",
     b"\x0a" + b"\x80" * 11 + b"\x01", field(1, b"\x0a\x7f"), field(1, field(1, b"\x0a\x03ab"))],
)  # fmt: skip
def test_bytes_that_are_no_example(serialized):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse example input, value: '"):
        parse([GOOD, serialized], a=V(tf.float32))


@pytest.mark.parametrize(
    "content", [field(2, field(1, b"12345")), field(3, field(1, b"\xff")), b"\xff\xff", field(2, b"\x0d\x00"),
                field(3, field(1, b"\xff" * 10 + b"\x01"))]
)  # fmt: skip
def test_features_that_are_none(content):
    for dtype in (tf.float32, tf.int64):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Can't parse serialized Example|types don't match"):
            parse([one(content)], a=V(dtype))
    assert parse([one(content)], b=V(tf.int64))["b"].values.tolist() == []


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ({}, ValueError, "cannot be None or falsy"),
        ({"a": 3}, ValueError, "Unsupported int 3 for key 'a'"),
        ({"a": F([2], None)}, ValueError, "Missing type for feature a"),
        ({"a": F(None, tf.float32)}, ValueError, "Missing shape for feature a"),
        ({"a": F([None], tf.float32)}, ValueError, "First dimension of shape for feature a unknown"),
        ({"a": F([2, None], tf.float32)}, ValueError, "All dimensions of shape for feature a need to be known"),
        ({"a": F([2], tf.int32)}, TypeError, "int32"),
        ({"a": F([2], tf.float32, [1.0, 2.0, 3.0])}, ValueError, "3 elements"),
        ({"a": Q([1], tf.float32)}, ValueError, "requires allow_missing to be True"),
        ({"a": Q([None], tf.float32, allow_missing=True)}, ValueError, "unknown inner dimensions"),
        ({"a": F([2], tf.float32), "s": S("b", "a", tf.float32, 3)}, ValueError, "must not intersect"),
        ({"s": S(None, "a", tf.float32, 3)}, ValueError, "Missing index_key"),
        ({"s": S("b", None, tf.float32, 3)}, ValueError, "Missing value_key"),
        ({"s": S("b", "a", tf.float32, None)}, TypeError, "vocab_size"),
        ({"s": S("c", "c", tf.string, 3)}, ValueError, "Conflicting type .*int64.* vs .*string.* for feature c"),
    ],
)
def test_features_that_say_too_little(features, error, message):
    with pytest.raises(error, match=message):
        tf.parse_example([GOOD], features)


def test_names_must_fit():
    out = tf.parse_example([GOOD, GOOD], {"b": F([], tf.int64)}, example_names=["x"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"name.shape=\[1\], serialized.shape=\[2\]"):
        run(out)
    with pytest.raises(ValueError, match="at most rank 1"):
        tf.parse_example([[GOOD]], {"b": F([], tf.int64)})


def test_the_older_ops():
    old = tf.raw_ops.ParseExample(
        serialized=[GOOD], names=[], sparse_keys=["c"], dense_keys=["b", "a"],
        dense_defaults=[np.array([], np.int64), np.array([0, 0], np.float32)], sparse_types=[tf.string],
        dense_shapes=[[], [2]],
    )  # fmt: skip
    indices, values, shapes, dense = run(old)
    assert (indices[0].tolist(), values[0].tolist(), shapes[0].tolist()) == ([[0, 0], [0, 1]], [b"x", b"yy"], [1, 2])
    assert [d.tolist() for d in dense] == [[3], [[1, 2]]]
    single = tf.raw_ops.ParseSingleExample(
        serialized=GOOD, dense_defaults=[np.array([], np.int64)], num_sparse=1, sparse_keys=["c"], dense_keys=["b"],
        sparse_types=[tf.string], dense_shapes=[[]],
    )  # fmt: skip
    indices, values, shapes, dense = run(single)
    assert (indices[0].tolist(), shapes[0].tolist(), dense[0]) == ([[0], [1]], [2], 3)


def test_ragged_outputs_of_the_op():
    def ragged(rows):
        op = tf.raw_ops.ParseExampleV2(
            serialized=rows, names=[], sparse_keys=[], dense_keys=[], ragged_keys=["v"], dense_defaults=[],
            num_sparse=0, sparse_types=[], ragged_value_types=[tf.int64], ragged_split_types=[tf.int32],
            dense_shapes=[],
        )  # fmt: skip
        out = run(op)
        return out.ragged_values[0].tolist(), out.ragged_row_splits[0].tolist()

    assert ragged([example(v=[1, 2]), b"", example(v=4)]) == ([1, 2, 4], [0, 2, 2, 3])
    assert ragged(example(v=[1, 2])) == ([1, 2], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sparse_keys": ["v", "v"], "num_sparse": 2, "sparse_types": [tf.int64] * 2}, "'v' is given twice"),
        ({"sparse_keys": ["v"], "num_sparse": 2, "sparse_types": [tf.int64] * 2}, "len\\(sparse_keys\\)"),
        ({"dense_keys": ["v"], "dense_defaults": [np.array([1, 2, 3])], "dense_shapes": [[2]]}, "not compatible"),
        ({"dense_keys": ["v"], "dense_defaults": [np.array([1, 2, 3])], "dense_shapes": [[None, 2]]}, "single element"),
        ({"ragged_keys": [["v"]], "ragged_value_types": [tf.int64], "ragged_split_types": [tf.int32]}, "vector"),
    ],
)
def test_inputs_of_the_op_that_do_not_fit(change, message):
    given = {
        "serialized": [GOOD], "names": [], "sparse_keys": [], "dense_keys": [], "ragged_keys": [],
        "dense_defaults": [], "num_sparse": 0, "sparse_types": [], "ragged_value_types": [], "ragged_split_types": [],
        "dense_shapes": [],
    }  # fmt: skip
    op = tf.raw_ops.ParseExampleV2(**{**given, **change})
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(op)


def test_keys_that_change_between_steps():
    keys = tf.placeholder(tf.string, [1])
    op = tf.raw_ops.ParseExampleV2(
        serialized=[example(x=1, y=2)], names=[], sparse_keys=keys, dense_keys=[], ragged_keys=[], dense_defaults=[],
        num_sparse=1, sparse_types=[tf.int64], ragged_value_types=[], ragged_split_types=[], dense_shapes=[],
    )  # fmt: skip
    with tf.Session() as sess:
        for key, value in ((b"x", 1), (b"y", 2), (b"x", 1)):
            assert sess.run(op, {keys: [key]}).sparse_values[0].tolist() == [value]


def test_large_batches_of_changing_layout():
    rng = np.random.default_rng(0)
    rows, dense, words = [], [], []
    for i in range(4000):
        word = [b"w" * int(n) for n in rng.integers(0, 40, rng.integers(0, 4))]
        entries = [("d", [float(i), float(-i)]), ("n", [i, i + 1, i + 2]), ("w", word or None), ("x", [1])]
        rng.shuffle(entries)
        rows.append(example(**dict(entries)))
        dense.append([i, -i])
        words.append(word)
    out = parse(rows, d=F([2], tf.float32), n=V(tf.int64), w=V(tf.string), p=Q([], tf.int64, allow_missing=True))
    assert out["d"].tolist() == dense
    assert out["n"].values.tolist() == [i + k for i in range(4000) for k in range(3)]
    assert out["n"].indices[:, 0].tolist() == [i for i in range(4000) for _ in range(3)]
    assert out["w"].values.tolist() == [w for word in words for w in word]
    assert out["w"].indices.tolist() == [[i, k] for i, word in enumerate(words) for k in range(len(word))]
    assert out["p"].shape == (4000, 0)


ROWS = [
    sequence_example({"c": 1.0, "v": [1, 2, 3]}, {"f": [[1, 2], [3, 4]], "g": [[b"x"], [], [b"y", b"z"]]}),
    sequence_example({"c": 2.0}, {"f": [[5, 6]]}),
]
CONTEXT = {"c": F([], tf.float32), "v": V(tf.int64)}
LISTS = {"f": Q([2], tf.int64), "g": V(tf.string), "m": Q([], tf.float32, allow_missing=True)}


def test_sequence_examples():
    context, lists, lengths = run(tf.io.parse_sequence_example(ROWS, CONTEXT, LISTS))
    assert context["c"].tolist() == [1, 2]
    assert sparse(context["v"]) == [[[0, 0], [0, 1], [0, 2]], [1, 2, 3], [2, 3]]
    assert lists["f"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert sparse(lists["g"]) == [[[0, 0, 0], [0, 2, 0], [0, 2, 1]], [b"x", b"y", b"z"], [2, 3, 2]]
    assert lists["m"].shape == (2, 0)
    assert lengths["f"].tolist() == [2, 1]
    assert lengths["m"].tolist() == [0, 0]


def test_one_sequence_example():
    context, lists = tf.parse_single_sequence_example(ROWS[0], CONTEXT, LISTS)
    assert lists["f"].shape.as_list() == [None, 2]
    context, lists = run((context, lists))
    assert context["c"] == 1
    assert sparse(context["v"]) == [[[0], [1], [2]], [1, 2, 3], [3]]
    assert lists["f"].tolist() == [[1, 2], [3, 4]]
    assert sparse(lists["g"]) == [[[0, 0], [2, 0], [2, 1]], [b"x", b"y", b"z"], [3, 2]]
    old = tf.raw_ops.ParseSingleSequenceExample(
        serialized=ROWS[0], feature_list_dense_missing_assumed_empty=["m"], context_sparse_keys=["v"],
        context_dense_keys=["c"], feature_list_sparse_keys=["g"], feature_list_dense_keys=["f", "m"],
        context_dense_defaults=[np.array([], np.float32)], debug_name="n", context_sparse_types=[tf.int64],
        feature_list_dense_types=[tf.int64, tf.float32], context_dense_shapes=[[]],
        feature_list_sparse_types=[tf.string], feature_list_dense_shapes=[[2], []],
    )  # fmt: skip
    got = run(old)
    assert got.feature_list_dense_values[0].tolist() == [[1, 2], [3, 4]]
    assert got.feature_list_dense_values[1].shape == (0,)
    assert got.feature_list_sparse_values[0].tolist() == [b"x", b"y", b"z"]


def test_the_first_version_of_the_sequence_op():
    op = tf.raw_ops.ParseSequenceExample(
        serialized=ROWS, debug_name=[], context_dense_defaults=[np.array(9.0, np.float32)],
        feature_list_dense_missing_assumed_empty=[], context_sparse_keys=["v"], context_dense_keys=["d"],
        feature_list_sparse_keys=[], feature_list_dense_keys=["f"], Ncontext_sparse=1, Ncontext_dense=1,
        Nfeature_list_dense=1, context_sparse_types=[tf.int64], feature_list_dense_types=[tf.int64],
        context_dense_shapes=[[]], feature_list_dense_shapes=[[2]],
    )  # fmt: skip
    got = run(op)
    assert got.context_dense_values[0].tolist() == [9, 9]
    assert got.feature_list_dense_lengths[0].tolist() == [2, 1]


def test_ragged_outputs_of_the_sequence_op():
    def ragged(rows):
        op = tf.raw_ops.ParseSequenceExampleV2(
            serialized=rows, debug_name=[], context_sparse_keys=[], context_dense_keys=[], context_ragged_keys=["v"],
            feature_list_sparse_keys=[], feature_list_dense_keys=[], feature_list_ragged_keys=["f"],
            feature_list_dense_missing_assumed_empty=np.array([], bool), context_dense_defaults=[],
            context_ragged_value_types=[tf.int64], context_ragged_split_types=[tf.int64],
            feature_list_ragged_value_types=[tf.int64], feature_list_ragged_split_types=[tf.int32],
        )  # fmt: skip
        return [part[0].tolist() for part in run(op) if part]

    assert ragged(ROWS) == [[1, 2, 3], [0, 3, 3], [1, 2, 3, 4, 5, 6], [0, 2, 3], [0, 2, 4, 6]]
    assert ragged(ROWS[0]) == [[1, 2, 3], 3, [1, 2, 3, 4], 2, [0, 2, 4]]


@pytest.mark.parametrize(
    "attrs",
    [
        {"Nfeature_list_dense": 3},
        {"feature_list_ragged_split_types": [tf.int64]},
        {"context_ragged_value_types": [tf.int64]},
        {"Ncontext_sparse": 1},
    ],
)
def test_numbers_and_types_of_the_sequence_op_must_agree(attrs):
    with pytest.raises(ValueError, match="do not agree"):
        tf.raw_ops.ParseSequenceExampleV2(
            serialized=ROWS, debug_name=[], context_sparse_keys=[], context_dense_keys=[], context_ragged_keys=[],
            feature_list_sparse_keys=[], feature_list_dense_keys=[], feature_list_ragged_keys=[],
            feature_list_dense_missing_assumed_empty=np.array([], bool), context_dense_defaults=[], **attrs,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("context", "lists", "message"),
    [
        (None, {"h": Q([2], tf.int64)}, "Name: one, Feature list 'h' is required but could not be found."),
        (None, {"f": Q([3], tf.int64)}, "Name: one, Key: f, Index: 0.  Number of values != expected."),
        (None, {"f": Q([2], tf.float32)}, "Name: one, Feature list: f, Index: 0.  Data types don't match. Expected "
         "type: float"),
        (None, {"f": V(tf.string)}, "Data types don't match. Expected type: string"),
        ({"zz": F([], tf.float32)}, None, "Name: one, Context feature: zz (data type: float) is required"),
        ({"v": F([], tf.int64)}, None, "Name: one, Context feature: v.  Number of int64 values != expected."),
        ({"v": V(tf.float32)}, None, "Name: one, Context feature: v.  Data types don't match."),
    ],
)  # fmt: skip
def test_sequence_examples_that_do_not_fit(context, lists, message):
    for out in (
        tf.io.parse_sequence_example(ROWS, context, lists, example_names=["one", "two"]),
        tf.parse_single_sequence_example(ROWS[0], context, lists, example_name="one"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            run(out)
        assert message in str(error.value)


def test_bytes_that_are_no_sequence_example():
    for bad in (b"\x05", field(2, b"\x0a\x09"), field(2, field(1, field(1, b"f") + field(2, field(1, b"\xff"))))):
        out = tf.io.parse_sequence_example([ROWS[1], bad], None, {"f": V(tf.int64)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid protocol message input"):
            run(out)


def test_sequence_features_that_say_too_little():
    parse_all = tf.io.parse_sequence_example
    for context, lists, message in (
        (None, None, "at least one should have values"),
        ({"v": Q([], tf.int64, allow_missing=True)}, None, "Unsupported FixedLenSequenceFeature"),
        (None, {"f": F([2], tf.int64)}, "Unsupported FixedLenFeature"),
        (None, {"f": Q([None], tf.int64)}, "not fully defined"),
        (None, {"f": Q([2], tf.int64, default_value=1)}, "must be None"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_all(ROWS, context, lists)


def test_the_pieces_of_the_builder():
    assert example(a=[1.0]) == field(1, map_of({"a": feature([1.0])}))
    assert feature(b"x") == texts(b"x")
