"""Elastic all-reduce training: processes that are lost, stopped and started again while the others train."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dist.processes import ROOT, environment_of
from thalweg.dist.ports import free_ports

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

_PATIENCE = 250  # seconds for a program to end, on a machine that is busy with other things


class Members:
    """The processes of a training."""

    def __init__(self, size: int, program: str, steps: int, **more: Any) -> None:
        self.size = size
        self._config = {"program": program, "steps": steps, "at": 20, **more}
        self._jobs = {"worker": [f"localhost:{port}" for port in free_ports(size)]}
        self.running: dict[int, subprocess.Popen[str]] = {}
        self.ended: list[subprocess.Popen[str]] = []

    def start(self, index: int, how: str = "") -> None:
        """Starts a process, which is lost in this way ("kill", "stop") after some steps."""
        place = {"cluster": self._jobs, "task": {"type": "worker", "index": index}}
        self.running[index] = subprocess.Popen(
            [sys.executable, "-m", "tests.dist.elastic_process", json.dumps({**self._config, "how": how})],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env=environment_of(OMP_NUM_THREADS="1", TF_CONFIG=json.dumps(place)),
        )  # fmt: skip

    def line(self, index: int) -> str:
        """The next line that a process prints."""
        stdout = self.running[index].stdout
        assert stdout is not None
        return stdout.readline().strip()

    def wait_until_killed(self, index: int) -> None:
        """Waits for the end of a process that kills itself."""
        process = self.running.pop(index)
        self.ended.append(process)
        assert process.wait(_PATIENCE) == -signal.SIGKILL

    def results(self, *indices: int) -> list[dict[str, Any]]:
        """What processes tell at their end, which must be the same for all but for their ranks."""
        found = []
        for index in indices:
            output, _ = self.running[index].communicate(timeout=_PATIENCE)
            assert self.running[index].returncode == 0, (index, output)
            found.append(json.loads(output.splitlines()[-1]))
        assert len({each["digest"] for each in found}) == 1, found
        assert [each["rank"] for each in found] == list(range(len(found)))
        return found

    def close(self) -> None:
        """Ends all processes."""
        for process in [*self.running.values(), *self.ended]:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextlib.contextmanager
def members(size: int, program: str, steps: int, **more: Any) -> Iterator[Members]:
    """The processes of a training; none is left behind."""
    found = Members(size, program, steps, **more)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(
    ("size", "lost", "how"),
    [(3, [0], "kill"), (3, [2], "kill"), (3, [1], "stop"), (2, [0], "kill"), (3, [0, 1], "kill")],
)
def test_training_ends_at_the_exact_step_without_lost_members(size: int, lost: list[int], how: str) -> None:
    with members(size, "monitored", 60) as group:
        for index in range(size):
            group.start(index, how if index in lost else "")
        left = [index for index in range(size) if index not in lost]
        for each in group.results(*left):
            assert (each["step"], each["updates"], each["size"]) == (60, 60.0, len(left))


@pytest.mark.parametrize("lost", [0, 1])
def test_a_function_goes_on_from_the_last_commit_of_its_state(lost: int) -> None:
    with members(2, "by_state", 40) as group:
        for index in range(2):
            group.start(index, "kill" if index == lost else "")
        [each] = group.results(1 - lost)
        assert (each["step"], each["updates"], each["size"]) == (40, 40.0, 1)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_member_that_is_started_again_joins_the_others(lost: int) -> None:
    with members(3, "monitored", 30, wait_for=3) as group:
        for index in range(3):
            group.start(index, "kill" if index == lost else "")
        group.wait_until_killed(lost)
        for index in range(3):
            if index != lost:
                assert [group.line(index), group.line(index)] == ["ready", "alone"]
        group.start(lost)
        for each in group.results(0, 1, 2):
            assert each["size"] == 3
            assert each["updates"] == each["step"] > 50


@pytest.mark.parametrize("lost", [0, 1])
def test_training_that_is_not_elastic_waits_for_a_member_and_begins_again(lost: int) -> None:
    with members(2, "monitored", 60, elastic=False) as group:
        for index in range(2):
            group.start(index, "kill" if index == lost else "")
        group.wait_until_killed(lost)
        group.start(lost)
        for each in group.results(0, 1):
            assert (each["step"], each["updates"], each["size"]) == (60, 60.0, 2)


@pytest.mark.parametrize("lost", [0, 2])
def test_a_member_that_was_stopped_for_long_joins_the_others_when_it_goes_on(lost: int) -> None:
    with members(3, "monitored", 30, wait_for=3) as group:
        for index in range(3):
            group.start(index, "stop" if index == lost else "")
        for index in range(3):
            if index != lost:
                assert [group.line(index), group.line(index)] == ["ready", "alone"]
        group.running[lost].send_signal(signal.SIGCONT)
        for each in group.results(0, 1, 2):
            assert each["size"] == 3
            assert each["updates"] == each["step"] > 50
