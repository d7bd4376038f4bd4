"""Scopes: names, devices, control dependencies, colocation, containers, attribute maps, control-flow contexts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import thalweg as tf
from thalweg.graph.control_flow_context import ControlFlowContext


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_name_scopes_nest_repeat_reopen_and_reset(graph: tf.Graph) -> None:
    with tf.name_scope("a") as a:
        assert tf.constant(1, name="c").op.name == "a/c"
        with tf.name_scope("b") as b:
            assert graph.get_name_scope() == "a/b"
            with tf.name_scope(None):
                assert tf.constant(1, name="c").op.name == "c"
        with tf.name_scope("b") as again:
            pass
    assert (a, b, again) == ("a/", "a/b/", "a/b_1/")
    with tf.name_scope(a):
        assert tf.constant(1, name="c").op.name == "a/c_1"
    with tf.name_scope(None, "default") as scope:
        assert scope == "default/"


@pytest.mark.parametrize("name", ["_a", "a b", "a:b"])
def test_invalid_scope_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid root scope name"), tf.name_scope(name):
        pass


def test_a_failing_block_leaves_its_scopes(graph: tf.Graph) -> None:
    with pytest.raises(KeyError), tf.name_scope("a"), tf.device("/cpu:0"), tf.control_dependencies([tf.no_op()]):
        raise KeyError
    c = tf.constant(1, name="c")
    assert (c.op.name, c.device, c.op.control_inputs) == ("c", "", [])
    assert graph._scopes.plain


def test_devices_merge_from_the_inside_out() -> None:
    with tf.device("/job:ps/task:1"):
        with tf.device("/gpu:0"):
            assert tf.constant(1).device == "/job:ps/task:1/device:GPU:0"
        with tf.device("/task:2"):
            assert tf.constant(1).device == "/job:ps/task:2"
        with tf.device(lambda op: "/cpu:3" if op.type == "Const" else None):
            assert tf.constant(1).device == "/job:ps/task:1/device:CPU:3"
            assert tf.no_op().device == "/job:ps/task:1"
        with tf.device(None):
            assert tf.constant(1).device == ""
    with pytest.raises(ValueError, match="nonsense"):
        tf.device("/nonsense")
    with pytest.raises(TypeError):
        tf.device(3)


def test_control_dependencies_nest_prune_and_clear() -> None:
    a, b = tf.no_op("a"), tf.placeholder(tf.float32, name="b")
    with tf.control_dependencies([a]):
        with tf.control_dependencies([b]):
            c = tf.constant(1.0)
            assert c.op.control_inputs == [a, b.op]
            assert (c + c).op.control_inputs == []  # Its inputs wait already.
            assert tf.tanh(b).op.control_inputs == [a]  # No control edge beside a data edge.
            with tf.control_dependencies(None):
                assert tf.constant(1.0).op.control_inputs == []
    with pytest.raises(TypeError, match="Can not convert a int"):
        tf.control_dependencies([3])


def test_colocation_names_the_group_and_takes_the_device() -> None:
    with tf.device("/cpu:1"):
        x = tf.placeholder(tf.float32, name="x")
    y = tf.placeholder(tf.float32, name="y")
    assert x.op.colocation_groups() == [b"loc:@x"]
    with tf.device("/gpu:0"), tf.colocate_with(x):
        c = tf.constant(1)
        assert (c.device, c.op.get_attr("_class")) == ("/device:CPU:1", [b"loc:@x"])
        with tf.colocate_with(y):
            assert tf.constant(1).op.colocation_groups() == [b"loc:@x", b"loc:@y"]
        with tf.colocate_with(y, ignore_existing=True):
            assert tf.constant(1).op.colocation_groups() == [b"loc:@y"]
    with pytest.raises(ValueError, match="ignore_existing"):
        tf.colocate_with(None)


def test_gradient_override_map_marks_ops(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32)
    with graph.gradient_override_map({"Tanh": "Mine"}):
        assert tf.tanh(x).op.get_attr("_gradient_op_type") == b"Mine"
        assert "_gradient_op_type" not in (-x).op.attrs
    assert "_gradient_op_type" not in tf.tanh(x).op.attrs
    with pytest.raises(TypeError, match="strings"):
        graph.gradient_override_map({"Tanh": 3})  # type: ignore[dict-item]


def test_attr_scope_adds_attributes(graph: tf.Graph) -> None:
    with graph._attr_scope({"_mark": b"m"}):
        assert tf.no_op().get_attr("_mark") == b"m"


def test_group_and_tuple_build_what_tensorflow_builds(graph: tf.Graph) -> None:
    x, y = tf.placeholder(tf.float32, name="x"), tf.placeholder(tf.float32, name="y")
    done = tf.group(x, [y.op, None])
    assert (done.name, done.type, done.control_inputs) == ("group_deps", "NoOp", [x.op, y.op])
    a, none, b = tf.tuple([x, None, y])
    assert none is None
    assert [a.op.name, b.op.name] == ["tuple/control_dependency", "tuple/control_dependency_1"]
    assert a.op.control_inputs[0].name == "tuple/group_deps"
    assert a.op.get_attr("_class") == [b"loc:@x"]
    with pytest.raises(TypeError, match="int"):
        tf.group(3)
    with pytest.raises(ValueError, match="at least one Tensor"):
        tf.tuple([None])


def test_group_gates_each_device_first() -> None:
    with tf.device("/cpu:0"):
        a = tf.no_op()
    with tf.device("/cpu:1"):
        b = tf.no_op()
    done = tf.group(a, b)
    assert [gate.device for gate in done.control_inputs] == ["/device:CPU:0", "/device:CPU:1"]
    assert done.device == ""


class _Recorder(ControlFlowContext):
    """Replaces one tensor by another, and ties ops without inputs to a pivot."""

    def __init__(self, old: tf.Tensor, new: tf.Tensor, pivot: tf.Operation) -> None:
        super().__init__(old.graph)
        self.old, self.new, self.pivot = old, new, pivot
        self.added: list[str] = []

    def capture(self, tensor: tf.Tensor) -> tf.Tensor:
        return self.new if tensor is self.old else tensor

    def control_inputs(self, control_inputs: list[tf.Operation], inputs: Sequence[tf.Tensor]) -> list[tf.Operation]:
        return control_inputs if inputs else [*control_inputs, self.pivot]

    def op_added(self, op: tf.Operation) -> None:
        self.added.append(op.name)


def test_a_control_flow_context_sees_every_op_created_in_it(graph: tf.Graph) -> None:
    old, new, pivot = tf.placeholder(tf.float32), tf.placeholder(tf.float32), tf.no_op("pivot")
    context = _Recorder(old, new, pivot)
    with context:
        y = old + 1.0
        with tf.control_dependencies(None):
            outside = tf.constant(1.0)
    assert y.op.inputs[0] is new
    assert y.op.inputs[1].op.control_inputs == [pivot]
    assert context.added == ["add/y", "add"]
    assert y.op._control_flow_context is context
    assert outside.op._control_flow_context is None
    assert (-old).op.inputs[0] is old
    assert graph._get_control_flow_context() is None
