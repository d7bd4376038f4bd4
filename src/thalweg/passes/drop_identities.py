"""Drops Identity nodes: a name for a value costs a user nothing, so it should cost the step nothing."""

from __future__ import annotations

from thalweg.graph.definitions.op_registry import effect_of, flow_of
from thalweg.graph.op_effects import Effect, Flow
from thalweg.passes.step_graph import Edge, Node, StepGraph


def drop_identities(graph: StepGraph) -> StepGraph:
    """Returns the step with the readers of an Identity reading its input.

    An Identity with control edges in or out stays, and so does one whose input comes from a Switch: its output may be
    dead. An Identity that the program has put on another device than its input, for readers on a third, stays as well:
    the value is to travel over that device.
    """
    awaited = {control for node in graph.nodes.values() for control in node.controls}
    awaited.update(graph.targets)
    relays = _relays(graph)
    edges: dict[Edge, Edge] = {}
    for name, node in graph.nodes.items():
        if len(node.inputs) != 1 or not forwards(node) or node.controls or name in awaited:
            continue
        source = node.inputs[0]
        if flow_of(graph.nodes[source[0]].op) is Flow.SWITCH or node.input_dtypes[0]._is_ref_dtype:
            continue
        source = edges.get(source, source)
        if name not in relays or node.device == graph.nodes[source[0]].device:
            edges[(name, 0)] = source
    return graph.redirected(edges, {}).reachable() if edges else graph


def forwards(node: Node) -> bool:
    """Whether the output is the only input as it is. Feeds are cut by now: a placeholder here forwards its default."""
    return flow_of(node.op) is Flow.FORWARD or (len(node.inputs) == 1 and effect_of(node.op) is Effect.FED)


def _relays(graph: StepGraph) -> set[str]:
    """Nodes that the program has put on a device, and whose values readers on other devices use.

    Where all readers are on that device, the value comes there without an Identity, too.
    """
    if len({node.device for node in graph.nodes.values()}) <= 1:
        return set()
    leaving = {name for name, _ in graph.fetches}
    for node in graph.nodes.values():
        forwarding = forwards(node)
        leaving.update(name for name, _ in node.inputs if forwarding or node.device != graph.nodes[name].device)
    return {name for name in leaving if graph.nodes[name].requested_device}
