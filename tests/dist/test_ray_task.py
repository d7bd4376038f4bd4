"""RayTask, the actor of a task on Ray, as an ordinary object: what it reports, and what it ends. Needs no Ray."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dist.launched import wait_until
from tests.dist.processes import ROOT
from tests.dist.test_fork_server import FOREVER, WITH_CHILD, is_running
from thalweg.dist.launch.ray_task import RayTask, Report

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]
CLUSTER = {"worker": ["localhost:1"]}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayTask]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = RayTask("worker 0", tmp_path.name)
    yield found
    found.close()
    found._lease.join()


def started(task: RayTask, text: str) -> Report:
    Path("program.py").write_text(text)
    return task.start(["program.py"], {"PLACE": "here"}, CLUSTER)


def reports(task: RayTask, report: Report) -> list[Report]:
    """All reports until the end of the process."""
    found = [report]
    while found[-1].exit_code is None:
        found.append(task.poll(60.0))
    return found


def lines_of(found: list[Report]) -> list[str]:
    return [line for report in found for line in report.lines]


def test_lines_and_the_exit_code_are_reported_at_every_start(task: RayTask) -> None:
    program = (
        "import os\nprint(os.environ['PLACE'], open(os.environ['THALWEG_DIRECTORY']).read())\nraise SystemExit(3)\n"
    )
    for _ in range(2):
        found = reports(task, started(task, program))
        assert found[-1].exit_code == 3
        assert lines_of(found) == ['here {"worker": ["localhost:1"]}']


def test_a_program_that_writes_all_the_time_is_reported_on_now_and_then(task: RayTask) -> None:
    program = "import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.005)\n"
    begin = time.monotonic()
    found = reports(task, started(task, program))
    assert lines_of(found) == [str(i) for i in range(300)]
    assert len(found) < 5 + (time.monotonic() - begin) / 0.25


def test_a_question_is_answered_as_soon_as_the_process_ends(task: RayTask) -> None:
    report = started(task, FOREVER)
    while not report.lines:
        report = task.poll(60.0)
    timer = threading.Timer(0.2, task.signal, [signal.SIGTERM])  # As Ray calls it, while `poll` waits.
    timer.start()
    assert task.poll(60.0).exit_code == -signal.SIGTERM
    timer.join()


def test_closing_ends_the_process_and_its_children(task: RayTask) -> None:
    report = started(task, WITH_CHILD)
    while not report.lines:
        report = task.poll(60.0)
    child, pid = int(report.lines[0].split()[-1]), report.sample.pid
    assert pid is not None and is_running(child) and is_running(pid)
    assert report.sample.usage is not None and report.sample.usage.memory > 1 << 20
    task.close()
    assert wait_until(lambda: not is_running(child) and not is_running(pid))


def test_a_task_whose_fork_server_was_killed_can_be_started_again(task: RayTask) -> None:
    report = started(task, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()\n")
    assert reports(task, report)[-1].exit_code == -signal.SIGKILL
    assert lines_of(reports(task, started(task, "print('again')"))) == ["again"]


def test_a_launcher_that_does_not_ask_any_more_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.dist.launch.ray_task.LEASE_SECONDS", 0.5)
    monkeypatch.setattr("thalweg.dist.launch.ray_task._LEASE_CHECK_SECONDS", 0.1)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    task = RayTask("worker 0", tmp_path.name)
    pid = started(task, FOREVER).sample.pid
    assert pid is not None
    assert wait_until(lambda: not is_running(pid), 30.0)
    assert reports(task, task.poll(0.0))[-1].exit_code == -signal.SIGKILL
    task.close()
    task._lease.join()
