"""`python -m thalweg.dist.launch.fork_server NAME`: starts the processes of tasks for launchers that must not fork.

A Ray actor has threads, so that a copy of it would not work. This process has imported Thalweg, has no threads, and
serves all actors of a launch on a host: their tasks start in milliseconds and share memory and addresses, as those of
`LocalLauncher` do. With more tasks than cores, scalar steps of separate interpreters took 1.2 times as long; less so
without the randomization of addresses, so that caches and predicted branches of a core are the probable reason.

It listens at a Unix socket in the abstract namespace, for processes of its own user. Each client has a connection, and
at most one process, which ends with the connection. The server ends with the last connection.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
import struct
import sys
import time
from typing import Any, Final, NamedTuple

from thalweg.dist.launch import child_process, process_sessions

# The length of a request, which is a `Request` in JSON; a file descriptor for the output comes with it.
LENGTH: Final = struct.Struct("<Q")
# What the server says: a kind, and a number.
ANSWER: Final = struct.Struct("<Bq")
STARTED, FAILED, EXITED = 1, 2, 3  # a process id, an errno, an exit code
# A request that takes more has a mistake in it: an environment is far smaller.
_LONGEST: Final = 64 << 20
_FIRST_CLIENT_SECONDS: Final = 30.0
# A client that sends half of a request keeps the others waiting for no longer.
_REQUEST_SECONDS: Final = 10.0
_CREDENTIALS: Final = struct.Struct("=iII")


class Request(NamedTuple):
    """What to start."""

    name: str
    command: list[str]
    environment: dict[str, str]
    fresh: bool = False


class _Process(NamedTuple):
    pid: int
    pidfd: int


def address_of(name: str) -> str:
    """The address of the socket of a server: in the abstract namespace."""
    return f"\0thalweg.fork.{name}"


def is_own_user(connection: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket runs as this user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.getuid())


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes; EOFError if the connection ends before."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError("the connection has ended")
        data += more
    return data


class ForkServer:
    """The server behind a listening socket. It has no threads."""

    def __init__(self, listening: socket.socket) -> None:
        """Imports what tasks need."""
        self._listening = listening
        self._keep = child_process.preload() - {listening.fileno()}
        self._guard = process_sessions.Guard()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Process | None] = {}

    def serve(self) -> None:
        """Serves until the last client has gone, or none has come for a while."""
        deadline: float | None = time.monotonic() + _FIRST_CLIENT_SECONDS
        while self._clients or (deadline is not None and time.monotonic() < deadline):
            for key, _ in self._selector.select(None if deadline is None else 1.0):
                client: socket.socket | None = key.data
                if client is None:
                    if self._accept():
                        deadline = None
                elif client not in self._clients:
                    continue  # It has gone in this very round.
                elif key.fd == client.fileno():
                    self._read(client)
                else:
                    self._exited(client)
        self._guard.close()

    def _accept(self) -> bool:
        connection, _ = self._listening.accept()
        if not is_own_user(connection):
            connection.close()
            return False
        connection.settimeout(_REQUEST_SECONDS)
        self._clients[connection] = None
        self._selector.register(connection, selectors.EVENT_READ, connection)
        return True

    def _read(self, connection: socket.socket) -> None:
        try:
            request, output = _receive(connection)
        except (EOFError, OSError, ValueError, TypeError):
            self._drop(connection)
            return
        try:
            if self._clients[connection] is not None:
                raise OSError(errno.EBUSY, "the client has a process already")
            pid = child_process.start(request.command, request.environment, output, request.name, self._keep,
                                      request.fresh)  # fmt: skip
        except OSError as e:
            self._answer(connection, FAILED, e.errno or errno.EIO)
            return
        finally:
            os.close(output)
        self._guard.add(pid)
        process = _Process(pid, os.pidfd_open(pid))
        self._clients[connection] = process
        self._selector.register(process.pidfd, selectors.EVENT_READ, connection)
        self._answer(connection, STARTED, pid)

    def _exited(self, connection: socket.socket) -> None:
        code = self._end(connection)
        if code is not None:
            self._answer(connection, EXITED, code)

    def _answer(self, connection: socket.socket, kind: int, number: int) -> None:
        # If the client is gone, its socket tells so, too.
        with contextlib.suppress(OSError):
            connection.sendall(ANSWER.pack(kind, number))

    def _drop(self, connection: socket.socket) -> None:
        self._end(connection)
        del self._clients[connection]
        self._selector.unregister(connection)
        connection.close()

    def _end(self, connection: socket.socket) -> int | None:
        """Sees to it that nothing of a client's process is left: its exit code."""
        process = self._clients[connection]
        if process is None:
            return None
        process_sessions.kill(process.pid)  # Before it is reaped: until then, no other process can get its number.
        _, status = os.waitpid(process.pid, 0)
        self._selector.unregister(process.pidfd)
        os.close(process.pidfd)
        self._guard.remove(process.pid)
        self._clients[connection] = None
        return os.waitstatus_to_exitcode(status)


def _receive(connection: socket.socket) -> tuple[Request, int]:
    """A request, and the file descriptor for the output of the process."""
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH.size, 1)
    try:
        if not head:
            raise EOFError("the client has gone")
        head += read_exactly(connection, LENGTH.size - len(head))
        (length,) = LENGTH.unpack(head)
        if length > _LONGEST or len(descriptors) != 1:
            raise ValueError(f"a request of {length} bytes with {len(descriptors)} descriptors")
        fields: dict[str, Any] = json.loads(read_exactly(connection, length))
        return Request(**fields), descriptors[0]
    except BaseException:
        for each in descriptors:
            os.close(each)
        raise


def main() -> None:
    """Becomes the server of a name, unless there is one. The caller goes on when the socket is there."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(address_of(sys.argv[1]))
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            return
        raise
    listening.listen(512)
    if os.fork():
        os._exit(0)
    os.setsid()
    # Ray runs its workers, and so this process, with a niceness of 15: every other process would come first.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(0, os.getpriority(os.PRIO_PROCESS, 0)))
    ForkServer(listening).serve()


if __name__ == "__main__":
    main()
