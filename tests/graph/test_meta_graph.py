"""MetaGraphDefs: graphs with collections, whole and by scope, and files of them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import any_pb2, wrappers_pb2

import thalweg as tf
from thalweg.graph.formats import meta_graph, proto_functions
from thalweg.graph.formats.import_meta_graph import import_scoped_meta_graph


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def test_collections_of_every_kind_come_back() -> None:
    x = tf.constant(1.0, name="x")
    packed = any_pb2.Any()
    packed.Pack(wrappers_pb2.Int32Value(value=5))
    for name, value in (("t", x), ("o", x.op), ("b", "text"), ("i", 3), ("f", 1.5), ("any", packed)):
        tf.add_to_collection(name, value)
    exported = tf.train.export_meta_graph()
    kinds = {name: exported.collection_def[name].WhichOneof("kind") for name in exported.collection_def}
    assert kinds == {"t": "node_list", "o": "node_list", "b": "bytes_list", "i": "int64_list", "f": "float_list",
                     "any": "any_list"}  # fmt: skip
    with tf.Graph().as_default() as other:
        assert tf.train.import_meta_graph(exported) is None
        assert tf.get_collection("t") == [other.get_tensor_by_name("x:0")]
        assert tf.get_collection("o") == [other.get_operation_by_name("x")]
        assert (tf.get_collection("b"), tf.get_collection("i"), tf.get_collection("f")) == ([b"text"], [3], [1.5])
        assert tf.get_collection("any") == [packed]


def test_the_ops_and_the_version_are_noted() -> None:
    tf.add(tf.constant(1.0), 2.0)
    info = tf.train.export_meta_graph().meta_info_def
    assert info.tensorflow_version == tf.VERSION
    ops = {op.name: op for op in info.stripped_op_list.op}
    assert set(ops) == {"Add", "Const"} or set(ops) == {"AddV2", "Const"}
    assert [attr.type for attr in ops["Const"].attr] == ["tensor", "type"]


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="empty graph"):
        tf.train.export_meta_graph()


def test_collections_that_cannot_be_written_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    tf.constant(1.0)
    tf.add_to_collection("odd", object())
    tf.add_to_collection(("a", "tuple"), 3)
    tf.add_to_collection("mixed", 3)
    tf.add_to_collection("mixed", "x")
    assert not tf.train.export_meta_graph().collection_def


def test_the_collections_to_write_can_be_chosen() -> None:
    tf.constant(1.0)
    tf.add_to_collection("a", 1)
    tf.add_to_collection("b", 2)
    assert list(tf.train.export_meta_graph(collection_list=["b"]).collection_def) == ["b"]


def test_a_scope_is_exported_alone_and_its_inputs_are_asked_for() -> None:
    outside = tf.constant(5.0, name="outside")
    with tf.name_scope("s"):
        inside = tf.constant(2.0, name="inside")
        with tf.control_dependencies([outside]):
            tf.add_to_collection("out", tf.multiply(inside, outside, name="product"))
    tf.add_to_collection("out", outside)
    exported, _ = meta_graph.export_scoped_meta_graph(export_scope="s")
    nodes = {node.name: list(node.input) for node in exported.graph_def.node}
    assert nodes == {"inside": [], "product": ["inside", "$unbound_inputs_outside"]}
    assert exported.collection_def["out"].node_list.value == ["product:0"]
    with tf.Graph().as_default() as other, tf.Session() as session:
        with pytest.raises(ValueError, match="unbound_inputs_outside"):
            import_scoped_meta_graph(exported)
        assert other.get_operations() == []
        given = {"$unbound_inputs_outside": tf.constant(4.0)}
        import_scoped_meta_graph(exported, import_scope="t", input_map=given)
        (product,) = tf.get_collection("out")
        assert product.name == "t/product:0"
        assert session.run(product) == 8.0


def test_importing_twice_under_one_scope_makes_it_unique() -> None:
    tf.add_to_collection("c", tf.constant(1.0, name="x"))
    exported = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        for _ in range(2):
            tf.train.import_meta_graph(exported, import_scope="s")
        assert [tensor.name for tensor in tf.get_collection("c")] == ["s/x:0", "s_1/x:0"]


def test_devices_can_be_cleared() -> None:
    with tf.device("/gpu:1"):
        tf.constant(1.0, name="x")
    assert tf.train.export_meta_graph(clear_devices=True).graph_def.node[0].device == ""
    exported = tf.train.export_meta_graph()
    with tf.Graph().as_default() as other:
        tf.train.import_meta_graph(exported, clear_devices=True)
        assert other.get_operation_by_name("x").device == ""
    assert exported.graph_def.node[0].device == "/device:GPU:1"


def test_defaults_can_be_left_out_and_come_back() -> None:
    tf.placeholder(tf.float32, name="p")
    exported = tf.train.export_meta_graph(strip_default_attrs=True)
    assert set(exported.graph_def.node[0].attr) == {"dtype", "_output_shapes"}
    assert exported.meta_info_def.stripped_default_attrs
    with tf.Graph().as_default() as other:
        tf.train.import_meta_graph(exported)
        assert other.get_tensor_by_name("p:0").shape.ndims is None


def test_registered_functions_write_and_read_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto_functions, "_functions", dict(proto_functions._functions))
    tf.register_proto_function(
        "numbers",
        wrappers_pb2.Int32Value,
        lambda item, export_scope=None: wrappers_pb2.Int32Value(value=item),
        lambda proto, import_scope=None: (proto.value, import_scope),
    )
    tf.constant(1.0)
    tf.add_to_collection("numbers", 42)
    exported = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(exported, import_scope="s")
        assert tf.get_collection("numbers") == [(42, "s")]
    exported.collection_def["numbers"].bytes_list.value[0] = b"\xff\xff"
    with tf.Graph().as_default(), pytest.raises(ValueError, match="'numbers' is not a Int32Value"):
        tf.train.import_meta_graph(exported)
    with pytest.raises(TypeError, match="callable"):
        tf.register_proto_function("numbers", wrappers_pb2.Int32Value, 3)


def test_variables_come_back_once_for_all_their_collections() -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    tf.Variable(3, trainable=False, name="w")
    tf.add_to_collection("out", v * 2.0)
    exported = tf.train.export_meta_graph()
    for scope in ("", "s"):
        with tf.Graph().as_default(), tf.Session() as session:
            variables = import_scoped_meta_graph(exported, import_scope=scope or None)
            assert sorted(variables) == ["v:0", "w:0"]
            assert [v.name for v in tf.global_variables()] == [f"{scope}/v:0".lstrip("/"), f"{scope}/w:0".lstrip("/")]
            assert tf.trainable_variables() == [variables["v:0"]] == tf.global_variables()[:1]
            session.run(tf.global_variables_initializer())
            np.testing.assert_array_equal(session.run(tf.get_collection("out")[0]), [2.0, 4.0])


def test_loops_and_branches_are_written_and_still_run() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.identity(tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1], name="y")
    tf.identity(tf.cond(x > 0, lambda: x * 2.0, lambda: -x), name="z")
    exported = tf.train.export_meta_graph()
    kinds = {name: exported.collection_def[name].WhichOneof("kind") for name in exported.collection_def}
    assert kinds == {"while_context": "bytes_list", "cond_context": "bytes_list"}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(exported)
        assert session.run(["y:0", "z:0"], {"x:0": 2.0}) == [16.0, 4.0]


@pytest.mark.parametrize("as_text", [True, False])
def test_files_are_written_and_read(tmp_path: Path, as_text: bool) -> None:
    tf.add_to_collection("c", tf.constant([1.0, 2.0], name="x"))
    path = str(tmp_path / "deeper" / "graph.meta")
    tf.train.export_meta_graph(path, as_text=as_text)
    assert os.listdir(tmp_path / "deeper") == ["graph.meta"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(path)
        np.testing.assert_array_equal(session.run(tf.get_collection("c")[0]), [1.0, 2.0])


def test_bad_files_and_arguments(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="does not exist"):
        tf.train.import_meta_graph(str(tmp_path / "none.meta"))
    (tmp_path / "bad.meta").write_bytes(b"\xff\xfenot a graph")
    with pytest.raises(OSError, match=r"Cannot parse file .*bad\.meta"):
        tf.train.import_meta_graph(str(tmp_path / "bad.meta"))
    with pytest.raises(TypeError, match="MetaGraphDef"):
        tf.train.import_meta_graph(3)
    exported = tf.MetaGraphDef()
    exported.collection_def["c"].node_list.value.append("gone:0")
    with pytest.raises(ValueError, match=r"'c'.*gone"):
        tf.train.import_meta_graph(exported)
    exported.collection_def["c"].Clear()
    with pytest.raises(ValueError, match="'c'"):
        tf.train.import_meta_graph(exported)


@pytest.mark.parametrize("as_text", [True, False])
def test_write_graph_writes_a_graph_or_a_graph_def(tmp_path: Path, as_text: bool, graph: tf.Graph) -> None:
    from google.protobuf import text_format

    tf.constant([1.0, 2.0], name="x")
    for source in (graph, graph.as_graph_def()):
        path = tf.train.write_graph(source, str(tmp_path / "logs"), "g", as_text)
        assert path == str(tmp_path / "logs" / "g")
        data = Path(path).read_bytes()
        read = text_format.Parse(data, tf.GraphDef()) if as_text else tf.GraphDef.FromString(data)
        assert read == graph.as_graph_def()
    assert tf.io.write_graph is tf.train.write_graph


def test_handles_have_no_shapes_in_files() -> None:
    """TensorFlow's handles of arrays have two elements, ours none: neither may keep the other from loading a graph."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    tf.map_fn(lambda row: row * 2.0, x, name="twice")
    tf.raw_ops.Barrier(component_types=[tf.float32])
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    nodes = {node.name: node for node in graph_def.node}
    handles = [node for node in graph_def.node if node.op in ("TensorArrayV3", "Barrier")]
    assert len(handles) == 3
    for node in handles:
        shapes = node.attr["_output_shapes"].list.shape
        assert shapes[0].unknown_rank
        shapes[0].unknown_rank = False
        shapes[0].dim.add(size=2)
    assert [d.size for d in nodes["x"].attr["_output_shapes"].list.shape[0].dim] == [-1, 3]
    with tf.Graph().as_default(), tf.Session() as session:
        result = next(name for name in nodes if name.startswith("twice/") and nodes[name].op == "TensorArrayGatherV3")
        (y,) = tf.import_graph_def(graph_def, return_elements=[f"{result}:0"], name="")
        assert session.run(y, {"x:0": [[1.0, 2.0, 3.0]]}).tolist() == [[2.0, 4.0, 6.0]]
