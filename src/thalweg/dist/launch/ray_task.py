"""RayTask: the actor that runs the process of one task on a node of a Ray cluster. Never on the path of a step."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final, NamedTuple

from thalweg.dist.directory import DIRECTORY_FILE, write_directory
from thalweg.dist.launch import process_sessions
from thalweg.dist.launch.fork_client import ForkClient
from thalweg.dist.launch.log_lines import LogLines
from thalweg.dist.launch.measurements import Sample, read_steps
from thalweg.dist.launch.process_usage import usage
from thalweg.dist.ports import free_ports, is_free
from thalweg.train.hooks.task_status import STATUS_FILE

# A process whose launcher has not asked for this long is ended: the launcher is gone, or cut off.
LEASE_SECONDS: Final = 30.0
_LEASE_CHECK_SECONDS: Final = 5.0
# Lines that wait to be fetched; more stay in the pipe, and the program waits.
_MOST_LINES: Final = 10_000
# Each report takes about a millisecond of both sides' time, which the tasks of a small host do not get: a program that
# writes all the time is reported on this often.
_REPORT_SECONDS: Final = 0.25


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
    """One task's process. While `poll` waits, other methods are called, one after the other."""

    def __init__(self, name: str, launch: str) -> None:
        """Takes the name of the task, for the log of the actor, and that of the launch (`ForkClient`)."""
        self._name, self._launch = name, launch
        self._folder = tempfile.mkdtemp(prefix="thalweg-launch-")
        self._client: ForkClient | None = None
        self._pid = 0
        self._follower: threading.Thread | None = None
        self._changed = threading.Condition()  # guards the next three
        self._lines: list[str] = []
        self._code: int | None = None
        self._asked = time.monotonic()
        self._reported = 0.0
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
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cluster: Mapping[str, Sequence[str]],
        fresh: bool = False,
    ) -> Report:
        """Starts the process, and gives the first report.

        Args:
            command: The arguments of the Python interpreter.
            environment: Variables, in addition to those of Ray's worker.
            cluster: The addresses of all tasks.
            fresh: Whether to start a new interpreter, in place of a fork of the host's fork server.
        """
        self._asked = time.monotonic()
        self.update(cluster)
        if os.path.exists(self._status):
            os.remove(self._status)
        if self._follower is not None:
            self._follower.join()
        variables = {**environment, DIRECTORY_FILE: self._directory, STATUS_FILE: self._status}
        receiver, sender = os.pipe()
        pipe = open(receiver, "rb", buffering=0)  # noqa: SIM115
        try:
            if self._client is None:
                self._client = ForkClient(self._launch)
            self._pid = self._client.start(self._name, command, variables, sender, fresh)
        except BaseException:
            pipe.close()
            raise
        finally:
            os.close(sender)
        self._code = None
        self._warn_of_niceness()
        self._follower = threading.Thread(target=self._follow, args=(self._client, pipe), daemon=True)
        self._follower.start()
        return self.poll(0.0)

    def _warn_of_niceness(self) -> None:
        niceness = os.getpriority(os.PRIO_PROCESS, self._pid)
        if niceness > 0:
            self._add([f"This process has a niceness of {niceness}. Start Ray with RAY_worker_niceness=0 to train at "
                       "full speed."])  # fmt: skip

    def update(self, cluster: Mapping[str, Sequence[str]]) -> None:
        """Takes the addresses of all tasks, which the process reads when it needs one (`FileDirectory`)."""
        write_directory(self._directory, cluster)

    def poll(self, seconds: float) -> Report:
        """Waits until there is something to report, but no longer than some seconds."""
        with self._changed:
            self._asked = time.monotonic()
            self._changed.wait_for(lambda: self._lines or self._code is not None, seconds)
            soon = self._reported + _REPORT_SECONDS - time.monotonic()
            if self._lines and soon > 0:
                self._changed.wait_for(lambda: self._code is not None or len(self._lines) >= _MOST_LINES, soon)
            self._asked = self._reported = time.monotonic()
            lines, self._lines = self._lines, []
            code = self._code
            self._changed.notify_all()
        sample = Sample(self._pid, usage(self._pid), read_steps(self._status), os.uname().nodename)
        return Report(lines, code, sample)

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children."""
        if self._follower is not None and self._code is None:
            process_sessions.send(self._pid, signal.Signals(number))

    def close(self) -> None:
        """Ends everything."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        if self._client is not None:
            self._client.end()
            if self._follower is not None:
                self._follower.join()
            self._client.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _directory(self) -> str:
        return os.path.join(self._folder, "directory.json")

    @property
    def _status(self) -> str:
        return os.path.join(self._folder, "status")

    def _follow(self, client: ForkClient, pipe: IO[bytes]) -> None:
        """Collects the output, which also goes to the log of the actor, and so to Ray's, until the process ends."""
        lines = LogLines()
        code: int | None = None
        os.set_blocking(pipe.fileno(), False)
        with pipe, selectors.DefaultSelector() as selector:
            for each in (pipe, client.connection):
                selector.register(each, selectors.EVENT_READ)
            while code is None:
                ready = {key.fileobj for key, _ in selector.select()}
                if pipe in ready:
                    data = pipe.read(1 << 16)
                    if data == b"":
                        selector.unregister(pipe)
                    self._add(lines.add(data or b""))
                if client.connection in ready:
                    code = client.wait()
            while data := pipe.read(1 << 16):
                self._add(lines.add(data))
        self._add(lines.end())
        with self._changed:
            self._code = code
            self._changed.notify_all()

    def _add(self, lines: Sequence[str]) -> None:
        if not lines:
            return
        print("\n".join(f"{self._name} | {line}" for line in lines), flush=True)
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < _MOST_LINES or self._closed.is_set())
            self._lines.extend(lines)
            self._changed.notify_all()

    def _end_without_launcher(self) -> None:
        while not self._closed.wait(_LEASE_CHECK_SECONDS):
            if time.monotonic() - self._asked > LEASE_SECONDS:
                self.signal(signal.SIGKILL)
