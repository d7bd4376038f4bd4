"""Inlining: the body of a function takes the place of its call, so that a call costs nothing and passes see through it.

A node that is left as a call refers to its function by value, whatever the graph calls it by: an op type that is the
function's name, a PartitionedCall, a SymbolicGradient.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from thalweg.functions.function_gradient import gradient_function
from thalweg.functions.graph_function import GraphFunction, find_in_library
from thalweg.functions.read_function_def import specialized
from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import find_op, flow_of
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.op_effects import Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import Edge, Node, StepGraph

_MOST_NESTED: Final = 1 << 10  # Nodes of bodies within bodies: functions that call each other twice never end.
_DEEPEST: Final = 20


Library = Mapping[str, Any]
"""The functions of a graph, by name: GraphFunctions, and LibraryFunctions that can be instantiated."""


def inline_functions(graph: StepGraph, library: Library, inline: bool = True) -> StepGraph:
    """Returns the step without the calls that can be inlined: not recursive ones, nor those that ask to be left alone.

    Args:
        graph: The step, as `prune` made it.
        library: The functions of the graph that it was cut from.
        inline: Whether to do so; if not, calls only get the form in which the core knows them.

    Raises:
        errors.OpError: If a function does not exist, or its FunctionDef does not describe one.
    """
    if not any(node.op in library or function_attrs(node.op) for node in graph.nodes.values()):
        return graph
    return _Inlining(graph, library, inline).run()


@functools.cache
def function_attrs(op: str) -> tuple[str, ...]:
    """The attributes of an op type that are functions, or lists of them."""
    definition = find_op(op)
    if definition is None:
        return ()
    return tuple(name for name, attr in definition.attrs.items() if attr.kind in ("func", "list(func)"))


def functions_of(node: Node) -> list[GraphFunction]:
    """The functions that a node refers to, once `inline_functions` has put them into its attributes."""
    found = []
    for name in function_attrs(node.op):
        value = node.attrs.get(name)
        found.extend(value if isinstance(value, list) else [value] if value is not None else [])
    return found


def _by_value(node: Node, library: Library) -> Node:
    """The node with functions in the place of references to them."""

    def found(value: Any) -> Any:
        if isinstance(value, list):
            return [found(each) for each in value]
        return find_in_library(library, value) if isinstance(value, NameAttrList) else value

    names = [name for name in function_attrs(node.op) if name in node.attrs]
    return node._replace(attrs={**node.attrs, **{name: found(node.attrs[name]) for name in names}}) if names else node


def _is_call(node: Node, library: Library) -> bool:
    return flow_of(node.op) is Flow.CALL or node.op in library


def is_call(op: Operation) -> bool:
    """Whether an operation calls a function, and so may give place to its body."""
    return flow_of(op.type) is Flow.CALL or op.type in op.graph._functions


def _called(node: Node, library: Library) -> GraphFunction:
    if flow_of(node.op) is not Flow.CALL:
        return find_in_library(library, NameAttrList(node.op, node.attrs))
    reference = node.attrs["f"]
    function = reference if isinstance(reference, GraphFunction) else find_in_library(library, reference)
    return gradient_function(function) if node.op == "SymbolicGradient" else function


class _Inlining:
    def __init__(self, graph: StepGraph, library: Library, inline: bool) -> None:
        self._graph = graph
        self._library = library
        self._inline = inline
        self._nodes: dict[str, Node] = {}
        self._edges: dict[Edge, Edge] = {}
        self._flow_successors: set[str] = set()  # Nodes that a Switch or Enter precedes.
        self._nested = 0
        self._targets: dict[str, None] = dict.fromkeys(graph.targets)

    def run(self) -> StepGraph:
        for node in self._graph.nodes.values():
            self._add(node, self._library, (), False)
        edges = {edge: self._resolved(edge) for edge in self._edges}
        graph = StepGraph(self._nodes, self._graph.feeds, self._graph.fetches, tuple(self._targets))
        return graph.redirected(edges, {}).reachable()

    def _resolved(self, edge: Edge) -> Edge:
        while edge in self._edges:
            edge = self._edges[edge]
        return edge

    def _add(self, node: Node, library: Library, chain: tuple[str, ...], in_flow: bool) -> None:
        """Adds a node, or the body that it calls. `chain` are the functions it is in, `library` is their graph's."""
        if flow_of(node.op) in (Flow.SWITCH, Flow.ENTER) or self._flow_successors.intersection(
            (*(name for name, _ in node.inputs), *node.controls)
        ):
            self._flow_successors.add(node.name)
        if not _is_call(node, library):
            self._nodes[node.name] = _by_value(node, library)
            return
        function = _called(node, library)
        if node.op == "RemoteCall":  # There is but one device to run it on.
            node = node._replace(inputs=node.inputs[1:], input_dtypes=node.input_dtypes[1:])
        shapes = [self._shape(edge) for edge in node.inputs]
        if (
            self._inline
            and function.name not in chain
            and len(chain) < _DEEPEST
            and (not chain or self._nested < _MOST_NESTED)
            and not (function.noinline or node.attrs.get("_noinline", False))
            and _fits(node, function, shapes)
        ):
            # An imported graph does not say where its branches and loops are: a successor of one may be in it.
            tied = in_flow or node.in_control_flow or node.name in self._flow_successors
            self._expand(node, specialized(function, shapes), (*chain, function.name), tied)
            return
        op = "StatefulPartitionedCall" if function.stateful else "PartitionedCall"
        # A body that stays whole runs where the state is that it uses.
        device = "" if dtypes.resource in node.input_dtypes else node.device
        attrs = {"f": function, "Tin": list(node.input_dtypes), "Tout": list(node.output_dtypes)}
        self._nodes[node.name] = node._replace(op=op, attrs=attrs, device=device)

    def _expand(self, call: Node, function: GraphFunction, chain: tuple[str, ...], in_flow: bool) -> None:
        body = prune(function.inputs, function.outputs, function.targets)
        arguments = {(f"_arg/{i}", 0): edge for i, edge in enumerate(call.inputs)}
        inner = [node for node in body.nodes.values() if node.op != "_Arg"]
        self._nested += len(inner) if len(chain) > 1 else 0
        names = {node.name: self._unique(f"{call.name}/{node.name}") for node in inner}
        places = {tensor.op.name: edge[0] for tensor, edge in zip(function.inputs, call.inputs, strict=True)}
        pivot = self._pivot(call) if in_flow else None
        free: set[str] = set()  # Nodes that depend only on constants and arguments wait for no control edge.
        for node in inner:
            inside = [source for source, _ in node.inputs if source in names]
            settled = all(source in free for source in (*inside, *node.controls))
            if settled and node.pure and not node.controls:
                free.add(node.name)
            controls = [names[control] for control in node.controls]
            if settled and node.name not in free:
                controls.extend(call.controls)
            if pivot is not None and not node.inputs:
                controls.append(pivot)
            edges = tuple(arguments[edge] if edge in arguments else (names[edge[0]], edge[1]) for edge in node.inputs)
            self._add(
                node._replace(
                    name=names[node.name],
                    attrs=_attrs_in(call, node, names, places),
                    inputs=edges,
                    controls=tuple(dict.fromkeys(controls)),
                    device=node.device or ("" if dtypes.resource in node.input_dtypes else call.device),
                    in_control_flow=node.in_control_flow or in_flow,
                ),
                function.graph._functions,
                chain,
                in_flow,
            )
        results = []
        for i, edge in enumerate(body.fetches):
            result = arguments[edge] if edge in arguments else (names[edge[0]], edge[1])
            self._edges[(call.name, i)] = result
            if edge not in arguments:
                results.append(result[0])
        effects = [names[name] for name in body.targets]
        self._targets.update(dict.fromkeys(effects))
        # A node that waits for the call waits for the whole body.
        done = dict.fromkeys((*call.controls, *effects, *results, *((pivot,) if pivot is not None else ())))
        self._nodes[call.name] = Node(call.name, "NoOp", {}, (), tuple(done), call.device, (), ())

    def _shape(self, edge: Edge) -> TensorShape:
        edge = self._resolved(edge)
        node = self._nodes.get(edge[0]) or self._graph.nodes[edge[0]]
        if node.op == "_Arg":
            return self._graph.feeds[int(node.attrs["index"])].shape
        return node.shapes[edge[1]] if edge[1] < len(node.shapes) else TensorShape(None)

    def _pivot(self, call: Node) -> str | None:
        """A node that is dead where the call is: it keeps nodes without inputs in the branch or loop of the call."""
        if not call.inputs:
            return None  # It has been tied to its branch already.
        name = self._unique(f"{call.name}/_pivot")
        dtype = call.input_dtypes[0].base_dtype
        self._nodes[name] = Node(
            name, "Identity", {"T": dtype}, call.inputs[:1], call.controls, call.device, (dtype,), (dtype,)
        )
        return name

    def _unique(self, name: str) -> str:
        result, number = name, 1
        while result in self._nodes or result in self._graph.nodes:
            result, number = f"{name}_{number}", number + 1
        return result


def _attrs_in(call: Node, node: Node, names: dict[str, str], places: dict[str, str]) -> dict[str, Any]:
    """The attributes of a body's node in the place of a call.

    Args:
        call: The call.
        node: The node.
        names: The new names of the body's nodes.
        places: The nodes that arguments come from.
    """
    attrs = node.attrs
    if "frame_name" in attrs:  # Each call has loops of its own.
        attrs = {**attrs, "frame_name": f"{call.name}/".encode() + attrs["frame_name"]}
    if "_class" in attrs:
        beside = [group[5:].decode() for group in attrs["_class"] if group.startswith(b"loc:@")]
        there = [names.get(name) or places.get(name) for name in beside]
        attrs = {**attrs, "_class": [f"loc:@{name}".encode() for name in there if name is not None]}
    return attrs


def _fits(call: Node, function: GraphFunction, shapes: list[TensorShape]) -> bool:
    """Whether arguments and results have the declared types, and the arguments are known to have the declared shapes.

    Where they are not, the core checks them when the function is called.
    """
    given = [dtype.base_dtype for dtype in call.input_dtypes]
    if given != function.input_dtypes or list(call.output_dtypes) != function.output_dtypes:
        return False
    return all(
        dtype in (dtypes.resource, dtypes.variant) or shape.is_subtype_of(declared.shape)
        for dtype, shape, declared in zip(given, shapes, function.inputs, strict=True)
    )
