"""Packs matrices that several products of a step share: the weights of a recurrent cell, step after step.

A product first brings its right-hand side into the order in which the micro kernel reads it. With few rows on the left
that costs as much as half of the product. Here one `_PackWeights` node does it for all products with the same
right-hand side, outside of the loop if they are in one. The sums are the same, in the same order.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from thalweg.graph.dtypes import float32
from thalweg.passes.step_graph import Edge, Node, StepGraph

_PRODUCTS = frozenset({"MatMul", "_FusedMatMul"})
_MOST_ROWS = 96  # With more rows, packing is a small part of the work.
_FEWEST_USES = 3
_LEAST_SIZE = 64 * 64
# Such products are formed by other loops (core/compute/matmul/product.cc), which round otherwise.
_PLAIN_ROWS, _PLAIN_WORK = 2, 64 * 1024


class _Weights(NamedTuple):
    """A matrix as products read it: through the Enter of a loop or directly."""

    edge: Edge
    transposed: bool
    inner: int
    columns: int


def pack_weights(graph: StepGraph) -> StepGraph:
    """Returns the step with shared right-hand sides packed once."""
    users: dict[_Weights, list[Node]] = defaultdict(list)
    for node in graph.nodes.values():
        weights = _weights(graph, node)
        if weights is not None:
            users[weights] = [*users[weights], node]
    changed: dict[str, Node] = {}
    packs: dict[str, list[Node]] = defaultdict(list)  # by the name of the node that they follow
    for weights, products in users.items():
        name, output = weights.edge
        source = graph.nodes[name]
        entered = _is_invariant(source)
        if not entered and len(products) < _FEWEST_USES:
            continue
        suffix = f"/_packed{output}{'t' if weights.transposed else ''}"
        packed = Node(name + suffix, "_PackWeights", {"transpose_b": weights.transposed}, (weights.edge,), (),
                      products[0].device, (float32,), (float32,))  # fmt: skip
        if entered:
            packed = packed._replace(inputs=source.inputs)
            packs[source.inputs[0][0]].append(packed)
            into = source._replace(
                name=packed.name + "/Enter", inputs=((packed.name, 0),), shapes=(), requested_device=None
            )
            packs[name].append(into)
        else:
            into = packed
            packs[name].append(packed)
        for product in products:
            attrs = {**product.attrs, "transpose_b": False, "_packed": [weights.inner, weights.columns]}
            inputs = (product.inputs[0], (into.name, 0), *product.inputs[2:])
            changed[product.name] = product._replace(attrs=attrs, inputs=inputs)
    if not changed:
        return graph
    nodes: dict[str, Node] = {}
    for name, node in graph.nodes.items():
        nodes[name] = changed.get(name, node)
        nodes.update((pack.name, pack) for pack in packs.get(name, ()))
    return graph.with_nodes(nodes).reachable()


def _weights(graph: StepGraph, node: Node) -> _Weights | None:
    """The right-hand side of a product, if packing it could pay."""
    if node.op not in _PRODUCTS or node.attrs.get("transpose_a") or "_keep_weights" in node.attrs:
        return None
    if node.output_dtypes != (float32,) or node.input_dtypes[1] is not float32:
        return None
    rows, size = graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    if rows.rank != 2 or size.rank != 2:
        return None
    height = rows.as_list()[0]
    inner, columns = size.as_list()
    if height is None or inner is None or columns is None or height > _MOST_ROWS or inner * columns < _LEAST_SIZE:
        return None
    if height <= _PLAIN_ROWS and height * inner * columns <= _PLAIN_WORK:
        return None
    transposed = bool(node.attrs.get("transpose_b"))
    return _Weights(node.inputs[1], transposed, *((columns, inner) if transposed else (inner, columns)))


def _is_invariant(node: Node) -> bool:
    return node.op == "Enter" and bool(node.attrs.get("is_constant")) and not node.controls
