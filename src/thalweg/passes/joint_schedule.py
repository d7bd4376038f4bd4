"""The parts of a step as one: when each node can and must run, over all devices (white paper, section 5.2).

The parts are joined where a `_Send` and a `_Recv` meet. Two schedules of the whole are simulated, in which each device
does one thing at a time: one runs every node as soon as it can (ASAP), the other as late as it can without ending the
step later (ALAP). Nothing here knows about one process.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from thalweg.passes.partition import Partition
from thalweg.passes.step_graph import Node, members_of

# A node of one part, by device and name.
Key = tuple[str, str]
# How long a node of the program runs, by its name.
Costs = Mapping[str, float]

_UNKNOWN = 1e-7  # seconds
_INSTANT = frozenset({"_Send", "_Recv", "_Arg", "Const"})  # These take no time of their device.
_USED_SLACK = 0.5  # Costs are estimates: the rest is left for what takes longer.
_SOON_FREED = 2


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
        early = _simulated(self.order, self.sources, self.readers, self.cost, _ByRank(self.rest))
        end = max((early[key] + self.cost[key] for key in self.order), default=0.0)
        backwards = list(reversed(self.order))
        late = _simulated(backwards, self.readers, self.sources, self.cost, _ByRank(self.before))
        return {key: Span(early[key], max(end - late[key] - self.cost[key], early[key])) for key in self.order}

    def planned(self) -> dict[Key, float]:
        """The starts of all nodes in the schedule that is to be run."""
        choice = _ByDeadline(self, {key: span.latest for key, span in self.spans().items()})
        return _simulated(self.order, self.sources, self.readers, self.cost, choice)

    def freeing(self) -> set[Key]:
        """The nodes that memory waits for: nobody reads their results, or only nodes like that."""
        kept: dict[Key, int] = {}
        for key in reversed(self.order):
            kept[key] = max((kept.get(reader, 0) + 1 for reader in self._data_readers(key)), default=0)
        return {key for key, left in kept.items() if left <= _SOON_FREED}

    def only_reader(self, key: Key) -> Key | None:
        """The node that alone waits for a result, on the same device."""
        readers = self.readers[key]
        return readers[0] if len(set(readers)) == 1 and readers[0][0] == key[0] else None

    def _data_readers(self, key: Key) -> list[Key]:
        return [r for r in self.readers[key] if any(source == key[1] for source, _ in self.nodes[r].inputs)]


class Plan(NamedTuple):
    """The order in which devices are to run their nodes, and how long the step should take.

    Attributes:
        priorities: For each part, a number for each node: of those that are ready, the greatest runs first.
        seconds: The time of the step, if every node takes what it is expected to.
    """

    priorities: dict[str, dict[str, float]]
    seconds: float


def planned(parts: Mapping[str, Partition], costs: Costs) -> Plan | None:
    """A schedule of the whole step, which each device is to follow as far as it can; None if there is no order.

    What would make another device, or the end of the step, late if it waited goes first; where there is time, what
    frees memory does.
    """
    joint = JointSchedule(parts, costs)
    if not joint.complete:
        return None
    starts = joint.planned()
    position = {key: at for at, key in enumerate(joint.order)}
    # What takes no time comes before what starts at the same moment.
    order = sorted(joint.order, key=lambda key: (starts[key], joint.cost[key] > 0, position[key]))
    found: dict[str, dict[str, float]] = {device: {} for device in parts}
    for at, (device, name) in enumerate(order):
        found[device][name] = float(len(order) - at)
    return Plan(found, max((starts[key] + joint.cost[key] for key in order), default=0.0))


def transfer(node: Node) -> tuple[bytes, bytes, bytes]:
    """What a Send and its Recv have in common."""
    attrs = node.attrs
    return attrs["send_device"], attrs["recv_device"], attrs["tensor_name"]


def _cost(node: Node, costs: Costs) -> float:
    if node.op in _INSTANT:
        return 0.0
    return sum(costs.get(name, _UNKNOWN) for name, _ in members_of(node))


class _ByRank:
    """Chooses the ready node with the greatest number."""

    def __init__(self, rank: Mapping[Key, float]) -> None:
        self._rank = rank
        self._ready: list[tuple[float, Key]] = []

    def of_device(self) -> _ByRank:
        return _ByRank(self._rank)

    def add(self, key: Key) -> None:
        heapq.heappush(self._ready, (-self._rank[key], key))

    def __bool__(self) -> bool:
        return bool(self._ready)

    def take(self, now: float) -> Key:
        return heapq.heappop(self._ready)[1]


class _ByDeadline:
    """Chooses the ready node that must start first; before that, if there is time, one that frees memory."""

    def __init__(self, joint: JointSchedule, latest: Mapping[Key, float], freeing: set[Key] | None = None) -> None:
        self._joint = joint
        self._latest = latest
        self._all_freeing = joint.freeing() if freeing is None else freeing
        self._ready: list[tuple[float, Key]] = []
        self._freeing: list[tuple[float, Key]] = []
        self._waiting: set[Key] = set()
        self._last: Key | None = None

    def of_device(self) -> _ByDeadline:
        return _ByDeadline(self._joint, self._latest, self._all_freeing)

    def add(self, key: Key) -> None:
        self._waiting.add(key)
        heapq.heappush(self._ready, (self._latest[key], key))
        if key in self._all_freeing:
            heapq.heappush(self._freeing, (self._latest[key], key))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, now: float) -> Key:
        for heap in (self._ready, self._freeing):
            while heap and heap[0][1] not in self._waiting:
                heapq.heappop(heap)
        deadline, key = self._ready[0]
        following = self._joint.only_reader(self._last) if self._last is not None else None
        for each in (self._freeing[0][1] if self._freeing else None, following):
            if each in self._waiting and self._joint.cost[each] <= _USED_SLACK * (deadline - now):
                key = each
                break
        self._waiting.discard(key)
        self._last = key
        return key


def _simulated(
    order: list[Key], sources: Mapping[Key, list[Key]], readers: Mapping[Key, list[Key]], cost: Mapping[Key, float],
    choice: _ByRank | _ByDeadline,
) -> dict[Key, float]:  # fmt: skip
    """Starts of nodes in a list schedule: each device takes one of the nodes that are ready."""
    waiting = {key: len(sources[key]) for key in order}
    free: dict[str, float] = dict.fromkeys((key[0] for key in order), 0.0)
    coming: dict[str, list[tuple[float, Key]]] = {device: [] for device in free}  # by the time when they are ready
    ready = {device: choice.of_device() for device in free}
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
            ready[device].add(key)
        key = ready[device].take(at)
        start[key] = at
        free[device] = at + cost[key]
        for reader in finish(key):
            arrive(reader)
    return start
