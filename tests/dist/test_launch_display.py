"""What a launcher shows: lines of logs, prefixes, files, and the table with speeds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import thalweg as tf
from thalweg.dist.launch.display import Display, Row, format_table
from thalweg.dist.launch.log_lines import LogLines
from thalweg.dist.launch.measurements import Measurements, Sample, read_steps
from thalweg.dist.launch.plan import LaunchPlan, Task
from thalweg.dist.launch.process_usage import Usage
from thalweg.dist.launch.supervision import Supervision

PS, WORKER = Task("ps", 0), Task("worker", 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_output_is_cut_into_lines_wherever_its_pieces_end() -> None:
    lines = LogLines()
    assert lines.add(b"a\nb") == ["a"]
    assert lines.add(b"c\r\n\nd\xc3") == ["bc", ""]
    assert lines.add(b"\xbc\n\xff\n") == ["dü", "�"]
    assert lines.add(b"10%\r20%\r30%\n") == ["30%"]
    assert lines.add(b"rest") == [] and lines.end() == ["rest"] and lines.end() == []


def test_a_line_without_end_is_cut() -> None:
    lines = LogLines()
    cut = lines.add(b"x" * 200_000)
    assert len(cut) == 3 and len("".join(cut)) + len(lines.end()[0]) == 200_000


def test_prefixes_are_aligned_and_plain_without_a_terminal(tmp_path: Path) -> None:
    stream = io.StringIO()
    display = Display(stream, [PS, WORKER], str(tmp_path / "logs"))
    display.lines(PS, ["one", "two"])
    display.lines(WORKER, ["three"])
    display.rows([Row(PS, "running")])
    display.note("A note.")
    display.close()
    expected = ["ps 0     | one", "ps 0     | two", "worker 0 | three", "launch   | A note."]
    assert stream.getvalue().splitlines() == expected
    assert (tmp_path / "logs" / "ps-0.log").read_text() == "one\ntwo\n"


def test_the_table_stays_below_the_lines_of_a_terminal() -> None:
    stream = Terminal()
    display = Display(stream, [PS, WORKER])
    display.rows([Row(PS, "running", 12), Row(WORKER, "restarting")])
    display.lines(PS, ["hello"])
    before, erase, after = stream.getvalue().partition("\x1b[4A\x1b[J")
    assert erase and before.count("\n") == 4 and after.index("hello") < after.index("restarting")


def test_the_table_fits_the_terminal() -> None:
    rows = [Row(WORKER, "running", 4711, 1, 0.5, 3 << 20, 12345, 99.5), Row(PS, "stopped", place="node-1")]
    table = format_table(rows, 200)
    assert table[2].split() == ["worker", "0", "running", "4711", "1", "50%", "3", "MB", "12,345", "99.5"]
    assert table[3].split() == ["ps", "0", "stopped", "-", "0", "-", "-", "-", "-", "node-1"]
    assert max(map(len, format_table(rows, 30))) < 30


def test_speeds_are_those_of_the_last_second(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Supervision([WORKER], 3).tasks
    measurements, now = Measurements(), [0.0]
    monkeypatch.setattr("thalweg.dist.launch.measurements.time.monotonic", lambda: now[0])

    def row(seconds: float, pid: int, cpu: float, steps: int) -> Row:
        now[0] = seconds
        return measurements.rows(tasks, {WORKER: Sample(pid, Usage(cpu, 5), steps)})[0]

    assert row(1.0, 7, 1.0, 100).steps_per_second is None
    assert row(3.0, 7, 2.0, 300)[4:8] == (0.5, 5, 300, 100.0)
    assert row(3.5, 7, 2.0, 300).steps_per_second == 100.0  # Too soon to measure again.
    assert row(5.0, 8, 0.0, 0).steps_per_second is None  # Another process: the task was restarted.


def test_a_launched_process_reports_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "status")
    assert read_steps(path) is None
    monkeypatch.setenv("THALWEG_TASK_STATUS", path)
    step = tf.train.get_or_create_global_step()
    add = tf.assign_add(step, 1)
    with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=5)]) as session:
        while not session.should_stop():
            session.run(add)
    assert read_steps(path) == 5


def test_the_environment_tells_a_process_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = LaunchPlan(1, 2, chief=True)
    addresses = {task: f"localhost:{i}" for i, task in enumerate(plan.tasks)}
    for name, value in plan.environment(Task("worker", 1), addresses).items():
        monkeypatch.setenv(name, value)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id, resolver.master()) == ("worker", 1, "grpc://localhost:3")
    expected = {"ps": ["localhost:0"], "chief": ["localhost:1"], "worker": ["localhost:2", "localhost:3"]}
    assert resolver.cluster_spec() == expected
    assert plan.key not in repr(plan)
