"""Where nodes go: constraints, groups that stay together, soft placement, and the errors of impossible constraints."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf
from thalweg.graph.apply import apply
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import Node, StepGraph
from thalweg.placement.place import Device, Group, place
from thalweg.python.framework import function

TASK = "/job:localhost/replica:0/task:0"
DEVICES = [Device(f"{TASK}/device:CPU:{i}", "CPU") for i in range(3)] + [Device(f"{TASK}/device:GPU:0", "GPU")]


def has_kernel(node: Node, device_type: str) -> bool:
    """The GPU of these tests can multiply, and keep and read variables; it cannot add."""
    return device_type == "CPU" or node.op in ("MatMul", "Mul", "VarHandleOp", "ReadVariableOp", "Const", "Identity")


def placed(*fetches: Any, **options: Any) -> dict[str, str]:
    graph = place(prune([], list(fetches), []), DEVICES, has_kernel, **options)
    return {name: node.device.removeprefix(TASK + "/device:") for name, node in graph.nodes.items()}


def test_without_constraints_everything_is_on_the_first_device() -> None:
    assert set(placed(tf.constant(1.0) + 2.0).values()) == {"CPU:0"}


def test_partial_names_are_met() -> None:
    with tf.device("/cpu:1"):
        a = tf.constant(1.0, name="a")
    with tf.device("/device:GPU:*"):
        b = tf.multiply(a, 2.0, name="b")
    with tf.device("/job:localhost/cpu:2"):
        c = tf.add(b, 1.0, name="c")
    where = placed(c)
    assert (where["a"], where["b"], where["c"]) == ("CPU:1", "GPU:0", "CPU:2")


def test_state_stays_with_all_that_touch_it() -> None:
    with tf.device("/cpu:2"):
        v = tf.Variable(1.0, name="v", use_resource=True)
    with tf.device("/cpu:1"):
        other = tf.constant(2.0, name="other")
    update = tf.convert_to_tensor(v.assign_add(other, read_value=True))
    where = placed(update, v.read_value())
    assert where["other"] == "CPU:1"
    assert {device for name, device in where.items() if name != "other"} == {"CPU:2"}


def test_colocated_nodes_share_the_device_of_the_constrained_one() -> None:
    with tf.device("/cpu:1"):
        a = tf.constant(1.0, name="a")
    with tf.colocate_with(a):
        b = tf.constant(2.0, name="b")
    where = placed(a + b)
    assert where["b"] == where["a"] == "CPU:1"


def test_a_strategy_decides_where_constraints_leave_a_choice() -> None:
    def last(graph: StepGraph, groups: Any, decided: Any) -> list[Device]:
        assert all(isinstance(group, Group) for group in groups)
        return [group.feasible[-1] for group in groups]

    with tf.device("/cpu:1"):
        a = tf.constant(1.0, name="a")
    b = tf.multiply(a, 2.0, name="b")
    c = tf.add(b, 2.0, name="c")
    where = placed(c, strategy=last)
    assert (where["a"], where["b"], where["c"]) == ("CPU:1", "GPU:0", "CPU:2")


def test_state_stays_on_the_device_of_its_first_step() -> None:
    v = tf.Variable(1.0, name="v", use_resource=True)
    assert placed(v.read_value(), fixed={"v": f"{TASK}/device:CPU:2"})["v"] == "CPU:2"


def test_a_call_that_needs_state_of_two_devices_names_both() -> None:
    v, w = (tf.Variable(1.0, name=name, use_resource=True) for name in "vw")

    @function.Defun(tf.float32, noinline=True)
    def both(x: Any) -> Any:
        return x * v + w

    fixed = {"v": f"{TASK}/device:CPU:0", "w": f"{TASK}/device:CPU:2"}
    y = both(1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'v', which is on .*CPU:0, and 'w', .*CPU:2") as raised:
        placed(y, fixed=fixed)
    assert raised.value.node_def.name == y.op.name and __file__ in (raised.value.created_at or "")
    assert set(placed(y, fixed={"w": f"{TASK}/device:CPU:2"}).values()) >= {"CPU:2"}


def test_soft_placement_gives_up_the_device_but_not_the_task() -> None:
    with tf.device("/gpu:7"):
        a = tf.constant(1.0, name="a")
    with tf.device("/gpu:0"):
        b = tf.add(a, 1.0, name="b")
    where = placed(b, soft=True)
    assert where["a"] == where["b"] == "CPU:0"
    with tf.device("/job:worker/task:1/gpu:0"):
        c = tf.add(a, 2.0, name="c")
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of them is in /job:worker/task:1"):
        placed(c, soft=True)
    assert placed(c, soft=True, keep_task=False)["c"] == "CPU:0"


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("/gpu:7", ["'b'", "/device:GPU:7", "available devices", "CPU:2", "Devices that would do"]),
        ("/gpu:0", ["'b'", "no kernel for AddV2", "CPU:1"]),
        ("/job:worker", ["'b'", "/job:worker", "does not leave the task"]),
    ],
)
def test_an_impossible_constraint_names_node_device_and_possible_devices(device: str, words: list[str]) -> None:
    a = tf.constant(1.0, name="a")
    with tf.device(device):
        b = tf.add(a, a, name="b")
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        placed(b)
    for word in words:
        assert word in raised.value.message


def test_nodes_that_touch_state_go_to_its_device() -> None:
    with tf.device("/cpu:1"):
        v = tf.Variable(1.0, name="v", use_resource=True)
    with tf.device("/cpu:2"):
        read = apply("ReadVariableOp", v.handle, dtype=tf.float32, name="read")
    assert placed(read) == {"v": "CPU:1", "read": "CPU:1"}


def test_groups_whose_members_disagree_are_refused() -> None:
    with tf.device("/cpu:1"):
        a = tf.constant(1.0, name="a")
    with tf.colocate_with(a):
        b = tf.constant(2.0, name="b")
    b.op._set_device("/cpu:2")
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not agree"):
        placed(a, b)


def test_a_session_refuses_devices_that_it_does_not_have() -> None:
    with tf.device("/cpu:3"):
        a = tf.constant(1.0, name="a")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="explicitly assigned"):
        sess.run(a)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        assert sess.run(a) == 1.0
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 4})) as sess:
        assert sess.run(a) == 1.0
        assert [device.name[-5:] for device in sess.list_devices()] == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]


def test_the_placement_is_logged_once(capfd: pytest.CaptureFixture[str]) -> None:
    with tf.device("/cpu:1"):
        a = tf.multiply(tf.placeholder(tf.float32, name="x"), 2.0, name="a")
    config = tf.ConfigProto(device_count={"CPU": 2}, log_device_placement=True)
    with tf.Session(config=config) as sess:
        for _ in range(2):
            sess.run(a, {"x:0": 1.0})
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("a: ")]
    assert lines == [f"a: (Mul): {TASK}/device:CPU:1"]


def test_the_devices_of_the_process_can_be_listed_without_a_session() -> None:
    from thalweg.python.client import device_lib

    config = tf.ConfigProto(device_count={"CPU": 2})
    assert [each.name for each in device_lib.list_local_devices(config)] == ["/device:CPU:0", "/device:CPU:1"]
    assert [each.device_type for each in device_lib.list_local_devices()] == ["CPU"]


def test_a_colocation_that_was_set_as_a_message_counts() -> None:
    with tf.device("/cpu:1"):
        a = tf.constant(1.0, name="a")
    b = tf.add(a, 1.0, name="b")
    b.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@a"])))
    assert placed(b)["b"] == "CPU:1"
    with tf.device("/cpu:2"):
        c = tf.add(a, 1.0, name="c")
    c.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@a", b"loc:@nowhere"])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not agree"):
        placed(c)
