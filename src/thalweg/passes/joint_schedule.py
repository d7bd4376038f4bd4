"""The parts of a step as one: when each node can and must run, over all devices (white paper, section 5.2).

The parts are joined where a `_Send` and a `_Recv` meet, and scheduled as a whole (`list_schedule`). Nothing here knows
about one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from thalweg.passes.list_schedule import Key, ListSchedule
from thalweg.passes.partition import Partition
from thalweg.passes.step_graph import Node, members_of

# The seconds that each node of the program runs, by its name.
Costs = Mapping[str, float]

_UNKNOWN = 1e-7  # seconds
_INSTANT = frozenset({"_Send", "_Recv", "_Arg", "Const"})  # These take no time of their device.
# A consumer on another core loads the tensor into its own cache; most of a large tensor has left all caches by then.
_FETCHED_PER_SECOND = 1e10  # bytes
_MOST_FETCHED = 1 << 20  # bytes
_SOON_FREED = 2  # consumers in a row
_SHRINKS = 4  # Inputs are at least so many times larger than outputs.


class JointSchedule(ListSchedule):
    """The schedule of the nodes on all devices. The parts must not change meanwhile."""

    def __init__(self, parts: Mapping[str, Partition], costs: Costs) -> None:
        """Joins the parts."""
        self.nodes: dict[Key, Node] = {
            (device, name): node for device, part in parts.items() for name, node in part.graph.nodes.items()
        }
        self._graphs = {device: part.graph for device, part in parts.items()}
        cost = {key: _cost(node, costs) for key, node in self.nodes.items()}
        for key, seconds in self._fetching():
            cost[key] += seconds
        super().__init__(cost, self._edges())

    def _fetching(self) -> Iterator[tuple[Key, float]]:
        """The first consumer of each received tensor, and the seconds that fetching it takes."""
        seen: set[Key] = set()
        for key, node in self.nodes.items():
            for name, _ in node.inputs:
                source = key[0], name
                if source not in seen and self.nodes[source].op == "_Recv" and node.op not in _INSTANT:
                    seen.add(source)
                    yield key, min(self._size(source), _MOST_FETCHED) / _FETCHED_PER_SECOND

    def _size(self, key: Key) -> int:
        """The bytes of a node's first output, if its shape is known."""
        count = self._graphs[key[0]].shape((key[1], 0)).num_elements()
        return (count or 0) * (self.nodes[key].output_dtypes[0].base_dtype.size or 0)

    def _edges(self) -> Iterator[tuple[Key, Key]]:
        sends = {transfer_key(node): key for key, node in self.nodes.items() if node.op == "_Send"}
        for key, node in self.nodes.items():
            for name in dict.fromkeys((*node.controls, *(source for source, _ in node.inputs))):
                source = key[0], name
                if not _closes_loop(node, self.nodes[source]):
                    yield source, key
            if node.op == "_Recv" and transfer_key(node) in sends:
                yield sends[transfer_key(node)], key

    def freeing(self) -> set[Key]:
        """The nodes that free memory: only a short chain of consumers keeps their results alive, or those are small."""
        consumers = self._data_readers()
        chains: dict[Key, int] = {}
        for key in reversed(self.order):
            chains[key] = max((chains.get(reader, 0) + 1 for reader in consumers[key]), default=0)
        return {key for key, length in chains.items() if length <= _SOON_FREED or self._shrinks(key)}

    def _shrinks(self, key: Key) -> bool:
        """Whether a node's outputs are small beside its inputs (the gradient of a filter, say, or a sum)."""
        graph, node = self._graphs[key[0]], self.nodes[key]
        made = [graph.shape((node.name, i)).num_elements() for i in range(len(node.output_dtypes))]
        read = [graph.shape(edge).num_elements() or 0 for edge in node.inputs]
        return None not in made and _SHRINKS * sum(each or 0 for each in made) < sum(read)

    def _data_readers(self) -> dict[Key, list[Key]]:
        """The nodes that read an output of each node, on the same device, and wait for it."""
        found: dict[Key, list[Key]] = {key: [] for key in self.nodes}
        for key, node in self.nodes.items():
            for name in dict.fromkeys(source for source, _ in node.inputs):
                if not _closes_loop(node, self.nodes[key[0], name]):
                    found[key[0], name].append(key)
        return found


class Plan(NamedTuple):
    """The order in which devices are to run their nodes, and how long the step should take.

    Attributes:
        priorities: For each part, a number for each node: of those that are ready, the greatest runs first.
        seconds: The time of the step, if every node takes what it is expected to.
    """

    priorities: dict[str, dict[str, float]]
    seconds: float


def planned(parts: Mapping[str, Partition], costs: Costs) -> Plan | None:
    """A schedule of the whole step, which each device is to follow as far as it can; None if there is no order.

    Nodes whose delay would delay another device, or the end of the step, go first; where there is slack, nodes that
    free memory.
    """
    joint = JointSchedule(parts, costs)
    if not joint.complete:
        return None
    starts = joint.planned(joint.freeing())
    position = {key: at for at, key in enumerate(joint.order)}
    # Nodes that take no time come before others that start at the same moment.
    order = sorted(joint.order, key=lambda key: (starts[key], joint.cost[key] > 0, position[key]))
    found: dict[str, dict[str, float]] = {device: {} for device in parts}
    for at, (device, name) in enumerate(order):
        found[device][name] = float(len(order) - at)
    return Plan(found, joint.end(starts))


def transfer_key(node: Node) -> tuple[bytes, bytes, bytes]:
    """The key that a Send and its Recv share."""
    attrs = node.attrs
    return attrs.get("send_device", b""), attrs.get("recv_device", b""), attrs["tensor_name"]


def _closes_loop(node: Node, source: Node) -> bool:
    """Whether the edge from `source` to `node` leads into the next iteration of a loop."""
    return node.op == "Merge" and source.op == "NextIteration"


def _cost(node: Node, costs: Costs) -> float:
    if node.op in _INSTANT:
        return 0.0
    return sum(costs.get(name, _UNKNOWN) for name, _ in members_of(node))
