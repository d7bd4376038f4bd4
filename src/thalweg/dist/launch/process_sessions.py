"""Ends whole sessions of processes: a task's process with all of its children, also when the launcher was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from typing import Final

from thalweg.dist.launch.child_process import fork, open_files

_ATTEMPTS: Final = 100


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # After the name in parentheses, which may hold anything: state, parent, group, session.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
        if int(fields[3]) == session and fields[0] not in (b"Z", b"X"):
            found.append(int(name))
    return found


def send(session: int, number: signal.Signals) -> None:
    """Sends a signal to all processes of a session."""
    for pid in members(session):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill(session: int) -> None:
    """Kills all processes of a session, and waits until they have ended; new ones may be starting meanwhile."""
    for _ in range(_ATTEMPTS):
        if not members(session):
            return
        send(session, signal.SIGKILL)
        time.sleep(0.002)


class Guard:
    """A process that ends all sessions, and removes the launch's folder, when the launcher has been killed.

    It reads from a pipe to which only the launcher writes: the end of the pipe is the end of the launcher.
    """

    def __init__(self, folder: str | None = None) -> None:
        """Starts it; without a folder, it only ends sessions."""
        receiver, self._sender = os.pipe()
        try:
            self._pid = fork(lambda: _watch(receiver, folder))
        finally:
            os.close(receiver)

    def add(self, session: int) -> None:
        """Notes a session that must not outlive the launcher."""
        self._send(f"+{session}\n")

    def remove(self, session: int) -> None:
        """Notes that a session has ended."""
        self._send(f"-{session}\n")

    def _send(self, line: str) -> None:
        # If the guard has been killed, the kernel still kills the tasks when the launcher dies.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._sender, line.encode())

    def close(self) -> None:
        """Ends the guard: it removes the folder."""
        os.close(self._sender)
        os.waitpid(self._pid, 0)


def _watch(receiver: int, folder: str | None) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    for each in open_files() - {0, 1, 2, receiver}:
        os.close(each)
    sessions: set[int] = set()
    with open(receiver, encoding="ascii") as lines:
        for line in lines:
            if line.startswith("+"):
                sessions.add(int(line[1:]))
            else:
                sessions.discard(int(line[1:]))
    for session in sessions:
        kill(session)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
