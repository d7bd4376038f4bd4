"""Joined messages: which Sends of look-ups travel together, and that no cycle arises."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from thalweg.passes.final_no_ops import drop_final_no_ops
from thalweg.passes.join_messages import join_messages, message_groups, with_messages
from thalweg.passes.partition import partition
from thalweg.passes.prepare import prepared_step
from thalweg.passes.step_graph import StepGraph

WORKER, PS = "/job:worker/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"
OTHER = "/job:ps/replica:0/task:1/device:CPU:0"


def _step(fetches: list[Any], targets: list[Any] = (), feeds: list[Any] = ()) -> StepGraph:  # type: ignore[assignment]
    graph = prepared_step(tf.get_default_graph()._functions, feeds, fetches, targets, True)
    return graph.with_nodes({name: node._replace(device=node.device or WORKER) for name, node in graph.nodes.items()})


def _groups(graph: StepGraph) -> dict[str, list[set[str]]]:
    """The tensors of each message, by device."""
    parts = partition(graph)
    found: dict[str, list[set[str]]] = {}
    for device, numbers in message_groups(parts, {}).items():
        nodes = parts[device].graph.nodes
        for number in sorted(set(numbers.values())):
            sends = [name for name, each in numbers.items() if each == number]
            found.setdefault(device, []).append({nodes[name].attrs["tensor_name"].decode() for name in sends})
    return found


def _table(name: str, device: str = PS) -> Any:
    with tf.device(device):
        return tf.get_variable(name, [10, 2], initializer=tf.zeros_initializer())


def _ids(name: str) -> Any:
    """Ids that the worker computes: those that are fed need no message."""
    return tf.identity(tf.placeholder(tf.int64, [None]) + 1, name=name)


def _feeds() -> list[Any]:
    return [op.outputs[0] for op in tf.get_default_graph().get_operations() if op.type == "Placeholder"]


def test_look_ups_of_one_task_are_one_message_each_way() -> None:
    found = [tf.gather(_table(f"t{k}"), _ids(f"ids{k}"), name=f"rows{k}") for k in range(3)]
    found.append(tf.gather(_table("elsewhere", OTHER), _ids("alone")))
    total = tf.add_n([tf.reduce_sum(rows) for rows in found])
    groups = _groups(_step([total], feeds=_feeds()))
    assert groups == {WORKER: [{"ids0:0", "ids1:0", "ids2:0"}], PS: [{"rows0:0", "rows1:0", "rows2:0"}]}


def test_a_look_up_that_depends_on_another_is_not_joined_with_it() -> None:
    table = _table("t")
    first = tf.gather(table, _ids("ids"))
    then = tf.gather(table, tf.cast(tf.reduce_sum(first, 1), tf.int64))
    assert _groups(_step([tf.reduce_sum(then)], feeds=_feeds())) == {}


def test_two_chains_of_look_ups_are_joined_link_by_link() -> None:
    ends = []
    for k in range(2):
        table = _table(f"t{k}")
        rows = tf.gather(table, _ids(f"ids{k}"), name=f"first{k}")
        ends.append(tf.gather(table, tf.cast(tf.reduce_sum(rows, 1), tf.int64, name=f"next{k}"), name=f"second{k}"))
    groups = _groups(_step([tf.reduce_sum(tf.concat(ends, 0))], feeds=_feeds()))
    assert sorted(map(sorted, groups[WORKER])) == [["ids0:0", "ids1:0"], ["next0:0", "next1:0"]]
    assert sorted(map(sorted, groups[PS])) == [["first0:0", "first1:0"], ["second0:0", "second1:0"]]


def test_what_is_behind_a_conditional_stays_apart() -> None:
    flag = tf.placeholder(tf.bool, [])
    ids = [_ids(f"ids{k}") for k in range(2)]
    tables = [_table(f"t{k}") for k in range(2)]
    found = [
        tf.cond(flag, lambda i=i, t=t: tf.gather(t, i * 2), lambda i=i, t=t: tf.gather(t, i))
        for i, t in zip(ids, tables, strict=True)
    ]
    assert _groups(_step([tf.reduce_sum(tf.concat(found, 0))], feeds=_feeds())) == {}


def test_what_waits_for_a_queue_is_not_joined_with_what_may_fill_it() -> None:
    queue = tf.FIFOQueue(10, [tf.int64], shapes=[[]])
    first = tf.gather(_table("t0"), _ids("ids"))
    with tf.control_dependencies([queue.enqueue(tf.cast(tf.reduce_sum(first), tf.int64))]):
        end = tf.identity(first)
    second = [tf.gather(_table(f"t{k}"), queue.dequeue()[tf.newaxis] + 1, name=f"rows{k}") for k in (1, 2)]
    graph = _step([tf.reduce_sum(tf.concat([end, *second], 0))], feeds=_feeds())
    parts = partition(graph)

    def sizes(**arguments: Any) -> list[int]:
        numbers = list(message_groups(parts, {}, **arguments).get(WORKER, {}).values())
        return sorted(numbers.count(each) for each in set(numbers))

    assert sizes(may_wait=lambda node: "Dequeue" in node.op) == []  # two dequeues, and none
    assert sizes() == [3]


def test_gradients_of_rows_are_joined_if_they_are_ready_together() -> None:
    tables = [_table(f"t{k}") for k in range(2)]
    ids = [tf.unique(_ids(f"ids{k}")).y for k in range(2)]
    rows = [tf.gather(t, i) for t, i in zip(tables, ids, strict=True)]
    with tf.device(WORKER):
        train = tf.train.AdagradOptimizer(0.1).minimize(tf.add_n([tf.reduce_sum(tf.sin(r)) for r in rows]))
    graph = drop_final_no_ops(_step([], [train], _feeds()))
    assert all(graph.nodes[name].op != "NoOp" for name in graph.targets)
    parts = partition(graph)

    def together(costs: dict[str, float]) -> list[int]:
        numbers = list(message_groups(parts, costs)[WORKER].values())
        return sorted(numbers.count(each) for each in set(numbers))

    assert together({}) == [2, 2]  # ids and gradients
    slow = next(name for name, node in graph.nodes.items() if "Sin_1_grad" in name and node.op == "Mul")
    assert together({slow: 0.01}) == [2]  # the ids


def test_joined_sends_are_one_node_in_the_part() -> None:
    found = [tf.gather(_table(f"t{k}"), _ids(f"ids{k}")) for k in range(2)]
    parts = partition(_step([tf.reduce_sum(tf.concat(found, 0))], feeds=_feeds()))
    numbers = message_groups(parts, {})
    joined = join_messages(with_messages(parts[WORKER].graph, numbers[WORKER]))
    sends = [node for node in joined.nodes.values() if node.op.startswith("_Send")]
    assert [node.op for node in sends] == ["_SendAll"]
    assert len(sends[0].inputs) == 2 and sends[0].name in joined.targets
    assert sends[0].attrs["tensor_names"] == [b"ids0:0", b"ids1:0"]
    assert all(name in joined.nodes for name in joined.targets)


def test_groups_within_groups_are_not_waited_for() -> None:
    v, w = _table("v"), _table("w", OTHER)
    inner = tf.group(v.assign(np.ones([10, 2])), w.assign(np.ones([10, 2])))
    used = tf.group(w.assign_add(np.ones([10, 2])))
    with tf.control_dependencies([used]):
        after = v.assign_add(np.ones([10, 2])).op
    graph = drop_final_no_ops(_step([], [tf.group(inner, used, after)]))
    assert inner.name not in graph.nodes
    assert used.name in graph.nodes  # another operation waits for it
    assert {graph.nodes[name].op for name in graph.targets} == {"AssignVariableOp", "AssignAddVariableOp", "NoOp"}
