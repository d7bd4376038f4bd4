"""List schedules: when nodes run on devices that do one thing at a time, each of them a node that is ready.

Two schedules are simulated of the same nodes: one runs every node as soon as it can (ASAP), the other as late as it can
without ending later (ALAP). The starts of the second are deadlines, and the schedule that is run goes by them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

# A node: its device, and its name there.
Key = tuple[Any, Any]

_USED_SLACK = 0.5  # Costs are estimates: the rest is left for nodes that take longer.


class Span(NamedTuple):
    """When a node starts if everything runs as early, and if everything runs as late as it can."""

    earliest: float
    latest: float


class ListSchedule:
    """Nodes, their control and data edges, and how long each takes."""

    def __init__(self, cost: Mapping[Key, float], edges: Iterable[tuple[Key, Key]]) -> None:
        """Takes the costs of nodes in seconds, and edges from a node to one that waits for it."""
        self.cost = cost
        self.readers: dict[Key, list[Key]] = {key: [] for key in cost}
        self.sources: dict[Key, list[Key]] = {key: [] for key in cost}
        for source, reader in edges:
            self.readers[source].append(reader)
            self.sources[reader].append(source)
        self.order = self._ordered()
        self._to_end = self._longest_paths(reversed(self.order), self.readers)
        self._from_start = self._longest_paths(self.order, self.sources)

    def _ordered(self) -> list[Key]:
        waiting = {key: len(sources) for key, sources in self.sources.items()}
        order = [key for key, count in waiting.items() if count == 0]
        for key in order:
            for reader in self.readers[key]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    order.append(reader)
        return order

    def _longest_paths(self, order: Iterable[Key], neighbours: Mapping[Key, list[Key]]) -> dict[Key, float]:
        """For each node, the seconds of the longest path that begins (or ends) with it."""
        paths: dict[Key, float] = {}
        for key in order:
            paths[key] = self.cost[key] + max((paths.get(each, 0.0) for each in neighbours[key]), default=0.0)
        return paths

    def ready(self, key: Key) -> float:
        """The seconds after which a node is done if it waits for nothing but its sources."""
        return self._from_start[key]

    @property
    def complete(self) -> bool:
        """Whether the graph has no cycle, so that `order` has all nodes."""
        return len(self.order) == len(self.cost)

    def spans(self) -> dict[Key, Span]:
        """The starts of all nodes in both schedules."""
        early = _simulated(self.order, self.sources, self.readers, self.cost, _ByRank(self._to_end))
        end = self.end(early)
        backwards = list(reversed(self.order))
        late = _simulated(backwards, self.readers, self.sources, self.cost, _ByRank(self._from_start))
        return {key: Span(early[key], max(end - late[key] - self.cost[key], early[key])) for key in self.order}

    def planned(self, freeing: Collection[Key] = ()) -> dict[Key, float]:
        """The starts of all nodes in a schedule by deadlines, in which nodes that free memory go first if they can."""
        spans = self.spans()
        queue = _ByDeadline(self, {key: span.latest for key, span in spans.items()}, freeing)
        found = _simulated(self.order, self.sources, self.readers, self.cost, queue)
        early = {key: span.earliest for key, span in spans.items()}
        return found if self.end(found) <= self.end(early) else early

    def end(self, starts: Mapping[Key, float]) -> float:
        """When the last node has run."""
        return max((start + self.cost[key] for key, start in starts.items()), default=0.0)

    def only_reader(self, key: Key) -> Key | None:
        """The node that alone waits for a result, on the same device."""
        readers = self.readers[key]
        return readers[0] if len(set(readers)) == 1 and readers[0][0] == key[0] else None


class _ReadyQueue(Protocol):
    """The ready queue of a device."""

    def of_device(self) -> _ReadyQueue: ...
    def add(self, key: Key) -> None: ...
    def __bool__(self) -> bool: ...
    def take(self, now: float) -> Key: ...


class _ByRank:
    """Takes the ready node of the highest rank."""

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
    """Takes the ready node with the first deadline; before that, if there is slack, one that frees memory."""

    def __init__(self, schedule: ListSchedule, deadlines: Mapping[Key, float], freeing: Collection[Key]) -> None:
        self._schedule = schedule
        self._deadlines = deadlines
        self._all_freeing = freeing
        self._ready: list[tuple[float, Key]] = []
        self._freeing: list[tuple[float, Key]] = []
        self._queued: set[Key] = set()
        self._last: Key | None = None

    def of_device(self) -> _ByDeadline:
        return _ByDeadline(self._schedule, self._deadlines, self._all_freeing)

    def add(self, key: Key) -> None:
        self._queued.add(key)
        heapq.heappush(self._ready, (self._deadlines[key], key))
        if key in self._all_freeing:
            heapq.heappush(self._freeing, (self._deadlines[key], key))

    def __bool__(self) -> bool:
        return bool(self._queued)

    def take(self, now: float) -> Key:
        for heap in (self._ready, self._freeing):
            while heap and heap[0][1] not in self._queued:
                heapq.heappop(heap)
        deadline, key = self._ready[0]
        following = self._schedule.only_reader(self._last) if self._last is not None else None
        for each in (self._freeing[0][1] if self._freeing else None, following):
            if each in self._queued and self._schedule.cost[each] <= _USED_SLACK * (deadline - now):
                key = each
                break
        self._queued.discard(key)
        self._last = key
        return key


def _simulated(
    order: Sequence[Key], sources: Mapping[Key, list[Key]], readers: Mapping[Key, list[Key]],
    cost: Mapping[Key, float], queue: _ReadyQueue,
) -> dict[Key, float]:  # fmt: skip
    """Starts of nodes in a list schedule: each device takes one of the nodes that are ready."""
    waiting = {key: len(sources[key]) for key in order}
    free: dict[Any, float] = dict.fromkeys((key[0] for key in order), 0.0)
    coming: dict[Any, list[tuple[float, Key]]] = {device: [] for device in free}  # by the time when they are ready
    ready = {device: queue.of_device() for device in free}
    start: dict[Key, float] = {}
    ready_at = dict.fromkeys(order, 0.0)

    def arrive(key: Key) -> None:
        """Handles a node whose inputs are all there; one that takes no time of its device runs at once."""
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

    def next_start(device: Any) -> float:
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
