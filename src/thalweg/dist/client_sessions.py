"""Sessions of clients in other processes: their graphs, and the steps that they have asked for."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

from thalweg import errors
from thalweg.dist.master_engine import MasterEngine
from thalweg.dist.messages import messages
from thalweg.dist.partial_steps import PartialSteps
from thalweg.dist.task_server import TaskServer
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.formats.extend_graph import extend_graph
from thalweg.graph.graph import Graph
from thalweg.passes.step_graph import StepGraph
from thalweg.runtime import partition_graphs
from thalweg.runtime.engine import EngineStep


@dataclass
class _ClientSession:
    """A client's session. `lock` guards its graph and its steps."""

    connection: Any
    engine: MasterEngine
    graph: Graph
    lock: threading.Lock = field(default_factory=threading.Lock)
    steps: dict[int, dict[str, StepGraph]] = field(default_factory=dict)  # the parts of each, by device
    piecewise: dict[int, EngineStep] = field(default_factory=dict)  # steps for partial runs, by number
    partial: PartialSteps = field(default_factory=PartialSteps)


class ClientSessions:
    """The sessions that clients have on one task. Thread-safe."""

    def __init__(self, server: TaskServer) -> None:
        """Answers the calls of clients from now on."""
        self._server = server
        self._lock = threading.Lock()
        self._sessions: dict[str, _ClientSession] = {}
        server.add_methods(
            {
                "create_session": self._create,
                "extend_session": self._extend,
                "make_step": self._make_step,
                "release_step": self._release_step,
                "partition_graphs": self._partition_graphs,
                "list_devices": self._list_devices,
                "close_session": self._close,
                "start_partial": self._start_partial,
                "feed_partial": self._feed_partial,
                "fetch_partial": self._fetch_partial,
                "end_partial": self._end_partial,
            }
        )
        server.on_loss(self._lost)

    def _create(self, connection: Any, request: Any) -> Any:
        config = _read_config(request.config) if request.config else None
        graph = _read_graph(request.graph)
        session = _ClientSession(connection, MasterEngine(self._server, config), graph)
        name = secrets.token_hex(8)
        with self._lock:
            self._sessions[name] = session
        if connection.is_lost:  # Its loss may have been reported before the session was known.
            self._lost(connection, "")
        return messages()["Created"](session=name)

    def _find(self, connection: Any, name: str) -> _ClientSession:
        with self._lock:
            found = self._sessions.get(name)
        if found is None or found.connection is not connection:
            raise errors.AbortedError(
                None, None, f"Session {name} is not known to {self._server.name}: it was closed, or the task restarted."
            )
        return found

    def _extend(self, connection: Any, request: Any) -> Any:
        session = self._find(connection, request.session)
        if request.adds:
            with session.lock:
                _read_into(session.graph, request.graph)
        else:
            graph = _read_graph(request.graph)
            with session.lock:
                session.graph = graph
        return messages()["Empty"]()

    def _make_step(self, connection: Any, request: Any) -> Any:
        session = self._find(connection, request.session)
        with session.lock:
            graph = session.graph
            try:
                feeds = [graph.get_tensor_by_name(name) for name in request.feed]
                fetches = [graph.get_tensor_by_name(name) for name in request.fetch]
                targets = [graph.get_operation_by_name(name) for name in request.target]
            except (KeyError, ValueError) as e:
                raise errors.NotFoundError(None, None, f"The session's graph lacks what was asked for: {e}") from None
            precision = as_dtype(request.precision) if request.precision else None
            with graph._lock:
                step = session.engine.install(graph, feeds, fetches, targets, precision, request.piecewise)
            number = self._server.network.add(step.compiled)
            session.steps[number] = step.parts
            if request.piecewise:
                session.piecewise[number] = step
        return messages()["Registered"](number=number)

    def _release_step(self, connection: Any, request: Any) -> Any:
        session = self._find(connection, request.session)
        with session.lock:
            for number in set(request.number) & set(session.steps):
                del session.steps[number]
                session.piecewise.pop(number, None)
                self._server.network.remove(number)
        return messages()["Empty"]()

    def _partition_graphs(self, connection: Any, request: Any) -> Any:
        from tensorboard.compat.proto.config_pb2 import RunMetadata  # Start-up time: protobuf is slow to import.

        session = self._find(connection, request.session)
        with session.lock:
            parts = session.steps.get(request.number)
        if parts is None:
            raise errors.InvalidArgumentError(None, None, f"The session has no step {request.number}.")
        metadata = RunMetadata()
        partition_graphs.fill(metadata, parts)
        return messages()["RunMetadataDef"](run_metadata=metadata.SerializeToString())

    def _start_partial(self, connection: Any, request: Any) -> Any:
        session = self._find(connection, request.session)
        with session.lock:
            step = session.piecewise.get(request.number)
        if step is None:
            raise errors.InvalidArgumentError(None, None, f"The session has no step {request.number} for partial runs.")
        return messages()["Registered"](number=session.partial.add(lambda: session.engine.partial_step(step)))

    def _feed_partial(self, connection: Any, request: Any) -> Any:
        self._find(connection, request.session).partial.feed(request.number, request.name, request.value)
        return messages()["Empty"]()

    def _fetch_partial(self, connection: Any, request: Any) -> Any:
        return self._find(connection, request.session).partial.fetch(request.number, request.name)

    def _end_partial(self, connection: Any, request: Any) -> Any:
        self._find(connection, request.session).partial.end(request.number)
        return messages()["Empty"]()

    def _list_devices(self, connection: Any, request: Any) -> Any:
        session = self._find(connection, request.session)
        status = messages()["Status"]()
        for name, kind, limit, incarnation in session.engine.list_devices():
            status.device.add(name=name, type=kind, memory_limit=limit, incarnation=incarnation)
        return status

    def _close(self, connection: Any, request: Any) -> Any:
        self._find(connection, request.session)
        with self._lock:
            session = self._sessions.pop(request.session, None)
        if session is not None:
            self._end(session)
        return messages()["Empty"]()

    def _lost(self, connection: Any, why: str) -> None:
        with self._lock:
            gone = [name for name, session in self._sessions.items() if session.connection is connection]
            sessions = [self._sessions.pop(name) for name in gone]
        for session in sessions:
            self._end(session)

    def _end(self, session: _ClientSession) -> None:
        session.partial.close()
        session.engine.close()
        with session.lock:
            for number in session.steps:
                self._server.network.remove(number)
            session.steps.clear()


def _read_config(data: bytes) -> Any:
    # Start-up time: protobuf is slow to import.
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.config_pb2 import ConfigProto

    try:
        return ConfigProto.FromString(data)
    except DecodeError as e:
        raise errors.InvalidArgumentError(None, None, f"The client's configuration cannot be read: {e}") from None


def _read_graph(data: bytes) -> Graph:
    graph = Graph()
    _read_into(graph, data)
    return graph


def _read_into(graph: Graph, data: bytes) -> None:
    """Adds the nodes of a client's GraphDef to a graph, all or none."""
    # Start-up time: protobuf is slow to import.
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    try:
        extend_graph(graph, GraphDef.FromString(data))
    except (DecodeError, ValueError, TypeError) as e:
        raise errors.InvalidArgumentError(None, None, f"The client's graph cannot be read: {e}") from None
