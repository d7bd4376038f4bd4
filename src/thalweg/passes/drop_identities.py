"""Drops Identity nodes: a name for a value costs a user nothing, so it should cost the step nothing."""

from __future__ import annotations

from thalweg.passes.step_graph import Edge, StepGraph

_PASS_THROUGH = frozenset({"Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault"})


def drop_identities(graph: StepGraph) -> StepGraph:
    """Returns the step with the readers of an Identity reading its input.

    An Identity that waits for other nodes, that others wait for, or that a loop or conditional needs in its place (its
    input comes from a Switch, whose output may be dead) stays.
    """
    awaited = {control for node in graph.nodes.values() for control in node.controls}
    awaited.update(graph.targets)
    edges: dict[Edge, Edge] = {}
    for name, node in graph.nodes.items():
        if node.op not in _PASS_THROUGH or node.controls or name in awaited:
            continue
        source = node.inputs[0]
        if graph.nodes[source[0]].op in ("Switch", "RefSwitch") or node.input_dtypes[0]._is_ref_dtype:
            continue
        edges[(name, 0)] = edges.get(source, source)
    return graph.redirected(edges, {}).reachable() if edges else graph
