"""ClientEngine: a session whose master is in another process: the graph goes there, and steps run there by number."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from thalweg import errors
from thalweg._native import core
from thalweg.dist.client import ClientNetwork
from thalweg.dist.partial_steps import RemotePartialStep
from thalweg.graph.dtypes import DType
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.step_graph import StepGraph
from thalweg.placement.costs import CostModel
from thalweg.runtime.devices import DeviceAttributes
from thalweg.runtime.engine import EngineStep

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


class _Sent(NamedTuple):
    """What the master has of a graph: its version, its changes, and its functions with their gradients' names."""

    version: int
    mutations: int
    functions: dict[str, str | None]


class ClientEngine:
    """The steps of one session, run by a master at an address."""

    def __init__(self, network: ClientNetwork, address: str, config: Any, tcp: bool = False) -> None:
        """Connects to the master; the session is made there with the first step."""
        self._network = network
        self._connection = network.connect(address, tcp)
        self._config = config.SerializeToString() if config is not None else b""
        self._session = ""
        self._sent: _Sent | None = None
        self._closed = False

    def _call(self, method: str, timeout_ms: int = 0, **fields: Any) -> Any:
        return self._network.call(self._connection, method, timeout_ms, **fields)

    def _send_graph(self, graph: Graph) -> None:
        """Brings the master's copy of the graph up to date: what was added, or everything if a node has changed."""
        functions = {name: function.grad_func_name for name, function in graph._functions.items()}
        now = _Sent(graph.version, graph._mutations, functions)
        sent = self._sent
        if now == sent:
            return
        adds = sent is not None and sent.mutations == now.mutations and sent.functions.items() <= functions.items()
        graph_def = graph.as_graph_def(from_version=sent.version if sent is not None and adds else None)
        if sent is not None and adds:
            new = [each for each in graph_def.library.function if each.signature.name not in sent.functions]
            del graph_def.library.function[:]
            graph_def.library.function.extend(new)
        data = graph_def.SerializeToString()
        if not self._session:
            self._session = self._call("create_session", graph=data, config=self._config).session
        else:
            self._call("extend_session", session=self._session, graph=data, adds=adds)
        self._sent = now

    def install(
        self,
        graph: Graph,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        precision: DType | None = None,
        piecewise: bool = False,
    ) -> EngineStep:
        """Has the master plan a step, and its tasks install it."""
        if self._closed:
            raise errors.CancelledError(None, None, "The session has been closed.")
        self._send_graph(graph)
        made = self._call(
            "make_step", session=self._session, feed=[each.name for each in feeds],
            fetch=[each.name for each in fetches], target=[each.name for each in targets],
            precision=precision.as_datatype_enum if precision is not None else 0, piecewise=piecewise,
        )  # fmt: skip
        if piecewise:
            return EngineStep(made.number, None, {})
        everything = (list(range(len(feeds))), list(range(len(fetches))))
        compiled = core.NetworkStep(
            self._network.native, [(each.name, each.dtype.base_dtype, each.shape) for each in feeds], len(fetches),
            None, ([], []), [(self._connection, made.number, *everything)], [],
        )  # fmt: skip
        return EngineStep(compiled, None, {}, made.number)

    def partial_step(self, step: EngineStep) -> Any:
        """Starts a step that is fed and fetched piece by piece."""
        return RemotePartialStep(self._call, self._session, step.compiled)

    def fill_partition_graphs(self, run_metadata: Any, step: EngineStep) -> None:
        """Adds the graphs that the devices of a step run, which the master has, to a RunMetadata."""
        found = self._call("partition_graphs", session=self._session, number=step.number)
        run_metadata.MergeFromString(found.run_metadata)

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices that the master can use."""
        if not self._session:
            self._session = self._call("create_session", graph=b"", config=self._config).session
        status = self._call("list_devices", session=self._session)
        return [DeviceAttributes(each.name, each.type, each.memory_limit, each.incarnation) for each in status.device]

    def memory_info(self, device: str) -> dict[str, int]:
        """The bytes that the tensors of a device of the master's task hold."""
        return dict(self._call("memory", device=device).value)

    def costs(self) -> CostModel:
        """The master has them, if anyone."""
        return CostModel()

    def measured_graph(self, compiled: Any) -> StepGraph | None:
        """Steps of other processes are not measured."""
        return None

    def close(self) -> None:
        """Ends the session at the master."""
        if self._closed:
            return
        self._closed = True
        if self._session and not self._connection.is_lost:
            try:
                self._call("close_session", 5000, session=self._session)
            except errors.OpError:
                pass  # A master that is gone keeps nothing.
        self._network.release(self._connection)

    def __del__(self) -> None:
        if hasattr(self, "_closed") and not sys.is_finalizing():
            self.close()
