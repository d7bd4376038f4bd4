"""Host sides: prepares a placed step for devices with memory of their own, which come as plug-ins.

A tensor crosses between such a device and the host in a Recv, so every tensor that is read on the host has to cross:
fetched values, and inputs that a kernel of the device itself reads on the host. Fed values begin on the host. For
partitioning, the attribute `_host_inputs` of the nodes that the device computes says in which memory each input is
wanted: bit i for input i. The nodes that partitioning adds there lack it: they are the host's.
"""

from __future__ import annotations

from collections.abc import Callable

from thalweg.passes.step_graph import Edge, Node, StepGraph

HOST_INPUTS = "_host_inputs"
# The constant of a device with its own memory: copied there once.
DEVICE_CONST = "_DeviceConst"


def host_sides(
    graph: StepGraph, host: str, has_own_memory: Callable[[str], bool], host_inputs: Callable[[Node], int]
) -> StepGraph:
    """Returns the step with its crossings made explicit; the same step if no node is on such a device.

    Args:
        graph: The step, placed.
        host: The device that stands for the host.
        has_own_memory: Whether a device has memory of its own.
        host_inputs: Which inputs of a node on such a device are wanted on the host.
    """
    if not any(has_own_memory(node.device) for node in graph.nodes.values()):
        return graph
    crossed: dict[Edge, Edge] = {}
    nodes: dict[str, Node] = {}

    def on_host(edge: Edge) -> Edge:
        source = graph.nodes[edge[0]]
        if source.op == "_Arg" or not has_own_memory(source.device):
            return edge
        found = crossed.get(edge)
        if found is None:
            dtype = source.output_dtypes[edge[1]].base_dtype
            name = f"{edge[0]}/_{edge[1]}/_to_host"
            nodes[name] = Node(name, "Identity", {"T": dtype}, (edge,), (), host, (dtype,), (dtype,))
            found = crossed[edge] = (name, 0)
        return found

    for name, node in graph.nodes.items():
        if node.op == "_Arg":
            node = node._replace(device=host)
        elif has_own_memory(node.device):
            mask = host_inputs(node)
            inputs = tuple(on_host(edge) if mask >> i & 1 else edge for i, edge in enumerate(node.inputs))
            op = DEVICE_CONST if node.op == "Const" else node.op
            node = node._replace(op=op, inputs=inputs, attrs={**node.attrs, HOST_INPUTS: mask})
        nodes[name] = node
    fetches = tuple(on_host(edge) for edge in graph.fetches)
    return graph.with_nodes(nodes, fetches)
