"""Joins sums of products: AddN of A₁ᵀB₁, …, AₙᵀBₙ is one product of the Aᵢ and the Bᵢ laid end to end.

That is how the gradient of a recurrent network's weights looks when its steps are unrolled: n results of the weights'
size, and a sum over them, become one product with a longer inner dimension. The other summands are added to it. Equal
to within rounding.

A program that asks for different devices for the products gets the same bits whether it gets the devices or not: only
products that the program asks one device for are joined.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from thalweg.graph.dtypes import float32, int32
from thalweg.passes.step_graph import Edge, Node, StepGraph, asked_device, standing_for

# Where the operands are no smaller than the results, laying them end to end costs what it saves.
_SMALLEST_GAIN = 2
FEWEST_PRODUCTS = 3


def join_products(graph: StepGraph) -> StepGraph:
    """Returns the step with sums of products of transposed matrices joined."""
    sums = [
        node
        for node in graph.nodes.values()
        if node.op == "AddN" and len(node.inputs) >= FEWEST_PRODUCTS and _is_top_level(node)
    ]
    if not sums:
        return graph
    reads = Counter(edge for node in graph.nodes.values() for edge in node.inputs)
    reads.update(graph.fetches)
    awaited = set(graph.targets)
    for node in graph.nodes.values():
        # Gradients of one operation wait for each other in a NoOp: the NoOp can do without a product.
        if node.op != "NoOp" or node.name in awaited:
            awaited.update(node.controls)
    joined: dict[str, list[Node]] = {}
    gone: set[str] = set()
    for node in sums:
        products, others, controls, names = list[Node](), list[Edge](), list[str](), list[str]()
        for edge in node.inputs:
            product = graph.nodes[edge[0]]
            path = [product]
            if product.op == "Identity":
                product = graph.nodes[product.inputs[0][0]]
                path.append(product)
            shared = any(reads[(each.name, 0)] != 1 or each.name in awaited for each in path)
            if shared or len({asked_device(each) for each in (*path, node)}) > 1 or not _joins(graph, product, node):
                others.append(edge)
                continue
            products.append(product)
            controls += (control for each in path for control in each.controls)
            names += (each.name for each in path)
        if len(products) >= FEWEST_PRODUCTS:
            joined[node.name] = _join(graph, node, products, tuple(dict.fromkeys(controls)), tuple(others))
            gone.update(names)
    if not joined:
        return graph
    nodes: dict[str, Node] = {}
    for name, node in graph.nodes.items():
        if name not in gone:
            nodes.update((new.name, new) for new in joined.get(name, [node]))
    return graph.with_nodes(nodes).redirected({}, dict.fromkeys(gone, ()))


def _is_top_level(node: Node) -> bool:
    """Whether a node is in no loop and no branch: there the added constant would need a pivot."""
    return node.requested_device is not None and not node.in_control_flow


def _joins(graph: StepGraph, product: Node, total: Node) -> bool:
    """Whether a node is a product Aᵀ B in float32 that is large beside its operands."""
    if product.op != "MatMul" or product.output_dtypes[0] is not float32 or product.device != total.device:
        return False
    if not product.attrs.get("transpose_a") or product.attrs.get("transpose_b") or product.controls:
        return False
    a, b = graph.shape(product.inputs[0]), graph.shape(product.inputs[1])
    if not (a.is_fully_defined() and b.is_fully_defined()):
        return False
    if a.dims is None or b.dims is None or len(a.dims) != 2 or len(b.dims) != 2:
        return False
    inner, rows, columns = (dim.value or 0 for dim in (*a.dims, b.dims[1]))
    return rows * columns >= _SMALLEST_GAIN * inner * (rows + columns)


def _join(
    graph: StepGraph, total: Node, products: list[Node], controls: tuple[str, ...], others: tuple[Edge, ...]
) -> list[Node]:
    """The nodes that replace a sum: the joined product, and a sum of it and the other summands, if any."""
    axis = Node(f"{total.name}/_joined/axis", "Const", {"value": np.array(0, np.int32), "dtype": int32}, (), (),
                total.device, (), (int32,))  # fmt: skip

    def end_to_end(which: int) -> Node:
        edges: tuple[Edge, ...] = tuple(p.inputs[which] for p in products)
        return Node(
            name=f"{total.name}/_joined/{'ab'[which]}",
            op="ConcatV2",
            attrs={"N": len(edges), "T": float32, "Tidx": int32},
            inputs=(*edges, (axis.name, 0)),
            controls=(),
            device=total.device,
            input_dtypes=(float32,) * len(edges) + (int32,),
            output_dtypes=(float32,),
        )

    a, b = end_to_end(0), end_to_end(1)
    product = total._replace(
        op="MatMul",
        attrs=standing_for(products[0].attrs, products if others else [*products, total]),
        inputs=((a.name, 0), (b.name, 0)),
        controls=controls if others else tuple(dict.fromkeys((*controls, *total.controls))),
        input_dtypes=(float32, float32),
    )
    if not others:
        return [axis, a, b, product]
    product = product._replace(
        name=f"{total.name}/_joined/product",
        shapes=(graph.shape((total.name, 0)),),
        requested_device=None,
    )
    rest = total._replace(
        attrs={**total.attrs, "N": 1 + len(others)},
        inputs=((product.name, 0), *others),
        input_dtypes=(float32,) * (1 + len(others)),
    )
    return [axis, a, b, product, rest]
