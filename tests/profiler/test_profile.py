"""Profiles: exact attribution on made-up records, and what recordings of real steps hold."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.profiler.test_timeline import check_format
from thalweg.profiler.critical_path import critical_path
from thalweg.profiler.memory import alive_at
from thalweg.profiler.report import graph_line, report, seconds, size
from thalweg.profiler.step_records import Output, Record, records_of
from thalweg.profiler.tables import UNKNOWN_PLACE, Profile

CPU0, CPU1 = "/job:localhost/replica:0/task:0/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:1"


def made(node: str, start: int, end: int, *inputs: str, op: str = "Op", device: str = CPU0, **more: Any) -> Record:
    waits = more.get("waits", False)
    return Record(
        node, op, device, 1, start, end, list(inputs), own=0 if waits else end - start, kernel_end=end, **more
    )


def here() -> int:
    return sys._getframe(1).f_lineno


def test_time_is_added_up_by_op_node_and_line() -> None:
    with tf.Graph().as_default() as graph:
        a, first = tf.random_uniform([2], name="a"), here()
        tf.tanh(a, name="b"), here()
    profile = Profile()
    for _ in range(2):
        records = [made("b", 30, 50, op="Tanh"), made("c", 50, 60, op="Tanh"), made("a/RandomUniform", 0, 35, op="R")]
        profile.add(records, graph, 1, "b", 6e-8)
    assert [(row.key, round(row.seconds * 1e9), row.calls) for row in profile.by_op()] == [
        ("R", 70, 2),
        ("Tanh", 60, 4),
    ]
    assert [(row.key, round(row.seconds * 1e9)) for row in profile.by_node()] == [
        ("a/RandomUniform", 70),
        ("b", 40),
        ("c", 20),
    ]
    lines = {row.key.rpartition("/")[2]: row for row in profile.by_line()}
    assert round(lines[f"test_profile.py:{first}"].seconds * 1e9) == 70
    assert "random_uniform" in lines[f"test_profile.py:{first}"].about
    assert round(lines[f"test_profile.py:{first + 1}"].seconds * 1e9) == 40
    assert round(lines[UNKNOWN_PLACE].seconds * 1e9) == 20


def test_the_critical_path_is_the_longest_chain_not_the_longest_nodes() -> None:
    records = [
        made("a", 0, 10),
        made("side", 10, 40, "a"),
        made("b", 40, 60, "a"),
        made("c", 60, 80, "b"),
        made("end", 80, 81, "c", "^side"),
    ]
    chain = critical_path(records)
    assert [link.record.node for link in chain] == ["a", "b", "c", "end"]
    assert [round(link.seconds * 1e9) for link in chain] == [10, 20, 20, 1]


def test_transfers_are_on_the_path_with_the_time_after_the_sending() -> None:
    records = [
        made("a", 0, 50),
        made("a/_send", 50, 52, "a", op="_Send"),
        made("a/_recv", 5, 60, "a/_send", op="_Recv", device=CPU1, waits=True),
        made("b", 60, 70, "a/_recv", device=CPU1),
    ]
    chain = critical_path(records)
    assert [link.record.node for link in chain] == ["a", "a/_send", "a/_recv", "b"]
    assert [round(link.seconds * 1e9) for link in chain] == [50, 2, 8, 10]


def test_nodes_within_a_node_are_not_counted_twice() -> None:
    stats = tf.RunMetadata().step_stats
    device = stats.dev_stats.add(device=CPU0)
    for name, start, end in (("loop", 100, 200), ("inner", 110, 130), ("inner", 140, 170), ("after", 200, 250)):
        device.node_stats.add(
            node_name=name,
            timeline_label=f"{name} = {name}({'loop' if name == 'after' else ''})",
            all_start_micros=start,
            all_start_nanos=start * 1000,
            op_end_rel_nanos=(end - start) * 1000,
            all_end_rel_nanos=(end - start) * 1000,
        )
    records = records_of(stats)
    assert [(record.node, record.own) for record in records] == [
        ("loop", 50_000),
        ("inner", 20_000),
        ("inner", 30_000),
        ("after", 50_000),
    ]
    assert sum(record.own for record in records) == 150_000
    assert [link.record.node for link in critical_path(records)] == ["loop", "after"]


def test_tensors_live_until_their_last_reader_and_share_memory_once() -> None:
    def giving(record: Record, size: int, address: int) -> Record:
        record.outputs.append(Output(0, 1, (size,), size, address))
        return record

    records = [
        giving(made("a", 0, 10), 100, 1),
        giving(made("b", 10, 20, "a"), 300, 2),
        giving(made("c", 20, 30, "b"), 300, 2),  # written over its input
        giving(made("d", 30, 40, "a"), 50, 3),
    ]
    assert [(alive.node, alive.bytes) for alive in alive_at(records, 20)] == [("b", 300), ("a", 100)]
    assert [(alive.node, alive.bytes) for alive in alive_at(records, 30)] == [("c", 300), ("a", 100)]
    assert [alive.node for alive in alive_at(records, 40)] == ["a", "d"]


def test_a_recording_traces_every_nth_step_and_counts_all() -> None:
    x = tf.placeholder(tf.float32, [4])
    y = tf.tanh(x, name="y")
    with tf.Session() as session:
        session.run(y, {x: np.zeros(4)})
        with tf.profiler.record(every=3, steps=2) as recording:
            for _ in range(10):
                session.run(y, {x: np.zeros(4)})
        session.run(y, {x: np.zeros(4)})
    assert recording.count == 10
    assert len(recording.traced) == 2
    profile = recording.profile()
    (row,) = [row for row in profile.by_node() if row.key == "y"]
    assert row.calls == 1  # The first run of a step prepares the kernels; it does not count where more runs follow.
    assert 0 < recording.seconds <= recording.elapsed


def test_recorded_steps_give_the_values_and_errors_of_unrecorded_ones() -> None:
    x = tf.placeholder(tf.int32, [], name="x")
    y = tf.gather(tf.constant([1, 2, 3]), x)
    with tf.profiler.record() as recording, tf.Session() as session:
        assert session.run({"y": [y, y]}, {x: 2}) == {"y": [3, 3]}
        assert session.run(y, {"x:0": 1}) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
            session.run(y, {x: 7})
        with pytest.raises(ValueError, match="shape"):
            session.run(y, {x: [1, 2]})
    assert recording.count == 4
    assert len(recording.traced) == 2


def test_a_trace_that_the_program_asks_for_is_taken_along() -> None:
    y = tf.random_uniform([2])
    metadata = tf.RunMetadata()
    with tf.profiler.record() as recording, tf.Session() as session:
        session.run(y, None, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
        session.run(y, None, tf.RunOptions())
    assert metadata.step_stats.dev_stats
    assert len(recording.traced) == 2
    assert recording.profile().by_op()[0].key == "RandomUniform"


def test_recordings_nest_and_end() -> None:
    from thalweg.runtime.session import BaseSession

    plain = BaseSession.run
    with tf.Session() as session, tf.profiler.record() as outer:
        c = tf.random_uniform([2])
        with tf.profiler.record(steps=1) as inner:
            session.run(c)
        session.run(c)
    assert BaseSession.run is plain
    assert (inner.count, outer.count) == (1, 1)


@pytest.mark.parametrize("wrong", [{"every": 0}, {"every": -2}, {"steps": 0}])
def test_wrong_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        tf.profiler.record(**wrong)


def test_threads_loops_functions_and_devices_are_all_in_the_profile(tmp_path: Path) -> None:
    from thalweg.python.framework import function

    @function.Defun(tf.float32, func_name="Body", noinline=True)
    def body(x: Any) -> Any:
        return tf.tanh(x, name="inside") * 2.0

    x = tf.placeholder(tf.float32, [4])
    with tf.device("/cpu:0"):
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y, name="turn")), [0, x], name="loop")
    with tf.device("/cpu:1"):
        z = tf.reduce_sum(body(y, name="call"), name="z")
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.profiler.record() as recording, tf.Session(config=config) as session:
        threads = [threading.Thread(target=session.run, args=(z, {x: np.zeros(4)})) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    profile = recording.profile()
    rows = {row.key: row for row in profile.by_node()}
    assert rows["loop/turn"].calls == 3 * 3
    assert rows["call/inside"].calls == 3
    assert rows["z"].calls == 3
    lines = {row.about for row in profile.by_line()}
    assert any("while_loop" in line for line in lines)
    path = [link.record.node for link in profile.critical_path()]
    assert path[-1] == "z"
    assert any(name.endswith("_recv") for name in path)
    trace = tmp_path / "trace.json"
    recording.write_trace(str(trace))
    events = check_format(trace.read_text())
    assert len({event["pid"] for event in events}) == 2
    assert "loop/turn" in report(profile)


def test_a_report_has_its_tables_and_adds_up() -> None:
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    w = tf.Variable(tf.ones([64, 128]))
    y = tf.reduce_sum(tf.matmul(x, w, name="product"))
    with tf.profiler.record() as recording, tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(y, {x: np.ones((256, 64))})
    profile = recording.profile()
    sums = [sum(row.seconds for row in rows) for rows in (profile.by_op(), profile.by_node(), profile.by_line())]
    assert sums == pytest.approx([sums[0]] * 3)
    text = report(profile, top=3)
    for expected in ("4 steps took", "Op type", "Node", "Line of the program", "Critical path", "Memory of", "product"):
        assert expected in text
    (product,) = [row for row in profile.by_node() if row.key == "product"]
    assert product.flops == 2 * (2 * 256 * 64 * 128)
    assert "GFLOP/s" in text
    (peak,) = profile.peaks()
    assert peak.bytes >= 4 * 256 * 128
    assert any(alive.node == "product" for alive in peak.alive)


def test_a_program_without_steps_has_an_empty_report() -> None:
    with tf.profiler.record() as recording:
        pass
    assert report(recording.profile()) == "The program ran no step.\n"
    assert json.loads(json.dumps(recording.profile().by_op())) == []


def test_numbers_are_readable() -> None:
    assert [seconds(s) for s in (2.5, 0.0123, 4.56e-6, 0.0)] == ["2.5 s", "12.3 ms", "4.56 us", "0 us"]
    assert [size(b) for b in (0, 999, 1536, 2.5e6, 3e12)] == ["0 B", "999 B", "1.54 kB", "2.5 MB", "3e+03 GB"]
    assert graph_line([(0.0, 0), (1.0, 8), (2.0, 4)], columns=3) == " █▄"
    assert graph_line([]) == ""
