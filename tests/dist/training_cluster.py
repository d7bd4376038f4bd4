"""A training program as a cluster of processes that are started, killed, stopped and cut off; histories and logs."""

from __future__ import annotations

import collections
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.dist.network_hosts import Hosts
from tests.dist.processes import ROOT, environment_of
from thalweg.dist.ports import free_ports

# Errors by which a worker ends and is to be started again: a task was lost, or the disk was full at the last save.
RESTARTED = ("errors.UnavailableError", "errors.AbortedError", "errors.ResourceExhaustedError")


class TrainingCluster:
    """The processes of a training program: parameter servers and workers, in a folder with their histories and logs."""

    def __init__(
        self,
        folder: Path,
        ps: int,
        workers: int,
        hosts: Hosts | None = None,
        **given: Any,
    ) -> None:
        """Starts all tasks.

        Args:
            folder: For histories, logs and checkpoints.
            ps: How many parameter servers.
            workers: How many workers.
            hosts: Network namespaces, to which tasks go in turn; all tasks are on this host if None.
            **given: For `training.py`.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.hosts = hosts
        ports = iter(free_ports(ps + workers))
        self.cluster = {
            job: [f"{hosts.address(job, index) if hosts else 'localhost'}:{next(ports)}" for index in range(count)]
            for job, count in (("ps", ps), ("worker", workers))
        }
        self._given = {"directory": str(folder / "checkpoints"), "save_steps": 10, **given}
        self.restarts = 0  # of workers that ended by themselves
        self._starts: collections.Counter[tuple[str, int]] = collections.Counter()
        self.running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        for job, tasks in self.cluster.items():
            for index in range(len(tasks)):
                self.start(job, index)

    def start(self, job: str, index: int) -> None:
        """Starts a task, or starts it again at the same address."""
        self._starts[job, index] += 1
        name = f"{job}{index}"
        given = {**self._given, "cluster": self.cluster, "job": job, "index": index,
                 "history": str(self.folder / f"{name}.history")}  # fmt: skip
        prefix = self.hosts.command(job, index) if self.hosts else []
        # Other hosts can reach a task of a namespace, so that it wants a key.
        key = {"THALWEG_CLUSTER_KEY": "of a test"} if self.hosts else {}
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[job, index] = subprocess.Popen(
                [*prefix, sys.executable, "-m", "tests.dist.training", json.dumps(given)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT,
                env=environment_of(OMP_NUM_THREADS="1", **key),
            )  # fmt: skip

    def kill(self, job: str, index: int) -> None:
        """Kills a task (SIGKILL)."""
        process = self.running[job, index]
        process.kill()
        process.wait()

    def signal(self, job: str, index: int, number: int) -> None:
        """Sends a signal to a task."""
        self.running[job, index].send_signal(number)

    def is_ready(self, job: str, index: int) -> bool:
        """Whether a task listens, and has said so."""
        log = (self.folder / f"{job}{index}.log").read_text(errors="replace")
        return log.count("ready grpc://") >= self._starts[job, index]

    def limit_files(self, job: str, index: int, size: int) -> None:
        """Lets a task write no file beyond a size: to it the disk is full. -1 takes the limit back."""
        hard = resource.RLIM_INFINITY
        resource.prlimit(self.running[job, index].pid, resource.RLIMIT_FSIZE, (size if size >= 0 else hard, hard))

    def history(self, job: str = "worker", index: int = 0) -> list[dict[str, Any]]:
        """The events that a task has noted so far."""
        path = self.folder / f"{job}{index}.history"
        lines = path.read_text().splitlines() if path.exists() else []
        events = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:  # Cut off by a kill, and the next process's first line behind it.
                start = line.find('{"time"', 1)
                if start > 0:
                    events.append(json.loads(line[start:]))
        return events

    def step(self, index: int = 0) -> int:
        """The last step that a worker saw."""
        steps = [event["step"] for event in self.history("worker", index) if event["event"] == "step"]
        return steps[-1] if steps else -1

    def latest_step(self) -> int:
        """The latest step that any worker saw last."""
        return max(self.step(index) for index in range(len(self.cluster["worker"])))

    def wait_for_step(self, step: int, seconds: float = 120) -> None:
        """Waits until a worker has seen a step."""
        until = time.monotonic() + seconds
        while self.latest_step() < step:
            assert time.monotonic() < until, f"no worker has come to step {step}\n{self.tail()}"
            time.sleep(0.02)

    def wait_for_event(self, job: str, index: int, event: str, step: int, seconds: float = 120) -> None:
        """Waits until a task has noted an event of a step."""
        until = time.monotonic() + seconds
        while not any(each["event"] == event and each["step"] == step for each in self.history(job, index)):
            assert time.monotonic() < until, f"{job} {index} has no event {event!r} of step {step}\n{self.tail()}"
            time.sleep(0.02)

    def wait_for_log(self, job: str, index: int, text: str, seconds: float = 120) -> None:
        """Waits until the log of a task has a text."""
        until = time.monotonic() + seconds
        while text not in (self.folder / f"{job}{index}.log").read_text(errors="replace"):
            assert time.monotonic() < until, f"the log of {job} {index} has no {text!r}\n{self.tail()}"
            time.sleep(0.05)

    def wait_for_end(self, seconds: float = 120) -> None:
        """Waits until all workers have ended well. One that has ended by a fault is started again."""
        until = time.monotonic() + seconds
        left = [index for job, index in self.running if job == "worker"]
        while left:
            index = left[0]
            code = self.running["worker", index].poll()
            if code is None:
                ended = [
                    task for task, process in self.running.items() if task[0] == "ps" and process.poll() is not None
                ]
                assert not ended, f"parameter servers have ended by themselves: {ended}\n{self.tail()}"
                assert time.monotonic() < until, f"workers {left} do not end\n{self.tail()}"
                time.sleep(0.02)
            elif code == 0:
                left.pop(0)
            else:
                last = (self.folder / f"worker{index}.log").read_text(errors="replace")[-2000:]
                assert any(each in last for each in RESTARTED), f"worker {index} ended with {code}\n{self.tail()}"
                self.restarts += 1
                self.start("worker", index)

    def tail(self) -> str:
        """The ends of all logs."""
        texts = [(path.name, path.read_text(errors="replace")) for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(f"--- {name} of {self.folder}\n{text[-1500:]}" for name, text in texts)

    def close(self) -> None:
        """Kills the processes that still run."""
        for process in self.running.values():
            process.kill()
            process.wait()

    def __enter__(self) -> TrainingCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
