"""RayTask: the actor that runs the process of one task on a node of a Ray cluster. Never on the path of a step."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from thalweg.dist.directory import DIRECTORY_FILE, write_directory
from thalweg.dist.launch import process_sessions
from thalweg.dist.launch.log_lines import LogLines
from thalweg.dist.launch.measurements import Sample, read_steps
from thalweg.dist.launch.process_usage import usage
from thalweg.dist.ports import free_ports, is_free
from thalweg.train.hooks.task_status import STATUS_FILE

# A process whose launcher has not asked for this long is ended: the launcher is gone, or cut off.
LEASE_SECONDS: Final = 30.0
# Lines that wait to be fetched; more stay in the pipe, and the program waits.
_MOST_LINES: Final = 10_000


class Place(NamedTuple):
    """Where an actor is."""

    node: str
    host: str
    port: int


class Report(NamedTuple):
    """What has happened since the last report. `exit_code` is None while the process is running."""

    lines: list[str]
    exit_code: int | None
    sample: Sample


class RayTask:
    """One task's process. Ray calls one method after the other, all of them in the actor's main thread."""

    def __init__(self, name: str) -> None:
        """Takes the name of the task, for the log of the actor."""
        self._name = name
        self._folder = tempfile.mkdtemp(prefix="thalweg-launch-")
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._lines: list[str] = []
        self._asked = time.monotonic()
        self._closed = threading.Event()
        self._lease = threading.Thread(target=self._end_without_launcher, daemon=True)
        self._lease.start()

    def place(self, port: int | None = None) -> Place:
        """Where the task can listen: at the given port if it is free."""
        # Start-up time: the launcher imports this module, too, and only actors need Ray.
        import ray

        host = str(ray.util.get_node_ip_address())
        if port is None or not is_free(port, host):
            port = free_ports(1, host)[0]
        return Place(str(ray.get_runtime_context().get_node_id()), host, port)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], cluster: Mapping[str, Sequence[str]]
    ) -> Report:
        """Starts the process, and gives the first report.

        Args:
            command: The arguments of the Python interpreter.
            environment: Variables, in addition to those of Ray's worker.
            cluster: The addresses of all tasks.
        """
        self._asked = time.monotonic()
        self.update(cluster)
        if os.path.exists(self._status):
            os.remove(self._status)
        files = {DIRECTORY_FILE: self._directory, STATUS_FILE: self._status}
        main = [sys.executable, "-m", "thalweg.dist.launch.task_main", str(os.getpid())]
        self._process = subprocess.Popen(
            [*main, *command], env={**os.environ, **environment, **files}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self.poll(0.0)

    def update(self, cluster: Mapping[str, Sequence[str]]) -> None:
        """Takes the addresses of all tasks, which the process reads when it needs one (`FileDirectory`)."""
        write_directory(self._directory, cluster)

    def poll(self, seconds: float) -> Report:
        """Waits until there is something to report, but no longer than some seconds."""
        assert self._process is not None and self._reader is not None
        process = self._process
        with self._changed:
            self._asked = time.monotonic()
            self._changed.wait_for(lambda: self._lines or process.poll() is not None, seconds)
            self._asked = time.monotonic()
        code = process.poll()
        if code is not None:
            process_sessions.kill(process.pid)
            self._reader.join()
        with self._changed:
            lines, self._lines = self._lines, []
            self._changed.notify_all()
        sample = Sample(process.pid, usage(process.pid), read_steps(self._status), os.uname().nodename)
        return Report(lines, code, sample)

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children."""
        if self._process is not None and self._process.poll() is None:
            process_sessions.send(self._process.pid, signal.Signals(number))

    def close(self) -> None:
        """Ends everything."""
        self._closed.set()
        if self._process is not None:
            process_sessions.kill(self._process.pid)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _directory(self) -> str:
        return os.path.join(self._folder, "directory.json")

    @property
    def _status(self) -> str:
        return os.path.join(self._folder, "status")

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """Collects the output, which also goes to the log of the actor, and so to Ray's."""
        assert process.stdout is not None
        lines = LogLines()
        with process.stdout as output:
            while data := os.read(output.fileno(), 1 << 16):
                self._add(lines.add(data))
        self._add(lines.end())
        process.wait()
        with self._changed:
            self._changed.notify_all()

    def _add(self, lines: Sequence[str]) -> None:
        for line in lines:
            print(f"{self._name} | {line}", flush=True)
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < _MOST_LINES or self._closed.is_set())
            self._lines.extend(lines)
            self._changed.notify_all()

    def _end_without_launcher(self) -> None:
        while not self._closed.wait(1.0):
            if time.monotonic() - self._asked > LEASE_SECONDS and self._process is not None:
                self.signal(signal.SIGKILL)
