"""TensorFlowMaster: lets unmodified TensorFlow clients use a task as their master, by TensorFlow's MasterService.

A gRPC server listens at a Unix socket; the core passes connections on to it that come to the
task's port and begin as HTTP/2. TensorFlow's protocol has no place for a key: a task speaks it only when asked to.
"""

from __future__ import annotations

import functools
import secrets
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from thalweg import errors
from thalweg.dist.task_server import TaskServer
from thalweg.dist.tensorflow_clients import TensorFlowClients
from thalweg.dist.tensorflow_messages import CHANNEL_OPTIONS, METHODS, SERVICE, messages
from thalweg.dist.tensorflow_sessions import TensorFlowSessions, text_of

_MOST_CALLS = 1024


class TensorFlowMaster:
    """The gRPC server of one task."""

    def __init__(self, server: TaskServer, limits: TensorFlowClients) -> None:
        """Opens the socket; call it before the task listens. Clients are answered after `start`."""
        import grpc  # Start-up time: grpc is slow to import.

        self._task = server
        self._limits = limits
        self._grpc = grpc
        self._sessions: TensorFlowSessions | None = None
        self._server = grpc.server(_Threads(), options=CHANNEL_OPTIONS, maximum_concurrent_rpcs=_MOST_CALLS)
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                functools.partial(self._answer, method), messages()[f"{method}Request"].FromString, _serialized
            )
            for method in METHODS
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        name = f"thalweg.{secrets.token_hex(16)}"  # An abstract name leaves no file behind.
        self._server.add_insecure_port(f"unix-abstract:{name}")
        server.network.forward_http2(name)

    def start(self, target: str) -> None:
        """Answers clients from now on, with a master that this process knows under a target."""
        self._sessions = TensorFlowSessions(self._task, target, self._limits)
        self._server.start()

    def close(self) -> None:
        """Ends all sessions of clients, and the server."""
        if self._sessions is not None:
            self._sessions.close()
        self._server.stop(None).wait()

    def _answer(self, method: str, request: Any, context: Any) -> Any:
        assert self._sessions is not None
        call = _Call()
        context.add_callback(call.end)
        try:
            try:
                return self._sessions.answer(method, request, call.on_cancel)
            finally:
                call.finished()
        except errors.OpError as e:
            code, text = e.error_code, text_of(e)
        except Exception as e:
            code, text = errors.INTERNAL, f"{type(e).__name__}: {e}"
        codes = {each.value[0]: each for each in self._grpc.StatusCode}
        context.abort(codes.get(code, self._grpc.StatusCode.UNKNOWN), text)


class _Call:
    """Ends the step of a call when its client is gone before the answer. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] | None = None
        self._is_over = False

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Keeps the function that ends the step; calls it at once if the client is gone already."""
        with self._lock:
            self._cancel = cancel
            is_over = self._is_over
        if is_over:
            cancel()

    def finished(self) -> None:
        """The step has ended by itself."""
        with self._lock:
            self._cancel = None

    def end(self) -> None:
        """The call is over: answered, or given up by the client."""
        with self._lock:
            self._is_over = True
            cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()


class _Threads(futures.Executor):
    """A thread for each call: steps wait in queues for as long as they like, and must not keep others from running.

    The threads of a ThreadPoolExecutor would also keep the process from ending.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Runs a function in a thread of its own."""
        future: futures.Future[Any] = futures.Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as e:
                future.set_exception(e)

        threading.Thread(target=run, daemon=True, name="tensorflow-client").start()
        return future


def _serialized(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized
