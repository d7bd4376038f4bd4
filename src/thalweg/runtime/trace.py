"""Labels for the core's record of an observed step: the nodes of the program that each node of the step stands for.

Passes make one node of several. Such a node lists its members, and its time is divided among them by their arithmetic:
an estimate, but the sum is what was measured. A step learns the labels of its nodes once, on its first trace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Any, Final, NamedTuple

from thalweg.graph.definitions.op_registry import find_op
from thalweg.graph.definitions.work import is_light
from thalweg.passes.node_work import work_of
from thalweg.passes.step_graph import Node, StepGraph
from thalweg.planning.planned_step import PlannedStep, referred_names

# The layout of a record (TraceRecord in core/executor/trace.h), for numpy.dtype.
RECORD: Final = [
    ("node", "i4"), ("parent", "i4"), ("start", "i8"), ("end", "i8"), ("in_use", "i8"), ("taken", "i8"),
    ("temporary", "i8"), ("thread", "i4"), ("first_output", "i4"), ("num_outputs", "i4"), ("waits", "i4"),
]  # fmt: skip

_FED: Final = re.compile(r"_arg/(\d+)")  # The name that passes/prune.py gives a fed value.
_GUESSED_DEPTH: Final = 64  # How many products each element of a result takes where no shape is known.


class TracedNode(NamedTuple):
    """A node of a compiled step, as `CompiledStep.nodes` gives it.

    Attributes:
        part: The number of its device.
        caller: The node that calls the function it belongs to, or -1.
        name: Its name; that of a function's node begins with the caller's.
        op: Its op type.
        inputs: The nodes that it reads, without constants.
        controls: The nodes that it waits for.
        members: The nodes of the program that it stands for; empty: itself.
        member_ops: Their op types.
    """

    part: int
    caller: int
    name: str
    op: str
    inputs: list[int]
    controls: list[int]
    members: list[str]
    member_ops: list[str]


class Share(NamedTuple):
    """A node of the program, and its share of the time of a step's node."""

    node: str
    op: str
    share: float


def traced_nodes(compiled: Any, first: int = 0) -> list[TracedNode]:
    """The nodes of a compiled step, by the numbers that records use."""
    return [TracedNode(*node) for node in compiled.nodes(first)]


def shares(node: TracedNode, nodes: Sequence[TracedNode], step: PlannedStep) -> list[Share]:
    """The nodes of the program that a node stands for, in the order in which they would run alone."""
    if not node.members:
        return [Share(node.name, node.op, 1.0)]
    scope = _scope(node, nodes)
    joined = len(node.members) > 2 and node.member_ops[-1] == "AddN" and node.op == "MatMul"
    weights = [
        0.0 if joined and op == "AddN" else _weight(op, _planned(name, node, nodes, step))
        for name, op in zip(node.members, node.member_ops, strict=True)
    ]
    total = sum(weights)
    return [
        Share(scope + name, op, weight / total)
        for name, op, weight in zip(node.members, node.member_ops, weights, strict=True)
    ]


def _scope(node: TracedNode, nodes: Sequence[TracedNode]) -> str:
    """The prefix of the names of a called function's nodes."""
    return nodes[node.caller].name + "/" if node.caller >= 0 else ""


class _Planned(NamedTuple):
    """A node of the planned step, or of the body of a function, and the graph that it is in."""

    node: Node
    graph: StepGraph


def _planned(name: str, node: TracedNode, nodes: Sequence[TracedNode], step: PlannedStep) -> _Planned | None:
    """The node of this name in the step, or in the body of the function, that a traced node belongs to."""
    if node.caller < 0:
        graphs = [part.graph for part in step.parts.values()]
    else:
        caller = nodes[node.caller]
        calling = _planned(caller.name.removeprefix(_scope(caller, nodes)), caller, nodes, step)
        called = referred_names(calling.node) if calling is not None else ()
        graphs = [step.functions[each].graph for each in called]
    return next((_Planned(graph.nodes[name], graph) for graph in graphs if name in graph.nodes), None)


def _weight(op: str, planned: _Planned | None) -> float:
    """How much arithmetic a member does, by the shapes that are known before it runs."""
    if planned is None or planned.node.op != op:  # Passes have made it, or the caller of its function is not known.
        definition = find_op(op)
        return 1.0 if definition is None or is_light(definition.work) else 2.0 * _GUESSED_DEPTH
    return work_of(planned.graph, planned.node).flops or 1.0


def label(compiled: Any, step: PlannedStep) -> None:
    """Gives the nodes of a compiled step their labels in StepStats, once."""
    first = compiled.num_labelled
    if first == compiled.num_traced_nodes:
        return
    nodes = _with_names_of_feeds(traced_nodes(compiled), compiled.feeds)
    last_members = [node.members[-1] if node.members and node.caller < 0 else node.name for node in nodes]
    traced = {_scope(node, nodes) + member for node in nodes for member in node.members}
    traced.update(node.name for node in nodes if node.op != "Const")
    compiled.label([_labels(node, nodes, last_members, traced, step) for node in nodes[first:]])


def _with_names_of_feeds(nodes: Sequence[TracedNode], feeds: Sequence[str]) -> list[TracedNode]:
    """The nodes; those that stand for fed values get the names of the program's nodes.

    The number in the name of such a node counts the feeds of the whole step. A task has some of them, in order.
    """
    matches = [_FED.match(node.name) if node.op == "_Arg" and node.caller < 0 else None for node in nodes]
    numbers = sorted({int(match[1]) for match in matches if match is not None})
    if len(numbers) != len(feeds):  # A pass has removed a node: which feed it stood for is not known.
        return list(nodes)
    named = dict(zip(numbers, feeds, strict=True))
    found = []
    for node, match in zip(nodes, matches, strict=True):
        name, _, output = named[int(match[1])].partition(":") if match is not None else ("", "", "")
        found.append(node._replace(name=name) if output == "0" else node)
    return found


def _read_in_body(node: TracedNode, nodes: Sequence[TracedNode], step: PlannedStep) -> list[str]:
    """The nodes that a node of a function reads: the core knows only those of the step's own nodes."""
    scope = _scope(node, nodes)
    first = node.members[0] if node.members else node.name.removeprefix(scope)
    planned = _planned(first, node, nodes, step)
    return list(dict.fromkeys(scope + source for source, _ in planned.node.inputs)) if planned is not None else []


def _labels(
    node: TracedNode, nodes: Sequence[TracedNode], last_members: Sequence[str], traced: Set[str], step: PlannedStep
) -> list[tuple[str, str, float]]:
    """Names, texts and shares: `name = Op(inputs)` as in TensorFlow, and the fused node, if any."""
    parts = shares(node, nodes, step)
    inputs = list(
        dict.fromkeys([*(last_members[i] for i in node.inputs), *("^" + last_members[i] for i in node.controls)])
    )
    if node.caller >= 0:
        inputs = [name for name in _read_in_body(node, nodes, step) if name in traced]
    if node.op == "_Recv" and node.name.endswith("/_recv"):
        inputs.append(node.name.removesuffix("recv") + "send")
    inside = f" in {node.op} {parts[-1].node}" if len(parts) > 1 else ""
    found = []
    known: set[str] = set()
    for i, (name, op, share) in enumerate(parts):
        if i > 0:
            planned = _planned(name, node, nodes, step) if node.caller < 0 else None
            read = [source for source, _ in planned.node.inputs] if planned is not None else []
            inputs = [source for source in dict.fromkeys(read) if source in known] or [parts[i - 1].node]
        known.add(name)
        found.append((name, f"{name} = {op}({', '.join(inputs)}){inside}", share))
    return found
