"""Drops the gates between the gradients of one operation, for steps over several devices.

`gradients(gate_gradients=True)`, which optimizers ask for, lets nobody use one gradient of an operation before all of
them are there: an Identity of each waits for a NoOp that waits for all. That keeps an update from changing a variable
that another gradient has yet to read. Here a read is a snapshot, so that nothing can go wrong, while the gate makes the
backward pass wait for the gradients of weights, which another device could compute meanwhile.

On one device nobody gains from that, and the gates keep memory low: there they stay.
"""

from __future__ import annotations

from thalweg.graph.marks import GATES
from thalweg.passes.step_graph import Node, StepGraph


def drop_gates(graph: StepGraph) -> StepGraph:
    """Returns the step with gradients that do not wait for each other.

    Everything that has an effect is still run: if something would be lost with the gates, they stay.
    """
    nodes = {name: _opened(graph, node) for name, node in graph.nodes.items()}
    found = graph.with_nodes(nodes).reachable()
    lost = (node for name, node in graph.nodes.items() if name not in found.nodes)
    return found if all(node.pure or GATES in node.attrs for node in lost) else graph


def _opened(graph: StepGraph, node: Node) -> Node:
    if GATES not in node.attrs or node.op != "Identity":
        return node
    controls = tuple(name for name in node.controls if GATES not in graph.nodes[name].attrs)
    return node._replace(controls=controls) if len(controls) < len(node.controls) else node
