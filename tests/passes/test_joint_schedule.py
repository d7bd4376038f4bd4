"""Schedules over all devices: priorities along the critical path, and transfers that come no earlier than they help."""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.passes.joint_schedule import JointSchedule, planned
from thalweg.passes.late_transfers import Delays, delayed, produce_late, with_tokens
from thalweg.passes.partition import Partition, partition
from thalweg.passes.prune import prune
from thalweg.placement.placer import Placer
from thalweg.planning import plan_step

CONFIG = tf.ConfigProto(device_count={"CPU": 2})
CPU = "/job:localhost/replica:0/task:0/device:CPU:{}".format


def on(index: int) -> Any:
    return tf.device(f"/cpu:{index}")


def cut(*fetches: Any) -> dict[str, Partition]:
    return partition(Placer.from_config(CONFIG).place(prune([], list(fetches), []), tf.get_default_graph()))


def applied(parts: dict[str, Partition], delays: Delays) -> dict[str, Partition]:
    return {
        device: part._replace(graph=delayed(with_tokens(part, delays.nodes[device]).graph, delays.waits[device]))
        for device, part in parts.items()
    }


def is_empty(delays: Delays) -> bool:
    return not any(delays.nodes.values()) and not any(delays.waits.values())


def fan(count: int = 6, size: int = 256) -> Any:
    """Device 0 makes tensors that device 1 needs one after another."""
    with on(0):
        made = [tf.tanh(tf.random_uniform([size, size], seed=k), name=f"made{k}") for k in range(count)]
    with on(1):
        y = tf.random_uniform([size, size], seed=99)
        for k, x in enumerate(made):
            y = tf.matmul(y, x, name=f"used{k}")
        return tf.reduce_sum(y)


def priorities(parts: dict[str, Partition], costs: dict[str, float]) -> dict[str, dict[str, float]]:
    plan = planned(parts, costs)
    assert plan is not None
    return plan.priorities


FAN_COSTS = {f"{kind}{k}": seconds for k in range(6) for kind, seconds in (("used", 1e-2), ("made", 1e-4))}


def test_a_priority_counts_nodes_that_wait_on_the_other_device() -> None:
    with on(0):
        x = tf.random_uniform([3])
        sent = tf.tanh(x, name="sent")
        local = tf.sin(tf.cos(tf.exp(x, name="local")))
    with on(1):
        y = sent
        for _ in range(8):
            y = tf.square(y)
    # By its own device alone, the local chain would seem to be longer; and it is if the other device has little to do.
    ranks = priorities(cut(y, local), dict.fromkeys(["sent", "local", "Cos", "Sin"], 1.0))
    assert ranks[CPU(0)]["sent"] < ranks[CPU(0)]["local"]
    costs = dict.fromkeys(["sent", "local", "Cos", "Sin", "Square", *(f"Square_{k}" for k in range(1, 8))], 1.0)
    ranks = priorities(cut(y, local), costs)
    assert ranks[CPU(0)]["sent"] > ranks[CPU(0)]["local"]


def test_nodes_that_free_memory_go_first_unless_another_device_waits_too_long() -> None:
    with on(0):
        x = tf.random_uniform([3], name="x")
        freeing = tf.exp(x, name="freeing")
        chain = tf.cos(tf.sin(tf.tanh(x, name="chain")))
    with on(1):
        y = tf.multiply(chain, tf.log(tf.random_uniform([3], 1.0, 2.0), name="other"), name="there")
    nodes = ["freeing", "chain", "Sin", "Cos", "there"]
    parts = cut(y, freeing)
    ranks = priorities(parts, dict.fromkeys(nodes, 1.0))[CPU(0)]
    assert ranks["freeing"] < min(ranks["chain"], ranks["Sin"], ranks["Cos"])
    # If the other device is busy for a while there is time.
    ranks = priorities(parts, {**dict.fromkeys(nodes, 1.0), "other": 20.0})[CPU(0)]
    assert ranks["freeing"] > ranks["chain"]


def test_the_executor_first_runs_nodes_that_the_other_device_waits_for() -> None:
    with on(0):
        x = tf.random_uniform([400, 400], seed=1)
        local = [tf.reduce_sum(tf.exp(x * float(k)), name=f"local{k}") for k in range(4)]
        sent = tf.matmul(x, x, name="sent")
    with on(1):
        y = sent
        for _ in range(4):
            y = tf.matmul(y, sent)
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session(config=CONFIG) as sess:
        sess.run([*local, y], options=options, run_metadata=metadata)
    starts = {
        node.node_name: node.all_start_micros
        for stats in metadata.step_stats.dev_stats
        if stats.device.endswith("CPU:0")
        for node in stats.node_stats
    }
    assert starts["sent"] <= min(start for name, start in starts.items() if name.startswith("local"))


def test_an_arriving_value_goes_before_ready_nodes_if_it_is_more_urgent() -> None:
    sent = threading.Event()

    def python_node(action: Any, name: str) -> Any:
        def run(x: Any) -> Any:
            action()
            return x

        return tf.py_func(run, [start], tf.float32, name=name)

    start = tf.placeholder(tf.float32, [])
    with on(0):
        clock = tf.Variable(0.0)  # Tells in which order the nodes that count it up have run.
        first = python_node(lambda: sent.wait(60), "first")
        with tf.control_dependencies([first]):
            ready = [tf.assign_add(clock, 1.0, name=f"ready{k}") for k in range(4)]
    with on(1):
        value = tf.identity(start, "value")
        # Runs when the value has been handed over.
        with tf.control_dependencies([value]):
            after = python_node(sent.set, "after")
    with on(0):
        urgent = tf.assign_add(clock, value, name="urgent")
    with on(1):
        y = tf.fill([300, 300], tf.reshape(urgent, []))
        for _ in range(6):
            y = tf.matmul(y, y) / 300.0
    with tf.Session(config=CONFIG) as sess:
        sess.run(clock.initializer)
        *others, soon, _, _ = sess.run([*ready, urgent, after, tf.reduce_sum(y)], {start: 1.0})
    assert soon == 1.0 and sorted(others) == [2.0, 3.0, 4.0, 5.0]


def test_spans_respect_edges_and_devices() -> None:
    parts = cut(fan())
    joint = JointSchedule(parts, FAN_COSTS)
    spans = joint.spans()
    for key, readers in joint.readers.items():
        for reader in readers:
            for number in (0, 1):
                assert spans[key][number] + joint.cost[key] <= spans[reader][number] + 1e-12
    busy = sorted((spans[key].earliest, joint.cost[key]) for key in joint.nodes if key[0] == CPU(1) and joint.cost[key])
    assert all(a + cost <= b + 1e-12 for (a, cost), (b, _) in itertools.pairwise(busy))
    assert spans[CPU(0), "made5"].latest > spans[CPU(0), "made0"].latest + 4e-2
    plan = planned(parts, FAN_COSTS)
    assert plan is not None
    fetched = 6 * 256 * 256 * 4 / 1e10  # by the readers, into their core's cache
    assert plan.seconds == pytest.approx(1e-4 + 6 * 1e-2 + fetched, rel=1e-3)


def test_producers_wait_until_the_other_device_is_near() -> None:
    parts = cut(fan())
    parts = applied(parts, produce_late(parts, FAN_COSTS, least=1))
    maker = parts[CPU(0)].graph.nodes
    first = [node for node in maker.values() if node.op == "RandomUniform" and node.controls]
    assert 3 <= len(first) <= 5
    assert all(maker[control].op == "_Recv" for node in first for control in node.controls)
    assert JointSchedule(parts, FAN_COSTS).complete


def test_small_tensors_and_those_without_slack_or_with_other_readers_are_not_delayed() -> None:
    total = fan()
    parts = cut(total)
    assert is_empty(produce_late(parts, FAN_COSTS, least=1 << 30))
    assert is_empty(produce_late(parts, dict.fromkeys(FAN_COSTS, 1e-7), least=1))
    assert not is_empty(produce_late(parts, FAN_COSTS, least=1))
    with on(0):
        also = tf.add_n([tf.reduce_sum(tf.get_default_graph().get_tensor_by_name(f"made{k}:0")) for k in range(6)])
    parts = cut(total, also)
    assert is_empty(produce_late(parts, FAN_COSTS, least=1))


def test_late_producers_lower_the_peak_and_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    size, count = 256, 12
    with tf.Graph().as_default():
        total = fan(count, size)
        peaks, values = [], []
        for least in (1 << 30, 1 << 17):
            monkeypatch.setattr(plan_step, "produce_late", functools.partial(produce_late, least=least))
            with tf.Session(config=CONFIG) as sess:
                sess.run(total)
                before = core.allocator_stats()["bytes_in_use"]
                core.reset_peak_bytes()
                values.append(sess.run(total))
                peaks.append((core.allocator_stats()["peak_bytes"] - before) / (4 * size * size))
    # How far the producers run ahead otherwise is a matter of chance: mostly they are all done before the first reader.
    assert peaks[1] < 0.75 * count
    assert np.array_equal(*values)
