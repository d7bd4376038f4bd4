"""Timelines: what the Trace Event Format asks for, rows, arrows and memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.queues.waiting import after_waits
from thalweg.profiler.step_records import records_of
from thalweg.profiler.timeline import trace_events
from thalweg.python.client import timeline

FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)


def check_format(text: str) -> list[dict[str, Any]]:
    """Asserts what the Trace Event Format says of events; returns them."""
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    last = 0.0
    flows: dict[int, list[dict[str, Any]]] = {}
    named: set[tuple[int, int]] = set()
    open_slices: dict[tuple[int, int], list[float]] = {}
    for event in events:
        assert event["ph"] in "XMCsf"
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert event["args"]["name"]
            named.add((event["pid"], event.get("tid", -1)))
            continue
        assert event["ts"] >= last
        last = event["ts"]
        row = (event["pid"], event["tid"])
        assert (event["pid"], -1) in named
        assert row in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
            ends = open_slices.setdefault(row, [])
            while ends and ends[-1] <= event["ts"] + 1e-4:
                ends.pop()
            # Slices of a row follow one another or lie within one another.
            assert not ends or event["ts"] + event["dur"] <= ends[-1] + 1e-3
            ends.append(event["ts"] + event["dur"])
        elif event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
        else:
            flows.setdefault(event["id"], []).append(event)
    for start, end in flows.values():
        assert (start["ph"], end["ph"], end["bp"]) == ("s", "f", "e")
        assert start["name"] == end["name"]
        assert start["cat"] == end["cat"]
        for flow in (start, end):  # Each end lies within a slice of its row.
            assert any(
                e["ph"] == "X"
                and (e["pid"], e["tid"]) == (flow["pid"], flow["tid"])
                and e["ts"] - 1e-3 <= flow["ts"] <= e["ts"] + e["dur"] + 1e-3
                for e in events
            )
    return events


def run(fetches: Any, feeds: Any = None, devices: int = 1) -> Any:
    metadata = tf.RunMetadata()
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": devices})) as session:
        session.run(tf.global_variables_initializer())
        session.run(fetches, feeds, FULL, metadata)
    return metadata.step_stats


def arrows(events: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Producers and readers that arrows join: by the slices that the ends lie in, the innermost last."""

    def slices(flow: dict[str, Any]) -> list[str]:
        return [
            e["args"]["name"]
            for e in events
            if e["ph"] == "X"
            and e["cat"] != "Kernel"
            and (e["pid"], e["tid"]) == (flow["pid"], flow["tid"])
            and e["ts"] <= flow["ts"] <= e["ts"] + e["dur"]
        ]

    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    return {(starts[e["id"]]["name"], name) for e in events if e["ph"] == "f" for name in slices(e)}


def test_a_step_with_fused_nodes_and_a_loop_is_a_valid_trace() -> None:
    x = tf.placeholder(tf.float32, [8, 16])
    w, b = tf.Variable(tf.ones([16, 4])), tf.Variable(tf.ones([4]))
    y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w, name="product"), b, name="sum"), name="clipped")
    _, z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.tanh(z)), [0, tf.reduce_sum(y, name="total")])
    stats = run(z, {x: np.ones((8, 16))})
    events = check_format(timeline.Timeline(stats).generate_chrome_trace_format(show_memory=True))
    (kernel,) = [e for e in events if e.get("cat") == "Kernel" and e["name"] == "_FusedMatMul"]
    assert kernel["args"]["members"] == "product, sum, clipped"
    assert kernel["args"]["name"] == "clipped"
    assert {("product", "sum"), ("sum", "clipped"), ("clipped", "total")} <= arrows(events)
    assert sum(e["name"] == "Tanh" for e in events) == 3
    assert any(e["ph"] == "C" and e["args"]["bytes"] >= 0 for e in events)


def test_devices_are_processes_and_transfers_are_arrows_between_them() -> None:
    x = tf.placeholder(tf.float32, [4])
    with tf.device("/cpu:0"):
        a = tf.exp(x, name="a")
    with tf.device("/cpu:1"):
        b = tf.tanh(a, name="b")
    stats = run(b, {x: np.ones(4)}, devices=2)
    events = check_format(timeline.Timeline(stats).generate_chrome_trace_format())
    names = {e["pid"]: e["args"]["name"][-5:] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["CPU:0", "CPU:1"]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    crossing = [e for e in events if e["ph"] == "f" and starts[e["id"]]["pid"] != e["pid"]]
    assert len(crossing) == 1
    assert crossing[0]["name"].endswith("_send")
    assert (names[starts[crossing[0]["id"]]["pid"]], names[crossing[0]["pid"]]) == ("CPU:0", "CPU:1")


def test_asynchronous_nodes_have_rows_of_their_own() -> None:
    queues = [tf.FIFOQueue(1, tf.float32, [[]]) for _ in range(2)]
    total = tf.add_n([queue.dequeue() for queue in queues])
    fill = [queue.enqueue(1.0) for queue in queues]
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        feeder = after_waits(2, session.run, fill)
        session.run(total, None, FULL, metadata)
        feeder.result()
    events = check_format(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    rows = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"waiting", "waiting (2)"} <= rows


def test_dataflow_and_memory_can_be_left_out() -> None:
    stats = run(tf.tanh(tf.exp(tf.random_uniform([8]))))
    text = timeline.Timeline(stats).generate_chrome_trace_format(show_dataflow=False)
    assert {e["ph"] for e in check_format(text)} == {"M", "X"}


def test_an_analysis_says_how_much_memory_was_in_use_and_for_what() -> None:
    x = tf.placeholder(tf.float32, [256, 256])
    a = tf.matmul(x, x, name="a")
    b = tf.matmul(a, x, name="b")
    c = tf.matmul(a, b, name="c")
    analysis = timeline.Timeline(run(tf.reduce_sum(c, name="d"), {x: np.ones((256, 256))})).analyze_step_stats()
    ((_, most),) = analysis.allocator_maximums.items()
    assert most.num_bytes >= 3 * 4 * 256 * 256
    assert {"a", "b", "c"} <= most.tensors
    assert "traceEvents" in json.loads(analysis.chrome_trace.format_to_string(pretty=True))


def test_stats_of_another_origin_overlapping_on_one_thread_get_rows_of_their_own() -> None:
    stats = tf.RunMetadata().step_stats
    device = stats.dev_stats.add(device="/job:a/device:CPU:0")
    for name, start, end in (("a", 10, 20), ("b", 15, 25), ("c", 21, 30)):
        device.node_stats.add(
            node_name=name,
            timeline_label=f"[cpu 1MB] {name} = Op(a:1, ^b)" if name == "c" else "",
            all_start_micros=start,
            op_end_rel_micros=end - start,
            all_end_rel_micros=end - start,
        )
    device.node_stats.add(node_name="d", timeline_label="no label", all_start_micros=40)
    records = {record.node: record for record in records_of(stats)}
    assert records["c"].inputs == ["a", "^b"]
    assert records["c"].op == "Op"
    assert records["d"].op == "d"
    assert records["d"].duration == 0
    events = check_format(json.dumps({"traceEvents": trace_events(list(records.values()))}))
    assert len({e["tid"] for e in events if e["ph"] == "X"}) == 2


@pytest.mark.parametrize("stats", [tf.RunMetadata().step_stats])
def test_nothing_traced_is_an_empty_trace(stats: Any) -> None:
    assert timeline.Timeline(stats).generate_chrome_trace_format() == '{"traceEvents": []}'
    assert timeline.Timeline(stats).analyze_step_stats().allocator_maximums == {}
