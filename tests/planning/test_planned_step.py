"""A planned step is complete: nodes, transfers, priorities and functions, and nothing that is alive."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.devices.random_graphs import GraphMaker
from thalweg._native import core
from thalweg.passes.options import PassOptions
from thalweg.placement.placer import Placer
from thalweg.planning.plan_step import Planner
from thalweg.planning.planned_step import PlannedStep, Transfer
from thalweg.runtime.install import evaluate, install, local_kernels, register_python_kernels, supports

CPU = "/job:localhost/replica:0/task:0/device:CPU:{}".format


def on(index: int) -> Any:
    return tf.device(f"/cpu:{index}")


def plan(*fetches: Any, feeds: Any = (), targets: Any = (), count: int = 2, **options: Any) -> PlannedStep:
    placer = Placer.from_config(tf.ConfigProto(device_count={"CPU": count}))
    planner = Planner(placer, PassOptions(), evaluate, local_kernels, supports)
    return planner.plan(tf.get_default_graph(), list(feeds), list(fetches), list(targets), **options)


def pair() -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    with on(0):
        a = tf.tanh(x, name="a")
    with on(1):
        return x, tf.reduce_sum(a, 1, name="b")


def test_each_part_has_its_nodes_feeds_fetches_and_transfers() -> None:
    x, b = pair()
    step = plan(b, x, feeds=[x])
    sender, receiver = step.parts[CPU(0)], step.parts[CPU(1)]
    assert step.transfers == sender.sends == receiver.receives == [Transfer("a:0", CPU(0), CPU(1), tf.float32, False)]
    assert (sender.feeds, receiver.fetches) == ((0,), (0,))
    assert sorted(sender.fetches + receiver.fetches) == [0, 1]
    assert [feed.name for feed in step.feeds] == ["x:0"]
    assert step.num_fetches == 2
    assert sender.priorities["a"] > 0


def test_a_node_says_what_only_its_operation_knew() -> None:
    x, b = pair()
    with tf.control_dependencies([b]):
        y = tf.while_loop(lambda i: i < 3, lambda i: tf.add(i, 1, name="next"), [tf.size(b)])
    step = plan(b, y, feeds=[x])
    nodes = {name: node for part in step.parts.values() for name, node in part.graph.nodes.items()}
    assert nodes["a"].shapes == (tf.TensorShape([4, 8]),)
    assert nodes["a"].requested_device == "/device:CPU:0"
    assert nodes["while/next"].in_control_flow and not nodes["a"].in_control_flow
    recv = next(node for node in nodes.values() if node.op == "_Recv" and "a/_0" in node.name)
    assert recv.shapes == (tf.TensorShape([4, 8]),)
    assert recv.requested_device == "/device:CPU:0"


def test_a_planned_step_does_not_refer_to_the_graph() -> None:
    @tf.experimental.Defun(tf.float32, func_name="Kept", noinline=True)
    def kept(x: Any) -> Any:
        return tf.tanh(x)

    x, b = pair()
    step = plan(kept(b), tf.map_fn(lambda v: v * 2.0, b), feeds=[x])
    assert list(step.functions) == ["Kept"]
    seen: set[int] = set()
    stack: list[Any] = [step]
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        assert not isinstance(value, (tf.Graph, tf.Operation, tf.Tensor)), value
        if isinstance(value, dict):
            stack.extend((*value.keys(), *value.values()))
        elif isinstance(value, (list, tuple)):
            stack.extend(value)
        elif hasattr(value, "__dataclass_fields__"):
            stack.extend(vars(value).values())


def test_planning_twice_gives_the_same() -> None:
    x, b = pair()
    with on(1):
        v = tf.Variable(tf.ones([4]), use_resource=True, name="v")
    update = v.assign_add(b)
    first = plan(b, feeds=[x], targets=[update.op])
    assert plan(b, feeds=[x], targets=[update.op]) == first
    placer = Placer.from_config(tf.ConfigProto(device_count={"CPU": 2}))
    planner = Planner(placer, PassOptions(), evaluate, local_kernels, supports)
    graph = tf.get_default_graph()
    planner.plan(graph, [], [], [v.initializer])
    planner.plan(graph, [x], [b], [])
    assert planner.plan(graph, [x], [b], [update.op]) == first, "What was planned before changes nothing."
    assert first.changes_resources and not plan(b, feeds=[x]).changes_resources


def test_parts_of_some_devices_keep_what_concerns_them() -> None:
    @tf.experimental.Defun(tf.float32, func_name="There", noinline=True)
    def there(x: Any) -> Any:
        return tf.exp(x)

    x, b = pair()
    y = tf.placeholder(tf.float32, [], name="y")
    with on(1):
        c = there(b) + y
    step = plan(b, x * 2.0, c, feeds=[x, y])
    one, two = step.restricted([CPU(0)]), step.restricted([CPU(1)])
    assert [feed.name for feed in one.feeds] == ["x:0"]
    assert [feed.name for feed in two.feeds] == ["y:0"]
    assert (one.num_fetches, two.num_fetches) == (1, 2)
    assert (list(one.functions), list(two.functions)) == ([], ["There"])


def test_a_piecewise_step_is_fed_and_fetched_through_its_rendezvous() -> None:
    x, b = pair()
    step = plan(b, feeds=[x], piecewise=True)
    assert step.feeds == () and step.num_fetches == 0
    names = {transfer.tensor for part in step.parts.values() for transfer in (*part.sends, *part.receives)}
    assert names == {"feed:x:0", "a:0", "fetch:b:0"}
    assert step.options.separate


def uses_in_turn() -> Any:
    """One device makes large tensors that another one uses one after the other."""
    with on(0):
        made = [tf.tanh(tf.random_uniform([512, 1024], seed=k), name=f"made{k}") for k in range(6)]
    with on(1):
        y = tf.random_uniform([512, 1024], seed=99)
        for each in made:
            for _ in range(40):
                y = tf.cumsum(y + each, axis=1)
    return tf.reduce_sum(y)


def test_large_tensors_are_delayed_by_tokens() -> None:
    step = plan(uses_in_turn())
    delays = step.parts[CPU(0)].delays
    assert delays
    for waiting, awaited in delays:
        nodes = step.parts[CPU(0)].graph.nodes
        assert waiting in nodes and nodes[awaited].op == "_Recv" and awaited not in nodes[waiting].controls


def installed_nodes(step: PlannedStep, fused: Any = None) -> dict[str, Any]:
    graphs = install(core.Session(list(step.parts)), step, fused).parts
    return {
        device: {n.name: (n.op, n.inputs, n.controls, n.output_dtypes, n.attrs.keys()) for n in graph.nodes.values()}
        for device, graph in graphs.items()
    }


def test_the_graphs_fused_for_the_schedule_are_those_that_installing_would_make() -> None:
    register_python_kernels()
    several = 0
    for seed in range(60):
        with tf.Graph().as_default():
            step = plan(*GraphMaker(seed, 4).fetches, count=4)
            assert (step.fused is not None) == (len(step.parts) > 1)
            several += step.fused is not None
            assert installed_nodes(step, step.fused) == installed_nodes(step)
    assert several > 40
    delayed = plan(uses_in_turn())
    assert installed_nodes(delayed, delayed.fused) == installed_nodes(delayed)
    assert delayed.restricted([CPU(0)]).fused is None


def test_errors_know_the_line_of_the_node() -> None:
    with tf.device("/gpu:7"):
        a = tf.constant(1.0, name="a")
    with pytest.raises(tf.errors.InvalidArgumentError, match="explicitly assigned to /device:GPU:7") as raised:
        plan(a)
    assert raised.value.node_def.name == "a"
    assert __file__ in (raised.value.created_at or "")
    assert __file__ in str(pickle.loads(pickle.dumps(raised.value)))


def test_partition_graphs_are_what_was_installed() -> None:
    x, b = pair()
    with on(1):
        c = tf.nn.relu(tf.matmul(x, tf.ones([8, 3]) * tf.reduce_sum(x)) + 1.0, name="c")
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        session.run([b, c], {x: np.ones((4, 8))}, options=options, run_metadata=metadata)
        parts = session._prepared([b, c], {x: 0})[0].installed.parts
    shown = {graph.node[0].device: [node.name for node in graph.node] for graph in metadata.partition_graphs}
    assert shown == {device: list(graph.nodes) for device, graph in parts.items()}
