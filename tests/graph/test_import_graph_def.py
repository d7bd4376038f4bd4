"""tf.import_graph_def: names, prefixes, input maps, results, attributes, devices, colocation, and refusals."""

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import thalweg as tf
from thalweg.graph.definitions import op_registry

A = """node { name: "a" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } } """
B = 'node { name: "b" op: "Identity" input: "a" attr { key: "T" value { type: DT_FLOAT } } } '


def parse(text: str) -> Any:
    return text_format.Parse(text, tf.GraphDef())


def identity(name: str, source: str, extra: str = "", dtype: str = "DT_FLOAT") -> str:
    inputs = " ".join(f'input: "{part}"' for part in source.split())
    return f'node {{ name: "{name}" op: "Identity" {inputs} attr {{ key: "T" value {{ type: {dtype} }} }} {extra} }} '


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def names(graph: tf.Graph) -> list[str]:
    return [op.name for op in graph.get_operations()]


def test_nodes_get_the_prefix_import_which_is_made_unique(graph: tf.Graph) -> None:
    assert tf.import_graph_def(parse(A)) is None
    tf.import_graph_def(parse(A))
    with tf.name_scope("s"):
        tf.import_graph_def(parse(A))
        tf.import_graph_def(parse(A), name="mine")
    assert names(graph) == ["import/a", "import_1/a", "s/import/a", "s/mine/a"]


def test_an_empty_name_means_no_prefix_and_unique_names(graph: tf.Graph) -> None:
    for _ in range(3):
        tf.import_graph_def(parse(A + B), name="")
    assert names(graph) == ["a", "b", "a_1", "b_1", "a_2", "b_2"]
    assert graph.get_operation_by_name("b_1").inputs[0].name == "a_1:0"
    assert tf.constant(1.0, name="a").name == "a_3:0"


def test_a_name_with_a_slash_reopens_that_scope(graph: tf.Graph) -> None:
    tf.import_graph_def(parse(A), name="x/y/")
    assert names(graph) == ["x/y/a"]
    with pytest.raises(ValueError, match="'x/y/a' already exists"):
        tf.import_graph_def(parse(A), name="x/y/")


def test_inputs_may_come_after_their_consumers(graph: tf.Graph) -> None:
    tf.import_graph_def(parse(identity("c", "b") + B + A), name="")
    assert names(graph) == ["a", "b", "c"]


def test_control_inputs_and_output_numbers(graph: tf.Graph) -> None:
    tf.import_graph_def(parse(A + identity("c", "a:0 ^a ^a")), name="")
    op = graph.get_operation_by_name("c")
    assert [t.name for t in op.inputs] == ["a:0"]
    assert [c.name for c in op.control_inputs] == ["a"]


def test_return_elements_are_operations_and_tensors() -> None:
    a, b, again = tf.import_graph_def(parse(A + B), return_elements=["a", "b:0", "b"])
    assert isinstance(a, tf.Operation) and isinstance(b, tf.Tensor) and again is b.op


@pytest.mark.parametrize(
    ("element", "match"),
    [("zz", "zz"), ("zz:0", "zz:0"), ("b:4", "output 4"), ("b:x", "b:x"), ("b:0:0", "b:0:0")],
)
def test_return_elements_that_do_not_exist_are_refused_and_nothing_is_added(
    graph: tf.Graph, element: str, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        tf.import_graph_def(parse(A + B), return_elements=[element])
    assert names(graph) == []


def test_input_map_replaces_tensors(graph: tf.Graph) -> None:
    x = tf.constant(5.0, name="x")
    b, a = tf.import_graph_def(parse(A + B), input_map={"a:0": x}, return_elements=["b:0", "a:0"])
    assert b.op.inputs[0] is x and a is x
    (b,) = tf.import_graph_def(parse(B), input_map={"a": 7.0}, return_elements=["b:0"], name="n")
    assert b.op.inputs[0].name == "n/_inputs/Const:0"
    with tf.Session() as session:
        assert session.run(b) == 7.0


def test_input_map_replaces_control_inputs(graph: tf.Graph) -> None:
    x = tf.constant(5.0, name="x")
    (c,) = tf.import_graph_def(parse(A + identity("c", "a ^a")), input_map={"^a": x}, return_elements=["c"])
    assert [op.name for op in c.control_inputs] == ["x"]
    assert c.inputs[0].name == "import/a:0"
    (c,) = tf.import_graph_def(parse(A + identity("c", "a ^zz")), input_map={"^zz": x.op}, return_elements=["c"])
    assert [op.name for op in c.control_inputs] == ["x"]


def test_input_map_refuses_what_does_not_fit(graph: tf.Graph) -> None:
    x = tf.constant(5.0)
    with pytest.raises(ValueError, match=r"not found in graph_def: \[zz:0\]"):
        tf.import_graph_def(parse(A + B), input_map={"zz": x, "a": x})
    with pytest.raises(ValueError, match=r"\[\^zz\]"):
        tf.import_graph_def(parse(A + B), input_map={"^zz": x})
    with pytest.raises(ValueError, match=r"int32 .*expected float32"):
        tf.import_graph_def(parse(A + B), input_map={"a": tf.constant(1)})
    with pytest.raises(ValueError, match="non-empty `name`"):
        tf.import_graph_def(parse(A + B), input_map={"a": 1.0}, name="")
    with pytest.raises(TypeError, match="strings"):
        tf.import_graph_def(parse(A + B), input_map={3: x})
    with pytest.raises(TypeError, match="Tensor"):
        tf.import_graph_def(parse(A + B), input_map={"a": x.op})
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    with pytest.raises(ValueError):
        tf.import_graph_def(parse(A + B), input_map={"a": other, "b": x})
    tf.import_graph_def(parse(A), input_map={"a": x}, name="unused_but_there")


def test_arguments_of_the_wrong_type() -> None:
    for bad in (b"abc", "abc", None, tf.NodeDef(), parse(A).SerializeToString()):
        with pytest.raises(TypeError, match="must be a GraphDef"):
            tf.import_graph_def(bad)
    with pytest.raises(TypeError, match="list of strings"):
        tf.import_graph_def(parse(A), return_elements=[3])
    with pytest.raises(TypeError, match="list of strings"):
        tf.import_graph_def(parse(A), return_elements="a")


_CLASS = 'attr {{ key: "_class" value {{ list {{ s: "loc:@{}" }} }} }}'


def test_colocation_follows_the_prefix(graph: tf.Graph) -> None:
    tf.import_graph_def(parse(A + identity("c", "a", _CLASS.format("a"))))
    tf.import_graph_def(parse(A + identity("c", "a", _CLASS.format("a"))), name="")
    tf.import_graph_def(parse(A + identity("c", "a", _CLASS.format("a"))), name="")
    groups = [op.colocation_groups() for op in graph.get_operations() if op.type == "Identity"]
    assert groups == [[b"loc:@import/a"], [b"loc:@a"], [b"loc:@a_1"]]
    with pytest.raises(ValueError, match="colocated with unknown node 'zz'"):
        tf.import_graph_def(parse(A + identity("c", "a", _CLASS.format("zz"))))


def test_devices_are_kept_and_the_scope_fills_what_they_leave_open(graph: tf.Graph) -> None:
    with tf.device("/job:worker/device:CPU:0"):
        tf.import_graph_def(parse(A + identity("c", "a", 'device: "/gpu:1"')), name="")
    assert graph.get_operation_by_name("a").device == "/job:worker/device:CPU:0"
    assert graph.get_operation_by_name("c").device == "/job:worker/device:GPU:1"
    with pytest.raises(ValueError, match=r"'c'.*'foo'"):
        tf.import_graph_def(parse(A + identity("c", "a", 'device: "foo"')))


def test_scopes_give_control_inputs(graph: tf.Graph) -> None:
    first = tf.constant(1.0, name="first")
    with tf.control_dependencies([first]):
        tf.import_graph_def(parse(A), name="")
    assert graph.get_operation_by_name("a").control_inputs == [first.op]


def test_missing_attributes_get_their_default_and_required_ones_are_missed() -> None:
    (p,) = tf.import_graph_def(
        parse('node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }'),
        return_elements=["p:0"],
    )
    assert p.shape.ndims is None and p.dtype is tf.int32
    with pytest.raises(ValueError, match=r"'p'.*missing attr 'dtype'"):
        tf.import_graph_def(parse('node { name: "p" op: "Placeholder" }'))


def test_attributes_of_newer_programs_are_dropped_when_they_are_off() -> None:
    off = 'attr { key: "new_flag" value { b: false } } attr { key: "new_list" value { list { } } }'
    (c,) = tf.import_graph_def(parse(A + identity("c", "a", off)), return_elements=["c"])
    assert set(c.attrs) == {"T"}
    on = 'attr { key: "mode" value { s: "exact" } }'
    with pytest.raises(ValueError, match=r"'c'.*attr 'mode'"):
        tf.import_graph_def(parse(A + identity("c", "a", on)))

    from tensorboard.compat.proto.op_def_pb2 import OpList

    text = 'op { name: "Identity" attr { name: "mode" type: "string" default_value { s: "exact" } } }'
    producer = text_format.Parse(text, OpList())
    (c,) = tf.import_graph_def(parse(A + identity("c", "a", on)), return_elements=["c"], producer_op_list=producer)
    assert set(c.attrs) == {"T"}
    with pytest.raises(ValueError, match="'mode'"):
        tf.import_graph_def(parse(A + identity("c", "a", on.replace("exact", "fast"))), producer_op_list=producer)


def test_private_attributes_are_kept() -> None:
    extra = 'attr { key: "_mark" value { list { i: 3 i: 4 } } }'
    (c,) = tf.import_graph_def(parse(A + identity("c", "a", extra)), return_elements=["c"])
    assert c.get_attr("_mark") == [3, 4]
    assert c.node_def.attr["_mark"].list.i == [3, 4]


def test_output_shapes_add_what_the_writer_knew() -> None:
    node = """node {{ name: "p" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }}
              attr {{ key: "_output_shapes" value {{ list {{ {} }} }} }} }}"""
    (p,) = tf.import_graph_def(
        parse(node.format("shape { dim { size: 2 } dim { size: -1 } }")), return_elements=["p:0"]
    )
    assert p.shape.as_list() == [2, None]
    assert "_output_shapes" not in p.op.attrs
    with pytest.raises(ValueError, match=r"'p'.*2 shapes for 1 outputs"):
        tf.import_graph_def(parse(node.format("shape { } shape { }")))
    hint = 'attr { key: "_output_shapes" value { list { shape { dim { size: 3 } } } } }'
    with pytest.raises(ValueError, match=r"'c'.*_output_shapes.*output #0"):
        tf.import_graph_def(parse(A + identity("c", "a", hint)))


def test_versions(graph: tf.Graph) -> None:
    with pytest.raises(ValueError, match="min consumer version 100000"):
        tf.import_graph_def(parse(A + "versions { producer: 100000 min_consumer: 100000 }"))
    with pytest.raises(ValueError, match="disallows consumer"):
        tf.import_graph_def(parse(A + f"versions {{ bad_consumers: {tf.GRAPH_DEF_VERSION} }}"))
    tf.import_graph_def(parse(A + "versions { producer: 21 min_consumer: 12 }"))
    assert (graph.graph_def_versions.producer, graph.graph_def_versions.min_consumer) == (21, 12)


def test_functions_are_kept_and_their_calls_checked(graph: tf.Graph) -> None:
    library = 'library { function { signature { name: "f" } } }'
    tf.import_graph_def(parse(A + library))
    assert [function.signature.name for function in graph.as_graph_def().library.function] == ["f"]
    with pytest.raises(ValueError, match=r"'c'.*op: 'f'"):
        tf.import_graph_def(parse(A + 'node { name: "c" op: "f" input: "a" }' + library))


REFUSED = [
    (A + A, "'a' is not unique"),
    (A + identity("b", "zz"), "'b': Unknown input node 'zz'"),
    (A + identity("b", "a ^zz"), r"'b': Unknown input node '\^zz'"),
    (A + identity("b", "a:1"), "'b'.*invalid output 1 of source node a"),
    (A + identity("b", "a:99999999999999999999"), "'b': Unknown input node"),
    (A + identity("b", "a:output:0"), "'b': Unknown input node 'a:output:0'.*functions"),
    (A + identity("b", "a", dtype="DT_INT32"), "Input 0 of node import/b was passed float32 from import/a:0"),
    (A + identity("b", "a a"), "'b'.*do not match 2 inputs"),
    (A + identity("b", ""), "'b'.*0 inputs"),
    (identity("b", "b"), "cycle.*b"),
    (identity("b", "c") + identity("c", "b"), "2 nodes in a cycle"),
    (identity("b", "c") + A + identity("c", "a ^b"), "2 nodes in a cycle"),
    (A + identity("b", "^a a"), "'b'.*Control dependencies must come after"),
    (A + identity("b!", "a"), "'b!'.*invalid characters"),
    (A + identity("_b", "a"), "'_b'.*invalid characters"),
    (A + identity("", "a"), "invalid characters"),
    (A + B.replace("type: DT_FLOAT", "i: 3"), "'b'.*'int' when 'type' expected.*'T'"),
    (A + B.replace("type: DT_FLOAT", "list { type: DT_FLOAT }"), "'list.type.' when 'type' expected"),
    (A + B.replace("type: DT_FLOAT", 'placeholder: "T"'), "'placeholder' when 'type' expected"),
    (A + B.replace("type: DT_FLOAT", ""), "'nothing' when 'type' expected"),
    (A + B.replace("DT_FLOAT", "DT_FLOAT_REF"), "reference type"),
    (A + B.replace("DT_FLOAT", "DT_INVALID"), "number 0 is unknown"),
    (A.replace("tensor { dtype: DT_FLOAT", "tensor { dtype: DT_INT32"), "'a'.*'dtype' is float32.*int32"),
    (A.replace("tensor_shape { }", "tensor_shape { dim { size: -1 } }"), "'a'.*not fully defined"),
    (A.replace("tensor_shape { }", "tensor_shape { unknown_rank: true }"), "'a'.*unknown rank"),
    (A.replace("tensor_shape { }", "tensor_shape { dim { size: 4000000000 } dim { size: 4000000000 } }"), "elements"),
    (A.replace("float_val: 1", "float_val: 1 float_val: 2"), "2 values .* for 1 elements"),
    (A.replace("float_val: 1", 'tensor_content: "abc"'), "3 bytes"),
    (A + identity("b", "a", 'attr { key: "_class" value { i: 3 } }'), "_class"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "match"), REFUSED)
def test_a_graph_that_is_none_is_refused_and_nothing_is_added(graph: tf.Graph, text: str, match: str) -> None:
    x = tf.constant(1.0, name="x")
    with pytest.raises(ValueError, match=match):
        tf.import_graph_def(parse(text))
    with pytest.raises(ValueError):
        tf.import_graph_def(parse(text), name="")
    assert names(graph) == ["x"] and x.consumers() == []
    assert graph.version == 1
    assert tf.constant(1.0, name="a").name == "a:0"


def test_an_unknown_op_is_named_with_its_node(graph: tf.Graph) -> None:
    with pytest.raises(tf.errors.NotFoundError, match=r"'Foo'.*'x'"):
        tf.import_graph_def(parse('node { name: "x" op: "Foo" }'))
    assert names(graph) == []


def test_a_wild_number_of_inputs_or_outputs_is_refused() -> None:
    text = """node {{ name: "n" op: "{}" input: "a" attr {{ key: "N" value {{ i: {} }} }}
              attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}"""
    for number in (-(2**63), -1, 0, 2, 2**62):
        with pytest.raises(ValueError, match="'n'"):
            tf.import_graph_def(parse(A + text.format("ShapeN", number)))


def test_a_shape_that_cannot_be_is_an_error_that_names_the_node(graph: tf.Graph) -> None:
    with pytest.raises(ValueError, match="import/sum"):
        with tf.Graph().as_default() as source:
            tf.add(tf.placeholder(tf.float32, [2], "p"), tf.placeholder(tf.float32, [2], "q"), name="sum")
        graph_def = source.as_graph_def()
        graph_def.node[1].attr["shape"].shape.dim[0].size = 3
        tf.import_graph_def(graph_def)
    assert names(graph) == []


def test_a_shape_function_that_breaks_is_an_error_of_the_node(graph: tf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(context: Any) -> Any:
        raise IndexError("list index out of range")

    monkeypatch.setattr(op_registry.op_def("Identity"), "shape", broken)
    with pytest.raises(ValueError, match=r"'b'.*IndexError"):
        tf.import_graph_def(parse(A + B))
    assert names(graph) == []


def test_a_loop_is_closed_by_next_iteration_only(graph: tf.Graph) -> None:
    enter = """node { name: "enter" op: "Enter" input: "a" attr { key: "T" value { type: DT_FLOAT } }
               attr { key: "frame_name" value { s: "f" } } } """
    merge = """node {{ name: "merge" op: "Merge" {} attr {{ key: "T" value {{ type: DT_FLOAT }} }}
               attr {{ key: "N" value {{ i: 2 }} }} }} """
    back = 'node { name: "next" op: "NextIteration" input: "b" attr { key: "T" value { type: DT_FLOAT } } } '
    body = identity("b", "merge")
    tf.import_graph_def(parse(A + enter + merge.format('input: "enter" input: "next"') + body + back), name="")
    op = graph.get_operation_by_name("merge")
    assert [tensor.name for tensor in op.inputs] == ["enter:0", "next:0"]
    assert graph.get_tensor_by_name("next:0").consumers() == [op]
    assert graph.get_tensor_by_name("enter:0").consumers() == [op]
    assert op.outputs[0].shape.ndims is None
    with pytest.raises(ValueError, match=r"'merge'.*never starts"):
        tf.import_graph_def(parse(A + merge.format('input: "next" input: "next"') + body + back))
    with pytest.raises(ValueError, match="cycle"):
        tf.import_graph_def(parse(A + enter + merge.format('input: "enter" input: "b"') + body))


def test_a_graph_of_tensorflows_own_class_would_be_converted() -> None:
    class Foreign:
        class DESCRIPTOR:
            full_name = "tensorflow.GraphDef"

        def SerializeToString(self) -> bytes:
            return parse(A).SerializeToString()

    (a,) = tf.import_graph_def(Foreign(), return_elements=["a:0"])
    with tf.Session() as session:
        assert session.run(a) == np.float32(1)


@pytest.mark.parametrize(("version", "shape"), [(0, None), (21, None), (22, []), (134, [])])
def test_placeholders_of_old_graph_defs_have_any_shape_where_they_say_scalar(version: int, shape: Any) -> None:
    with tf.Graph().as_default() as old:
        tf.placeholder(tf.float32, [], name="x")
        tf.placeholder(tf.float32, [3], name="y")
    graph_def = old.as_graph_def(add_shapes=True)
    graph_def.versions.producer = version
    x, y = tf.import_graph_def(graph_def, return_elements=["x:0", "y:0"])
    assert x.shape.ndims == (None if shape is None else 0)
    assert y.shape.as_list() == [3]


@pytest.mark.parametrize("stated", [[0], [3], []])
def test_shapes_of_the_unused_outputs_of_batch_norm_gradients_are_not_compared(stated: list[int]) -> None:
    with tf.Graph().as_default() as source:
        x, scale = tf.placeholder(tf.float32, [2, 4, 4, 3]), tf.ones([3])
        y, _, _ = tf.nn.fused_batch_norm(x, scale, scale, mean=scale, variance=scale, is_training=False)
        tf.gradients(y, x)
    graph_def = source.as_graph_def(add_shapes=True)
    found = [node for node in graph_def.node if node.op.startswith("FusedBatchNormGrad")]
    assert found
    for node in found:
        for shape in node.attr["_output_shapes"].list.shape[3:]:
            shape.Clear()
            for size in stated:
                shape.dim.add().size = size
    tf.import_graph_def(graph_def)
    found[0].attr["_output_shapes"].list.shape[0].dim[0].size = 7
    with pytest.raises(ValueError, match="inconsistent"):
        tf.import_graph_def(graph_def)
