"""The simulator: runs a placed step on a described machine, in virtual time.

Each device runs one node at a time: of those that are ready, the one that is farthest from the end of the step. A
tensor that another device reads is sent there once, as soon as it is computed; each link moves one tensor at a time.
Deterministic: equal tasks and places give equal schedules.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from thalweg.passes.list_schedule import ListSchedule
from thalweg.placement.tasks import Tasks


@dataclass
class Schedule:
    """A simulated step. Times are seconds from its beginning, by node of the tasks.

    Attributes:
        where: The device of each node.
        start: When each node begins.
        finish: When it ends.
        makespan: When the last one ends.
        busy: For each device, how long it works.
        peak: For each device, the most bytes that it holds at a time, variables included.
        transfers: How many tensors are sent, once per destination.
        moved: How many bytes they have.
        critical: The nodes that the step waits for, from its beginning to its end: each begins when the one before it
            has ended, or has been sent.
    """

    where: list[int]
    start: list[float]
    finish: list[float]
    makespan: float
    busy: list[float]
    peak: list[float]
    transfers: int
    moved: float
    critical: list[int] = field(default_factory=list)

    def lacking(self, tasks: Tasks) -> float:
        """How many bytes devices need beyond what they have."""
        limits = [processor.memory for processor in tasks.machine.processors]
        return sum(max(0.0, peak - limit) for limit, peak in zip(limits, self.peak, strict=True) if limit is not None)

    def fits(self, tasks: Tasks) -> bool:
        """Whether every device has the memory that it needs."""
        return self.lacking(tasks) == 0


def simulate(tasks: Tasks, where: Sequence[int], ranks: Sequence[float] | None = None) -> Schedule:
    """Returns the schedule of a step whose node i is on device where[i].

    Args:
        tasks: The step.
        where: The device of each node.
        ranks: What `tasks.ranks()` returns, for callers that simulate many placements of one step.
    """
    ranks = tasks.ranks() if ranks is None else ranks
    run = _Run(tasks, where, ranks)
    run.go()
    return run.schedule()


def planned(tasks: Tasks, where: Sequence[int]) -> Schedule:
    """The schedule of a step as a session would run it: by a plan (list_schedule.py), unless that takes longer.

    A device waits for the next node of its plan. If it took another ready node instead, as sessions do, that could be
    long while other devices wait for the planned one; latencies of microseconds decide how often.
    """
    keys = [(device, node) for node, device in enumerate(where)]
    cost = dict(zip(keys, tasks.times(where), strict=True))
    edges = (
        (keys[tasks.producers[tensor]], keys[reader]) for reader, wanted in enumerate(tasks.inputs) for tensor in wanted
    )
    starts = ListSchedule(cost, edges).planned()
    run = _Run(tasks, where, [-starts[key] for key in keys], in_order=True)
    run.go()
    by_plan, by_rank = run.schedule(), simulate(tasks, where)
    return by_plan if by_plan.makespan <= by_rank.makespan else by_rank


class _Run:
    """A device takes the ready node of the highest rank; or all in the order of their ranks, with `in_order`.

    With `in_order`, nodes that take no time run as soon as they are ready.
    """

    def __init__(self, tasks: Tasks, where: Sequence[int], ranks: Sequence[float], in_order: bool = False) -> None:
        count, devices = len(tasks.nodes), len(tasks.machine.processors)
        self._tasks = tasks
        self._where = list(where)
        self._times = tasks.times(where)
        self._parts = tasks.parts - tasks.apart(where)
        self._ranks = ranks
        self._waiting = [len(inputs) for inputs in tasks.inputs]
        self._start = [0.0] * count
        self._finish = [0.0] * count
        self._cause = [-1] * count  # the node that a node waited for last, or the one before it on its device
        self._ready: list[list[tuple[float, int]]] = [[] for _ in range(devices)]
        self._planned_order: list[list[tuple[float, int]]] | None = None
        if in_order:
            self._planned_order = [[] for _ in range(devices)]
            for node, device in enumerate(where):
                if self._times[node] > 0:
                    heapq.heappush(self._planned_order[device], (-ranks[node], node))
        self._last = [-1] * devices
        self._idle = [True] * devices
        self._links = tasks.machine.links()
        self._link_free = [[0.0] * devices for _ in range(devices)]
        self._events: list[
            tuple[float, int, int, int]
        ] = []  # time, order; then a node, or a tensor and its destination
        self._order = 0
        self._held = [0.0] * devices
        for unit in tasks.units:
            if unit.state:
                self._held[self._where[unit.nodes[0]]] += unit.state
        self._peak = list(self._held)
        # The readers of a tensor on a device that have yet to run, by tensor * devices + device; 0 frees it there.
        self._refcounts: dict[int, int] = {}
        self._devices = devices
        self._busy = [0.0] * devices
        self._transfers = 0
        self._moved = 0.0

    def go(self) -> None:
        now = 0.0
        for node, waiting in enumerate(self._waiting):
            if waiting == 0:
                self._make_ready(node, -1)
        events = self._events
        self._dispatch(now)
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, _, node, destination = heapq.heappop(events)
                if destination < 0:
                    self._end(node, now)
                else:
                    self._arrive(node, destination)
            self._dispatch(now)

    def _make_ready(self, node: int, cause: int) -> None:
        self._cause[node] = cause
        heapq.heappush(self._ready[self._where[node]], (-self._ranks[node], node))

    def _dispatch(self, now: float) -> None:
        for device in range(self._devices):
            node = self._next(device)
            if node < 0:
                continue
            last = self._last[device]
            cause = self._cause[node]
            if last >= 0 and self._finish[last] == now and (cause < 0 or self._finish[cause] < now):
                self._cause[node] = last
            self._last[device] = node
            self._idle[device] = False
            seconds = self._times[node]
            self._start[node], self._finish[node] = now, now + seconds
            self._busy[device] += seconds
            for tensor in self._tasks.outputs[node]:
                self._hold(tensor, device)
            self._order += 1
            heapq.heappush(self._events, (now + seconds, self._order, node, -1))

    def _next(self, device: int) -> int:
        """Takes the node that a device begins with now; -1 if there is none."""
        ready = self._ready[device]
        if not ready or not self._idle[device]:
            return -1
        if self._planned_order is not None and self._times[ready[0][1]] > 0:
            if self._planned_order[device][0] != ready[0]:
                return -1
            heapq.heappop(self._planned_order[device])
        return heapq.heappop(ready)[1]

    def _size(self, tensor: int, device: int) -> float:
        """The memory that a tensor takes on a device: none if its producer there forwards its input, or is fused."""
        producer = self._tasks.producers[tensor]
        bufferless = self._tasks.cheap[producer] or producer in self._parts
        return 0.0 if bufferless and self._where[producer] == device else self._tasks.sizes[tensor]

    def _hold(self, tensor: int, device: int) -> None:
        held = self._held[device] + self._size(tensor, device)
        self._held[device] = held
        if held > self._peak[device]:
            self._peak[device] = held

    def _end(self, node: int, now: float) -> None:
        tasks, device = self._tasks, self._where[node]
        self._idle[device] = True
        for tensor in tasks.outputs[node]:
            local = 0
            elsewhere: dict[int, int] = {}
            for reader in tasks.readers[tensor]:
                place = self._where[reader]
                if place == device:
                    local += 1
                    self._count_down(reader, node)
                else:
                    elsewhere[place] = elsewhere.get(place, 0) + 1
            for destination, readers in elsewhere.items():
                self._send(tensor, device, destination, readers, now)
            if local:
                self._refcounts[tensor * self._devices + device] = local
            else:
                self._held[device] -= self._size(tensor, device)
        for tensor in tasks.inputs[node]:
            key = tensor * self._devices + device
            left = self._refcounts[key] - 1
            self._refcounts[key] = left
            if left == 0:
                self._held[device] -= self._size(tensor, device)

    def _send(self, tensor: int, device: int, destination: int, readers: int, now: float) -> None:
        tasks, link = self._tasks, self._links[device][destination]
        size = tasks.sizes[tensor]
        begin = max(now, self._link_free[device][destination])
        # The link is taken for as long as bytes move; latencies overlap.
        sent = begin + size / link.bandwidth
        self._link_free[device][destination] = sent
        self._transfers += 1
        self._moved += size
        self._refcounts[tensor * self._devices + destination] = readers
        self._order += 1
        arrival = sent + link.latency * tasks.runs[tensor]
        heapq.heappush(self._events, (arrival, self._order, tensor, destination))

    def _arrive(self, tensor: int, destination: int) -> None:
        producer = self._tasks.producers[tensor]
        self._hold(tensor, destination)
        for reader in self._tasks.readers[tensor]:
            if self._where[reader] == destination:
                self._count_down(reader, producer)

    def _count_down(self, node: int, cause: int) -> None:
        self._waiting[node] -= 1
        if self._waiting[node] == 0:
            self._make_ready(node, cause)

    def schedule(self) -> Schedule:
        makespan = max(self._finish, default=0.0)
        critical: list[int] = []
        node = max(range(len(self._finish)), key=self._finish.__getitem__, default=-1)
        while node >= 0:
            critical.append(node)
            node = self._cause[node]
        critical.reverse()
        return Schedule(
            self._where, self._start, self._finish, makespan, self._busy, self._peak, self._transfers, self._moved,
            critical,
        )  # fmt: skip
