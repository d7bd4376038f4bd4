"""tf.make_tensor_proto and tf.make_ndarray."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from google.protobuf import text_format

import thalweg as tf
from thalweg.graph.messages import tensor_proto


def parse(text: str) -> Any:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    return text_format.Parse(text, TensorProto())


def fields(proto: Any) -> dict[str, Any]:
    """The fields that hold elements."""
    return {
        field.name: value if isinstance(value, bytes) else list(value)
        for field, value in proto.ListFields()
        if field.name not in ("dtype", "tensor_shape", "version_number")
    }


# What TensorFlow writes, as (arguments, element type, shape, fields).
WRITTEN: list[tuple[dict[str, Any], str, list[int], dict[str, Any]]] = [
    ({"values": 1.0}, "float32", [], {"float_val": [1.0]}),
    ({"values": [1.0, 2.0]}, "float32", [2], {"tensor_content": b"\0\0\x80?\0\0\0@"}),
    ({"values": 1}, "int32", [], {"int_val": [1]}),
    ({"values": [[3]]}, "int32", [1, 1], {"int_val": [3]}),
    ({"values": "a"}, "string", [], {"string_val": [b"a"]}),
    ({"values": ["a", b"b"]}, "string", [2], {"string_val": [b"a", b"b"]}),
    ({"values": [True, False]}, "bool", [2], {"bool_val": [True, False]}),
    ({"values": 1 + 2j}, "complex128", [], {"dcomplex_val": [1.0, 2.0]}),
    ({"values": 1j, "dtype": "complex64"}, "complex64", [], {"scomplex_val": [0.0, 1.0]}),
    ({"values": 1.0, "shape": [2, 3]}, "float32", [2, 3], {"float_val": [1.0]}),
    ({"values": [1.0, 2.0], "shape": [2, 3]}, "float32", [2, 3], {"float_val": [1.0, 2.0]}),
    ({"values": 1.0, "dtype": "float16"}, "float16", [], {"half_val": [15360]}),
    ({"values": [1.0], "dtype": "bfloat16"}, "bfloat16", [1], {"half_val": [16256]}),
    ({"values": [1.0, 2], "dtype": "bfloat16"}, "bfloat16", [2], {"tensor_content": b"\x80?\0@"}),
    ({"values": np.int8(3)}, "int8", [], {"int_val": [3]}),
    ({"values": np.uint16(3)}, "uint16", [], {"int_val": [3]}),
    ({"values": np.uint32(3)}, "uint32", [], {"uint32_val": [3]}),
    ({"values": np.uint64(2**64 - 1)}, "uint64", [], {"uint64_val": [2**64 - 1]}),
    ({"values": np.int64(3)}, "int64", [], {"int64_val": [3]}),
    ({"values": []}, "float32", [0], {}),
    ({"values": np.zeros((0, 2))}, "float64", [0, 2], {}),
    ({"values": 1, "shape": [2], "verify_shape": True, "allow_broadcast": True}, "int32", [2], {"int_val": [1]}),
    ({"values": [1, 2], "shape": [1, 2]}, "int32", [1, 2], {"tensor_content": b"\1\0\0\0\2\0\0\0"}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "dtype", "shape", "content"), WRITTEN)
def test_protos_have_tensorflows_compact_forms(
    arguments: dict[str, Any], dtype: str, shape: list[int], content: dict[str, Any]
) -> None:
    proto = tf.make_tensor_proto(**arguments)
    assert tf.as_dtype(proto.dtype).name == dtype
    assert [dim.size for dim in proto.tensor_shape.dim] == shape
    assert proto.HasField("tensor_shape")
    assert fields(proto) == content
    array = tf.make_ndarray(proto)
    assert list(array.shape) == shape and tf.as_dtype(array.dtype).name == dtype
    assert array.flags.writeable
    assert tf.make_tensor_proto(proto) is proto


def test_too_many_elements_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 2, but got 3"):
        tf.make_tensor_proto([1, 2, 3], shape=[2])
    with pytest.raises(TypeError, match=r"\(2,\), but got \(1,\)"):
        tf.make_tensor_proto([1], shape=[2], verify_shape=True)
    with pytest.raises(ValueError, match="fully defined"):
        tf.make_tensor_proto([1], shape=[None])
    with pytest.raises(TypeError):
        tf.make_tensor_proto(1.5, dtype=tf.int32)
    with pytest.raises(ValueError, match="None"):
        tf.make_tensor_proto(None)


DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128", "qint8", "quint8", "qint16", "quint16", "qint32", "float8_e5m2",
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 0), (2, 3)])
def test_every_type_comes_back(name: str, shape: tuple[int, ...]) -> None:
    dtype = tf.as_dtype(name)
    numbers = np.arange(np.prod(shape, dtype=int)) % 2
    target = np.dtype(dtype.as_numpy_dtype)
    array = (numbers.astype(target[0]).view(target) if target.fields else numbers.astype(target)).reshape(shape)
    again = tf.make_ndarray(tensor_proto.tensor_proto_of(array, dtype))
    assert again.dtype == array.dtype and again.shape == array.shape
    np.testing.assert_array_equal(again, array)


def test_the_last_value_repeats_and_none_means_zeros() -> None:
    shape = "tensor_shape { dim { size: 2 } dim { size: 2 } }"
    np.testing.assert_array_equal(
        tf.make_ndarray(parse(f"dtype: DT_INT32 {shape} int_val: 1 int_val: 2")), [[1, 2], [2, 2]]
    )
    np.testing.assert_array_equal(tf.make_ndarray(parse(f"dtype: DT_DOUBLE {shape}")), np.zeros((2, 2)))
    assert tf.make_ndarray(parse(f'dtype: DT_STRING {shape} string_val: "x"')).tolist() == [[b"x"] * 2] * 2
    assert tf.make_ndarray(parse(f"dtype: DT_STRING {shape}")).tolist() == [[b""] * 2] * 2
    halves = tf.make_ndarray(parse(f"dtype: DT_BFLOAT16 {shape} half_val: 16256"))
    assert halves.dtype == ml_dtypes.bfloat16 and (halves == 1).all()
    complexes = tf.make_ndarray(parse(f"dtype: DT_COMPLEX64 {shape} scomplex_val: 1 scomplex_val: 2"))
    assert (complexes == 1 + 2j).all() and complexes.dtype == np.complex64


def test_strings_in_tensor_content_are_read() -> None:
    proto = parse("dtype: DT_STRING tensor_shape { dim { size: 2 } }")
    proto.tensor_content = bytes([2, 0x80 | 1, 1]) + b"ab" + b"c" * 129
    assert tf.make_ndarray(proto).tolist() == [b"ab", b"c" * 129]
    for bad in (b"\2", b"\2\3ab", b"\xff" * 20, b"\0\0x"):
        proto.tensor_content = bad
        with pytest.raises(ValueError, match="strings"):
            tf.make_ndarray(proto)


def test_a_large_constant_of_one_value_takes_no_memory() -> None:
    proto = parse("dtype: DT_FLOAT tensor_shape { dim { size: 20000 } dim { size: 20000 } } float_val: 3")
    array = tensor_proto.read_only_array(proto)
    assert array.shape == (20000, 20000) and array.strides == (0, 0) and array[5, 7] == 3
    with tf.Graph().as_default() as graph:
        tf.constant(0.0)
        node = graph.as_graph_def().node[0]
    node.attr["value"].tensor.CopyFrom(proto)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef(node=[node]), name="")
    assert graph.as_graph_def().node[0].attr["value"].tensor == proto


HOSTILE = [
    ("dtype: DT_FLOAT tensor_shape { dim { size: -1 } }", "not fully defined"),
    ("dtype: DT_FLOAT tensor_shape { unknown_rank: true }", "unknown rank"),
    ("dtype: DT_FLOAT tensor_shape { dim { size: 9223372036854775807 } }", "more than"),
    ("dtype: DT_FLOAT tensor_shape { dim { size: 4294967296 } dim { size: 4294967296 } dim { size: 0 } }", "more than"),
    ("dtype: DT_STRING tensor_shape { dim { size: 9223372036854775807 } }", "more than"),
    ("dtype: DT_STRING tensor_shape { dim { size: 2147483647 } } string_val: 'a' string_val: 'b'", "more than"),
    ("dtype: DT_FLOAT tensor_shape { " + "dim { size: 1 } " * 70 + "}", "70 dimensions"),
    ('dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: "12345"', "5 bytes.*need 8"),
    ("dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 float_val: 2 float_val: 3", "3 values"),
    ("dtype: DT_COMPLEX64 tensor_shape { } scomplex_val: 1", "odd number"),
    ("dtype: 99 tensor_shape { }", "unknown element type number 99"),
    ("tensor_shape { } float_val: 1", "unknown element type number 0"),
]


@pytest.mark.parametrize(("text", "match"), HOSTILE)
def test_hostile_protos_are_refused(text: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        tf.make_ndarray(parse(text))


def test_handles_have_no_array() -> None:
    with pytest.raises(TypeError, match="resource"):
        tf.make_ndarray(parse("dtype: DT_RESOURCE tensor_shape { }"))
    with pytest.raises(TypeError, match="TensorProto"):
        tf.make_ndarray([1, 2])


def test_values_are_reduced_to_the_width_of_their_type() -> None:
    assert tf.make_ndarray(parse("dtype: DT_UINT8 tensor_shape { } int_val: -1")) == 255
    assert tf.make_ndarray(parse("dtype: DT_HALF tensor_shape { } half_val: 80896")).dtype == np.float16
    proto = parse("dtype: DT_BOOL tensor_shape { dim { size: 3 } }")
    proto.tensor_content = b"\0\1\7"
    assert tf.make_ndarray(proto).tolist() == [False, True, True]


def test_a_constant_that_repeats_one_value_is_kept_and_written_as_one_value() -> None:
    for value, field in ((1.5, "float_val"), ("text", "string_val"), (True, "bool_val")):
        with tf.Graph().as_default() as graph:
            tensor = tf.constant(value, shape=[1000, 100_000])
            proto = graph.as_graph_def().node[0].attr["value"].tensor
            assert len(getattr(proto, field)) == 1
            assert not proto.tensor_content
            assert [dim.size for dim in proto.tensor_shape.dim] == tensor.shape.as_list() == [1000, 100_000]
            assert tensor.op.attrs["value"].strides == (0, 0)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        np.testing.assert_array_equal(session.run(tf.constant(3, shape=[2, 2])), [[3, 3], [3, 3]])
        assert graph.as_graph_def().node[0].attr["value"].tensor.int_val == [3]


def test_complex_arrays_are_written_value_by_value() -> None:
    proto = tf.make_tensor_proto(np.array([[1 + 2j, 3]], np.complex64))
    assert list(proto.scomplex_val) == [1.0, 2.0, 3.0, 0.0]
    np.testing.assert_array_equal(tf.make_ndarray(proto), [[1 + 2j, 3]])


def test_constants_of_a_graph_def_are_copied_once_out_of_the_message() -> None:
    class Counted:
        """A TensorProto that counts how often its content, a copy each time, is read."""

        def __init__(self, proto: Any) -> None:
            self._proto, self.reads = proto, 0

        def __getattr__(self, name: str) -> Any:
            self.reads += name == "tensor_content"
            return getattr(self._proto, name)

    values = np.arange(1000, dtype=np.float32)
    counted = Counted(tf.make_tensor_proto(values))
    array = tensor_proto.read_only_array(counted)
    np.testing.assert_array_equal(array, values)
    assert counted.reads == 1
    assert not array.flags.writeable and not array.flags.owndata
    changed = tf.make_ndarray(counted)
    changed[0] = 5
    assert array[0] == 0
