"""Partial runs: feeds and fetches that pass through the rendezvous of a step, one by one, while it runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.graph.device_spec import device_type
from thalweg.graph.dtypes import int32
from thalweg.passes.step_graph import Edge, Node, StepGraph


def through_rendezvous(graph: StepGraph, fetches: Sequence[str], host: str) -> StepGraph:
    """The step with `_Recv` nodes for its feeds and `_Send` nodes for its fetches and targets.

    They are on the devices of the nodes that they feed and fetch, or on `host` if the host cannot read that memory.

    Args:
        graph: The step, placed.
        fetches: The names of the fetched tensors.
        host: A device of the task that feeds and fetches, whose memory is the host's.
    """
    nodes: dict[str, Node] = {}

    def near(device: str) -> str:
        same_task = device.rpartition("/device:")[0] == host.rpartition("/device:")[0]
        return device if device_type(device) == "CPU" and same_task else host

    for name, node in graph.nodes.items():
        if node.op == "_Arg":
            feed = graph.feeds[node.attrs["index"]]
            attrs = {"tensor_name": feed_name(feed.name).encode(), "tensor_type": node.output_dtypes[0]}
            node = node._replace(op="_Recv", attrs=attrs, device=near(node.device), shapes=(feed.shape,))
        nodes[name] = node

    def send(name: str, edge: Edge) -> None:
        source = nodes[edge[0]]
        dtype = source.output_dtypes[edge[1]]
        attrs = {"tensor_name": name.encode(), "T": dtype}
        nodes[f"_send/{name}"] = Node(f"_send/{name}", "_Send", attrs, (edge,), (), near(source.device), (dtype,), ())

    for tensor, edge in zip(fetches, graph.fetches, strict=True):
        send(fetch_name(tensor), edge)
    for target in graph.targets:
        name = f"_done/{target}"
        nodes[name] = Node(
            name, "Const", {"value": np.zeros((), np.int32), "dtype": int32}, (), (target,),
            near(nodes[target].device), (), (int32,),
        )  # fmt: skip
        send(target_name(target), (name, 0))
    return StepGraph(nodes, (), (), ())


def feed_name(tensor: str) -> str:
    """The key of a fed tensor's value in the rendezvous."""
    return f"feed:{tensor}"


def fetch_name(tensor: str) -> str:
    """The key of a fetched tensor's value in the rendezvous."""
    return f"fetch:{tensor}"


def target_name(operation: str) -> str:
    """The key of a target's completion in the rendezvous."""
    return f"target:{operation}"
