"""LocalLauncher: runs all tasks of a program as processes of this machine, until the program has ended."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from thalweg.dist.directory import write_directory
from thalweg.dist.launch import child_process, process_sessions
from thalweg.dist.launch.display import Display
from thalweg.dist.launch.log_lines import LogLines
from thalweg.dist.launch.measurements import Measurements, Sample, read_steps
from thalweg.dist.launch.plan import LaunchPlan, Program, Task
from thalweg.dist.launch.process_usage import usage
from thalweg.dist.launch.supervision import Instruction, Note, Signal, Start, Supervision
from thalweg.dist.ports import free_ports, is_free

_TABLE_SECONDS: Final = 1.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # that end the launch
_HOST: Final = "localhost"


class _Process(NamedTuple):
    """A task's process: the descriptor that tells its end, and the pipe with its output."""

    pid: int
    pidfd: int
    output: int
    lines: LogLines


class LocalLauncher:
    """One launch. It has no threads: processes are forked from it."""

    def __init__(
        self,
        plan: LaunchPlan,
        program: Program,
        display: Display,
        restarts: int = 3,
        grace: float = 5.0,
        port_base: int | None = None,
        fresh: bool = False,
    ) -> None:
        """Describes a launch.

        Args:
            plan: The tasks.
            program: What they run.
            display: Where their output goes.
            restarts: How often each task is started again after a crash.
            grace: The seconds between SIGTERM and SIGKILL for processes that are to end.
            port_base: The port of the first task, the next one for the second, and so on; free ports if None.
            fresh: Whether each task is a new interpreter, in place of a fork of this process.
        """
        self._plan, self._program, self._display = plan, program, display
        self._port_base, self._fresh = port_base, fresh
        self._supervision = Supervision(plan.tasks, restarts, grace)
        self._measurements = Measurements()
        self._running: dict[Task, _Process] = {}
        self._addresses: dict[Task, str] = {}

    def run(self) -> int:
        """Runs the program: its exit code. That of a failed task; 128 and the signal's number after a signal."""
        self._keep = child_process.preload()
        self._folder = tempfile.mkdtemp(prefix="thalweg-launch-")
        self._guard = process_sessions.Guard(self._folder)
        self._selector = selectors.DefaultSelector()
        self._choose_ports()
        wake, waker = socket.socketpair()
        wake.setblocking(False)
        waker.setblocking(False)
        self._selector.register(wake, selectors.EVENT_READ, None)
        previous = {each: signal.getsignal(each) for each in (*_SIGNALS, signal.SIGCHLD)}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # If it is ignored, as some parents want, no exit code is kept.
        for each in _SIGNALS:
            if previous[each] is not signal.SIG_IGN:  # nohup
                signal.signal(each, lambda *_: None)  # It arrives through the wake-up socket.
        previous_fd = signal.set_wakeup_fd(waker.fileno())
        try:
            return self._loop(wake)
        finally:
            signal.set_wakeup_fd(previous_fd)
            for each, handler in previous.items():
                signal.signal(each, handler)
            for task in list(self._running):
                self._end(task)
            self._selector.close()
            wake.close()
            waker.close()
            self._guard.close()

    def _choose_ports(self) -> None:
        tasks = self._plan.tasks
        if self._port_base is None:
            ports = free_ports(len(tasks))
        else:
            ports = [self._port_base + i for i in range(len(tasks))]
            taken = [port for port in ports if not is_free(port)]
            if taken:
                raise ValueError(f"the ports {', '.join(map(str, taken))} are in use: choose another --port-base")
        self._addresses = {task: f"{_HOST}:{port}" for task, port in zip(tasks, ports, strict=True)}
        self._write_directory()

    @property
    def _directory(self) -> str:
        return os.path.join(self._folder, "directory.json")

    def _write_directory(self) -> None:
        write_directory(self._directory, self._plan.cluster(self._addresses))

    def _status(self, task: Task) -> str:
        return os.path.join(self._folder, f"{task.file_stem}.status")

    # Events.

    def _loop(self, wake: socket.socket) -> int:
        self._carry_out(self._supervision.begin())
        table = 0.0
        while (code := self._supervision.exit_code) is None:
            now = time.monotonic()
            if self._display.has_table and now >= table:
                table = now + _TABLE_SECONDS
                self._show_table()
            due = [each for each in (self._supervision.next_due(), table if self._display.has_table else None) if each]
            pause = max(0.0, min(due) - now) if due else None
            for key, _ in self._selector.select(pause):
                if key.fileobj is wake:
                    self._signalled(wake.recv(64))
                    continue
                task = self._task_of(key.data)
                if task is None:
                    continue  # Its process has ended in this very round.
                if key.fd == key.data.pidfd:
                    self._exited(task)
                else:
                    self._read(task, key.data)
            self._carry_out(self._supervision.tick(time.monotonic()))
        if self._display.has_table:
            self._show_table()
        return code

    def _task_of(self, process: _Process) -> Task | None:
        return next((task for task, each in self._running.items() if each is process), None)

    def _signalled(self, received: bytes) -> None:
        for number in received:
            if number in _SIGNALS:
                self._note(f"Received {signal.Signals(number).name}: ending all tasks.")
                self._carry_out(self._supervision.interrupt(128 + number, time.monotonic()))

    def _exited(self, task: Task) -> None:
        code = self._end(task)
        self._carry_out(self._supervision.exited(task, code, time.monotonic()))

    def _read(self, task: Task, process: _Process) -> bool:
        """Takes over a piece of output; False if there is none now, or none any more."""
        try:
            data = os.read(process.output, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self._unregister(process.output)
            return False
        self._show(task, process.lines.add(data))
        return True

    def _end(self, task: Task) -> int:
        """Sees to it that nothing of a task's process is left: its exit code."""
        process = self._running.pop(task)
        process_sessions.kill(process.pid)  # Before it is reaped: until then, no other process can get its number.
        _, status = os.waitpid(process.pid, 0)
        while self._read(task, process):
            pass
        self._show(task, process.lines.end())
        for descriptor in (process.pidfd, process.output):
            self._unregister(descriptor)
            os.close(descriptor)
        self._guard.remove(process.pid)
        return os.waitstatus_to_exitcode(status)

    def _unregister(self, descriptor: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    # Instructions.

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Start(task):
                    self._start(task)
                case Signal(task, number):
                    process_sessions.send(self._running[task].pid, number)
                case Note(text):
                    self._note(text)
        self._supervision.validate()

    def _start(self, task: Task) -> None:
        if self._supervision.tasks[task].restarts:
            self._move_if_taken(task)
        environment = self._plan.environment(task, self._addresses, self._directory, self._status(task))
        if os.path.exists(self._status(task)):
            os.remove(self._status(task))
        receiver, sender = os.pipe()
        try:
            command = self._program.command(task)
            pid = child_process.start(command, environment, sender, str(task), self._keep, self._fresh)
        finally:
            os.close(sender)
        self._guard.add(pid)
        os.set_blocking(receiver, False)
        process = _Process(pid, os.pidfd_open(pid), receiver, LogLines())
        self._running[task] = process
        for descriptor in (process.pidfd, process.output):
            self._selector.register(descriptor, selectors.EVENT_READ, process)

    def _move_if_taken(self, task: Task) -> None:
        """Gives a task another address if its port was taken while it was not running."""
        if is_free(int(self._addresses[task].rpartition(":")[2])):
            return
        self._addresses[task] = f"{_HOST}:{free_ports(1)[0]}"
        self._write_directory()
        self._note(f"The port of {task} was taken: it is at {self._addresses[task]} now.")

    # What the user sees. A terminal that is gone ends the launch.

    def _show(self, task: Task, lines: Sequence[str]) -> None:
        self._try(self._display.lines, task, lines)

    def _note(self, text: str) -> None:
        self._try(self._display.note, text)

    def _show_table(self) -> None:
        samples = {
            task: Sample(process.pid, usage(process.pid), read_steps(self._status(task)))
            for task, process in self._running.items()
        }
        self._try(self._display.rows, self._measurements.rows(self._supervision.tasks, samples))

    def _try(self, show: Any, *arguments: Any) -> None:
        try:
            show(*arguments)
        except OSError:  # A broken pipe, or a terminal that is gone.
            self._display.silence()
            os.kill(os.getpid(), signal.SIGHUP)
