"""Sessions of TensorFlow clients on a task: the methods of TensorFlow's MasterService, without the network.

Each method takes a request of `tensorflow_messages.py` and returns its response, or raises an OpError. A session of a
client is a session of this process with the task as its master: plans, caches, partial runs and errors are shared.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from thalweg import errors
from thalweg.dist.names import task_of
from thalweg.dist.task_server import TaskServer
from thalweg.dist.tensorflow_clients import TensorFlowClients
from thalweg.dist.tensorflow_messages import messages
from thalweg.graph.formats.extend_graph import extend_graph
from thalweg.graph.graph import Graph
from thalweg.graph.messages.tensor_proto import make_tensor_proto, read_only_array
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.platform import logging
from thalweg.runtime.native_errors import with_operation
from thalweg.runtime.session import Session

OnCancel = Callable[[Callable[[], None]], None]


class _Callable(NamedTuple):
    """What MakeCallable has named: feeds and fetches in the order of their values, and RunOptions."""

    feeds: list[Tensor]
    fetches: list[Tensor]
    targets: list[Operation]
    options: Any


class _TensorFlowSession:
    """One session of a client. Thread-safe."""

    def __init__(self, server: TaskServer, target: str, request: Any) -> None:
        self._server = server
        self.graph = Graph()
        self.version = 0
        self.lock = threading.Lock()  # guards `version`, `callables` and use
        self._calls = 0  # under way
        self._last_used = time.monotonic()
        self.callables: dict[int, _Callable] = {}
        self._numbers = itertools.count(1)
        config = request.config
        config.intra_op_parallelism_threads = 0  # The threads of this process belong to its own program.
        self.session = Session(target, self.graph, config)
        try:
            self.extend(request.graph_def)
        except BaseException:
            self.session.close()
            raise

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """A block during which the session does not count as idle."""
        with self.lock:
            self._calls += 1
        try:
            yield
        finally:
            with self.lock:
                self._calls -= 1
                self._last_used = time.monotonic()

    def idle_seconds(self) -> float:
        """How long no call has used the session."""
        with self.lock:
            return 0.0 if self._calls else time.monotonic() - self._last_used

    def extend(self, graph_def: Any) -> int:
        """Adds nodes to the graph: its new version."""
        with self.lock:
            try:
                extend_graph(self.graph, graph_def)
            except (ValueError, TypeError) as e:
                raise errors.InvalidArgumentError(None, None, f"The client's graph cannot be read: {e}") from None
            self.version += len(graph_def.node)
            return self.version

    def tensors(self, names: Sequence[str]) -> list[Tensor]:
        """The tensors of some names, as clients write them: 'x:0', or 'x' for its first output."""
        return [self._find(self.graph.get_tensor_by_name, name if ":" in name else f"{name}:0") for name in names]

    def operations(self, names: Sequence[str]) -> list[Operation]:
        """The operations of some names."""
        return [self._find(self.graph.get_operation_by_name, name) for name in names]

    @staticmethod
    def _find(look_up: Callable[[str], Any], name: str) -> Any:
        try:
            return look_up(name)
        except (KeyError, ValueError) as e:
            raise errors.NotFoundError(None, None, f"{name} is not in the graph of the session: {e}") from None

    def add_callable(self, options: Any) -> int:
        """Checks and keeps the feeds and fetches of a callable: its number."""
        if options.tensor_connection or options.feed_devices or options.fetch_devices:
            raise errors.UnimplementedError(
                None, None, "Callables with connected tensors or devices are not supported."
            )
        made = _Callable(
            self.tensors(options.feed), self.tensors(options.fetch), self.operations(options.target),
            options.run_options,
        )  # fmt: skip
        with self.lock:
            number = next(self._numbers)
            self.callables[number] = made
        return number

    def run(
        self,
        feeds: dict[Tensor, Any],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        options: Any,
        metadata: Any,
        on_cancel: OnCancel,
    ) -> list[Any]:
        """Runs a step: the TensorProtos of the fetches. `on_cancel` is given a function that ends the step."""
        # Start-up time: few servers have clients that trace steps.
        from thalweg.runtime import run_metadata

        distinct = list(dict.fromkeys(fetches))
        with self._as_op_errors():
            step, values = self.session._prepared([*distinct, *targets], feeds)
            timeout = options.timeout_in_ms or self.session._timeout_ms
            number = secrets.randbits(62) | 1
            on_cancel(lambda: self._server.network.cancel(number, "The client has cancelled the step."))
            if options.trace_level > 0:
                fetched, trace = step.compiled.run_traced(values, timeout, step_id=number)
                run_metadata.fill(metadata, step.compiled, trace, step.installed.planned)
            else:
                fetched = step.compiled.run(values, timeout, step_id=number)
            if options.output_partition_graphs:
                self.session._engine.fill_partition_graphs(metadata, step.installed)
            protos = dict(zip(distinct, map(_proto, distinct, fetched), strict=True))
        return [protos[tensor] for tensor in fetches]

    def set_up_partial_run(self, feeds: Sequence[Tensor], elements: Sequence[Any]) -> str:
        """Starts a step that is fed and fetched in pieces: its handle."""
        with self._as_op_errors():
            return self.session.partial_run_setup(list(elements), list(feeds))

    def run_partially(
        self, handle: str, feeds: dict[Tensor, Any], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> list[Any]:
        """Feeds and fetches some tensors of a partial run."""
        with self._as_op_errors():
            values = self.session.partial_run(handle, [*fetches, *targets], feeds)
            return list(map(_proto, fetches, values[: len(fetches)]))

    @contextlib.contextmanager
    def _as_op_errors(self) -> Iterator[None]:
        try:
            yield
        except errors.OpError as e:
            raise with_operation(e, self.graph) from None
        except RuntimeError as e:
            raise errors.CancelledError(None, None, str(e)) from None
        except (ValueError, TypeError, KeyError) as e:
            raise errors.InvalidArgumentError(None, None, str(e)) from None


class TensorFlowSessions:
    """The sessions that TensorFlow clients have on one task. Thread-safe.

    They belong to no connection, as those of a TensorFlow master: a session ends when its client closes it, has not
    used it for long, or with the task.
    """

    def __init__(self, server: TaskServer, target: str, limits: TensorFlowClients) -> None:
        """Takes the task, the target under which this process knows it, and limits for all sessions."""
        self._server = server
        self._target = target
        self._limits = limits
        self._lock = threading.Lock()
        self._sessions: dict[str, _TensorFlowSession] = {}
        self._starting = 0  # sessions that are being made
        self._closed = threading.Event()
        self._expiry = threading.Thread(target=self._expire, daemon=True, name="tensorflow-expiry")
        if limits.idle_seconds > 0:
            self._expiry.start()

    def _expire(self) -> None:
        """Closes sessions that have not been used for long, until the task ends."""
        limit = self._limits.idle_seconds
        while not self._closed.wait(min(limit / 4, 60.0)):
            with self._lock:
                idle = {name: session.idle_seconds() for name, session in self._sessions.items()}
                gone = {name: self._sessions.pop(name) for name, seconds in idle.items() if seconds > limit}
            for name, session in gone.items():
                logging.warning(
                    "%s closes session %s of a TensorFlow client, which has not been used for %.0f s "
                    "(TensorFlowClients.idle_seconds).", self._server.name, name, idle[name],
                )  # fmt: skip
                session.session.close()

    def close(self) -> None:
        """Ends all sessions and their steps."""
        self._closed.set()
        if self._expiry.ident is not None:
            self._expiry.join()
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.session.close()

    def answer(self, method: str, request: Any, on_cancel: OnCancel) -> Any:
        """Calls a method of the service.

        Args:
            method: Its name.
            request: Its request.
            on_cancel: Takes a function to call when the client gives up.
        """
        response = messages()[f"{method}Response"]()
        match method:
            case "CreateSession":
                self._create(request, response)
            case "Reset":
                self._server.reset(list(request.container), forward=True)
            case "ListDevices" if not request.session_handle:
                raise errors.InvalidArgumentError(None, None, "ListDevices needs a session.")
            case "RunStep" | "RunCallable":
                run = self._run_step if method == "RunStep" else self._run_callable
                with self._using(request.session_handle) as session:
                    run(session, request, response, on_cancel)
            case "CloseSession":
                self._close(request.session_handle)
            case _:
                with self._using(request.session_handle) as session:
                    self._answer_quickly(method, session, request, response)
        return response

    def _answer_quickly(self, method: str, session: _TensorFlowSession, request: Any, response: Any) -> None:
        """The methods that run no step."""
        match method:
            case "ExtendSession":
                response.new_graph_version = session.extend(request.graph_def)
            case "PartialRunSetup":
                elements = [*session.tensors(request.fetch), *session.operations(request.target)]
                response.partial_run_handle = session.set_up_partial_run(session.tensors(request.feed), elements)
            case "ListDevices":
                for name, kind, limit, incarnation in session.session.list_devices():
                    devices = response.local_device if task_of(name) == self._server.name else response.remote_device
                    devices.add(name=name, device_type=kind, memory_limit=limit, incarnation=incarnation)
            case "MakeCallable":
                response.handle = session.add_callable(request.options)
            case "ReleaseCallable":
                with session.lock:
                    session.callables.pop(request.handle, None)
            case _:
                raise errors.UnimplementedError(None, None, f"The method '{method}' is not known.")

    @contextlib.contextmanager
    def _using(self, handle: str) -> Iterator[_TensorFlowSession]:
        session = self._find(handle)
        with session.in_use():
            yield session

    def _find(self, handle: str) -> _TensorFlowSession:
        with self._lock:
            found = self._sessions.get(handle)
        if found is None:
            raise errors.AbortedError(
                None,
                None,
                f"Session {handle} is not found on {self._server.name}: it was closed, was not used for long, or the "
                "task restarted.",
            )
        return found

    def _create(self, request: Any, response: Any) -> None:
        with self._lock:
            count = len(self._sessions) + self._starting
            if count >= self._limits.most_sessions:
                message = (
                    f"{self._server.name} has {count} sessions of TensorFlow clients, and admits no more "
                    "(TensorFlowClients.most_sessions)."
                )
                logging.warning("%s", message)
                raise errors.ResourceExhaustedError(None, None, message)
            self._starting += 1
        try:
            session = _TensorFlowSession(self._server, self._target, request)
            response.session_handle = secrets.token_hex(8)
            response.graph_version = session.version
            with self._lock:
                self._sessions[response.session_handle] = session
        finally:
            with self._lock:
                self._starting -= 1

    def _close(self, handle: str) -> None:
        session = self._find(handle)
        with self._lock:
            self._sessions.pop(handle, None)
        session.session.close()

    def _run_step(self, session: _TensorFlowSession, request: Any, response: Any, on_cancel: OnCancel) -> None:
        try:
            names = [each.name for each in request.feed]
            feeds = dict(zip(session.tensors(names), [_array(each.tensor) for each in request.feed], strict=True))
            fetches, targets = session.tensors(request.fetch), session.operations(request.target)
            if request.partial_run_handle:
                values = session.run_partially(request.partial_run_handle, feeds, fetches, targets)
            else:
                values = session.run(feeds, fetches, targets, request.options, response.metadata, on_cancel)
        except errors.OpError as e:
            if not request.store_errors_in_response_body:
                raise
            response.status_code, response.status_error_message = e.error_code, text_of(e)
            return
        for name, value in zip(request.fetch, values, strict=True):
            response.tensor.add(name=name, tensor=value)

    def _run_callable(self, session: _TensorFlowSession, request: Any, response: Any, on_cancel: OnCancel) -> None:
        with session.lock:
            found = session.callables.get(request.handle)
        if found is None:
            raise errors.InvalidArgumentError(None, None, f"The session has no callable {request.handle}.")
        if len(request.feed) != len(found.feeds):
            raise errors.InvalidArgumentError(
                None, None, f"The callable has {len(found.feeds)} feeds, and {len(request.feed)} values were given."
            )
        feeds = dict(zip(found.feeds, map(_array, request.feed), strict=True))
        response.fetch.extend(
            session.run(feeds, found.fetches, found.targets, found.options, response.metadata, on_cancel)
        )


def text_of(error: errors.OpError) -> str:
    """An error's message in the form in which TensorFlow clients find the node that has failed."""
    source = error.op if error.op is not None else error.node_def
    name = getattr(source, "name", None)
    return error.message if name is None else f"{error.message}\n\t [[{{{{node {name}}}}}]]"


def _array(tensor: Any) -> Any:
    try:
        return read_only_array(tensor)
    except (ValueError, TypeError) as e:
        raise errors.InvalidArgumentError(None, None, f"A feed cannot be read: {e}") from None


def _proto(tensor: Tensor, value: Any) -> Any:
    return make_tensor_proto(value, tensor.dtype.base_dtype)
