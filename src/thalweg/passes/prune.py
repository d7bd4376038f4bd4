"""Prune: cuts the user's graph down to what the fetches and targets of a step need, with fed tensors as sources."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.variable_values import fed_handle
from thalweg.passes.step_graph import Edge, Feed, Node, StepGraph


def prune(feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]) -> StepGraph:
    """Builds the step graph for these feeds, fetches and targets."""
    args: dict[Tensor, Edge] = {}
    nodes: dict[str, Node] = {}
    given: list[Feed] = []
    for index, tensor in enumerate(feeds):
        name = f"_arg/{index}"
        args[tensor] = (name, 0)
        feed = _feed(tensor, args)
        given.append(feed)
        nodes[name] = Node(name, "_Arg", {"index": index}, (), (), "", (), (feed.dtype,))
    roots = [tensor.op for tensor in fetches if tensor not in args] + list(targets)
    for op in _in_order(roots, args):
        nodes[op.name] = node_of(op, args)
    return StepGraph(
        nodes,
        tuple(given),
        tuple(args.get(tensor) or (tensor.op.name, tensor.value_index) for tensor in fetches),
        tuple(op.name for op in targets),
    )


def _feed(tensor: Tensor, args: dict[Tensor, Edge]) -> Feed:
    """The feed of a tensor. That of a variable (its handle, or the read that stands for it) reaches all its readers."""
    handle = fed_handle(tensor)
    if handle is None:
        return Feed(tensor.name, tensor.dtype.base_dtype, tensor.shape)
    args[handle] = args[tensor]
    return Feed(tensor.name, handle.op.attrs["dtype"], handle.op.attrs["shape"])


def node_of(op: Operation, args: dict[Tensor, Edge]) -> Node:
    """The step's node for an operation, with fed inputs taken from their `_Arg`s."""
    inputs = op.inputs
    edges = []
    for tensor in inputs:
        edge = args.get(tensor) if args else None
        edges.append(edge or (tensor.op.name, tensor.value_index))
    controls = tuple(control.name for control in _awaited(op, args)) if op.control_inputs else ()
    return Node(
        op.name,
        op.type,
        op.attrs,
        tuple(edges),
        controls,
        op.device,
        tuple([tensor.dtype for tensor in inputs]),
        tuple([tensor.dtype for tensor in op.outputs]),
        tuple([tensor.shape for tensor in op.outputs]),
        op.device,
        op._control_flow_context is not None,
        op._captured,
    )


def _awaited(op: Operation, args: dict[Tensor, Edge]) -> list[Operation]:
    """The control inputs of an operation, without placeholders that are fed, which are ready from the start."""
    return [
        control
        for control in op.control_inputs
        if not (args and control.type.startswith("Placeholder") and control.outputs[0] in args)
    ]


def _in_order(roots: list[Operation], args: dict[Tensor, Edge]) -> list[Operation]:
    """The ancestors of the roots, inputs first. Creation order is such an order but for the back edges of loops."""
    seen: set[Operation] = set()
    stack = list(roots)
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        for tensor in op.inputs:
            if tensor not in args:
                stack.append(tensor.op)
        stack.extend(_awaited(op, args) if op.control_inputs else ())
    return sorted(seen, key=lambda op: op._id)
