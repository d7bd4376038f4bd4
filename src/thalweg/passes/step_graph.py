"""StepGraph: the part of a graph that one step runs, in the form that the passes transform and the core compiles.

Nodes are immutable and refer to each other by name, because loops make the graph cyclic. The node dictionary is in
topological order, except for the edge from NextIteration to Merge that closes a loop. A fed tensor is the output of an
`_Arg` node, so that every pass sees it like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from thalweg import errors
from thalweg.graph.definitions.op_registry import OpDef, find_op
from thalweg.graph.dtypes import DType
from thalweg.graph.source_location import Source, source_line
from thalweg.graph.tensor_shape import TensorShape

Edge = tuple[str, int]

_UNKNOWN_SHAPE = TensorShape(None)
_PURE: dict[str, bool] = {}  # `Node.pure` of op types; passes ask for each node.


class Node(NamedTuple):
    """One operation of a step; everything that later passes and other processes have to know of it.

    Attributes:
        name: Its name; that of the program's operation, unless a pass has made the node.
        op: The op type.
        attrs: Attributes. Functions are GraphFunctions while a step is planned, and names in a planned step.
        inputs: The tensors that it reads.
        controls: The nodes that it waits for.
        device: Before placement the device that is asked for, after it the full name of the node's device.
        input_dtypes: The types of its inputs.
        output_dtypes: The types of its outputs.
        shapes: What is known of the shapes of its outputs; empty if nothing is.
        requested_device: The (partial) device name that the program asks for; of a `_Recv`, that of the tensor's
            producer. None for a node that a pass has made.
        in_control_flow: Whether it is in a loop or a branch of a conditional, as far as the program says.
        source: Where the program created it.
    """

    name: str
    op: str
    attrs: dict[str, Any]
    inputs: tuple[Edge, ...]
    controls: tuple[str, ...]
    device: str
    input_dtypes: tuple[DType, ...]
    output_dtypes: tuple[DType, ...]
    shapes: tuple[TensorShape, ...] = ()
    requested_device: str | None = None
    in_control_flow: bool = False
    source: Source = ()

    @property
    def op_def(self) -> OpDef | None:
        """The definition of the op type; None for the runtime's own nodes (`_Arg`)."""
        return find_op(self.op)

    @property
    def stateful(self) -> bool:
        """Whether its kernel belongs to the session, and no pass may drop, merge or move it."""
        definition = self.op_def
        return definition is not None and definition.stateful

    @property
    def pure(self) -> bool:
        """Whether its outputs depend on nothing but its inputs and attributes."""
        known = _PURE.get(self.op)
        if known is None:
            definition = self.op_def
            if definition is None:
                return False  # Not for good: an op of this type may be registered later.
            known = _PURE[self.op] = definition.is_foldable
        return known


def members_of(node: Node) -> list[tuple[str, str]]:
    """Names and op types of the nodes of the program that a node stands for: itself, unless a pass has made it."""
    if "_members" not in node.attrs:
        return [(node.name, node.op)]
    return list(zip(node.attrs["_members"], node.attrs["_member_ops"], strict=True))


def asked_device(node: Node) -> str:
    """The device that the program asks for; of a node that a pass has made, the device that it is on."""
    return node.device if node.requested_device is None else node.requested_device


def failed_node(node: Node) -> errors.FailedNode:
    """The description of a node in an error."""
    return errors.FailedNode(node.name, node.op, source_line(node.source))


def standing_for(attrs: dict[str, Any], nodes: Iterable[Node]) -> dict[str, Any]:
    """Attributes of a node that replaces others, and which, for traces (runtime/trace.py)."""
    members = [member for node in nodes for member in members_of(node)]
    return {**attrs, "_members": [name for name, _ in members], "_member_ops": [op for _, op in members]}


class Feed(NamedTuple):
    """A tensor that the caller gives a value for."""

    name: str
    dtype: DType
    shape: TensorShape


@dataclass(frozen=True)
class StepGraph:
    """The nodes, feeds, fetches and targets of a step."""

    nodes: dict[str, Node]
    feeds: tuple[Feed, ...]
    fetches: tuple[Edge, ...]
    targets: tuple[str, ...]

    def shape(self, edge: Edge) -> TensorShape:
        """What is known of a tensor's shape before the step runs."""
        node = self.nodes[edge[0]]
        if node.op == "_Arg":
            return self.feeds[int(node.attrs["index"])].shape
        return node.shapes[edge[1]] if edge[1] < len(node.shapes) else _UNKNOWN_SHAPE

    def with_nodes(self, nodes: dict[str, Node], fetches: tuple[Edge, ...] | None = None) -> StepGraph:
        """The same step over other nodes."""
        return replace(self, nodes=nodes, fetches=self.fetches if fetches is None else fetches)

    def reachable(self) -> StepGraph:
        """The step without the nodes that neither a fetch nor a target needs."""
        needed: set[str] = set()
        stack = [name for name, _ in self.fetches] + list(self.targets)
        while stack:
            name = stack.pop()
            if name in needed:
                continue
            needed.add(name)
            node = self.nodes[name]
            stack.extend(source for source, _ in node.inputs)
            stack.extend(node.controls)
        if len(needed) == len(self.nodes):
            return self
        return self.with_nodes({name: node for name, node in self.nodes.items() if name in needed})

    def redirected(self, edges: dict[Edge, Edge], controls: dict[str, tuple[str, ...]]) -> StepGraph:
        """The step with some tensors replaced by others, and control edges from some nodes replaced."""
        if not edges and not controls:
            return self
        nodes = {}
        for name, node in self.nodes.items():
            if any(edge in edges for edge in node.inputs):
                node = node._replace(inputs=tuple(edges.get(edge, edge) for edge in node.inputs))
            if any(control in controls for control in node.controls):
                new = dict.fromkeys(c for control in node.controls for c in controls.get(control, (control,)))
                node = node._replace(controls=tuple(new))
            nodes[name] = node
        return self.with_nodes(nodes, tuple(edges.get(edge, edge) for edge in self.fetches))
