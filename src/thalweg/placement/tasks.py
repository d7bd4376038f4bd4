"""Tasks: a step as the simulator and the strategies see it: numbers instead of names, times instead of ops.

Nodes of a loop that the constraints leave free stay together, and so do nodes that the passes would fuse: splitting
them costs more than any device gains. Such *units* are what strategies place. Edges that cost nothing wherever their
ends are (constants and fed values are copied to each device) are left out; so are those that close loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thalweg import errors
from thalweg._native import core
from thalweg.graph.definitions.work import free, is_light
from thalweg.passes.fusion import Fusion, fusions
from thalweg.passes.lower_loops import Frame, frames_of
from thalweg.passes.step_graph import Node, StepGraph, failed_node
from thalweg.placement.costs import CostModel, folded, state_bytes, tensor_bytes
from thalweg.placement.machine import Machine
from thalweg.placement.place import Device, DisjointSets, Group


@dataclass
class Unit:
    """Nodes that go to one device.

    Attributes:
        nodes: Their numbers.
        groups: The positions of the groups that it consists of, among those that the constraints leave open.
        feasible: The numbers of the devices that would do.
        state: Bytes of variables.
    """

    nodes: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    feasible: list[int] = field(default_factory=list)
    state: float = 0.0


@dataclass
class Tasks:
    """A step in numbers. Nodes are in topological order; a *tensor* here is one output, or the end of a node.

    Attributes:
        nodes: The step's nodes.
        seconds: For each node, its time in the whole step on each device.
        inputs: For each node, the tensors that it reads or waits for.
        outputs: For each node, those of its tensors that have readers.
        producers: For each tensor, its node.
        readers: For each tensor, the nodes that read it or wait for it.
        sizes: For each tensor, the bytes to move in a step; 0 for the end of a node.
        runs: For each tensor, how often it is made in a step: every time costs a latency.
        unit_of: For each node, its unit.
        units: The sets of nodes that are placed as one.
        cheap: For each node, whether it does no work: then it can wait for its reader to choose a device.
        machine: The devices.
        fused: Nodes that run as one if they are on one device: the last of each takes the time of all.
        shares: For the nodes of `fused`, their shares of that time on each device.
        alone: For the nodes of `fused`, their times on each device if they are on several.
        parts: The nodes of `fused` but the last of each.
    """

    nodes: list[Node]
    seconds: list[list[float]]
    inputs: list[list[int]]
    outputs: list[list[int]]
    producers: list[int]
    readers: list[list[int]]
    sizes: list[float]
    runs: list[float]
    unit_of: list[int]
    units: list[Unit]
    cheap: list[bool]
    machine: Machine
    fused: list[Fusion] = field(default_factory=list)
    shares: dict[int, list[float]] = field(default_factory=dict)
    alone: dict[int, list[float]] = field(default_factory=dict)
    parts: set[int] = field(default_factory=set)

    def where(self, choice: Sequence[int]) -> list[int]:
        """The device of each node if unit i is on device choice[i]."""
        return [choice[unit] for unit in self.unit_of]

    def apart(self, where: Sequence[int]) -> set[int]:
        """The nodes that cannot run as one with others if node i is on device where[i]."""
        return {node for fusion in self.fused for node in set(fusion.nodes).difference(fusion.together(where))}

    def times(self, where: Sequence[int]) -> list[float]:
        """How long each node takes if node i is on device where[i]."""
        found = [seconds[device] for seconds, device in zip(self.seconds, where, strict=True)]
        for fusion in self.fused:
            here = fusion.together(where)
            away = set(fusion.nodes).difference(here)
            for node in away:
                found[node] = self.alone[node][where[node]]
            if here and away:
                last = here[-1]
                device = where[last]
                shared = sum(self.shares[node][device] for node in here)
                found[last] = shared + fusion.left_to_add(here) * self.alone[last][device]
        return found

    def ranks(self) -> list[float]:
        """How long it takes from the start of each node to the end of the step, on average devices (upward rank)."""
        count = len(self.machine.processors)
        links = self.machine.links()
        pairs = [links[a][b] for a in range(count) for b in range(count) if a != b]
        # The average cost of a transfer if its ends are placed at random.
        latency = sum(link.latency for link in pairs) / (count * count)
        per_byte = sum(1 / link.bandwidth for link in pairs) / (count * count)
        ranks = [0.0] * len(self.nodes)
        for i in range(len(self.nodes) - 1, -1, -1):
            longest = 0.0
            for tensor in self.outputs[i]:
                moved = latency * self.runs[tensor] + per_byte * self.sizes[tensor]
                for reader in self.readers[tensor]:
                    longest = max(longest, ranks[reader] + moved)
            ranks[i] = longest + sum(self.seconds[i]) / count
        return ranks


def tasks_of(
    graph: StepGraph,
    machine: Machine,
    costs: CostModel,
    groups: Sequence[Group] = (),
    decided: Mapping[str, Device] | None = None,
) -> Tasks:
    """The tasks of a step.

    Args:
        graph: The step.
        machine: Its devices.
        costs: The costs of nodes.
        groups: The groups that the constraints leave open.
        decided: The devices of the nodes of other groups; without it, nodes have the full names of their devices.

    Raises:
        errors.InvalidArgumentError: If the step has a cycle that is not a loop, or a device is not the machine's.
    """
    frames = frames_of(graph)
    if frames is None:
        raise errors.InvalidArgumentError(None, None, "the graph has a cycle that is not a loop")
    depth = _depths(frames)
    nodes = _ordered(graph, frames)
    index = {node.name: i for i, node in enumerate(nodes)}
    kinds = machine.types()
    seconds, runs_of = [], []
    constant = folded(graph)
    for node in nodes:
        if node.name in constant:
            seconds.append([0.0] * len(machine.processors))
            runs_of.append(1.0)
            continue
        level = depth.get(node.name, 0)
        runs = {kind: costs.runs(node, kind, level) for kind in kinds} if level else dict.fromkeys(kinds, 1.0)
        times = {kind: costs.seconds(graph, node, kind) * runs[kind] for kind in kinds}
        seconds.append([times[p.type] / p.speed for p in machine.processors])
        runs_of.append(max(runs.values()))
    tasks = Tasks(nodes, seconds, [], [[] for _ in nodes], [], [], [], runs_of, [], [], [], machine)
    _fuse(tasks, graph, index, costs, constant)
    _connect(tasks, graph, index, constant)
    tasks.runs = [runs_of[producer] for producer in tasks.producers]
    for node in nodes:
        definition = node.op_def
        tasks.cheap.append(definition is None or definition.work is free or node.name in constant)
    _make_units(tasks, graph, index, frames, groups, decided)
    return tasks


def _fuse(tasks: Tasks, graph: StepGraph, index: Mapping[str, int], costs: CostModel, constant: set[str]) -> None:
    """Finds the nodes that run as one, and moves their times to the last of them."""
    machine = tasks.machine
    for fusion in fusions(graph, core.operands_of_rows, core.can_record):
        if any(name in constant for name in fusion.nodes):
            continue
        nodes = [index[name] for name in fusion.nodes]
        for node in nodes:
            tasks.shares[node] = tasks.seconds[node]
            once = {kind: costs.seconds_alone(graph, tasks.nodes[node], kind) for kind in machine.types()}
            tasks.alone[node] = [once[p.type] / p.speed * tasks.runs[node] for p in machine.processors]
        times = [tasks.shares[node] for node in nodes]
        tasks.seconds[nodes[-1]] = [sum(each) for each in zip(*times, strict=True)]
        for node in nodes[:-1]:
            tasks.seconds[node] = [0.0] * len(machine.processors)
        outside_inputs = frozenset(index[name] for name in fusion.outside_inputs)
        tasks.fused.append(Fusion(nodes, fusion.is_sum, outside_inputs))
        tasks.parts.update(nodes[:-1])


def _depths(frames: Sequence[Frame]) -> dict[str, int]:
    """How many loops each node is in; nodes in none are left out."""
    depths: dict[str, int] = {}
    for frame in frames:
        level, outer = 0, frame
        while outer.parent is not None:
            level, outer = level + 1, outer.parent
        if level:
            depths.update((node.name, level) for node in frame.nodes)
    return depths


def _ordered(graph: StepGraph, frames: Sequence[Frame]) -> list[Node]:
    """The step's own order, which is topological but for loops; with loops, a new one."""
    if len(frames) == 1:
        return list(graph.nodes.values())
    waiting: dict[str, int] = {}
    readers: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for name, node in graph.nodes.items():
        sources = [s for s in (*(s for s, _ in node.inputs), *node.controls) if not _is_back_edge(graph, node, s)]
        waiting[name] = len(sources)
        for source in sources:
            readers[source].append(name)
    order = [name for name, count in waiting.items() if count == 0]
    for name in order:
        for reader in readers[name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                order.append(reader)
    return [graph.nodes[name] for name in order]


def _is_back_edge(graph: StepGraph, node: Node, source: str) -> bool:
    return node.op == "Merge" and graph.nodes[source].op == "NextIteration"


def _connect(tasks: Tasks, graph: StepGraph, index: Mapping[str, int], constant: set[str]) -> None:
    numbers: dict[tuple[str, int], int] = {}

    def tensor(source: str, output: int) -> int:
        number = numbers.get((source, output))
        if number is None:
            number = numbers[source, output] = len(tasks.producers)
            producer = index[source]
            tasks.producers.append(producer)
            tasks.readers.append([])
            size = tensor_bytes(graph, (source, output)) if output >= 0 else 0.0
            tasks.sizes.append(size * tasks.runs[producer])
            tasks.outputs[producer].append(number)
        return number

    for i, node in enumerate(tasks.nodes):
        wanted = []
        for source, output in dict.fromkeys((*node.inputs, *((name, -1) for name in node.controls))):
            sender = graph.nodes[source]
            if (
                source in constant
                or (sender.op == "_Arg" and not sender.controls)
                or _is_back_edge(graph, node, source)
            ):
                continue
            number = tensor(source, output)
            tasks.readers[number].append(i)
            wanted.append(number)
        tasks.inputs.append(wanted)


def _make_units(
    tasks: Tasks,
    graph: StepGraph,
    index: Mapping[str, int],
    frames: Sequence[Frame],
    groups: Sequence[Group],
    decided: Mapping[str, Device] | None,
) -> None:
    number = {processor.name: i for i, processor in enumerate(tasks.machine.processors)}
    group_of = {node.name: i for i, group in enumerate(groups) for node in group.nodes}
    feasible = [[number[device.name] for device in group.feasible] for group in groups]
    union = DisjointSets()

    heavy = [any(_is_heavy(node) for node in group.nodes) for group in groups]

    def tie(a: str, b: str, anyway: bool) -> None:
        """Joins two groups if a device is feasible for both, and not both are heavy."""
        first, second = union.root(str(group_of[a])), union.root(str(group_of[b]))
        if first == second or (heavy[int(first)] and heavy[int(second)] and not anyway):
            return
        both = [device for device in feasible[int(first)] if device in feasible[int(second)]]
        if both:
            root, absorbed = union.join(first, second)
            feasible[int(root)] = both
            heavy[int(root)] |= heavy[int(absorbed)]

    for frame in frames:
        if frame.parent is not None:
            free_nodes = [node.name for node in (*frame.enters, *frame.nodes) if node.name in group_of]
            for name in free_nodes[1:]:
                tie(free_nodes[0], name, anyway=True)
    for fusion in tasks.fused:
        names = [tasks.nodes[node].name for node in fusion.nodes if tasks.nodes[node].name in group_of]
        for name in names[1:]:
            tie(names[0], name, anyway=True)
    for earlier, later in _fusible(tasks, graph):
        first, second = tasks.nodes[earlier].name, tasks.nodes[later].name
        if first in group_of and second in group_of:
            tie(first, second, anyway=False)
    roots: dict[str, int] = {}
    for i, group in enumerate(groups):
        root = union.root(str(i))
        if root not in roots:
            roots[root] = len(tasks.units)
            tasks.units.append(Unit(feasible=feasible[int(root)]))
        unit = tasks.units[roots[root]]
        unit.groups.append(i)
        unit.nodes.extend(index[node.name] for node in group.nodes)
    tasks.unit_of = [-1] * len(tasks.nodes)
    for i, unit in enumerate(tasks.units):
        unit.nodes.sort()
        for number_of_node in unit.nodes:
            tasks.unit_of[number_of_node] = i
    fixed: dict[int, int] = {}  # one unit for all decided nodes of a device
    for i, node in enumerate(tasks.nodes):
        if tasks.unit_of[i] < 0:
            name = decided[node.name].name if decided is not None else node.device
            if name not in number:
                raise errors.InvalidArgumentError(
                    failed_node(node),
                    None,
                    f"Node '{node.name}' is on device '{name}', which the machine does not have.",
                )
            device = number[name]
            if device not in fixed:
                fixed[device] = len(tasks.units)
                tasks.units.append(Unit(feasible=[device]))
            tasks.unit_of[i] = fixed[device]
            tasks.units[fixed[device]].nodes.append(i)
    for unit in tasks.units:
        unit.state = sum(state_bytes(graph, tasks.nodes[node]) for node in unit.nodes)


def _fusible(tasks: Tasks, graph: StepGraph) -> list[tuple[int, int]]:
    """Pairs of a node and its only reader that passes may fuse: the reader makes one pass over its inputs."""
    fetched = {name for name, _ in graph.fetches}
    pairs = []
    for i, node in enumerate(tasks.nodes):
        if len(tasks.outputs[i]) != 1 or node.name in fetched or node.stateful:
            continue
        readers = tasks.readers[tasks.outputs[i][0]]
        reader = tasks.nodes[readers[0]]
        if len(readers) == 1 and reader.inputs and not reader.stateful and not _is_heavy(reader):
            pairs.append((i, readers[0]))
    return pairs


def _is_heavy(node: Node) -> bool:
    definition = node.op_def
    return definition is not None and not is_light(definition.work)
