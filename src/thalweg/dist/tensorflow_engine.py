"""TensorFlowEngine: a session whose steps run on a TensorFlow server: the graph goes there as a GraphDef."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg import errors
from thalweg.dist.tensorflow_channel import TensorFlowChannel
from thalweg.dist.tensorflow_graph import SentGraph
from thalweg.graph.dtypes import DType
from thalweg.graph.messages.tensor_proto import make_ndarray, make_tensor_proto
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.step_graph import StepGraph
from thalweg.passes.through_rendezvous import feed_name, fetch_name, target_name
from thalweg.placement.costs import CostModel
from thalweg.runtime.devices import DeviceAttributes
from thalweg.runtime.engine import EngineStep

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


class TensorFlowEngine:
    """The steps of one session, run by a TensorFlow master at an address."""

    def __init__(self, address: str, config: Any) -> None:
        """Connects to the master; the session is made there with the first step."""
        self._channel = TensorFlowChannel(address)
        self._address = address
        self._config = config
        self._lock = threading.Lock()  # guards everything below
        self._handle = ""
        self._version = 0
        self._sent: SentGraph | None = None
        self._closed = False

    @property
    def handle(self) -> str:
        """The session on the server; the latest one."""
        return self._handle

    def call(self, method: str, timeout_ms: int = 0, **fields: Any) -> Any:
        """Calls a method of the master for this session."""
        return self._channel.call(method, timeout_ms, session_handle=self._handle, **fields)

    def _create(self, graph_def: Any) -> None:
        made = self._channel.call("CreateSession", graph_def=graph_def, config=self._config)
        self._handle, self._version = made.session_handle, made.graph_version

    def _send_graph(self, graph: Graph, operations: Sequence[Operation]) -> None:
        """Sends what the server lacks. State of the session stays: it belongs to the server's tasks."""
        sent = self._sent
        missing = sent.missing(operations) if sent is not None and sent.graph is graph else None
        if sent is None or missing is None:  # The first step, or a node has changed since it was sent.
            if self._handle:
                self.call("CloseSession")
                self._handle = ""
            sent = self._sent = SentGraph(graph)
            missing = sent.missing(operations)
        if not self._handle:
            self._create(missing)
        elif missing.node or missing.library.function:
            extended = self.call("ExtendSession", graph_def=missing, current_graph_version=self._version)
            self._version = extended.new_graph_version
        sent.sent(missing)

    def install(
        self,
        graph: Graph,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        precision: DType | None = None,
        piecewise: bool = False,
    ) -> EngineStep:
        """Sends the part of the graph that the step needs; the server plans the step when it first runs."""
        with self._lock:
            if self._closed:
                raise errors.CancelledError(None, None, "The session has been closed.")
            self._send_graph(graph, [*(each.op for each in (*feeds, *fetches)), *targets])
        return EngineStep(_TensorFlowStep(self, feeds, fetches, targets), None, {})

    def partial_step(self, step: EngineStep) -> Any:
        """Starts a step that is fed and fetched in pieces."""
        return _PartialStep(self, step.compiled)

    def fill_partition_graphs(self, run_metadata: Any, step: EngineStep) -> None:
        """TensorFlow's protocol sends them with the answer of a step only."""

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices of all tasks of the server's cluster."""
        with self._lock:
            if not self._handle:
                self._create(None)
            found = self.call("ListDevices")
        return [
            DeviceAttributes(each.name, each.device_type, each.memory_limit, each.incarnation)
            for each in (*found.local_device, *found.remote_device)
        ]

    def memory_info(self, device: str) -> dict[str, int]:
        """TensorFlow's protocol does not say."""
        raise errors.UnimplementedError(None, None, f"The TensorFlow server does not say what {device} holds.")

    def costs(self) -> CostModel:
        """The server has them, if anyone."""
        return CostModel()

    def measured_graph(self, compiled: Any) -> StepGraph | None:
        """Steps of other processes are not measured."""
        return None

    def close(self) -> None:
        """Ends the session on the server."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._handle:
            try:
                self.call("CloseSession", 5000)
            except errors.OpError:
                pass  # A server that is gone keeps nothing.
        self._channel.close()

    def __del__(self) -> None:
        if hasattr(self, "_closed") and not sys.is_finalizing():
            self.close()


class _Trace:
    """What a traced step on a TensorFlow server has recorded."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata
        self.findings: list[tuple[str, str]] = []

    def step_stats(self) -> bytes:
        """A serialized StepStats."""
        stats: bytes = self._metadata.step_stats.SerializeToString()
        return stats


class _TensorFlowStep:
    """A step by the names of its feeds, fetches and targets; with the methods of the core's steps."""

    def __init__(
        self,
        engine: TensorFlowEngine,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
    ) -> None:
        self._engine = engine
        self.feeds = list(feeds)
        self.fetches = [tensor.name for tensor in fetches]
        self.targets = [op.name for op in targets]

    def _run(self, values: Sequence[Any], timeout_ms: int, trace_level: int = 0) -> tuple[list[Any], Any]:
        # Start-up time: protobuf is slow to import.
        from tensorboard.compat.proto.config_pb2 import RunOptions

        feed = [
            {"name": tensor.name, "tensor": _fed(tensor, value)}
            for tensor, value in zip(self.feeds, values, strict=True)
        ]
        # TensorFlow's masters leave the timeout to the client.
        response = self._engine.call(
            "RunStep", timeout_ms, feed=feed, fetch=self.fetches, target=self.targets,
            store_errors_in_response_body=True, options=RunOptions(timeout_in_ms=timeout_ms, trace_level=trace_level),
        )  # fmt: skip
        return _fetched(response, self.fetches), response.metadata

    def run(self, values: Sequence[Any], timeout_ms: int = 0, step_id: int = 0) -> list[Any]:
        """Runs the step: the values of its fetches."""
        return self._run(values, timeout_ms)[0]

    def run_one(self, values: Sequence[Any], timeout_ms: int = 0, step_id: int = 0) -> Any:
        """Runs a step with one fetch."""
        return self._run(values, timeout_ms)[0][0]

    def run_traced(
        self, values: Sequence[Any], timeout_ms: int = 0, numerics: bool = False, step_id: int = 0
    ) -> tuple[list[Any], _Trace]:
        """Runs the step: the values of its fetches, and the server's trace."""
        if numerics:
            self.run_checked(values, timeout_ms)
        fetched, metadata = self._run(values, timeout_ms, trace_level=3)
        return fetched, _Trace(metadata)

    def run_checked(self, values: Sequence[Any], timeout_ms: int = 0, step_id: int = 0) -> Any:
        """TensorFlow's servers do not look for NaNs."""
        raise errors.UnimplementedError(None, None, "Numeric checks are not possible on a TensorFlow server.")

    def run_repeatedly(self, should_stop: Callable[[], bool]) -> None:
        """Runs the step, which has no feeds, again and again until it fails or shall stop."""
        while not should_stop():
            self._run((), 0)


class _PartialStep:
    """A step that is fed and fetched piece by piece; with the methods of the core's partial steps."""

    def __init__(self, engine: TensorFlowEngine, step: _TensorFlowStep) -> None:
        self._engine = engine
        self._feeds = {feed_name(tensor.name): tensor for tensor in step.feeds}
        self._fetches = {fetch_name(name): name for name in step.fetches}
        self._targets = {target_name(name): name for name in step.targets}
        self._waiting: list[dict[str, Any]] = []
        self._run = engine.call(
            "PartialRunSetup", feed=[tensor.name for tensor in step.feeds], fetch=step.fetches, target=step.targets
        ).partial_run_handle

    def send(self, name: str, dtype: int, value: Any) -> None:
        """Feeds a tensor: it goes with the next fetch."""
        tensor = self._feeds[name]
        self._waiting.append({"name": tensor.name, "tensor": _fed(tensor, value)})

    def recv(self, name: str) -> Any:
        """Waits for a fetch or a target."""
        feed, self._waiting = self._waiting, []
        fetch = [self._fetches[name]] if name in self._fetches else []
        target = [self._targets[name]] if name in self._targets else []
        response = self._engine.call(
            "RunStep", feed=feed, fetch=fetch, target=target, partial_run_handle=self._run,
            store_errors_in_response_body=True,
        )  # fmt: skip
        return _fetched(response, fetch)[0] if fetch else None


def _fed(tensor: Tensor, value: Any) -> Any:
    dtype = tensor.dtype.base_dtype
    array = np.asarray(value, dtype.as_numpy_dtype) if dtype.size else value
    proto = make_tensor_proto(array, dtype)
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"Cannot feed value of shape {shape} for Tensor '{tensor.name}', which has shape '{tensor.shape}'"
        )
    return proto


def _fetched(response: Any, names: Sequence[str]) -> list[Any]:
    """Arrays, and scalars as NumPy's own, in the order of the names."""
    found = {each.name: each.tensor for each in response.tensor}
    return [make_ndarray(found[name])[()] for name in names]
