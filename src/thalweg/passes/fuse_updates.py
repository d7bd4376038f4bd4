"""Lets the gradient of a matrix go straight into its update by gradient descent.

The gradient of the weights of a layer is a product, as large as the weights. Stored by one node and read by the next,
it passes through memory twice; the node that this pass makes of both adds each tile to the weights while it is in
registers. Results are equal bit for bit.

An optimizer's gradients are gated (passes/drop_gates.py): the update waits for an Identity, the Identity for a NoOp,
and the NoOp for all gradients of the layer. The new node waits for the same gradients except its own product.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from thalweg.graph.dtypes import float32
from thalweg.graph.marks import GATES
from thalweg.passes.step_graph import Edge, Node, StepGraph, standing_for

UPDATE: Final = "_MatMulGradientDescent"
_DELTA: Final = 2  # among the inputs of an update
# A product that waits for more than the other gradient of its layer would keep its operands in memory meanwhile.
_SMALL_GATE: Final = 2


def fuse_updates(graph: StepGraph) -> StepGraph:
    """Returns the step with products and the updates by them made one, where the product has no other consumer."""
    updates = [node for node in graph.nodes.values() if node.op == "ResourceApplyGradientDescent"]
    if not updates:
        return graph
    fused: dict[str, Node] = {}
    gone: set[str] = set()
    readers = _readers(graph)
    awaited = _awaited(graph)
    for update in updates:
        chain = _chain(graph, readers, awaited, update)
        if chain:
            fused[update.name] = _fuse(chain, update)
            gone.update(node.name for node in chain)
    if not fused:
        return graph
    nodes = {}
    for name, node in graph.nodes.items():
        if name in gone:
            continue
        node = fused.get(name, node)
        if not gone.isdisjoint(node.controls):
            node = node._replace(controls=tuple(control for control in node.controls if control not in gone))
        nodes[name] = node
    return graph.with_nodes(nodes)


def _readers(graph: StepGraph) -> Counter[Edge]:
    readers = Counter(edge for node in graph.nodes.values() for edge in node.inputs)
    readers.update(graph.fetches)
    return readers


def _awaited(graph: StepGraph) -> set[str]:
    """Targets, and the nodes that others than gates wait for."""
    found = set(graph.targets)
    for node in graph.nodes.values():
        if node.op != "NoOp" or GATES not in node.attrs:
            found.update(node.controls)
    return found


def _chain(graph: StepGraph, readers: Counter[Edge], awaited: set[str], update: Node) -> list[Node]:
    """The product whose result is nothing but the gradient of an update, and the Identities behind it."""
    chain: list[Node] = []
    edge = update.inputs[_DELTA]
    while True:
        node = graph.nodes[edge[0]]
        if readers[edge] != 1 or node.name in awaited or node.device != update.device:
            return []
        chain.append(node)
        if node.op != "Identity":
            break
        if any(len(graph.nodes[name].controls) > _SMALL_GATE for name in node.controls):
            return []
        edge = node.inputs[0]
    return chain[::-1] if node.op == "MatMul" and node.output_dtypes[0] is float32 else []


def _fuse(chain: list[Node], update: Node) -> Node:
    product = chain[0]
    attrs: dict[str, Any] = {key: product.attrs[key] for key in ("transpose_a", "transpose_b") if key in product.attrs}
    return update._replace(
        op=UPDATE,
        attrs=standing_for(attrs, [*chain, update]),
        inputs=update.inputs[:_DELTA] + product.inputs,
        controls=tuple(dict.fromkeys(control for node in (*chain, update) for control in node.controls)),
        input_dtypes=update.input_dtypes[:_DELTA] + product.input_dtypes,
    )
