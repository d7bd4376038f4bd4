"""Lowers while-loops: a loop of synchronous nodes becomes one `_Loop` node.

The executor runs any loop with frames and dead tokens, which lets iterations overlap and loops span devices. A loop
that needs neither is run by the core as two straight lists of nodes, condition and body, at a fraction of the cost per
node (core/executor/loop_program.h). Inner loops are lowered first; then the outer one has become simple, too.
Conditionals stay Switches and Merges among the nodes; the core leaves out the branch that is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from thalweg.graph.definitions.op_registry import flow_of
from thalweg.passes.step_graph import Edge, Node, StepGraph, standing_for


class LoopBody(NamedTuple):
    """A lowered loop. Inputs of its nodes are (source, output): variables, invariants and nodes in one numbering."""

    nodes: tuple[Node, ...]
    # Per node; the source is the decimal number of a LoopSource. Behind the inputs of the op come its guards: it runs
    # only if they have values.
    inputs: tuple[tuple[Edge, ...], ...]
    num_condition: int
    num_variables: int
    num_invariants: int
    predicate: tuple[int, int]
    next: tuple[tuple[int, int], ...]


@dataclass
class Frame:
    """One loop of the graph, or the graph itself (without a parent)."""

    name: str
    parent: Frame | None
    enters: list[Node] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    children: int = 0


def lower_loops(graph: StepGraph, may_lower: Callable[[Node], bool]) -> StepGraph:
    """Returns the step with its simple loops lowered.

    Args:
        graph: The step.
        may_lower: Whether a node may run inside a lowered loop: it has a synchronous kernel on the step's device.
    """
    if not any(node.op == "Enter" for node in graph.nodes.values()):
        return graph
    given_up: set[str] = set()
    while True:  # once per depth of nesting: a step may have thousands of loops
        frames = frames_of(graph)
        if frames is None:
            return graph
        leaves = [f for f in frames if f.parent is not None and not f.children and f.name not in given_up]
        if not leaves:
            return graph
        uses = _uses(graph)
        lowered: list[_Lowered] = []
        for leaf in leaves:
            found = _lower(graph, uses, leaf, may_lower)
            if found is None:
                given_up.add(leaf.name)
            else:
                lowered.append(found)
        graph = _replaced(graph, lowered)


def loop_of_functions(
    node: Node, condition: StepGraph, body: StepGraph, may_lower: Callable[[Node], bool]
) -> Node | None:
    """A functional While as a `_Loop` node, or None if its functions are not simple.

    Args:
        node: The While.
        condition: The body of its condition, as the device runs it.
        body: The body of its body.
        may_lower: Whether a node may run inside a lowered loop.
    """
    count = len(node.inputs)
    nodes: list[Node] = []
    inputs: list[tuple[Edge, ...]] = []
    results: list[list[tuple[int, int]]] = []
    num_condition = 0
    for graph in (condition, body):
        num_condition = len(nodes)
        numbers: dict[Edge, tuple[int, int]] = {}
        for each in graph.nodes.values():
            if each.op == "_Arg":
                numbers[(each.name, 0)] = int(each.attrs["index"]), 0
                continue
            if flow_of(each.op).is_primitive or each.stateful or not may_lower(each):
                return None
            inputs.append(tuple((str(numbers[edge][0]), numbers[edge][1]) for edge in each.inputs))
            numbers |= {(each.name, k): (count + len(nodes), k) for k in range(len(each.output_dtypes))}
            nodes.append(each)
        results.append([numbers[edge] for edge in graph.fetches])
    program = LoopBody(tuple(nodes), tuple(inputs), num_condition, count, 0, results[0][0], tuple(results[1]))
    return node._replace(op="_Loop", attrs=standing_for({"program": program}, [node]))


class _Use(NamedTuple):
    """A reader of a node's output, or a node that waits for it (`output` is None). Fetches and targets have no name."""

    reader: str | None
    output: int | None


class _Lowered(NamedTuple):
    """A loop that can be lowered: its `_Loop` node, the nodes that this replaces, and what reads its results."""

    node: Node
    gone: set[str]
    edges: dict[Edge, Edge]
    controls: dict[str, tuple[str, ...]]


def _uses(graph: StepGraph) -> dict[str, list[_Use]]:
    """Who uses each node of a step."""
    found: dict[str, list[_Use]] = {name: [] for name in graph.nodes}
    for name, node in graph.nodes.items():
        for source, output in node.inputs:
            found[source].append(_Use(name, output))
        for source in node.controls:
            found[source].append(_Use(name, None))
    for source, output in graph.fetches:
        found[source].append(_Use(None, output))
    for source in graph.targets:
        found[source].append(_Use(None, None))
    return found


def _in_order(graph: StepGraph) -> list[Node] | None:
    """Topological order without back edges; None for a graph that has other cycles (the core reports them)."""
    done: dict[str, Node] = {}
    state: dict[str, int] = {}
    for root in graph.nodes:
        stack = [root]
        while stack:
            name = stack[-1]
            if state.get(name) == 2:
                stack.pop()
                continue
            node = graph.nodes[name]
            if state.get(name) == 1:
                state[name] = 2
                done[name] = node
                stack.pop()
                continue
            state[name] = 1
            for source in (*(source for source, _ in node.inputs), *node.controls):
                if node.op == "Merge" and graph.nodes[source].op == "NextIteration":
                    continue
                if state.get(source) == 1:
                    return None
                if source not in state:
                    stack.append(source)
    return list(done.values())


def frames_of(graph: StepGraph) -> list[Frame] | None:
    """The static frames of the graph, each with its nodes in topological order."""
    order = _in_order(graph)
    if order is None:
        return None
    root = Frame("", None)
    frames = {"": root}
    output_frame: dict[str, Frame] = {}
    for node in order:
        sources = [*(source for source, _ in node.inputs), *node.controls]
        frame = next((output_frame[source] for source in sources if source in output_frame), root)
        out = frame
        if node.op == "Enter":
            key = f"{frame.name}/{node.attrs['frame_name'].decode(errors='backslashreplace')}"
            if key not in frames:
                frames[key] = Frame(key, frame)
                frame.children += 1
            out = frames[key]
            out.enters.append(node)
        elif node.op == "Exit":
            if frame.parent is None:
                return None
            out = frame.parent
        frame.nodes.append(node)
        output_frame[node.name] = out
    return list(frames.values())


def _lower(
    graph: StepGraph, uses: dict[str, list[_Use]], frame: Frame, may_lower: Callable[[Node], bool]
) -> _Lowered | None:
    """One loop, lowered, or None if it is not simple."""
    entered = {node.name: node for node in frame.enters}
    merges = [node for node in frame.nodes if node.op == "Merge" and _closes_loop(graph, node, entered)]
    conditions = [node for node in frame.nodes if node.op == "LoopCond"]
    if len(conditions) != 1:
        return None
    switches = [node for node in frame.nodes if node.op == "Switch" and node.inputs[1] == (conditions[0].name, 0)]
    exits = [node for node in frame.nodes if node.op == "Exit"]
    of_loop = {node.name for node in (*merges, *switches)}
    branching = [node for node in frame.nodes if node.op in ("Merge", "Switch") and node.name not in of_loop]
    if any(node.op == "Merge" and (len(node.inputs) != 2 or _index_is_read(uses, node)) for node in branching):
        return None
    inside = {node.name for node in branching}
    plain = [node for node in frame.nodes if node.name in inside or not flow_of(node.op).is_primitive]
    if not all(node.name in inside or may_lower(node) for node in plain):
        return None
    if any(use.reader is None for node in frame.nodes if node.op != "Exit" for use in uses[node.name]):
        return None  # The core refuses such a step, and says why.
    variables: list[Node] = []  # the Enter of each loop variable
    numbers: dict[Edge, int] = {}  # of variables and invariants inside the loop
    next_names: list[str] = []
    for merge in merges:
        ends = [source for source, _ in merge.inputs]
        back = [source for source in ends if graph.nodes[source].op == "NextIteration"]
        first = [source for source in ends if source in entered]
        if len(ends) != 2 or len(back) != 1 or len(first) != 1 or merge.controls or _index_is_read(uses, merge):
            return None
        numbers[(merge.name, 0)] = len(variables)
        variables.append(entered[first[0]])
        next_names.append(back[0])
    taken = {variable.name for variable in variables}
    if len(taken) != len(variables):
        return None
    condition = conditions[0]
    for switch in switches:
        if switch.inputs[0] not in numbers or switch.controls:
            return None
        numbers[(switch.name, 1)] = numbers[(switch.name, 0)] = numbers[switch.inputs[0]]
    invariants = [node for node in frame.enters if node.name not in taken]
    if not all(node.attrs.get("is_constant") for node in invariants):
        return None
    for i, node in enumerate(invariants):
        numbers[(node.name, 0)] = len(variables) + i
    body = _body(graph, plain, condition, next_names, numbers, len(variables), len(invariants), switches, inside)
    if body is None:
        return None
    outputs = [numbers.get(node.inputs[0], -1) for node in exits]
    if any(not 0 <= k < len(variables) or node.controls for k, node in zip(outputs, exits, strict=True)):
        return None
    return _lowered(uses, frame, variables + invariants, len(variables), exits, outputs, body)


def _closes_loop(graph: StepGraph, merge: Node, entered: dict[str, Node]) -> bool:
    """Whether a Merge is that of a loop variable; others end conditionals."""
    return any(source in entered or graph.nodes[source].op == "NextIteration" for source, _ in merge.inputs)


def _index_is_read(uses: dict[str, list[_Use]], merge: Node) -> bool:
    return any(use.output == 1 for use in uses[merge.name])


def _body(
    graph: StepGraph, plain: list[Node], condition: Node, next_names: list[str], numbers: dict[Edge, int],
    num_variables: int, num_invariants: int, switches: list[Node], branching: set[str],
) -> LoopBody | None:  # fmt: skip
    """Sorts the nodes into condition and body and renumbers their inputs; `branching` are those of conditionals."""
    inside = {node.name for node in plain}
    true_outputs = {(switch.name, 1) for switch in switches}
    switch_names = {switch.name for switch in switches}
    in_body: set[str] = set()
    for node in plain:
        reads_body = any(edge in true_outputs or edge[0] in in_body for edge in node.inputs)
        if reads_body or any(name in in_body or name in switch_names for name in node.controls):
            in_body.add(node.name)
    # The names that a loop gives to its variables inside the body need no node of their own.
    # In a branch of a conditional, one that waits for others may be dead where its input is not.
    aliases = {
        (node.name, 0): node.inputs[0] for node in plain if node.op == "Identity" and not (branching and node.controls)
    }
    computed = [node for node in plain if (node.name, 0) not in aliases]
    condition_nodes = [node for node in computed if node.name not in in_body]
    ordered = condition_nodes + [node for node in computed if node.name in in_body]
    offset = num_variables + num_invariants
    position = {node.name: offset + i for i, node in enumerate(ordered)}

    def number(edge: Edge) -> tuple[int, int] | None:
        while edge in aliases:
            edge = aliases[edge]
        if edge in numbers:
            return numbers[edge], 0
        return (position[edge[0]], edge[1]) if edge[0] in position else None

    known = inside | switch_names | {name for name, _ in numbers} | set(next_names) | {condition.name}
    inputs = []
    for node in ordered:
        # A false output inside the loop would be read only after its end.
        if any(edge[0] in switch_names and edge[1] == 0 for edge in node.inputs):
            return None
        numbered = [number(edge) for edge in node.inputs]
        if any(n is None for n in numbered):
            return None
        if any(control not in known for control in node.controls):
            return None
        if branching:
            for control in node.controls:
                # A node without outputs would have to be followed to what it waits for.
                guard = number((control, 0)) if control in inside else None
                if control in inside and (guard is None or not graph.nodes[control].output_dtypes):
                    return None
                numbered += [guard] if guard is not None else []
        inputs.append(tuple((str(n[0]), n[1]) for n in numbered if n is not None))
    predicate = number(condition.inputs[0])
    following = []
    for name in next_names:
        node = graph.nodes[name]
        if node.controls and any(control not in inside for control in node.controls):
            return None
        following.append(number(node.inputs[0]))
    num_condition = len(condition_nodes)
    if predicate is None or predicate[0] >= offset + num_condition or any(n is None for n in following):
        return None
    nexts = tuple(n for n in following if n is not None)
    return LoopBody(tuple(ordered), tuple(inputs), num_condition, num_variables, num_invariants, predicate, nexts)


def _lowered(
    uses: dict[str, list[_Use]], frame: Frame, enters: list[Node], num_variables: int, exits: list[Node],
    outputs: list[int], body: LoopBody,
) -> _Lowered | None:  # fmt: skip
    name = f"{enters[0].name}/_loop"
    dtypes = tuple(node.output_dtypes[0] for node in enters)
    waits_for = tuple(dict.fromkeys(control for node in enters for control in node.controls))
    loop = Node(
        name, "_Loop", {"program": body}, tuple(node.inputs[0] for node in enters), waits_for, enters[0].device, dtypes,
        dtypes[:num_variables]
    )  # fmt: skip
    gone = {node.name for node in frame.nodes} | {node.name for node in frame.enters}
    edges: dict[Edge, Edge] = {(node.name, 0): (name, k) for node, k in zip(exits, outputs, strict=True)}
    controls: dict[str, tuple[str, ...]] = {node.name: (name,) for node in exits}
    if _is_read_inside(uses, gone, edges, controls):
        return None
    return _Lowered(loop, gone, edges, controls)


def _is_read_inside(
    uses: dict[str, list[_Use]], gone: set[str], edges: dict[Edge, Edge], controls: dict[str, tuple[str, ...]]
) -> bool:
    """Whether an outside node reads from within the loop, past its Exits: only imported graphs have such nodes."""
    for name in gone:
        for reader, output in uses[name]:
            if reader in gone or (reader is None and output is None):  # A target reads nothing.
                continue
            if (name, output) not in edges if output is not None else name not in controls:
                return True
    return False


def _replaced(graph: StepGraph, loops: Sequence[_Lowered]) -> StepGraph:
    """The step with `_Loop` nodes in the place of loops."""
    gone: set[str] = set()
    edges: dict[Edge, Edge] = {}
    controls: dict[str, tuple[str, ...]] = {}
    for loop in loops:
        gone |= loop.gone
        edges |= loop.edges
        controls |= loop.controls
    nodes = {name: node for name, node in graph.nodes.items() if name not in gone}
    nodes.update((loop.node.name, loop.node) for loop in loops)
    return StepGraph(nodes, graph.feeds, graph.fetches, graph.targets).redirected(edges, controls)
