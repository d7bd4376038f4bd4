"""Constant folding: what depends on constants only is computed once, when the step is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.node_work import work_of
from thalweg.passes.step_graph import Edge, Node, StepGraph

# A folded value is kept for the life of the compiled step: a large one is cheaper to compute again.
_LARGEST_RESULT = 1 << 18
# Compiling a step does not hear its timeout, and may compute what never runs: at most some tenths of a second.
_MOST_WORK = 1e10

Evaluate = Callable[[StepGraph], Sequence[Any]]


def fold_constants(graph: StepGraph, evaluate: Evaluate) -> StepGraph:
    """Returns the step with constant subgraphs replaced by Const nodes.

    Args:
        graph: The step.
        evaluate: Runs a step without feeds and returns its fetches as arrays.

    Returns:
        The step, or an equal one. A subgraph that fails (such as a division by zero) stays, and fails when it is run.
    """
    constant: dict[str, Node] = {}
    folded = 0
    left = _MOST_WORK
    for name, node in graph.nodes.items():
        if node.controls or not node.pure:
            continue
        if node.op == "Const":
            constant[name] = node
        elif node.inputs and all(source in constant for source, _ in node.inputs) and _is_small(node):
            flops = work_of(graph, node).flops
            if flops <= left:
                left -= flops
                constant[name] = node
                folded += 1
    if not folded:
        return graph
    boundary = _boundary(graph, constant)
    if not boundary:
        return graph
    try:
        values = evaluate(StepGraph(constant, (), boundary, ()).reachable())
    except errors.OpError:
        return graph
    edges: dict[Edge, Edge] = {}
    nodes: dict[str, Node] = {}
    for (name, index), value in zip(boundary, values, strict=True):
        node = constant[name]
        new = f"{name}/_folded/{index}"
        dtype = node.output_dtypes[index]
        array = np.asarray(value, dtype=dtype.as_numpy_dtype)
        nodes[new] = Node(
            new, "Const", {"value": array, "dtype": dtype}, (), (), node.device, (), (dtype,),
            (TensorShape(array.shape),), node.requested_device, node.in_control_flow, node.source,
        )  # fmt: skip
        edges[(name, index)] = (new, 0)
    nodes.update(graph.nodes)
    return graph.with_nodes(nodes).redirected(edges, {}).reachable()


def _boundary(graph: StepGraph, constant: dict[str, Node]) -> tuple[Edge, ...]:
    """The folded outputs that are fetched, or read by nodes outside of the constant part."""
    edges: dict[Edge, None] = {}
    for name, node in graph.nodes.items():
        if name not in constant:
            edges.update((edge, None) for edge in node.inputs if edge[0] in constant)
    edges.update((edge, None) for edge in graph.fetches if edge[0] in constant)
    return tuple(edge for edge in edges if constant[edge[0]].op != "Const")


def _is_small(node: Node) -> bool:
    if len(node.shapes) != len(node.output_dtypes):
        return False
    for shape, dtype in zip(node.shapes, node.output_dtypes, strict=True):
        count = shape.num_elements()
        if count is None or count > _LARGEST_RESULT or not dtype.is_numpy_compatible:
            return False
    return True
