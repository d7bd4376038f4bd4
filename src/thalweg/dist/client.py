"""ClientNetwork: the connections of a process that is no task to the masters it uses."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.dist.messages import METHODS, parsed, request_of
from thalweg.dist.tensorflow_channel import speaks_http2
from thalweg.dist.tls import TLSOptions
from thalweg.dist.tls_relay import TLSRelay
from thalweg.platform import logging

_LOG_SECONDS = 10.0


class OtherProtocolError(errors.UnimplementedError):
    """A server does not speak Thalweg's protocol, but HTTP/2, as TensorFlow's servers do."""


class ClientNetwork:
    """One endpoint for all sessions of this process with masters elsewhere. Thread-safe."""

    def __init__(self, key: bytes, tls: TLSOptions | None = None) -> None:
        """Takes the cluster's key, and the certificates for encrypted connections.

        Raises:
            ValueError: If the certificates cannot be used.
        """
        encrypt = TLSRelay(tls).encrypt if tls is not None else None
        self.native = core.NetworkTask("", secrets.randbits(63) | 1, "thalweg", key, _refuse, _ignore, encrypt=encrypt)
        self._is_encrypted = tls is not None
        self._lock = threading.Lock()
        self._connections: dict[tuple[str, bool], Any] = {}  # by address, and whether by TCP in any case
        self._users: dict[int, int] = {}  # how many sessions use a connection, by its number

    def connect(self, address: str, tcp: bool = False) -> Any:
        """A connection to a master, until `release`; waits until the master is there, and says so in the log.

        Args:
            address: Where the master is: "host:port".
            tcp: Whether to use TCP also on this host.

        Raises:
            errors.UnauthenticatedError: If the master does not accept the key or the certificate, or has no valid one.
            OtherProtocolError: If it may be a server of TensorFlow.
        """
        said = time.monotonic()
        while True:
            with self._lock:
                found = self._connections.get((address, tcp))
                try:
                    if found is None or found.is_lost:
                        found = self._connections[address, tcp] = self.native.connect(address, 5000, tcp)
                    self._users[found.number] = self._users.get(found.number, 0) + 1
                    return found
                except (errors.UnavailableError, errors.DeadlineExceededError) as e:
                    reason = e.message
            if not self._is_encrypted and speaks_http2(address):
                raise OtherProtocolError(None, None, f"The server at {address} speaks HTTP/2: {reason}")
            if time.monotonic() - said > _LOG_SECONDS:
                said = time.monotonic()
                logging.info("Still waiting for the master at %s: %s", address, reason)
            time.sleep(0.05)

    def release(self, connection: Any) -> None:
        """Takes one `connect` back; a connection that no session uses is closed."""
        with self._lock:
            left = self._users.pop(connection.number) - 1
            if left > 0:
                self._users[connection.number] = left
                return
            self._connections = {place: each for place, each in self._connections.items() if each is not connection}
        connection.close("no session uses it any more")

    def call(self, connection: Any, method: str, timeout_ms: int = 0, **fields: Any) -> Any:
        """Calls a method of a master: the answer."""
        return parsed(
            METHODS[method][1], self.native.call(connection, method, request_of(method, **fields), timeout_ms)
        )


def _refuse(connection: Any, method: str, payload: bytes) -> bytes:
    raise errors.UnimplementedError(None, None, "A client has no methods.")


def _ignore(connection: Any, why: str) -> None:
    """Whoever waits for an answer is told by the core."""
