"""Strategies: where to put the units of a step that the constraints leave open.

- `single`: all on the first feasible device, as TensorFlow does.
- `hash`: in turn, by number: the baseline.
- `depth_first`: chains stay together; the next device begins when one has its share of the work.
- `greedy`: the white paper's section 3.2.1: a simulated step, in which each node that becomes ready goes to the device
  where it would be done first.
- `heft`: critical-path list scheduling (heterogeneous earliest finish time): the same choice, but nodes that are
  farthest from the end of the step choose first, and may use gaps that earlier choices left.
- `critical_path`: the longest path stays on the one device that runs it fastest; other nodes as in `heft`.
- `search`: local search from the best of the others, judged by the simulator (placement/search.py).

All are pure and deterministic. Mayer, Mayer and Laich, "The TensorFlow partitioning and scheduling problem: it's the
critical path!", compare most of them.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from thalweg.placement.tasks import Tasks

# Chooses a device for each unit.
Choice = list[int]
Chooser = Callable[[Tasks], Choice]


def single(tasks: Tasks) -> Choice:
    """Every unit on the first of its devices."""
    return [unit.feasible[0] for unit in tasks.units]


def hash_(tasks: Tasks) -> Choice:
    """Units in turn over their devices."""
    return [unit.feasible[i % len(unit.feasible)] for i, unit in enumerate(tasks.units)]


def depth_first(tasks: Tasks) -> Choice:
    """Chains of units together, in shares that match the speeds of the devices."""
    processors = tasks.machine.processors
    total_speed = sum(processor.speed for processor in processors)
    work = [min(seconds) for seconds in tasks.seconds]
    weight = [sum(work[node] for node in unit.nodes) for unit in tasks.units]
    shares = [sum(weight) * processor.speed / total_speed for processor in processors]
    choice = [-1] * len(tasks.units)
    current = 0
    for node in _depth_first_order(tasks):
        unit = tasks.unit_of[node]
        if choice[unit] >= 0:
            continue
        feasible = tasks.units[unit].feasible
        while current < len(shares) - 1 and shares[current] <= 0:
            current += 1
        choice[unit] = current if current in feasible else feasible[0]
        shares[choice[unit]] -= weight[unit]
    return choice


def _depth_first_order(tasks: Tasks) -> Iterator[int]:
    """The nodes in topological order, a chain at a time."""
    waiting = [len(inputs) for inputs in tasks.inputs]
    stack = [node for node in range(len(waiting) - 1, -1, -1) if waiting[node] == 0]
    while stack:
        node = stack.pop()
        yield node
        for tensor in tasks.outputs[node]:
            for reader in tasks.readers[tensor]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    stack.append(reader)


def greedy(tasks: Tasks) -> Choice:
    """The white paper's simulation: nodes choose in the order in which they become ready."""
    plan = _Plan(tasks)
    waiting = [len(inputs) for inputs in tasks.inputs]
    ready = [(0.0, node) for node, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)[1]
        plan.place(node)
        for tensor in tasks.outputs[node]:
            for reader in tasks.readers[tensor]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    inputs = (plan.finish[tasks.producers[each]] for each in tasks.inputs[reader])
                    heapq.heappush(ready, (max(inputs), reader))
    return plan.choice()


def heft(tasks: Tasks) -> Choice:
    """Nodes farthest from the end of the step choose first."""
    return _by_rank(tasks, tasks.ranks(), {})


def critical_path(tasks: Tasks) -> Choice:
    """The longest path on one device, other nodes where they would be done first."""
    ranks = tasks.ranks()
    path = _longest_path(tasks, ranks)
    pinned: dict[int, int] = {}
    feasible = [tasks.units[tasks.unit_of[node]].feasible for node in path]
    common = [device for device in range(len(tasks.machine.processors)) if all(device in each for each in feasible)]
    if common:
        fastest = min(common, key=lambda device: sum(tasks.seconds[node][device] for node in path))
        pinned = {tasks.unit_of[node]: fastest for node in path}
    return _by_rank(tasks, ranks, pinned)


def _longest_path(tasks: Tasks, ranks: Sequence[float]) -> list[int]:
    starts = [node for node, inputs in enumerate(tasks.inputs) if not inputs]
    path = []
    following = starts
    while following:
        node = max(following, key=lambda each: (ranks[each], -each))
        path.append(node)
        following = [reader for tensor in tasks.outputs[node] for reader in tasks.readers[tensor]]
    return path


def _by_rank(tasks: Tasks, ranks: Sequence[float], pinned: Mapping[int, int]) -> Choice:
    plan = _Plan(tasks, pinned)
    # Of equal rank, in topological order: a node never comes before one that it reads.
    for node in sorted(range(len(ranks)), key=lambda each: (-ranks[each], each)):
        plan.place(node)
    return plan.choice()


class _Plan:
    """A schedule in the making: nodes are added one by one, each where it would be done first."""

    def __init__(self, tasks: Tasks, pinned: Mapping[int, int] | None = None) -> None:
        self._tasks = tasks
        self._choice = [unit.feasible[0] if len(unit.feasible) == 1 else -1 for unit in tasks.units]
        self._links = tasks.machine.links()
        devices = range(len(tasks.machine.processors))
        # Intervals in which a device works without a gap.
        self._begins: list[list[float]] = [[] for _ in devices]
        self._ends: list[list[float]] = [[] for _ in devices]
        self._free_memory = [math.inf if p.memory is None else float(p.memory) for p in tasks.machine.processors]
        self._load = [0.0 for _ in devices]
        self._deferred: dict[int, list[int]] = {}  # nodes of units that follow the device of a reader
        self.finish = [0.0] * len(tasks.nodes)
        for unit, device in enumerate(self._choice):
            if device >= 0:
                self._free_memory[device] -= tasks.units[unit].state
        for unit, device in (pinned or {}).items():
            self._decide(unit, device)

    def choice(self) -> Choice:
        """The device of each unit; those without work or readers go to the device with the least load."""
        for unit, device in enumerate(self._choice):
            if device < 0:
                self._decide(unit, self._roomiest(unit))
        return self._choice

    def place(self, node: int) -> None:
        """Adds a node whose inputs have been added."""
        tasks = self._tasks
        unit = tasks.unit_of[node]
        device = self._choice[unit]
        if device < 0:
            waits = tasks.cheap[node] and all(self._is_deferred(tensor) for tensor in tasks.inputs[node])
            if waits or node in tasks.parts:
                self._deferred.setdefault(unit, []).append(node)
                return
            device = self._soonest(node, unit)
            self._decide(unit, device)
        for tensor in tasks.inputs[node]:
            source = tasks.unit_of[tasks.producers[tensor]]
            if self._choice[source] < 0:
                self._decide(source, device if device in self._roomy(source) else self._roomiest(source))
        self._put(node, device)

    def _is_deferred(self, tensor: int) -> bool:
        return self._choice[self._tasks.unit_of[self._tasks.producers[tensor]]] < 0

    def _decide(self, unit: int, device: int) -> None:
        if self._choice[unit] >= 0:
            return
        self._choice[unit] = device
        self._free_memory[device] -= self._tasks.units[unit].state
        for node in self._deferred.pop(unit, ()):
            # Its producers are deferred as well, and follow it if there is room.
            for tensor in self._tasks.inputs[node]:
                source = self._tasks.unit_of[self._tasks.producers[tensor]]
                if self._choice[source] < 0:
                    self._decide(source, device if device in self._roomy(source) else self._roomiest(source))
            self._put(node, device)

    def _roomy(self, unit: int, more: float = 0.0) -> list[int]:
        """The devices that have room for a unit's variables and `more` bytes, or the one with the most room."""
        feasible, state = self._tasks.units[unit].feasible, self._tasks.units[unit].state + more
        if not state:
            return feasible
        return [d for d in feasible if self._free_memory[d] >= state] or [
            max(feasible, key=self._free_memory.__getitem__)
        ]

    def _roomiest(self, unit: int) -> int:
        return min(self._roomy(unit), key=self._load.__getitem__)

    def _soonest(self, node: int, unit: int) -> int:
        best, best_finish = -1, math.inf
        units = {self._tasks.unit_of[self._tasks.producers[tensor]] for tensor in self._tasks.inputs[node]}
        deferred_state = sum(self._tasks.units[each].state for each in units if self._choice[each] < 0 and each != unit)
        for device in self._roomy(unit, deferred_state):
            seconds = self._tasks.seconds[node][device]
            # Deferred nodes of the unit, which are fused into this one or feed it, run there, too.
            begin = max(self._available(each, device) for each in (node, *self._deferred.get(unit, ())))
            finish = self._gap(device, begin, seconds) + seconds
            if finish < best_finish:
                best, best_finish = device, finish
        return best

    def _available(self, node: int, device: int) -> float:
        """When all inputs of a node are on a device."""
        tasks, latest = self._tasks, 0.0
        for tensor in tasks.inputs[node]:
            producer = tasks.producers[tensor]
            source = self._choice[tasks.unit_of[producer]]
            if source < 0:
                continue  # The producer is deferred: it will follow this node.
            when = self.finish[producer]
            if source != device:
                link = self._links[source][device]
                when += link.latency * tasks.runs[tensor] + tasks.sizes[tensor] / link.bandwidth
            if when > latest:
                latest = when
        return latest

    def _gap(self, device: int, earliest: float, seconds: float) -> float:
        """The first time from `earliest` on when the device is idle for `seconds`."""
        begins, ends = self._begins[device], self._ends[device]
        at = bisect_right(ends, earliest)
        while at < len(begins) and begins[at] < earliest + seconds:
            earliest = max(earliest, ends[at])
            at += 1
        return earliest

    def _put(self, node: int, device: int) -> None:
        seconds = self._tasks.seconds[node][device]
        begin = self._gap(device, self._available(node, device), seconds)
        end = self.finish[node] = begin + seconds
        if seconds <= 0:
            return
        self._load[device] += seconds
        begins, ends = self._begins[device], self._ends[device]
        at = bisect_left(begins, end)
        first = at - 1 if at > 0 and ends[at - 1] >= begin else at
        last = at + 1 if at < len(begins) and begins[at] == end else at
        if first < last:
            begin, end = min(begin, begins[first]), max(end, ends[last - 1])
        begins[first:last] = [begin]
        ends[first:last] = [end]
