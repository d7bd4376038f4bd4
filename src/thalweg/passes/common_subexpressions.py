"""Common-subexpression elimination: nodes that compute the same from the same become one (white paper, section 5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.marks import COMPRESS
from thalweg.passes.step_graph import Edge, Node, StepGraph

# Comparing the bytes of large constants costs more than keeping two of them.
_LARGEST_CONSTANT = 1024


def merge_common_subexpressions(graph: StepGraph) -> StepGraph:
    """Returns the step with duplicates of pure nodes removed; the first one stays."""
    first: dict[Any, str] = {}
    replaced: dict[str, str] = {}
    nodes: dict[str, Node] = {}
    for name, node in graph.nodes.items():
        if replaced:
            node = _renamed(node, replaced)
        if node.pure:
            key = _key(node)
            if key is not None:
                canonical = first.setdefault(key, name)
                if canonical is not name:
                    replaced[name] = canonical
                    continue
        nodes[name] = node
    if not replaced:
        return graph
    # A back edge refers to a node that comes later, so it is renamed only now.
    nodes = {name: _renamed(node, replaced) for name, node in nodes.items()}
    fetches = tuple((replaced.get(name, name), index) for name, index in graph.fetches)
    targets = tuple(replaced.get(name, name) for name in graph.targets)
    return StepGraph(nodes, graph.feeds, fetches, targets)


def _renamed(node: Node, replaced: dict[str, str]) -> Node:
    inputs: tuple[Edge, ...] = node.inputs
    for name, _ in inputs:
        if name in replaced:
            node = node._replace(inputs=tuple((replaced.get(source, source), index) for source, index in inputs))
            break
    if node.controls and any(name in replaced for name in node.controls):
        node = node._replace(controls=tuple(dict.fromkeys(replaced.get(name, name) for name in node.controls)))
    return node


def _key(node: Node) -> Any:
    attrs = []
    for name, value in node.attrs.items():
        if name.startswith("_") and name != COMPRESS:
            continue
        if isinstance(value, np.ndarray):
            if value.nbytes > _LARGEST_CONSTANT or value.dtype.hasobject:
                return None
            value = (value.dtype.str, value.shape, value.tobytes())
        elif isinstance(value, list):
            if any(isinstance(item, np.ndarray) for item in value):
                return None
            value = tuple(value)
        attrs.append((name, value))
    return (node.op, node.inputs, node.controls, node.device, tuple(attrs))
