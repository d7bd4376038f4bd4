"""Small steps in numbers, for tests of the simulator and the strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.passes.step_graph import Node
from thalweg.placement.machine import HAND_OVER, Link, Machine, Processor
from thalweg.placement.tasks import Tasks, Unit

TASK = "/job:localhost/replica:0/task:0"


def machine(
    speeds: Sequence[float] = (1.0, 1.0), link: Link = HAND_OVER, memory: Sequence[int | None] | None = None
) -> Machine:
    """CPU devices of these speeds, with one kind of link."""
    limits = memory or [None] * len(speeds)
    processors = [
        Processor(f"{TASK}/device:CPU:{i}", "CPU", speed, limit)
        for i, (speed, limit) in enumerate(zip(speeds, limits, strict=True))
    ]
    return Machine(processors, {("CPU", "CPU"): link})


def tasks(
    costs: Sequence[float],
    edges: Sequence[tuple[int, int]],
    on: Machine,
    sizes: Mapping[int, float] | None = None,
    groups: Sequence[Sequence[int]] = (),
    feasible: Mapping[int, list[int]] | None = None,
    state: Mapping[int, float] | None = None,
) -> Tasks:
    """Tasks of nodes that take `costs` seconds and read each other along `edges`, earlier to later.

    Args:
        costs: Seconds of each node at speed 1.
        edges: Pairs of a producer and a reader; all readers of a node read the same tensor.
        on: The devices.
        sizes: Bytes of a node's output, 0 if not given.
        groups: Nodes that are placed as one.
        feasible: The devices that would do for a node (and its group), all if not given.
        state: Bytes of variables of a node.
    """
    count = len(costs)
    nodes = [Node(f"n{i}", "NoOp", {}, (), (), "", (), ()) for i in range(count)]
    seconds = [[cost / p.speed for p in on.processors] for cost in costs]
    made = Tasks(nodes, seconds, [[] for _ in nodes], [[] for _ in nodes], [], [], [], [], [], [], [], on)
    tensor: dict[int, int] = {}
    for source, reader in edges:
        assert source < reader
        if source not in tensor:
            tensor[source] = len(made.producers)
            made.producers.append(source)
            made.readers.append([])
            made.sizes.append((sizes or {}).get(source, 0.0))
            made.runs.append(1.0)
            made.outputs[source].append(tensor[source])
        if reader not in made.readers[tensor[source]]:
            made.readers[tensor[source]].append(reader)
            made.inputs[reader].append(tensor[source])
    grouped = {node: tuple(group) for group in groups for node in group}
    everywhere = list(range(len(on.processors)))
    made.unit_of = [-1] * count
    for node in range(count):
        if made.unit_of[node] < 0:
            members = grouped.get(node, (node,))
            devices = next((feasible[m] for m in members if feasible and m in feasible), everywhere)
            bytes_kept = sum((state or {}).get(m, 0.0) for m in members)
            for member in members:
                made.unit_of[member] = len(made.units)
            made.units.append(Unit(sorted(members), [], devices, bytes_kept))
    made.cheap = [cost == 0 for cost in costs]
    return made
