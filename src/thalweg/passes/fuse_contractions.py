"""Fuses what follows a convolution or a matrix product (a bias, a normalization, a sum, an activation) into its kernel.

A chain `Conv2D -> BiasAdd -> Relu` becomes one `_FusedConv2D`, which adds and clips each output while it is still in a
register or in the cache. It takes the name and the place of the chain's last node. The nodes before it must have no
consumer outside of the chain. Results are those of the separate nodes to within a few units in the last place: a
convolution may begin its sums with the bias, and the factor of a batch normalization with fixed statistics is
multiplied into the filter. Chains behind matrix products give the very bits.

The nodes of a chain must be on one device. Where bits may change, the program must also ask for one device for all of
them: so it has the same results whether it gets the devices that it asks for or not.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from thalweg.graph.dtypes import bfloat16 as bfloat16_type
from thalweg.graph.dtypes import float16, float32, float64
from thalweg.passes.step_graph import Edge, Node, StepGraph, asked_device, standing_for

_FUSED = {"Conv2D": "_FusedConv2D", "MatMul": "_FusedMatMul"}
_ACTIVATIONS = frozenset({"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"})
_SUMS = frozenset({"Add", "AddV2"})
_NORMALIZATIONS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_TYPES = frozenset({float16, bfloat16_type, float32, float64})


class _Link(NamedTuple):
    """One node that joins a chain: its entry in `fused_ops`, the edges of its other operands, attributes."""

    op: str
    arguments: tuple[Edge, ...] = ()
    attrs: dict[str, Any] = {}  # noqa: RUF012 (never changed)


def fuse_contractions(graph: StepGraph) -> StepGraph:
    """Returns the step with chains behind convolutions and matrix products fused."""
    starts = [node for node in graph.nodes.values() if node.op in _FUSED and node.output_dtypes[0] in _TYPES]
    if not starts:
        return graph
    readers = _Readers(graph)
    fused: dict[str, Node] = {}
    gone: set[str] = set()
    taken: set[str] = set()
    for start in starts:
        chain, links = _chain(graph, readers, start, taken)
        if links:
            last = chain[-1]
            fused[last.name] = _fuse(chain, links)
            gone.update(node.name for node in chain[:-1])
            taken.update(node.name for node in chain)
    if not fused:
        return graph
    return graph.with_nodes({name: fused.get(name, node) for name, node in graph.nodes.items() if name not in gone})


class _Readers:
    """The consumers of each tensor, and the nodes that targets, fetches or control edges name."""

    def __init__(self, graph: StepGraph) -> None:
        self._count: Counter[Edge] = Counter()
        self._reader: dict[Edge, Node] = {}
        self._named = set(graph.targets)
        for node in graph.nodes.values():
            for edge in node.inputs:
                self._count[edge] += 1
                self._reader[edge] = node
            self._named.update(node.controls)
        self._fetched = set(graph.fetches)
        self._named.update(name for name, _ in self._fetched)

    def need_only_first(self, node: Node) -> bool:
        """Whether nothing reads or fetches an output of `node` after its first one, which is all that a chain has."""
        others = [(node.name, i) for i in range(1, len(node.output_dtypes))]
        return not any(self._count[edge] or edge in self._fetched for edge in others)

    def only_reader(self, node: Node) -> Node | None:
        """The node that alone reads `node`'s first output, if nothing else needs `node`."""
        if node.name in self._named or self._count[(node.name, 0)] != 1:
            return None
        if not self.need_only_first(node):
            return None
        return self._reader[(node.name, 0)]


def _chain(graph: StepGraph, readers: _Readers, start: Node, taken: set[str]) -> tuple[list[Node], list[_Link]]:
    """The nodes of a chain, and how those after the first continue it. The sum of two chains belongs to the first."""
    chain, links = [start], list[_Link]()
    while True:
        reader = readers.only_reader(chain[-1])
        if reader is None or reader.controls or reader.name in taken or not readers.need_only_first(reader):
            return chain, links
        if reader.device != start.device or not _may_fuse(start, reader):
            return chain, links
        link = _link(graph, start, chain[-1], reader, links)
        if link is None:
            return chain, links
        chain.append(reader)
        links.append(link)
        if link.op in _ACTIVATIONS:
            return chain, links


def _may_fuse(start: Node, other: Node) -> bool:
    """Whether fusing another node keeps the bits, or the program asks for one device for both."""
    return start.op == "MatMul" or asked_device(start) == asked_device(other)


def _link(graph: StepGraph, start: Node, before: Node, node: Node, links: list[_Link]) -> _Link | None:
    """How `node` continues the chain, if it can."""
    edge = (before.name, 0)
    if node.op in _ACTIVATIONS:
        alpha = {"leakyrelu_alpha": node.attrs["alpha"]} if node.op == "LeakyRelu" else {}
        return _Link(node.op, (), alpha)
    if node.op == "BiasAdd" and not links and node.inputs[0] == edge:
        same_layout = start.op == "MatMul" or node.attrs.get("data_format", "NHWC") == start.attrs.get("data_format")
        return _Link("BiasAdd", (node.inputs[1],)) if same_layout else None
    if node.op in _NORMALIZATIONS and not links and node.inputs[0] == edge:
        fixed = not node.attrs.get("is_training", True) and start.op == "Conv2D"
        if not fixed or node.attrs.get("data_format", "NHWC") != start.attrs.get("data_format"):
            return None
        if start.output_dtypes[0] not in (float32, float64):
            return None
        return _Link("FusedBatchNorm", node.inputs[1:5], {"epsilon": node.attrs.get("epsilon", 1e-4)})
    if node.op in _SUMS:
        other = node.inputs[1] if node.inputs[0] == edge else node.inputs[0]
        return _sum(graph, start, before, other, links)
    return None


def _sum(graph: StepGraph, start: Node, before: Node, other: Edge, links: list[_Link]) -> _Link | None:
    """A sum with a vector of the last dimension is a bias; one with a tensor of the same shape is an Add."""
    result, added = graph.shape((before.name, 0)), graph.shape(other)
    if result.rank is None or added.rank is None or other[0] == before.name:
        return None
    last = result.dims[-1].value if result.dims else None
    if not links and added.rank == 1 and last is not None and added.dims is not None and added.dims[0].value == last:
        return _Link("BiasAdd", (other,)) if start.attrs.get("data_format", "NHWC") == "NHWC" else None
    if graph.nodes[other[0]].op == "_Recv" and start.op == "MatMul":
        return None  # The product would wait for another device that computes the summand meanwhile.
    if not _may_fuse(start, graph.nodes[other[0]]):
        return None
    same = result.is_fully_defined() and added.is_fully_defined() and result.as_list() == added.as_list()
    # A product in float32 is added in registers, in the buffer of the other summand if that has no other consumer.
    takes_sum = start.op == "Conv2D" or (not links and start.output_dtypes[0] is float32)
    if same and takes_sum and all(link.op != "Add" for link in links):
        return _Link("Add", (other,))
    return None


def _fuse(chain: list[Node], links: list[_Link]) -> Node:
    start, last = chain[0], chain[-1]
    arguments = tuple(edge for link in links for edge in link.arguments)
    attrs = {
        **start.attrs,
        "num_args": len(arguments),
        "fused_ops": [link.op for link in links],
        **{name: value for link in links for name, value in link.attrs.items()},
    }
    return last._replace(
        op=_FUSED[start.op],
        attrs=standing_for(attrs, chain),
        inputs=start.inputs + arguments,
        controls=start.controls,
        input_dtypes=start.input_dtypes + (start.output_dtypes[0],) * len(arguments),
        output_dtypes=start.output_dtypes,
    )
