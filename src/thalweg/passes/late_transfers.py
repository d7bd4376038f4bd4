"""Late transfers: large tensors reach another device no earlier than it helps (white paper, section 5.2).

`produce_late` compares the ASAP and the ALAP schedule of the whole step (`joint_schedule`), and lets the nodes that
compute a large tensor for another device, and for nothing else, wait until that device has come far enough. Devices of
one process share their memory: a Recv that waits would keep the tensor alive all the same.

An edge is only added from a node to one that starts later in the ALAP schedule, so no cycle can arise; part of the
slack is left unused, because costs are estimates. Steps with control flow stay as they are.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from thalweg.graph.definitions.op_registry import effect_of, flow_of
from thalweg.graph.dtypes import DType, float32
from thalweg.graph.op_effects import Effect
from thalweg.passes.joint_schedule import Costs, JointSchedule, transfer_key
from thalweg.passes.list_schedule import Key, Span
from thalweg.passes.partition import Partition, in_order, short_name, transfer_pair
from thalweg.passes.step_graph import Edge, Node, StepGraph, members_of

LARGE = 1 << 20  # bytes
_RESERVED_SLACK = 0.25
_LEAST_DELAY = 1e-4  # seconds
_FREE = frozenset({"Const", "_Arg"})

Parts = Mapping[str, Partition]


class Delays(NamedTuple):
    """Edges and nodes that let nodes of one device wait for nodes of others.

    Attributes:
        nodes: For each device, nodes to add: empty tensors (tokens) that are sent, and their `_Send`s and `_Recv`s.
        waits: For each device, pairs of a node and the node of the same device that it is to wait for.
    """

    nodes: dict[str, dict[str, Node]]
    waits: dict[str, list[tuple[str, str]]]


def produce_late(
    parts: Parts, costs: Costs, least: int = LARGE, incarnations: Mapping[str, int] | None = None
) -> Delays:
    """Lets nodes that compute a large tensor for another device wait until that device will need it soon.

    Args:
        parts: The parts of a step.
        costs: How long nodes run.
        least: From how many bytes on a tensor is large.
        incarnations: The incarnations of the devices, by name.
    """
    late = _Delaying(parts, costs, least, incarnations)
    for send in late.large_sends():
        recv = late.recv_of(send)
        cone = late.cone(send)
        heads = late.heads(cone)
        if recv is None or len(cone) < 2 or not heads or late.bytes_into(cone) >= late.size(send):
            continue
        span = Span(min(late.spans[key].earliest for key in heads), min(late.spans[key].latest for key in heads))
        before = late.last_before(recv[0], span, sum(late.joint.cost[key] for key in cone))
        if before is not None:
            signalled = late.signal(before, send[0])
            for key in heads:
                late.wait(key, signalled)
    return late.delays()


def with_tokens(part: Partition, tokens: Mapping[str, Node]) -> Partition:
    """The part with the nodes of Delays, which wait for nothing yet."""
    if not tokens:
        return part
    graph = part.graph
    ends = tuple(name for name, node in tokens.items() if node.op in ("_Send", "_Recv"))
    return part._replace(graph=StepGraph({**graph.nodes, **tokens}, graph.feeds, graph.fetches, graph.targets + ends))


def delayed(graph: StepGraph, waits: Iterable[tuple[str, str]]) -> StepGraph:
    """A part in which nodes wait for others. Both may have become parts of fused nodes meanwhile.

    A fused node has the name of its last member, on which all other members depend. So no cycle can arise from waiting
    for a node that is still there by its name; waits for a node that is not are left out.
    """
    holder = {member: name for name, node in graph.nodes.items() for member, _ in members_of(node)}
    nodes = dict(graph.nodes)
    for waiting, awaited in waits:
        name = waiting if waiting in nodes else holder.get(waiting)
        if name is not None and awaited in nodes and awaited != name:
            node = nodes[name]
            nodes[name] = node._replace(controls=tuple(dict.fromkeys((*node.controls, awaited))))
    return graph.with_nodes(in_order(nodes))


class _Delaying:
    """The schedule of some parts, and the waits and tokens that are added to them."""

    def __init__(self, parts: Parts, costs: Costs, least: int, incarnations: Mapping[str, int] | None = None) -> None:
        self._parts = parts
        self._incarnations = incarnations or {}
        self._least = least
        self._waits: dict[Key, list[str]] = {}
        self._added: dict[str, dict[str, Node]] = {device: {} for device in parts}
        self._large: list[Key] = []
        if not any(flow_of(node.op).is_primitive for part in parts.values() for node in part.graph.nodes.values()):
            self._large = [
                (device, name)
                for device, part in parts.items()
                for name, node in part.graph.nodes.items()
                if node.op == "_Send" and _bytes(part.graph, node.inputs[0], node.input_dtypes[0]) >= least
            ]
        if self._large:
            self.joint = JointSchedule(parts, costs)
            if not self.joint.complete:
                self._large = []
                return
            self.spans = self.joint.spans()
            self._results = {
                (device, name)
                for device, part in parts.items()
                for name in (*part.graph.targets, *(source for source, _ in part.graph.fetches))
                if part.graph.nodes[name].op != "_Send"
            }
            self._recvs = {transfer_key(node): key for key, node in self.joint.nodes.items() if node.op == "_Recv"}
            self._ends: dict[str, list[tuple[float, Key]]] = {device: [] for device in parts}
            for key in self.joint.order:
                if self.joint.nodes[key].op not in ("_Send", "_Recv", *_FREE):
                    self._ends[key[0]].append((self.spans[key].latest + self.joint.cost[key], key))
            for ends in self._ends.values():
                ends.sort()

    def large_sends(self) -> list[Key]:
        return self._large

    def recv_of(self, send: Key) -> Key | None:
        return self._recvs.get(transfer_key(self.joint.nodes[send]))

    def size(self, send: Key) -> int:
        node = self.joint.nodes[send]
        return _bytes(self._parts[send[0]].graph, node.inputs[0], node.input_dtypes[0])

    def cone(self, send: Key) -> set[Key]:
        """A Send, and the nodes of its device that compute for nothing else."""
        found = {send}
        stack = [send]
        outside: dict[Key, int] = {}  # how many readers of a node are not known to be in the cone
        while stack:
            for source in self.joint.sources[stack.pop()]:
                outside[source] = outside.get(source, len(self.joint.readers[source])) - 1
                if outside[source] or source[0] != send[0] or source in self._results:
                    continue
                node = self.joint.nodes[source]
                repeatable = not node.stateful or effect_of(node.op) is Effect.RANDOM
                if repeatable and node.op != "_Recv":
                    found.add(source)
                    stack.append(source)
        return found

    def heads(self, cone: set[Key]) -> list[Key]:
        """The first nodes of a cone, apart from those that cost nothing."""
        working = {key for key in cone if self.joint.nodes[key].op not in _FREE}
        return sorted(key for key in working if not any(each in working for each in self.joint.sources[key]))

    def bytes_into(self, cone: set[Key]) -> int:
        """The bytes of a cone's inputs, which stay in memory until it has run."""
        edges: dict[tuple[str, Edge], DType] = {}
        for device, name in cone:
            node = self.joint.nodes[device, name]
            for edge, dtype in zip(node.inputs, node.input_dtypes, strict=True):
                if (device, edge[0]) not in cone:
                    edges[device, edge] = dtype
        return sum(_bytes(self._parts[device].graph, edge, dtype) for (device, edge), dtype in edges.items())

    def last_before(self, device: str, span: Span, reserve: float) -> Key | None:
        """The last node of a device that ends in time for a successor with this span; None if waiting is no use."""
        slack = span.latest - span.earliest
        until = span.latest - max(_RESERVED_SLACK * slack, reserve)
        if until - span.earliest < _LEAST_DELAY:
            return None
        ends = self._ends[device]
        at = bisect.bisect_right(ends, until, key=lambda item: item[0]) - 1
        if at < 0 or ends[at][0] <= span.earliest:
            return None
        found = ends[at][1]
        return found if self.spans[found].latest < span.latest else None

    def wait(self, key: Key, name: str) -> None:
        self._waits.setdefault(key, []).append(name)

    def signal(self, key: Key, device: str) -> str:
        """A Recv on `device` that follows the node `key` of another device."""
        name = f"{key[1]}/_reached"
        recv = f"{name}/{short_name(device)}/_recv"
        if recv in self._added[device]:
            return recv
        empty = {"value": np.zeros([0], np.float32), "dtype": float32}
        token = Node(name, "Const", empty, (), (), key[0], (), (float32,))
        send, self._added[device][recv] = transfer_pair(
            (name, 0),
            float32,
            key[0],
            device,
            f"{name}/{short_name(device)}",
            incarnation=self._incarnations.get(key[0], 0),
        )
        self._added[key[0]].update({token.name: token, send.name: send})
        self.wait((key[0], token.name), key[1])
        return recv

    def delays(self) -> Delays:
        """The added nodes and waits."""
        waits: dict[str, list[tuple[str, str]]] = {device: [] for device in self._parts}
        for (device, name), awaited in self._waits.items():
            waits[device].extend((name, each) for each in awaited)
        return Delays(self._added, waits)


def _bytes(graph: StepGraph, edge: Edge, dtype: DType) -> int:
    """The size of a tensor as far as it is known before the step runs."""
    return int(graph.shape(edge).num_elements() or 0) * dtype.base_dtype.size
