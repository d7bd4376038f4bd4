"""TensorFlowChannel: calls of a TensorFlow server's MasterService, and how to recognize such a server."""

from __future__ import annotations

import re
import socket
import time
from typing import Any

from thalweg import errors
from thalweg.dist.tensorflow_messages import CHANNEL_OPTIONS, METHODS, SERVICE, messages
from thalweg.platform import logging

_LOG_SECONDS = 10.0
_NODE = re.compile(r"\s*\[\[\{\{node ([^\s}]+)\}\}\]\]")
# What a client says first in HTTP/2, and a frame of no settings. Frames have 3 bytes of length, and then their type.
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS = 4


class TensorFlowChannel:
    """A gRPC connection to the master at an address. Thread-safe."""

    def __init__(self, address: str) -> None:
        """Waits until the master is there, and says so in the log."""
        import grpc  # Start-up time: grpc is slow to import.

        self._grpc = grpc
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._methods = {
            method: self._channel.unary_unary(
                f"/{SERVICE}/{method}", messages()[f"{method}Request"].SerializeToString,
                messages()[f"{method}Response"].FromString,
            )
            for method in METHODS
        }  # fmt: skip
        try:
            self._wait(address)
        except BaseException:
            self.close()
            raise

    def _wait(self, address: str) -> None:
        ready = self._grpc.channel_ready_future(self._channel)
        said = time.monotonic()
        while True:
            try:
                ready.result(1.0)
                return
            except self._grpc.FutureTimeoutError:
                if time.monotonic() - said > _LOG_SECONDS:
                    said = time.monotonic()
                    logging.info("Still waiting for the TensorFlow master at %s.", address)

    def call(self, method: str, timeout_ms: int = 0, **fields: Any) -> Any:
        """Calls a method: its response.

        Raises:
            errors.OpError: As the server says, with the node that has failed if it names one.
        """
        request = messages()[f"{method}Request"](**fields)
        try:
            response = self._methods[method](request, timeout=timeout_ms / 1000 if timeout_ms else None)
        except self._grpc.RpcError as e:
            raise _error(e.code().value[0], e.details() or "") from None
        except ValueError as e:  # The channel is closed.
            raise errors.CancelledError(None, None, str(e)) from None
        if getattr(response, "status_code", 0):
            raise _error(response.status_code, response.status_error_message)
        return response

    def close(self) -> None:
        """Ends the connection, and calls that wait."""
        self._channel.close()


def _error(code: int, message: str) -> errors.OpError:
    found = _NODE.search(message)
    node = errors.FailedNode(found[1], "") if found else None
    return errors.error_from_code(code, _NODE.sub("", message), node_def=node)


def speaks_http2(address: str, timeout: float = 2.0) -> bool:
    """Whether a server of HTTP/2, as gRPC uses it, answers at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
            connection.sendall(_HTTP2_GREETING)
            answer = b""
            while len(answer) < 4:
                piece = connection.recv(64)
                if not piece:
                    return False
                answer += piece
            return answer[3] == _SETTINGS
    except (OSError, ValueError):
        return False
