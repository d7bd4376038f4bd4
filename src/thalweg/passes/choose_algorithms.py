"""Allows convolutions to choose their algorithm: Winograd's has a quarter of the multiplications, rounded otherwise.

Whether a convolution uses the permission depends on its sizes, which the kernel sees (compute/winograd/winograd.h).
Results agree with the direct sum to about 1e-5 of the largest; docs/decisions/0007-convolution.md has the measurements.
"""

from __future__ import annotations

from thalweg.passes.step_graph import StepGraph

_CONVOLUTIONS = frozenset({"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "_FusedConv2D"})


def choose_algorithms(graph: StepGraph) -> StepGraph:
    """Returns the step with its two-dimensional convolutions free to form their sums in any way."""
    chosen = {
        name: node._replace(attrs={**node.attrs, "_any_sums": True})
        for name, node in graph.nodes.items()
        if node.op in _CONVOLUTIONS
    }
    return graph.with_nodes({**graph.nodes, **chosen}) if chosen else graph
