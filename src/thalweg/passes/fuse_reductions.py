"""Fuses a reduction with the element-wise operations before it: `reduce_sum(tanh(x * a))` reads x, and writes no array.

The operand must be a fused chain, or one operation that could be in one, without another reader, and the axes must be
constants that include the last dimension: then rows are reduced while they are in the cache. Results are those of the
separate operations, bit for bit (core/kernels/fused_elementwise.cc).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np

from thalweg.graph.dtypes import float32
from thalweg.passes.step_graph import Edge, Node, StepGraph, standing_for

_REDUCTIONS: Final = frozenset({"Sum", "Mean", "Prod", "Max", "Min"})
_CHAIN: Final = "_FusedElementwise"
_FEWEST_ELEMENTS: Final = 1024  # Fewer are computed without machine code.


def fuse_reductions(graph: StepGraph, operands_of: Callable[[str], int]) -> StepGraph:
    """Returns the step with reductions fused with their operands.

    Args:
        graph: The step, with its chains fused.
        operands_of: How many operands an op that can be fused has; 0 for all others.
    """
    reductions = [node for node in graph.nodes.values() if node.op in _REDUCTIONS]
    if not reductions:
        return graph
    readers = Counter(edge for node in graph.nodes.values() for edge in node.inputs)
    readers.update(graph.fetches)
    named = set(graph.targets) | {control for node in graph.nodes.values() for control in node.controls}
    fused: dict[str, Node] = {}
    gone: set[str] = set()
    for node in reductions:
        chain = graph.nodes[node.inputs[0][0]]
        is_free = readers[node.inputs[0]] == 1 and chain.name not in named and chain.device == node.device
        if is_free and _is_chain(graph, chain, operands_of) and _reduces_rows(graph, node):
            fused[node.name] = _fuse(chain, node)
            gone.add(chain.name)
    if not fused:
        return graph
    return graph.with_nodes({name: fused.get(name, node) for name, node in graph.nodes.items() if name not in gone})


def _is_chain(graph: StepGraph, node: Node, operands_of: Callable[[str], int]) -> bool:
    if node.op == _CHAIN:
        return "reduction" not in node.attrs
    if node.output_dtypes != (float32,) or any(dtype is not float32 for dtype in node.input_dtypes):
        return False
    if not node.inputs or operands_of(node.op) != len(node.inputs):
        return False
    a, b = graph.shape(node.inputs[0]), graph.shape(node.inputs[-1])
    return a.rank == 0 or b.rank == 0 or a.is_compatible_with(b)


def _reduces_rows(graph: StepGraph, node: Node) -> bool:
    """Whether the reduction is known to include the last dimension of an array that may be large."""
    axes = graph.nodes[node.inputs[1][0]]
    shape = graph.shape(node.inputs[0])
    if node.output_dtypes != (float32,) or axes.op != "Const" or not shape.rank:
        return False
    if shape.is_fully_defined() and (shape.num_elements() or 0) < _FEWEST_ELEMENTS:
        return False
    return shape.rank - 1 in {int(axis) % shape.rank for axis in np.ravel(axes.attrs["value"])}


def _fuse(chain: Node, reduction: Node) -> Node:
    attrs = chain.attrs
    if chain.op != _CHAIN:
        operands = list(range(len(chain.inputs))) if chain.inputs[0] != chain.inputs[-1] else [0] * len(chain.inputs)
        attrs = {"ops": [chain.op], "operands": [*operands, -1][:2], "origins": [chain.name]}
    inputs: tuple[Edge, ...] = chain.inputs if chain.op == _CHAIN else tuple(dict.fromkeys(chain.inputs))
    return reduction._replace(
        op=_CHAIN,
        attrs=standing_for(
            {
                **{key: attrs[key] for key in ("ops", "operands", "origins", "dtypes") if key in attrs},
                "reduction": reduction.op,
                "keep_dims": reduction.attrs.get("keep_dims", False),
            },
            [chain, reduction],
        ),
        inputs=(*inputs, reduction.inputs[1]),
        controls=tuple(dict.fromkeys((*chain.controls, *reduction.controls))),
        input_dtypes=(*chain.input_dtypes[: len(inputs)], reduction.input_dtypes[1]),
    )
