"""Marks the products and convolutions whose weights stay the same from step to step, so that they are packed once.

In a step that changes no resource (inference), the weights that a kernel reads straight from a variable or a constant
are rearranged for it on the first run and kept until the variable changes (core/compute/weights/weight_cache.h). This
takes memory, a copy of the weights, or four where Winograd's algorithm is used; training steps, where it would be of no
use, are left alone.
"""

from __future__ import annotations

from thalweg.graph.definitions.op_registry import effect_of
from thalweg.graph.dtypes import resource
from thalweg.graph.op_effects import Effect
from thalweg.passes.step_graph import StepGraph

_CONTRACTIONS = frozenset({"Conv2D", "_FusedConv2D", "MatMul", "_FusedMatMul"})
_WEIGHTS = frozenset({"ReadVariableOp", "Const"})


def changes_resources(graph: StepGraph) -> bool:
    """Whether a step may change a variable, or anything else that outlives it."""
    return any(
        resource in node.input_dtypes and effect_of(node.op) is not Effect.READS for node in graph.nodes.values()
    )


def keep_weights(graph: StepGraph) -> StepGraph:
    """Returns the step with contractions marked that may keep their packed weights.

    If it is a part of a step, the whole step must not change resources.
    """
    if changes_resources(graph):
        return graph
    marked = {}
    for name, node in graph.nodes.items():
        # Filters, and the statistics that are multiplied into them.
        sources = node.inputs[1:6] if "FusedBatchNorm" in node.attrs.get("fused_ops", ()) else node.inputs[1:2]
        if node.op in _CONTRACTIONS and all(graph.nodes[source].op in _WEIGHTS for source, _ in sources):
            marked[name] = node._replace(attrs={**node.attrs, "_keep_weights": True})
    return graph.with_nodes({**graph.nodes, **marked}) if marked else graph
