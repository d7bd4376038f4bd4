"""The backward walk out of a function's body, into the graphs around it.

A tensor of an outer graph is seen in a body as the placeholder of a capture. A walk that begins in the body and is to
reach a tensor outside goes on from each capture with the tensor that it stands for. All new nodes belong to the body:
what they read of the outer graphs is captured in its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.autodiff.nodes import Level
from thalweg.autodiff.walk import Options, walk
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor


def walk_outwards(
    graph: FuncGraph, ys: Sequence[Tensor], seeds: Sequence[Any], xs: Sequence[Tensor], options: Options,
    stops: frozenset[Tensor] = frozenset(),
) -> dict[Tensor, Any]:  # fmt: skip
    """The gradients of `xs`, which are in `graph` or around it, given those of `ys`, which are in `graph`."""
    chain = _graphs(graph)
    starts: dict[Graph, list[Tensor]] = {each: [x for x in xs if x.op.graph is each] for each in chain}
    captured: dict[Graph, dict[Tensor, Tensor]] = {each: {} for each in chain}  # by placeholder, what it stands for
    for place in reversed(range(len(chain))):
        outer = chain[place]
        level = Level(outer._get_control_flow_context())
        reached = level.reached_from(starts[outer])
        known = set(starts[outer])
        for inner in chain[:place]:
            assert isinstance(inner, FuncGraph)
            for tensor, placeholder in inner.captures.items():
                if type(tensor) is EagerTensor:
                    continue  # A value: nothing of it is in a graph.
                if tensor.op.graph is outer and (tensor in known or level.node(tensor.op) in reached):
                    starts[inner].append(placeholder)
                    captured[inner][placeholder] = tensor
    ends: dict[Graph, list[tuple[Tensor, Any]]] = {each: [] for each in chain}
    ends[graph] = list(zip(ys, seeds, strict=True))
    results: dict[Tensor, Any] = {}
    for each in chain:
        if not ends[each] or not starts[each]:
            continue
        tensors, grads = zip(*ends[each], strict=True)
        found = walk(each._get_control_flow_context(), tensors, grads, starts[each], options, stops)
        for tensor, grad in found.items():
            behind = captured[each].get(tensor)
            if behind is None:
                results[tensor] = grad
            elif behind not in stops or behind in xs:
                ends[behind.op.graph].append((behind, grad))
    return results


def _graphs(graph: Graph) -> list[Graph]:
    """A graph and those around it, the innermost first."""
    found = [graph]
    while isinstance(graph, FuncGraph):
        graph = graph.outer_graph
        found.append(graph)
    return found
