"""The parts of a step as one: when each node can and must run, over all devices (white paper, section 5.2).

The parts are joined where a `_Send` and a `_Recv` meet. Two schedules of the whole are simulated, in which each device
does one thing at a time: one runs every node as soon as it can (ASAP), the other as late as it can without ending the
step later (ALAP). Nothing here knows about one process.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from thalweg.passes.partition import Partition
from thalweg.passes.step_graph import Node, members_of

# A node of one part, by device and name.
Key = tuple[str, str]
# How long a node of the program runs, by its name.
Costs = Mapping[str, float]

_UNKNOWN = 1e-7  # seconds
_INSTANT = frozenset({"_Send", "_Recv", "_Arg", "Const"})  # These take no time of their device.
URGENT = 1e12
_CRITICAL = 0.9  # Ways of nearly the greatest length count as critical: costs are estimates.
_MOST = 1e11


class Span(NamedTuple):
    """When a node starts if everything runs as early, and if everything runs as late as it can."""

    earliest: float
    latest: float


class JointSchedule:
    """What is known about the order of nodes on all devices. The graph must not change meanwhile."""

    def __init__(self, parts: Mapping[str, Partition], costs: Costs) -> None:
        """Joins the parts."""
        self.nodes: dict[Key, Node] = {
            (device, name): node for device, part in parts.items() for name, node in part.graph.nodes.items()
        }
        self.cost = {key: _cost(node, costs) for key, node in self.nodes.items()}
        self.readers: dict[Key, list[Key]] = {key: [] for key in self.nodes}
        self.sources: dict[Key, list[Key]] = {key: [] for key in self.nodes}
        sends = {transfer(node): key for key, node in self.nodes.items() if node.op == "_Send"}
        for key, node in self.nodes.items():
            for name in dict.fromkeys((*node.controls, *(source for source, _ in node.inputs))):
                source = key[0], name
                if not (node.op == "Merge" and self.nodes[source].op == "NextIteration"):
                    self._join(source, key)
            if node.op == "_Recv" and transfer(node) in sends:
                self._join(sends[transfer(node)], key)
        self.order = self._ordered()
        self.rest = self._ways(reversed(self.order), self.readers)
        self.before = self._ways(self.order, self.sources)

    def _join(self, source: Key, reader: Key) -> None:
        self.readers[source].append(reader)
        self.sources[reader].append(source)

    def _ordered(self) -> list[Key]:
        waiting = {key: len(sources) for key, sources in self.sources.items()}
        order = [key for key, count in waiting.items() if count == 0]
        for key in order:
            for reader in self.readers[key]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    order.append(reader)
        return order

    def _ways(self, order: Iterable[Key], neighbours: Mapping[Key, list[Key]]) -> dict[Key, float]:
        """For each node, how long the longest way is that begins (or ends) with it."""
        ways: dict[Key, float] = {}
        for key in order:
            ways[key] = self.cost[key] + max((ways.get(each, 0.0) for each in neighbours[key]), default=0.0)
        return ways

    @property
    def complete(self) -> bool:
        """Whether the parts could be brought into an order."""
        return len(self.order) == len(self.nodes)

    def spans(self) -> dict[Key, Span]:
        """The starts of all nodes in both schedules, on devices that do one thing at a time."""
        early = _simulated(self.order, self.sources, self.readers, self.cost, lambda key: -self.rest[key])
        end = max((early[key] + self.cost[key] for key in self.order), default=0.0)
        backwards = list(reversed(self.order))
        late = _simulated(backwards, self.readers, self.sources, self.cost, lambda key: -self.before[key])
        return {key: Span(early[key], max(end - late[key] - self.cost[key], early[key])) for key in self.order}


def priorities(parts: Mapping[str, Partition], costs: Costs) -> dict[str, dict[str, float]]:
    """For each part, how much its nodes are to be preferred: the time from their start to the end of the whole step.

    A node of a critical path that leads to a Send counts as urgent (`URGENT` is added): another device waits for it.
    """
    joint = JointSchedule(parts, costs)
    if not joint.complete:
        return {}
    length = max(joint.rest.values(), default=0.0)
    awaited: set[Key] = set()
    found: dict[str, dict[str, float]] = {device: {} for device in parts}
    for key in reversed(joint.order):
        node = joint.nodes[key]
        if node.op == "_Send" or any(reader in awaited and reader[0] == key[0] for reader in joint.readers[key]):
            awaited.add(key)
        way = joint.rest[key] + joint.before[key] - joint.cost[key]
        urgent = URGENT if key in awaited and way >= _CRITICAL * length else 0.0
        found[key[0]][key[1]] = urgent + min(joint.rest[key] * 1e9, _MOST)
    return found


def transfer(node: Node) -> tuple[bytes, bytes, bytes]:
    """What a Send and its Recv have in common."""
    attrs = node.attrs
    return attrs["send_device"], attrs["recv_device"], attrs["tensor_name"]


def _cost(node: Node, costs: Costs) -> float:
    if node.op in _INSTANT:
        return 0.0
    return sum(costs.get(name, _UNKNOWN) for name, _ in members_of(node))


def _simulated(
    order: list[Key], sources: Mapping[Key, list[Key]], readers: Mapping[Key, list[Key]], cost: Mapping[Key, float],
    rank: Callable[[Key], float],
) -> dict[Key, float]:  # fmt: skip
    """Starts of nodes in a list schedule: each device takes the best ranked of the nodes that are ready."""
    waiting = {key: len(sources[key]) for key in order}
    free: dict[str, float] = dict.fromkeys((key[0] for key in order), 0.0)
    coming: dict[str, list[tuple[float, Key]]] = {device: [] for device in free}  # by the time when they are ready
    ready: dict[str, list[tuple[float, Key]]] = {device: [] for device in free}  # by rank
    start: dict[Key, float] = {}
    ready_at = dict.fromkeys(order, 0.0)

    def arrive(key: Key) -> None:
        """Nothing is missing any more; what takes no time of the device happens at once."""
        stack = [key]
        while stack:
            key = stack.pop()
            if cost[key] > 0:
                heapq.heappush(coming[key[0]], (ready_at[key], key))
            else:
                start[key] = ready_at[key]
                stack.extend(finish(key))

    def finish(key: Key) -> list[Key]:
        end = start[key] + cost[key]
        for reader in readers[key]:
            ready_at[reader] = max(ready_at[reader], end)
            waiting[reader] -= 1
        return [reader for reader in dict.fromkeys(readers[key]) if waiting[reader] == 0]

    def next_start(device: str) -> float:
        if ready[device]:
            return free[device]
        return max(free[device], coming[device][0][0]) if coming[device] else math.inf

    for key in order:
        if not sources[key]:
            arrive(key)
    while (device := min(free, key=next_start, default=None)) is not None:
        at = next_start(device)
        if at == math.inf:
            break
        while coming[device] and coming[device][0][0] <= at:
            _, key = heapq.heappop(coming[device])
            heapq.heappush(ready[device], (rank(key), key))
        _, key = heapq.heappop(ready[device])
        start[key] = at
        free[device] = at + cost[key]
        for reader in finish(key):
            arrive(reader)
    return start
