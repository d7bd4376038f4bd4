"""Clusters of real processes for tests: started, killed, stopped, continued, restarted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from thalweg.dist.ports import free_ports

ROOT = Path(__file__).parents[2]


# Compiled modules of the processes, kept from run to run: in an environment without any, each of them would compile all
# sources. Three processes that a busy machine started at once took more than a minute for that.
_COMPILED = ROOT / "build" / "compiled_modules"


def environment_of(**more: str) -> dict[str, str]:
    """The environment of a task's process."""
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    cached = {"PYTHONPYCACHEPREFIX": str(_COMPILED), "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, "PYTHONPATH": path, **cached, **more}


@contextlib.contextmanager
def ended_at_last(processes: list[subprocess.Popen[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Kills processes at the end of the `with` block, and closes their pipes."""
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _state(thread: Path) -> str:
    """The state of a thread: "T" is stopped."""
    try:
        return (thread / "stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"  # It has ended.


class Processes:
    """A cluster whose tasks are processes; use it in a `with` block."""

    def __init__(
        self, devices: int = 1, environment: dict[str, str] | None = None, own: tuple[str, ...] = (), **jobs: int
    ) -> None:
        """Starts all tasks, and waits until they listen.

        Args:
            devices: How many CPU devices each task has.
            environment: Variables for the processes.
            own: Jobs whose tasks the caller starts.
            **jobs: How many tasks each job has.
        """
        ports = iter(free_ports(sum(jobs.values())))
        self.jobs = {job: [f"localhost:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}
        self._devices = devices
        self._environment = environment_of(**(environment or {}))
        self._running: dict[tuple[str, int], subprocess.Popen[str]] = {}
        for job, tasks in self.jobs.items():
            for index in range(0 if job in own else len(tasks)):
                self._start(job, index)
        for process in self._running.values():
            self._wait(process)

    def _start(self, job: str, index: int) -> subprocess.Popen[str]:
        given = {"cluster": self.jobs, "job": job, "index": index, "devices": self._devices}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.dist.task_process", json.dumps(given)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT, env=self._environment,
        )  # fmt: skip
        self._running[job, index] = process
        return process

    @staticmethod
    def _wait(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready"), f"a task did not start: {line!r}"

    def target(self, job: str, index: int = 0) -> str:
        """What a session connects to."""
        return f"grpc://{self.jobs[job][index]}"

    def pid(self, job: str, index: int = 0) -> int:
        """The process of a task."""
        return self._running[job, index].pid

    def kill(self, job: str, index: int = 0) -> None:
        """Kills a task (SIGKILL)."""
        process = self._running.pop((job, index))
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def stop(self, job: str, index: int = 0) -> None:
        """Stops a task (SIGSTOP), and waits until all its threads have stopped: they go on for a moment."""
        process = self._running[job, index]
        process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{process.pid}/task")
        while any(_state(thread) not in "TZ" for thread in threads.iterdir()):
            time.sleep(0.001)

    def go_on(self, job: str, index: int = 0) -> None:
        """Lets a stopped task go on."""
        self._running[job, index].send_signal(signal.SIGCONT)

    def restart(self, job: str, index: int = 0) -> None:
        """Kills a task if it is running, and starts it again at the same address."""
        if (job, index) in self._running:
            self.kill(job, index)
        self._wait(self._start(job, index))

    def close(self) -> None:
        """Kills all of them."""
        for job, index in list(self._running):
            self.kill(job, index)

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
