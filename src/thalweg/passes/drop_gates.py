"""Drops the gates between the gradients of one operation, for steps over several devices.

`gradients(gate_gradients=True)`, which optimizers ask for, lets nobody use one gradient of an operation before all of
them are there: an Identity of each waits for a NoOp that waits for all. That keeps an update from changing a variable
that another gradient has yet to read. Here a read is a snapshot, so that nothing can go wrong, while the gate makes the
backward pass wait for the gradients of weights, which another device could compute meanwhile.

On one device nobody gains from that, and the gates keep memory low: there they stay.
"""

from __future__ import annotations

from thalweg.passes.step_graph import Node, StepGraph


def drop_gates(graph: StepGraph) -> StepGraph:
    """Returns the step with Identities that no longer wait for values beside their own."""
    nodes = {}
    for name, node in graph.nodes.items():
        gates = [gate for gate in node.controls if _is_gate(graph, node, gate)]
        if gates:
            node = node._replace(controls=tuple(control for control in node.controls if control not in gates))
        nodes[name] = node
    return graph.with_nodes(nodes).reachable()


def _is_gate(graph: StepGraph, node: Node, control: str) -> bool:
    """Whether a control input is a NoOp that waits for the node's own input and others that have no effects."""
    gate = graph.nodes[control]
    if node.op != "Identity" or gate.op != "NoOp" or gate.inputs or node.inputs[0][0] not in gate.controls:
        return False
    return all(graph.nodes[each].pure for each in gate.controls)
