"""Drops the gates between the gradients of one operation, for steps over several devices.

`gradients(gate_gradients=True)`, which optimizers ask for, delays the consumers of each gradient of an operation until
all gradients are computed: an Identity of each waits for a NoOp that waits for all. That keeps an update from changing
a variable that another gradient has yet to read. Here a read is a snapshot, so updates need no gate, while the gate
makes the backward pass wait for the gradients of weights, which another device could compute meanwhile.

On one device the gates cost no time and keep memory low: there they stay.
"""

from __future__ import annotations

from thalweg.graph.marks import GATES
from thalweg.passes.step_graph import Node, StepGraph


def drop_gates(graph: StepGraph) -> StepGraph:
    """Returns the step with gradients that do not wait for each other.

    Every node with an effect still runs: if dropping the gates would make one unreachable, they stay.
    """
    nodes = {name: _ungated(graph, node) for name, node in graph.nodes.items()}
    found = graph.with_nodes(nodes).reachable()
    lost = (node for name, node in graph.nodes.items() if name not in found.nodes)
    return found if all(node.pure or GATES in node.attrs for node in lost) else graph


def _ungated(graph: StepGraph, node: Node) -> Node:
    if GATES not in node.attrs or node.op != "Identity":
        return node
    controls = tuple(name for name in node.controls if GATES not in graph.nodes[name].attrs)
    return node._replace(controls=controls) if len(controls) < len(node.controls) else node
