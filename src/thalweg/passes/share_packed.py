"""Hands packed weights to the other devices of a task instead of packing them on each (`pack_weights`).

Weights that products of several devices share are sent from where the variable is, and each device would bring them
into the order of the micro kernel by itself: as much work as some of the products, and one more copy in the caches. If
the sender packs the weights, too, the receiver gets the sender's packed copy. Tasks may differ in their processors:
between them, weights travel unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.graph.device_spec import task_of
from thalweg.graph.dtypes import float32
from thalweg.passes.joint_schedule import transfer_key
from thalweg.passes.partition import Partition, in_order, short_name, transfer_pair
from thalweg.passes.step_graph import Edge, Node, StepGraph


def share_packed(parts: Mapping[str, Partition]) -> dict[str, Partition]:
    """Returns the parts with weights packed once in each task."""
    packed = {
        (device, node.inputs[0], bool(node.attrs["transpose_b"])): name
        for device, part in parts.items()
        for name, node in part.graph.nodes.items()
        if node.op == "_PackWeights"
    }
    sends = {
        transfer_key(node): (device, node.inputs[0])
        for device, part in parts.items()
        for node in part.graph.nodes.values()
        if node.op == "_Send"
    }
    changed: dict[str, dict[str, Node]] = {device: {} for device in parts}
    for (device, (source, _), transposed), name in packed.items():
        received = parts[device].graph.nodes[source]
        if received.op != "_Recv" or received.controls or received.attrs.get("_compress"):
            continue
        sent: tuple[str, Edge] | None = sends.get(transfer_key(received))
        if sent is None or task_of(sent[0]) != task_of(device):
            continue
        sender_pack = packed.get((*sent, transposed))
        if sender_pack is not None:
            incarnation = received.attrs["send_device_incarnation"]
            send, recv = transfer_pair(
                (sender_pack, 0),
                float32,
                sent[0],
                device,
                f"{sender_pack}/{short_name(device)}",
                incarnation=incarnation,
            )
            attrs = {**recv.attrs, "_maybe_dead": received.attrs["_maybe_dead"]}
            changed[sent[0]][send.name] = send
            changed[device][name] = recv._replace(name=name, attrs=attrs)
    if not any(changed.values()):
        return dict(parts)
    return _without_orphan_sends({device: _with_nodes(part, changed[device]) for device, part in parts.items()})


def _with_nodes(part: Partition, changed: Mapping[str, Node]) -> Partition:
    graph = part.graph
    sends = tuple(name for name, node in changed.items() if node.op == "_Send")
    nodes = in_order({**graph.nodes, **changed})
    return part._replace(graph=StepGraph(nodes, graph.feeds, graph.fetches, graph.targets + sends))


def _without_orphan_sends(parts: Mapping[str, Partition]) -> dict[str, Partition]:
    """Removes Sends whose Recv is gone."""
    reached = {device: part._replace(graph=part.graph.reachable()) for device, part in parts.items()}
    wanted = {
        transfer_key(node) for part in reached.values() for node in part.graph.nodes.values() if node.op == "_Recv"
    }
    found = {}
    for device, part in reached.items():
        nodes = part.graph.nodes
        targets = tuple(t for t in part.graph.targets if nodes[t].op != "_Send" or transfer_key(nodes[t]) in wanted)
        graph = StepGraph(nodes, part.graph.feeds, part.graph.fetches, targets)
        found[device] = part._replace(graph=graph.reachable())
    return found
