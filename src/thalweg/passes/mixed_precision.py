"""Mixed precision: computes matrix products and convolutions in 16 bits, everything else as the user wrote it.

Three kinds of nodes. *Products* do nearly all the arithmetic, sum in float32 inside of their kernels, and are always
lowered. *Followers* move elements or change each one a little; they are lowered where that saves a conversion: when a
lowered node computes one of their inputs, and the others are lowered, constants or variables too. All others
(exponentials, sums, losses, updates of variables, control flow) stay in float32. Variables do, too: they are cast where
a lowered node reads them. There is one cast per tensor, however many nodes read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.dtypes import DType
from thalweg.passes.step_graph import Edge, Node, StepGraph

# Part of the names of inserted casts; error messages cut the name there.
CAST_MARK = "/_cast/"

_PRODUCTS = re.compile(
    r"(Batch)?MatMul(V2|V3)?|Einsum|Conv[23]D(Backprop(Input|Filter)(V2)?)?|DepthwiseConv2dNative(Backprop\w+)?"
)
_FOLLOWERS = re.compile(
    r"Add|AddV2|AddN|Sub|Mul|Neg|Abs|Maximum|Minimum|BiasAdd|BiasAddV1|(Max|Avg)Pool(3D)?(Grad)?"
    r"|(Relu|Relu6|LeakyRelu|Elu|Selu|Tanh|Sigmoid|Softsign)(Grad)?"
)
# Ops of any type that do more than move elements: they add, or read the elements' bytes.
_NO_MOVERS = re.compile(r"ScatterNd\w*|Bitcast|Cast|TensorScatter\w*|MirrorPadGrad")
_SIZES = frozenset({"Shape", "Size", "Rank", "ShapeN"})
_CHEAP_SOURCES = frozenset({"Const", "ReadVariableOp"})

Supports = Callable[[str, str, DType], bool]


class _Lowered(NamedTuple):
    """The attributes of a node that name the type of its float32 inputs and outputs."""

    attrs: tuple[str, ...]


def lower_precision(graph: StepGraph, dtype: DType, supports: Supports) -> StepGraph:
    """Returns the step with products, and what belongs to them, in `dtype`.

    Args:
        graph: The step.
        dtype: bfloat16 or float16.
        supports: Whether an op has a kernel when one of its type attributes is `dtype`.
    """
    lowered: dict[str, _Lowered] = {}
    for name, node in graph.nodes.items():
        found = _lowering(node, graph, lowered, dtype, supports)
        if found is not None:
            lowered[name] = found
    if not lowered:
        return graph
    casts = _Casts(lowered, dtype)
    for node in graph.nodes.values():
        casts.add(node)
    return graph.with_nodes(casts.nodes, tuple(casts.edge(edge, dtypes.float32) for edge in graph.fetches))


def _lowering(
    node: Node, graph: StepGraph, lowered: dict[str, _Lowered], dtype: DType, supports: Supports
) -> _Lowered | None:
    definition = node.op_def
    if definition is None or not node.pure or dtypes.float32 not in node.input_dtypes:
        return None
    attrs = _float_attrs(definition, node)
    if not attrs:
        return None
    if not _PRODUCTS.fullmatch(node.op):
        if not _FOLLOWERS.fullmatch(node.op) and not _only_moves(definition, attrs):
            return None
        sources = [e for e, kind in zip(node.inputs, node.input_dtypes, strict=True) if kind is dtypes.float32]
        if not any(name in lowered for name, _ in sources):
            return None
        if any(name not in lowered and graph.nodes[name].op not in _CHEAP_SOURCES for name, _ in sources):
            return None
    if not all(supports(node.op, attr, dtype) for attr in attrs):
        return None
    return _Lowered(attrs)


def _float_attrs(definition: OpDef, node: Node) -> tuple[str, ...]:
    """The type attributes that are float32; none if a type is fixed, or in a list, so that it cannot be changed."""
    attrs: dict[str, None] = {}
    for arg in (*definition.inputs, *definition.outputs):
        if arg.dtype is dtypes.float32 or arg.type_list_attr is not None:
            return ()
        if arg.type_attr is not None and node.attrs.get(arg.type_attr) is dtypes.float32:
            attrs[arg.type_attr] = None
    return tuple(attrs)


def _only_moves(definition: OpDef, attrs: tuple[str, ...]) -> bool:
    """Whether an op passes elements on unseen: it takes elements of any type, and returns that type and no other."""
    if len(attrs) != 1 or definition.attrs[attrs[0]].allowed is not None or _NO_MOVERS.fullmatch(definition.name):
        return False
    return definition.name in _SIZES or all(arg.type_attr == attrs[0] for arg in definition.outputs)


class _Casts:
    """Builds the new nodes; a cast stands right before the first node that needs it."""

    def __init__(self, lowered: dict[str, _Lowered], dtype: DType) -> None:
        self._lowered = lowered
        self._dtype = dtype
        self.nodes: dict[str, Node] = {}

    def add(self, node: Node) -> None:
        """Adds a node, with casts for the inputs that come in another precision."""
        lowered = self._lowered.get(node.name)
        wanted = dtypes.float32 if lowered is None else self._dtype
        inputs = tuple(
            self.edge(edge, wanted, node.device) if kind is dtypes.float32 else edge
            for edge, kind in zip(node.inputs, node.input_dtypes, strict=True)
        )
        if lowered is not None:
            attrs: dict[str, Any] = {**node.attrs, **dict.fromkeys(lowered.attrs, self._dtype)}
            node = node._replace(
                attrs=attrs, input_dtypes=self._types(node.input_dtypes), output_dtypes=self._types(node.output_dtypes)
            )
        self.nodes[node.name] = node if inputs == node.inputs else node._replace(inputs=inputs)

    def edge(self, edge: Edge, wanted: DType, device: str = "") -> Edge:
        """The tensor `edge` as `wanted`, if it was float32 in the user's graph."""
        source = self.nodes.get(edge[0])
        if source is None:  # The back edge of a loop; loops carry float32.
            return edge
        found = source.output_dtypes[edge[1]]
        if (
            found is wanted
            or found not in (dtypes.float32, self._dtype)
            or (found is self._dtype and edge[0] not in self._lowered)
        ):
            return edge
        name = f"{edge[0]}{CAST_MARK}{edge[1]}"
        if name not in self.nodes:
            attrs = {"SrcT": found, "DstT": wanted, "Truncate": False}
            self.nodes[name] = Node(name, "Cast", attrs, (edge,), (), source.device or device, (found,), (wanted,))
        return (name, 0)

    def _types(self, types: tuple[DType, ...]) -> tuple[DType, ...]:
        return tuple(self._dtype if kind is dtypes.float32 else kind for kind in types)
