"""Programs as they are written for TensorFlow's clusters, each task a process, some of which are killed meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dist.processes import ended_at_last, environment_of
from thalweg.dist.ports import free_ports

PROGRAMS = Path(__file__).parent / "cluster_programs"
Start = Callable[[str, int], "subprocess.Popen[str]"]


def start_all(
    tmp_path: Path, processes: list[subprocess.Popen[str]], program: str, jobs: dict[str, int]
) -> tuple[Start, dict[tuple[str, int], subprocess.Popen[str]]]:
    """Starts all tasks; gives a function that starts one of them again, too."""
    ports = iter(free_ports(sum(jobs.values())))
    cluster = {job: [f"localhost:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}

    def start(job: str, index: int) -> subprocess.Popen[str]:
        task = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        command = [sys.executable, "-m", "thalweg", "run", str(PROGRAMS / program), str(tmp_path)]
        environment = environment_of(TF_CONFIG=task, OMP_NUM_THREADS="1")
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    return start, {(job, index): start(job, index) for job, count in jobs.items() for index in range(count)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("program", "jobs", "ending"),
    [
        ("shared_queues.py", {"ps": 2, "worker": 2}, ("ps", "worker")),
        ("input_task.py", {"ps": 1, "input": 1, "worker": 2}, ("worker",)),
        ("containers.py", {"ps": 2, "worker": 2}, ()),
    ],
)
def test_a_program_ends_well(tmp_path: Path, program: str, jobs: dict[str, int], ending: tuple[str, ...]) -> None:
    with ended_at_last([]) as processes:
        _, tasks = start_all(tmp_path, processes, program, jobs)
        for job, index in tasks:
            if job in ending or (job, index) == ("worker", 0):
                out, _ = tasks[job, index].communicate(timeout=240)
                assert (tasks[job, index].returncode, out.split()[-1:]) == (0, ["done"]), (job, index)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("victim", [("worker", 2), ("ps", 0)])
def test_towers_in_one_graph_survive_the_loss_of_a_task(tmp_path: Path, victim: tuple[str, int]) -> None:
    with ended_at_last([]) as processes:
        start, tasks = start_all(tmp_path, processes, "in_graph.py", {"ps": 1, "worker": 3})
        client = tasks["worker", 0]
        assert client.stdout is not None
        assert client.stdout.readline() == "step 20\n"
        tasks[victim].kill()
        tasks[victim].wait()
        time.sleep(0.2)
        start(*victim)
        out, _ = client.communicate(timeout=240)
        assert client.returncode == 0
        assert "again after" in out and out.endswith("step 200\ndone\n")
