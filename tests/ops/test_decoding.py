"""Decoding of strings: quoting in CSV, compressed bytes, JSON, tensors, and refused input."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def run(fetches):
    with tf.Session() as sess:
        return sess.run(fetches)


def csv(records, defaults, **options):
    return [column.tolist() for column in run(tf.decode_csv(records, defaults, **options))]


@pytest.mark.parametrize(
    ("records", "defaults", "options", "expected"),
    [
        (["1,a,2.5", "2,b,"], [[0], [""], [9.0]], {}, [[1, 2], [b"a", b"b"], [2.5, 9.0]]),
        (['1,"a,b",2', '2,"a""b",3', '3,"",4'], [[0], ["d"], [0]], {}, [[1, 2, 3], [b"a,b", b'a"b', b"d"], [2, 3, 4]]),
        (['"""",""""""'], [[""], [""]], {}, [[b'"'], [b'""']]),
        (['1,"a\r\nb"'], [[0], [""]], {}, [[1], [b"a\r\nb"]]),
        (["1,2,"], [[5], [6], [7]], {}, [[1], [2], [7]]),
        ([",,"], [["x"], ["y"], ["z"]], {}, [[b"x"], [b"y"], [b"z"]]),
        (["1,2,3"], [[0], [""]], {"select_cols": [0, 2]}, [[1], [b"3"]]),
        (['1,"never read'], [[0]], {"select_cols": [0]}, [[1]]),
        (['NA,"NA",1'], [[5], ["q"], [0]], {"na_value": "NA"}, [[5], [b"q"], [1]]),
        (["1\t2"], [[5], ["q"]], {"field_delim": "\t"}, [[1], [b"2"]]),
        (['1,"a,b"'], [[5], ["q"], ["r"]], {"use_quote_delim": False}, [[1], [b'"a'], [b'b"']]),
        ([" 1 ,+5,\"7\""], [[0], [0], [0]], {}, [[1], [5], [7]]),
        (["1,a\0b"], [[0], [""]], {}, [[1], [b"a\0b"]]),
        (["inf,-INF,1e400,1e-400,0x10,+1, 2.5 "], [[0.0]] * 7, {},
         [[np.inf], [-np.inf], [np.inf], [0], [16], [1], [2.5]]),
        ([str(2**63 - 1)], [tf.int64], {}, [[2**63 - 1]]),
        (["0.1"], [tf.float64], {}, [[0.1]]),
    ],
)  # fmt: skip
def test_csv(records, defaults, options, expected):
    defaults = [tf.constant([0], d) if isinstance(d, tf.DType) else d for d in defaults]
    assert csv(records, defaults, **options) == expected


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('1,a"b', "Unquoted fields cannot have quotes/CRLFs inside"),
        ("1,a\r\n", "Unquoted fields cannot have quotes/CRLFs inside"),
        ("1,a\nb", "Unquoted fields cannot have quotes/CRLFs inside"),
        (' "1",a', "Unquoted fields cannot have quotes/CRLFs inside"),
        ('1,"a"b', "Quote inside a string has to be escaped by another quote"),
        ('1,"ab', "Quoted field has to end with quote followed by delim or end"),
        ('1,"', "Quoted field has to end with quote followed by delim or end"),
        ('1,"a""', "Quoted field has to end with quote followed by delim or end"),
        ("1", "Expect 2 fields but have 1 in record 0"),
        ("1,2,3", "Expect 2 fields but have 3 in record 0"),
        ("", "Expect 2 fields but have 0 in record 0"),
        ("x,a", "Field 0 in record 0 is not a valid int32: x"),
        ("3000000000,a", "Field 0 in record 0 is not a valid int32: 3000000000"),
        ("5.0,a", "is not a valid int32"),
        ("1,", "Field 1 is required but missing in record 0!"),
    ],
)
def test_csv_that_is_refused(record, message):
    out = tf.decode_csv([record], [[0], tf.constant([], tf.string)])
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        run(out)
    assert message in str(error.value)


def test_csv_arguments():
    with pytest.raises(ValueError, match="negative"):
        tf.decode_csv(["1"], [[0]], select_cols=[-1])
    with pytest.raises(ValueError, match="strictly increasing"):
        tf.decode_csv(["1"], [[0], [0]], select_cols=[1, 1])
    with pytest.raises(ValueError, match="do not match"):
        tf.decode_csv(["1"], [[0], [0]], select_cols=[1])
    with pytest.raises(ValueError, match="length-0 or length-1"):
        tf.decode_csv(["1"], [[0, 1]])
    with pytest.raises(TypeError, match="bool"):
        tf.decode_csv(["1"], [[True]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 char"):
        run(tf.decode_csv(["1"], [[0]], field_delim="ab"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="strictly increasing"):
        run(apply("DecodeCSV", ["1,2"], [[0], [0]], select_cols=[1, 0]))


def test_large_csv_keeps_its_order_and_names_the_first_bad_record():
    records = [f'{i},{i / 4},"w{i}"' for i in range(20000)]
    out = csv(records, [[0], [0.0], [""]])
    assert out[0] == list(range(20000))
    assert out[1] == [i / 4 for i in range(20000)]
    assert out[2][12345] == b"w12345"
    records[19000], records[7000] = "", "a,b,c"
    with pytest.raises(tf.errors.InvalidArgumentError, match="in record 7000 "):
        csv(records, [[0], [0.0], [""]])


def test_csv_fields_of_all_lengths():
    """Delimiters are searched in blocks of sixteen bytes: ends at every place of a block, records of every length."""
    for quotes in (True, False):
        rows = [("a" * i, "b" * j, "c" * k) for i in range(0, 36, 3) for j in range(19) for k in (0, 1, 15, 16, 17)]
        columns = csv([",".join(row) for row in rows], [[""]] * 3, use_quote_delim=quotes)
        assert list(zip(*columns, strict=True)) == [tuple(field.encode() for field in row) for row in rows]
    for length in range(40):
        for bad in '\n\r"':
            with pytest.raises(tf.errors.InvalidArgumentError, match="Unquoted fields"):
                csv(["x" * length + bad + "y,1"] if length or bad != '"' else [f"x{bad},1"], [[""], [""]])
        kept = csv(["x" * length + '"y,1'], [[""], [""]], use_quote_delim=False)
        assert kept == [[b"x" * length + b'"y'], [b"1"]]


def test_csv_of_any_bytes_never_fails_otherwise():
    rng = np.random.default_rng(1)
    record = tf.placeholder(tf.string, [1])
    out = tf.decode_csv(record, [[""], [""]])
    outcomes = {"ran": 0, "failed": 0}
    with tf.Session() as sess:
        for _ in range(500):
            text = bytes(rng.choice(list(b'",\r\n\0a1.e '), rng.integers(0, 12)).astype(np.uint8))
            try:
                sess.run(out, {record: [text]})
                outcomes["ran"] += 1
            except tf.errors.InvalidArgumentError:
                outcomes["failed"] += 1
    assert min(outcomes.values()) > 0


def test_compressed():
    data = b"abc" * 1000
    assert run(tf.io.decode_compressed([zlib.compress(data), b""], "ZLIB")).tolist() == [data, b""]
    assert run(tf.io.decode_compressed([gzip.compress(data) + gzip.compress(b"x")], "GZIP")).tolist() == [data + b"x"]
    assert run(tf.io.decode_compressed([b"as it is"])).tolist() == [b"as it is"]
    for bad in (b"zzzz", zlib.compress(data)[:-8], zlib.compress(data)[:-1] + b"?"):
        with pytest.raises(tf.errors.DataLossError):
            run(tf.io.decode_compressed([bad], "ZLIB"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="LZ4"):
        run(tf.io.decode_compressed([b""], "LZ4"))


@pytest.mark.parametrize(
    "value",
    [np.float32([[1, 2]]), np.int64(5), np.array([b"a", b"", b"b" * 300], object), np.zeros((0, 3), np.int32),
     np.array([True, False]), np.array([1 + 2j], np.complex128), np.arange(5, dtype=np.uint16)],
)  # fmt: skip
def test_tensors_survive_serialization(value):
    text = tf.serialize_tensor(value)
    back = run(tf.parse_tensor(text, tf.as_dtype(value.dtype)))
    np.testing.assert_array_equal(back, value)
    proto = tf.make_tensor_proto(run(tf.parse_tensor(text, tf.as_dtype(value.dtype))))
    assert run(tf.parse_tensor(proto.SerializeToString(), tf.as_dtype(value.dtype))).tolist() == value.tolist()


@pytest.mark.parametrize(
    ("dtype", "field", "values"),
    [("float32", "float_val", [1.5]), ("float64", "double_val", [1.5, 2.5]), ("int32", "int_val", [-7]),
     ("int8", "int_val", [-7]), ("uint16", "int_val", [9, 8]), ("int64", "int64_val", [-1, 2]),
     ("bool", "bool_val", [True]), ("uint32", "uint32_val", [3]), ("uint64", "uint64_val", [2**63]),
     ("string", "string_val", [b"q"]), ("int32", "int_val", []), ("string", "string_val", []),
     ("complex64", "scomplex_val", [1.0, 2.0]), ("float16", "half_val", [0x3C00]), ("float32", "float_val", [1.0] * 9)],
)  # fmt: skip
def test_values_of_a_proto_repeat_the_last_one(dtype, field, values):
    proto = tf.make_tensor_proto([1], tf.int32)
    proto.Clear()
    proto.dtype = tf.as_dtype(dtype).as_datatype_enum
    proto.tensor_shape.dim.add(size=4)
    getattr(proto, field).extend(values)
    want = tf.make_ndarray(proto) if len(values) in range(1, 5) else None
    got = run(tf.parse_tensor(proto.SerializeToString(), dtype))
    if want is not None:
        assert got.tolist() == want.tolist()
    elif values:
        assert got.tolist() == values[:4]
    else:
        assert got.tolist() == [b"" if dtype == "string" else 0] * 4


def test_every_damage_to_a_tensor_proto_is_refused_or_harmless():
    proto = tf.make_tensor_proto(np.float32([[1, 2], [3, 4]])).SerializeToString()
    text = tf.placeholder(tf.string, [])
    out = tf.parse_tensor(text, tf.float32)
    failed = 0
    with tf.Session() as sess:
        for i in range(len(proto)):
            flipped = bytearray(proto)
            flipped[i] ^= 0x81
            for damaged in (proto[:i], bytes(flipped)):
                try:
                    sess.run(out, {text: damaged})
                except tf.errors.OpError:
                    failed += 1
    assert failed > len(proto)


def json_values(text):
    parsed = tf.parse_example(tf.decode_json_example([text]), {
        "i": tf.VarLenFeature(tf.int64), "s": tf.VarLenFeature(tf.string), "f": tf.VarLenFeature(tf.float32)
    })  # fmt: skip
    return [run(parsed[key].values).tolist() for key in "isf"]


def test_json_examples():
    text = """{"features": {"feature": {
        "i": {"int64List": {"value": ["1", 2, "-9223372036854775808"]}}, "s": {"bytes_list": {"value": ["YWI="]}},
        "f": {"floatList": {"value": [1.5, "NaN", "-Infinity"]}}}}}"""
    ids, words, numbers = json_values(text)
    assert (ids, words) == ([1, 2, -(2**63)], [b"ab"])
    np.testing.assert_array_equal(numbers, [1.5, np.nan, -np.inf])
    assert json_values("{}") == [[], [], []]
    with tf.Graph().as_default():
        assert tf.decode_json_example(tf.placeholder(tf.string, [2, 3])).shape.as_list() == [2, 3]


@pytest.mark.parametrize(
    "text", ["", '{"features":', '{"x": 1}', "[]", '{"features": 3}', "\xff",
             '{"features": {"feature": {"a": {"int64List": {"value": ["x"]}}}}}']
)  # fmt: skip
def test_json_that_is_no_example(text):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Error while parsing JSON"):
        run(tf.decode_json_example([text]))
