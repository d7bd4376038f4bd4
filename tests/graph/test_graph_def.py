"""Graphs and nodes as GraphDef and NodeDef protobufs."""

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.messages import attr_values


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_node_has_name_type_inputs_device_and_attributes() -> None:
    a = tf.constant(1.0, name="a")
    with tf.device("/cpu:0"), tf.control_dependencies([a]):
        b = tf.identity(tf.constant([2, 3], name="c"), name="b")
    node = b.op.node_def
    assert (node.name, node.op, node.device) == ("b", "Identity", "/device:CPU:0")
    assert list(node.input) == ["c"]
    assert list(b.op.inputs[0].op.node_def.input) == ["^a"]
    assert node.attr["T"].type == tf.int32.as_datatype_enum
    assert "Identity" in str(b.op)


def test_later_outputs_carry_their_number(graph: tf.Graph) -> None:
    parts = tf.split(tf.constant([1.0, 2.0]), 2, name="parts")
    node = tf.identity(parts[1]).op.node_def
    assert list(node.input) == ["parts:1"]


def test_a_graph_def_has_all_nodes_in_order_and_the_versions(graph: tf.Graph) -> None:
    tf.add(tf.constant(1.0, name="x"), tf.constant(2.0, name="y"), name="z")
    graph_def = graph.as_graph_def()
    assert [node.name for node in graph_def.node] == ["x", "y", "z"]
    assert graph_def.versions.producer == tf.GRAPH_DEF_VERSION
    assert type(graph_def) is tf.GraphDef


def test_from_version_gives_what_came_later(graph: tf.Graph) -> None:
    tf.constant(1.0, name="x")
    version = graph.version
    tf.constant(1.0, name="y")
    assert [node.name for node in graph.as_graph_def(from_version=version).node] == ["y"]
    assert len(graph.as_graph_def(from_version=graph.version).node) == 0
    assert len(graph.as_graph_def(from_version=0).node) == 2


def test_shapes_can_be_added(graph: tf.Graph) -> None:
    tf.placeholder(tf.float32, [None, 3])
    tf.placeholder(tf.float32)
    tf.no_op()
    first, second, third = graph.as_graph_def(add_shapes=True).node
    assert [dim.size for dim in first.attr["_output_shapes"].list.shape[0].dim] == [-1, 3]
    assert second.attr["_output_shapes"].list.shape[0].unknown_rank
    assert "_output_shapes" not in third.attr


VALUES: list[tuple[str, Any]] = [
    ("bool", True), ("int", -5), ("float", 0.5), ("string", b"\xff\x00a"), ("type", tf.complex64),
    ("shape", tf.TensorShape([2, None])), ("shape", tf.TensorShape(None)), ("shape", tf.TensorShape([])),
    ("tensor", np.arange(6, dtype=np.int16).reshape(2, 3)), ("tensor", np.array(b"x", object)),
    ("func", NameAttrList("f", {"T": tf.float32, "n": [1, 2], "inner": NameAttrList("g")})),
    ("list(bool)", [True, False]), ("list(int)", [1, -2]), ("list(float)", [0.5, 2.0]), ("list(string)", [b"a", b""]),
    ("list(type)", [tf.string, tf.int32]), ("list(shape)", [tf.TensorShape([1]), tf.TensorShape(None)]),
    ("list(tensor)", [np.array([1.0, 2.0], np.float32)]), ("list(func)", [NameAttrList("f"), NameAttrList("g")]),
    ("list(int)", []), ("list(shape)", []),
]  # fmt: skip


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(a == b))
    if isinstance(a, tf.TensorShape):
        return a.as_proto() == b.as_proto() if hasattr(a, "as_proto") else repr(a) == repr(b)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(VALUES)])
def test_attributes_of_every_kind_come_back(kind: str, value: Any) -> None:
    known, unknown = tf.AttrValue(), tf.AttrValue()
    attr_values.write_attr(known, kind, value)
    attr_values.write_any(unknown, value)
    assert known == unknown
    copy = tf.AttrValue.FromString(known.SerializeToString())
    assert equal(attr_values.read_attr(copy, kind), value)
    assert equal(attr_values.read_any(copy), value)
    other = "int" if kind != "int" else "float"
    with pytest.raises(ValueError, match="expected"):
        attr_values.read_attr(copy, other)
    if not (isinstance(value, list) and not value):
        with pytest.raises(ValueError, match="expected"):
            attr_values.read_attr(copy, "list(int)" if kind != "list(int)" else "list(string)")


def test_placeholders_and_nothing_come_back() -> None:
    proto = tf.AttrValue()
    assert attr_values.read_any(proto) is None
    attr_values.write_any(proto, attr_values.AttrPlaceholder("T"))
    assert proto.placeholder == "T"
    assert attr_values.read_any(proto) == attr_values.AttrPlaceholder("T")
    with pytest.raises(TypeError, match="cannot hold"):
        attr_values.write_any(proto, object())


def test_functions_nested_without_end_are_refused() -> None:
    proto = tf.AttrValue()
    inner = proto
    for _ in range(90):
        inner.func.name = "f"
        inner = inner.func.attr["g"]
    with pytest.raises(ValueError, match="nested"):
        attr_values.read_any(proto)


def test_constants_of_many_types_survive_a_round_trip(graph: tf.Graph) -> None:
    values = [
        np.float32(1.5), np.arange(4, dtype=np.float64), np.array([[1, 2]], np.int8), np.array([True, False]),
        np.array(["a", "bc"]), np.array([1 + 2j]), np.zeros((0, 3), np.float32), np.float16(0.25), np.uint64(2**64 - 1),
    ]  # fmt: skip
    tensors = [tf.constant(value) for value in values]
    tensors.append(tf.constant([1.0, 2.0], tf.bfloat16))
    graph_def = tf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    copies = tf.import_graph_def(graph_def, return_elements=[tensor.name for tensor in tensors])
    assert copies is not None
    for tensor, copy in zip(tensors, copies, strict=True):
        original, again = tensor.op.get_attr("value"), copy.op.get_attr("value")
        assert original.dtype == again.dtype and original.shape == again.shape
        np.testing.assert_array_equal(original, again)
        assert not again.flags.writeable


def test_a_large_graph_is_written_and_read(graph: tf.Graph) -> None:
    x = tf.constant(1.0)
    while graph.version < 5000:
        x = x * 2.0 + 1.0
    graph_def = graph.as_graph_def()
    with tf.Graph().as_default() as copy:
        tf.import_graph_def(graph_def, name="")
    assert copy.as_graph_def() == graph_def
