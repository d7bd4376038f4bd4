"""Frees handles: an IdentityN that only hands resource handles on does not tie their devices together.

The results, arguments and variables of a function with a gradient of its own (`tf.custom_gradient`,
`tf.recompute_grad`) go through one IdentityN, which carries the gradient function. When a step runs, that node has no
use for the handles of variables, which may be on different devices.
"""

from __future__ import annotations

from thalweg.graph.dtypes import resource
from thalweg.passes.step_graph import Edge, StepGraph


def free_handles(graph: StepGraph) -> StepGraph:
    """Returns the step with handles read where they come from, and not at the end of an IdentityN."""
    edges: dict[Edge, Edge] = {}
    nodes = dict(graph.nodes)
    for name, node in graph.nodes.items():
        if node.op != "IdentityN" or resource not in node.input_dtypes:
            continue
        count = node.input_dtypes.index(resource)
        # Handles must come last: other outputs keep their indices, by which their shapes are found.
        if count == 0 or node.controls or any(dtype is not resource for dtype in node.input_dtypes[count:]):
            continue
        for i, source in enumerate(node.inputs[count:], count):
            edges[name, i] = edges.get(source, source)
        nodes[name] = node._replace(
            attrs={**node.attrs, "T": list(node.attrs["T"])[:count]},
            inputs=node.inputs[:count],
            input_dtypes=node.input_dtypes[:count],
            output_dtypes=node.output_dtypes[:count],
        )
    return graph.with_nodes(nodes).redirected(edges, {}) if edges else graph
