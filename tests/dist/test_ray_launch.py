"""`thalweg launch --on ray` on a real Ray cluster of several nodes on this machine; skipped without Ray."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dist.launched import Launched, wait_until
from tests.dist.processes import ROOT
from tests.dist.test_launch import HIGH, LOW, TRAINING

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


class RayCluster:
    """A head and three nodes with two CPUs each (`ray_cluster.py`)."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "TMPDIR": str(folder)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.dist.ray_cluster"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self.address = self._answer("ready")

    def _answer(self, word: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(f"{word} "):
                return line.split()[1]
        raise AssertionError("the Ray cluster has ended")

    def kill_node(self, node: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"kill {node}\n")
        self._process.stdin.flush()
        self._answer("killed")

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    found = RayCluster(tmp_path_factory.mktemp("ray"))
    yield found
    found.close()


def launched(cluster: RayCluster, folder: Path, program: str, *options: str, **named: tuple[str, ...]) -> Launched:
    on_ray = ("--on", "ray", "--ray-address", cluster.address, "--resources", "CPU=1,training=1")
    return Launched(folder, program, *on_ray, *options, **named)


def test_a_program_trains(cluster: RayCluster, tmp_path: Path) -> None:
    options = ("--ps", "2", "--workers", "2", "--log-dir", str(tmp_path / "logs"))
    with launched(cluster, tmp_path, TRAINING, *options, arguments=("60",)) as launch:
        assert launch.end() == 0, launch.output
        assert LOW < launch.final_value < HIGH
        nodes = re.findall(r"runs on node (\w+)", launch.output)
        assert len(nodes) == 4 and len(set(nodes)) > 1
    assert "chief ends" in (tmp_path / "logs" / "worker-0.log").read_text()


def test_a_failing_worker_is_restarted_and_then_ends_the_launch_with_its_code(
    cluster: RayCluster, tmp_path: Path
) -> None:
    program = (
        "import os, sys, time\n" + "time.sleep(1000) if '\"ps\", \"index\"' in os.environ['TF_CONFIG'] else sys.exit(9)"
    )
    with launched(cluster, tmp_path, program, "--ps", "1", "--workers", "1", "--restarts", "1") as launch:
        assert launch.end() == 9, launch.output
        assert "worker 0 ended with exit code 9: restart 1 of 1" in launch.output


def test_a_signal_ends_the_tasks(cluster: RayCluster, tmp_path: Path) -> None:
    program = "import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(1000)"
    with launched(cluster, tmp_path, program, "--ps", "0", "--workers", "2") as launch:
        pids = [launch.wait_for(r"\| pid (\d+)")[1] for _ in range(2)]
        launch.process.send_signal(signal.SIGINT)
        assert launch.end() == 130
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


def test_a_launcher_that_is_killed_leaves_no_tasks_behind(cluster: RayCluster, tmp_path: Path) -> None:
    program = "import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(1000)"
    with launched(cluster, tmp_path, program, "--ps", "0", "--workers", "2") as launch:
        pids = [launch.wait_for(r"\| pid (\d+)")[1] for _ in range(2)]
        launch.process.kill()
        launch.end()
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 60.0)


def test_a_ray_program_launches_a_cluster(cluster: RayCluster, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    program = f"""
import ray
from thalweg.dist.launch import ray_launcher
ray.init(address={cluster.address!r}, log_to_driver=False)
print("code", ray_launcher.run({str(script)!r}, ["40"], ps=1, workers=1, resources={{"CPU": 1}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert "chief ends" in done.stdout and "code 0" in done.stdout, done.stdout + done.stderr


def test_training_goes_on_when_the_node_of_a_ps_task_is_lost(cluster: RayCluster, tmp_path: Path) -> None:
    model = tmp_path / "model"
    program = TRAINING.replace("hooks=hooks", f"{str(model)!r}, hooks=hooks, save_checkpoint_steps=20")
    program = program.replace("at, now, _ =", "import time; time.sleep(0.02); at, now, _ =")
    with launched(cluster, tmp_path, program, "--ps", "1", "--workers", "2", arguments=("1500",)) as launch:
        nodes = {}
        for _ in range(3):
            found = launch.wait_for(r"\| (\w+ \d) runs on node (\w+)")
            nodes[found[1]] = found[2]
        assert wait_until(lambda: bool(list(model.glob("model.ckpt-[1-9]*.index"))), 60.0), launch.output
        cluster.kill_node(nodes["ps 0"])
        assert launch.wait_for(r"ps 0 runs on node (\w+)")[1] != nodes["ps 0"]
        assert launch.end() == 0, launch.output
        assert "ps 0 was lost with its node: restart 1 of 3" in launch.output
        assert LOW < launch.final_value < HIGH
