"""Lets images travel in the layout that the kernels are fast in: chains of NCHW operations become NHWC ones.

On processors the fast convolutions read and write NHWC (docs/decisions/0007-convolution.md). A program written for NCHW
is rewritten: the first operation of a chain gets a Transpose before it, the last one a Transpose behind it, and between
them every operation that knows of layouts (a convolution, a pool, a bias, a normalization) or is indifferent
(element-wise ones) works on NHWC, without a transposition. Weights have one layout and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thalweg.graph.dtypes import int32
from thalweg.passes.step_graph import Edge, Node, StepGraph, standing_for

_TO_LAST = (0, 2, 3, 1)
_TO_FIRST = (0, 3, 1, 2)
# Attributes with an entry per dimension, and one with two.
_PER_DIMENSION = ("strides", "ksize", "dilations")


class _Images(NamedTuple):
    """Which inputs and outputs of an op are images, and which inputs are the shape of one."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = (0,)
    shapes: tuple[int, ...] = ()


_BATCH_NORM, _BATCH_NORM_GRAD = _Images((0,)), _Images((0, 1))
_SENSITIVE = {
    "Conv2D": _Images((0,)),
    "Conv2DBackpropInput": _Images((2,), shapes=(0,)),
    "Conv2DBackpropFilter": _Images((0, 2), ()),
    "DepthwiseConv2dNative": _Images((0,)),
    "DepthwiseConv2dNativeBackpropInput": _Images((2,), shapes=(0,)),
    "DepthwiseConv2dNativeBackpropFilter": _Images((0, 2), ()),
    "BiasAdd": _Images((0,)),
    "BiasAddGrad": _Images((0,), ()),
    "MaxPool": _Images((0,)),
    "MaxPoolGrad": _Images((0, 1, 2)),
    "AvgPool": _Images((0,)),
    "AvgPoolGrad": _Images((1,), shapes=(0,)),
    "FusedBatchNorm": _BATCH_NORM,
    "FusedBatchNormV2": _BATCH_NORM,
    "FusedBatchNormV3": _BATCH_NORM,
    "FusedBatchNormGrad": _BATCH_NORM_GRAD,
    "FusedBatchNormGradV2": _BATCH_NORM_GRAD,
    "FusedBatchNormGradV3": _BATCH_NORM_GRAD,
}
# Besides the element-wise ops: others that treat all elements alike.
_INDIFFERENT = frozenset({"AddN", "Identity"})


def travel_layouts(graph: StepGraph, operands_of: Callable[[str], int]) -> StepGraph:
    """Returns the step with its NCHW operations converted into NHWC ones.

    Args:
        graph: The step.
        operands_of: How many operands an element-wise op has; 0 for all others.
    """
    if not any(_is_sensitive(graph, node) for node in graph.nodes.values()):
        return graph
    return _Rewriting(graph, operands_of).run()


def _is_sensitive(graph: StepGraph, node: Node) -> bool:
    images = _SENSITIVE.get(node.op)
    if images is None or node.attrs.get("data_format") not in ("NCHW", b"NCHW"):
        return False
    if any(graph.shape(node.inputs[i]).rank != 4 for i in images.inputs):
        return False
    return all(graph.nodes[node.inputs[i][0]].op == "Const" for i in images.shapes)


class _Rewriting:
    """The new nodes of the step, and the new tensor for each old one."""

    def __init__(self, graph: StepGraph, operands_of: Callable[[str], int]) -> None:
        self._graph, self._operands_of = graph, operands_of
        self._nodes: dict[str, Node] = {}
        self._nhwc: dict[Edge, Edge] = {}  # old tensor: the same in NHWC
        self._original: dict[Edge, Edge] = {}  # old tensor: the same in the program's layout, if its edge has changed

    def run(self) -> StepGraph:
        """Goes over the nodes in order; tensors on back edges of loops keep their layout."""
        moved: dict[str, tuple[str, ...]] = {}
        for name, node in self._graph.nodes.items():
            if _is_sensitive(self._graph, node):
                images = _SENSITIVE[node.op]
                self._convert(node, images.inputs, images.outputs, images.shapes)
                moved[name] = (f"{name}/nhwc",)
            elif self._may_join(node):
                self._convert(node, tuple(i for i, e in enumerate(node.inputs) if e in self._nhwc), (0,), ())
                moved[name] = (f"{name}/nhwc",)
            else:
                self._nodes[name] = node._replace(inputs=tuple(self._as_written(edge) for edge in node.inputs))
        fetches = tuple(self._as_written(edge) for edge in self._graph.fetches)
        targets = tuple(moved.get(name, (name,))[0] for name in self._graph.targets)
        result = StepGraph(self._nodes, self._graph.feeds, fetches, targets)
        return result.redirected({}, moved).reachable()

    def _may_join(self, node: Node) -> bool:
        """Whether an element-wise node has images in NHWC, and besides them nothing but scalars."""
        if node.op not in _INDIFFERENT and self._operands_of(node.op) != len(node.inputs):
            return False
        found = False
        for edge in node.inputs:
            if edge in self._nhwc:
                found = True
            elif self._graph.shape(edge).rank != 0:
                return False
        return found

    def _convert(self, node: Node, inputs: tuple[int, ...], outputs: tuple[int, ...], shapes: tuple[int, ...]) -> None:
        new = f"{node.name}/nhwc"
        edges = []
        for i, edge in enumerate(node.inputs):
            if i in inputs:
                edges.append(self._in_nhwc(edge, node.device))
            elif i in shapes:
                value = np.asarray(self._nodes[edge[0]].attrs["value"])
                edges.append(self._constant(f"{new}/shape", value[list(_TO_LAST)], node))
            else:
                edges.append(self._as_written(edge))
        self._nodes[new] = node._replace(
            name=new, attrs=standing_for(_nhwc_attrs(node.attrs), [node]), inputs=tuple(edges)
        )
        for i in range(len(node.output_dtypes)):
            (self._nhwc if i in outputs else self._original)[(node.name, i)] = (new, i)

    def _in_nhwc(self, edge: Edge, device: str) -> Edge:
        """The tensor in NHWC."""
        if edge not in self._nhwc:
            self._nhwc[edge] = self._transpose(f"{edge[0]}/{edge[1]}/to_nhwc", edge, _TO_LAST, device)
        return self._nhwc[edge]

    def _as_written(self, edge: Edge) -> Edge:
        """The tensor in the layout of the program."""
        if edge in self._nhwc and edge not in self._original and edge[0] not in self._nodes:
            device = self._graph.nodes[edge[0]].device
            self._original[edge] = self._transpose(f"{edge[0]}/{edge[1]}/to_nchw", self._nhwc[edge], _TO_FIRST, device)
        return self._original.get(edge, edge)

    def _transpose(self, name: str, edge: Edge, order: tuple[int, ...], device: str) -> Edge:
        source = self._nodes[edge[0]]
        dtype = source.output_dtypes[edge[1]]
        permutation = self._constant(f"{name}/perm", np.array(order, np.int32), source)
        attrs = {"T": dtype, "Tperm": int32}
        self._nodes[name] = Node(name, "Transpose", attrs, (edge, permutation), (), device, (dtype, int32), (dtype,))
        return (name, 0)

    def _constant(self, name: str, value: np.ndarray, like: Node) -> Edge:
        attrs = {"value": value.astype(np.int32), "dtype": int32}
        self._nodes[name] = Node(name, "Const", attrs, (), (), like.device, (), (int32,))
        return (name, 0)


def _nhwc_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    if "data_format" not in attrs:
        return attrs
    converted = {**attrs, "data_format": "NHWC"}
    for name in _PER_DIMENSION:
        if len(attrs.get(name, ())) == 4:
            converted[name] = [attrs[name][i] for i in _TO_LAST]
    pads = list(attrs.get("explicit_paddings", ()))
    if len(pads) == 8:
        converted["explicit_paddings"] = [pads[2 * i + side] for i in _TO_LAST for side in (0, 1)]
    return converted
