"""ForkClient: starts a process through the fork server of this host (`fork_server.py`), and waits for its end."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from thalweg.dist.launch.fork_server import (
    ANSWER,
    FAILED,
    LENGTH,
    STARTED,
    Request,
    address_of,
    is_own_user,
    read_exactly,
)

# A server binds its socket before it imports anything.
_START_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5
# Ray's own variables are different in each of its workers, and read by Ray only.
_IGNORED: tuple[str, ...] = ("RAY_",)


def server_name(launch: str) -> str:
    """The name of the server for processes of a launch that have the interpreter and the environment of this one.

    Libraries read some variables when they are loaded (OMP_NUM_THREADS), which is before the server forks. Containers
    of a host may share its network, and with it the names of sockets, and nothing else.
    """
    container = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("ipc", "mnt", "pid", "user", "uts")]
    variables = sorted(item for item in os.environ.items() if not item[0].startswith(_IGNORED))
    parts = [launch, sys.executable, os.getcwd(), container, variables]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class ForkClient:
    """A connection to a fork server, with at most one process, which ends with this one."""

    def __init__(self, launch: str) -> None:
        """Connects to the host's server, which is started if there is none.

        Args:
            launch: Names the launch; clients of others get another server.

        Raises:
            OSError: If no server can be reached.
        """
        self._name = server_name(launch)
        self.connection = self._connect()

    def _connect(self) -> socket.socket:
        for _ in range(_ATTEMPTS):  # A server may end between its start and the connection.
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(address_of(self._name))
                if is_own_user(connection):
                    return connection
                raise PermissionError(f"another user has taken the socket of the fork server {self._name}")
            except ConnectionRefusedError:
                connection.close()
            except BaseException:
                connection.close()
                raise
            command = [sys.executable, "-m", "thalweg.dist.launch.fork_server", self._name]
            subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=_START_SECONDS)
        raise ConnectionRefusedError(f"the fork server {self._name} does not answer")

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], output: int, fresh: bool = False
    ) -> int:
        """Starts a process: its id.

        Args:
            name: The name of the process in lists of processes.
            command: The arguments of the Python interpreter.
            environment: Variables, in addition to those of this process.
            output: The file descriptor for its standard output and standard error.
            fresh: Whether to start a new interpreter, in place of a fork of the server.

        Raises:
            OSError: If the process cannot be started.
        """
        request = Request(name, list(command), {**os.environ, **environment}, fresh)
        data = json.dumps(request._asdict()).encode()
        for attempt in range(_ATTEMPTS):
            if attempt > 0:
                # The server was killed; what it may have started dies with it. A dying one still accepts connections.
                time.sleep(0.1 * attempt)
                self.connection.close()
                self.connection = self._connect()
            try:
                kind, number = self._ask(data, output)
                break
            except (EOFError, OSError) as e:
                why = str(e)
        else:
            raise ConnectionError(f"the fork server has ended {_ATTEMPTS} times: {why}")
        if kind == FAILED:
            raise OSError(number, os.strerror(number))
        assert kind == STARTED, kind
        return number

    def _ask(self, data: bytes, output: int) -> tuple[int, int]:
        socket.send_fds(self.connection, [LENGTH.pack(len(data))], [output])
        self.connection.sendall(data)
        kind, number = ANSWER.unpack(read_exactly(self.connection, ANSWER.size))
        return int(kind), int(number)

    def wait(self) -> int:
        """Waits for the end of the process: its exit code. Nothing of it is left then."""
        try:
            return int(ANSWER.unpack(read_exactly(self.connection, ANSWER.size))[1])
        except (EOFError, OSError):
            return -signal.SIGKILL  # The server was killed, and with it the process.

    def end(self) -> None:
        """Ends the process, if it is running. From any thread, also while another one waits."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the process, if it is running, and the connection."""
        self.connection.close()
