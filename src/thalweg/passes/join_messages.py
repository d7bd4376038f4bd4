"""Joined messages: what the look-ups and row updates of a step send to one task travels together (OSDI section 4.2).

A model with many embeddings looks up rows of several variables on the same task. Cut edge by edge, such a step would
send a message for the ids of each look-up, one for the rows of each, and two for the gradient of each. `message_groups`
decides, when a step is planned, which `_Send`s of a device become one message; `join_messages` makes them one
`_SendAll` when the part is installed. The `_Recv`s stay as they are: the message is taken apart where it arrives.

A joined message leaves when the last of its tensors is there, so joining must not close a cycle. The *depth* of a node
is the largest number of messages between tasks on a path to it. Sends of equal depth do not depend on each other, and
by joining those only, the depth along every path still grows with each message. Nodes behind loops and conditionals are
left out: they may run several times, or be dead. And a message must not wait for an operation that may wait for the
message, which no edge shows: the dequeue of what an operation behind the message enqueues. So only Sends that are
behind the same waiting operations are joined.

Requests (ids) and replies (rows) are joined wherever depths agree. Updates of rows from which no joined message follows
are joined whatever their depth is, but only if they are expected to be ready at about the same time: the task that
applies them could begin with the first while others are computed. An update is ready when all that it needs is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import effect_of, flow_of
from thalweg.graph.device_spec import device_type, task_of
from thalweg.graph.op_effects import Effect
from thalweg.passes.joint_schedule import Costs, JointSchedule
from thalweg.passes.list_schedule import Key
from thalweg.passes.partition import Partition, in_order
from thalweg.passes.step_graph import Node, StepGraph, standing_for

MESSAGE: Final = "_message"
"""Of a `_Send`: the number of the message that it is part of."""

Waiting = frozenset[Key]
_NOTHING: Waiting = frozenset()

_SIMULTANEOUS = 3e-4  # seconds between updates that count as ready at the same time
_FORWARDING = frozenset({"Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "Cast"})
_ROW_UPDATES = ("ResourceSparseApply", "ResourceScatter", "EmbeddingTableApply")
_SHARED_ATTRS = ("send_device", "recv_device", "send_device_incarnation", "client_terminated")


def message_groups(
    parts: Mapping[str, Partition], costs: Costs, may_wait: Callable[[Node], bool] = lambda node: False
) -> dict[str, dict[str, int]]:
    """Decides which Sends are joined.

    Args:
        parts: The parts of a step.
        costs: How long nodes run.
        may_wait: Whether a node may wait for something that is not one of its inputs, such as an element of a queue.

    Returns:
        For each device, the Sends that travel in one message with others, and the number of the message.
    """
    joint = JointSchedule(parts, costs)
    if not joint.complete:
        return {}
    groups: dict[tuple[Any, ...], list[Key]] = defaultdict(list)
    updates: dict[Key, set[Key]] = {}  # the nodes that each Send of an update goes to
    before: dict[Key, Waiting] = {}  # the operations that the Sends of an update are behind
    for send, depth, waiting in _sends(joint, may_wait):
        kind = _kind(joint, send)
        changed = set() if kind else _row_updates(joint, send)
        if changed:
            updates[send], before[send] = changed, waiting
        elif kind:
            groups[send[0], _destination(joint.nodes[send]), kind, depth, waiting].append(send)
    candidates = {send for sends in groups.values() for send in sends} | set(updates)
    ready = _ready(joint, {send: to for send, to in updates.items() if not _reaches(joint, send, candidates)})
    for send in ready:
        groups[send[0], _destination(joint.nodes[send]), before[send]].append(send)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    number = 0
    for (device, *_), sends in groups.items():
        for together in _simultaneous(ready, sends) if sends[0] in ready else [sends]:
            if len(together) > 1:
                number += 1
                found[device].update({name: number for _, name in together})
    return found


def _sends(joint: JointSchedule, may_wait: Callable[[Node], bool]) -> Iterator[tuple[Key, int, Waiting]]:
    """The Sends to other tasks that run exactly once in a step, their depths, and the waiting nodes before them."""
    depth: dict[Key, int] = {}
    waiting: dict[Key, Waiting] = {}
    controlled: set[Key] = set()  # nodes behind control flow
    for key in joint.order:
        node, sources = joint.nodes[key], joint.sources[key]
        if flow_of(node.op).is_primitive or any(source in controlled for source in sources):
            controlled.add(key)
        depth[key] = max((depth[each] + (task_of(each[0]) != task_of(key[0])) for each in sources), default=0)
        waiting[key] = _NOTHING.union(*(waiting[each] for each in sources))
        if node.op not in ("_Send", "_Recv") and may_wait(node):
            waiting[key] |= {key}
        if node.op == "_Send" and key not in controlled and not node.attrs.get("_compress") and _crosses(node):
            yield key, depth[key], waiting[key]


def _crosses(send: Node) -> bool:
    """Whether a Send goes to another task, from and to a device of the host."""
    source, destination = send.attrs["send_device"].decode(), send.attrs["recv_device"].decode()
    return device_type(source) == device_type(destination) == "CPU" and task_of(source) != task_of(destination)


def _destination(send: Node) -> str:
    name: bytes = send.attrs["recv_device"]
    return name.decode()


def _kind(joint: JointSchedule, send: Key) -> str:
    """What a Send does for look-ups: "request" or "reply"; "" for all others."""
    if _is_lookup(_producer(joint, send)):
        return "reply"
    is_request = any(_is_lookup(joint.nodes[key]) for recv in joint.readers[send] for key in joint.readers[recv])
    return "request" if is_request else ""


def _producer(joint: JointSchedule, send: Key) -> Node:
    node = joint.nodes[send]
    while node.inputs and (node.op == "_Send" or node.op in _FORWARDING):
        node = joint.nodes[send[0], node.inputs[0][0]]
    return node


def _is_lookup(node: Node) -> bool:
    """Whether a node reads the part of a resource that another input names: rows of a variable, entries of a table."""
    return (
        effect_of(node.op) is Effect.READS
        and len(node.input_dtypes) > 1
        and node.input_dtypes[0].base_dtype is dtypes.resource
    )


def _row_updates(joint: JointSchedule, send: Key) -> set[Key]:
    """The updates of rows that a tensor goes to, by way of pure nodes; empty if it goes elsewhere, too."""
    stack, seen, found = list(joint.readers[send]), set(joint.readers[send]), set()
    while stack:
        for key in joint.readers[stack.pop()]:
            node = joint.nodes[key]
            if node.op.startswith(_ROW_UPDATES):
                found.add(key)
            elif not node.pure and "_members" not in node.attrs:
                return set()
            elif key not in seen:
                seen.add(key)
                stack.append(key)
    return found


def _reaches(joint: JointSchedule, send: Key, candidates: set[Key]) -> bool:
    """Whether one of the candidates depends on a Send."""
    stack, seen = [send], {send}
    while stack:
        for key in joint.readers[stack.pop()]:
            if key in candidates:
                return True
            if key not in seen:
                seen.add(key)
                stack.append(key)
    return False


def _ready(joint: JointSchedule, updates: Mapping[Key, set[Key]]) -> dict[Key, float]:
    """When the updates that each Send goes to have all that they need from the sender."""
    complete: dict[Key, float] = defaultdict(float)
    for send, changed in updates.items():
        for key in changed:
            complete[key] = max(complete[key], joint.ready(send))
    return {send: max(complete[key] for key in changed) for send, changed in updates.items()}


def _simultaneous(ready: Mapping[Key, float], sends: Iterable[Key]) -> list[list[Key]]:
    """Splits Sends where the next is expected to be ready much later."""
    found: list[list[Key]] = []
    last = float("-inf")
    for send in sorted(sends, key=lambda each: (ready[each], each)):
        if ready[send] - last > _SIMULTANEOUS:
            found.append([])
        found[-1].append(send)
        last = ready[send]
    return found


def with_messages(graph: StepGraph, numbers: Mapping[str, int]) -> StepGraph:
    """The part with the numbers of messages at its Sends."""
    if not numbers:
        return graph
    nodes = {
        name: node._replace(attrs={**node.attrs, MESSAGE: numbers[name]}) if name in numbers else node
        for name, node in graph.nodes.items()
    }
    return graph.with_nodes(nodes)


def join_messages(graph: StepGraph) -> StepGraph:
    """The part with one `_SendAll` for the Sends of each message."""
    groups: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for node in graph.nodes.values():
        if node.op == "_Send" and MESSAGE in node.attrs:
            groups[(node.attrs[MESSAGE], *(node.attrs[name] for name in _SHARED_ATTRS))].append(node)
    joined = {sends[0].name: _joined(sends) for sends in groups.values() if len(sends) > 1}
    if not joined:
        return graph
    gone = {send.name for sends in groups.values() if len(sends) > 1 for send in sends}
    nodes = {name: node for name, node in graph.nodes.items() if name not in gone}
    nodes.update({node.name: node for node in joined.values()})
    targets = [
        joined[name].name if name in joined else name for name in graph.targets if name in joined or name not in gone
    ]
    return StepGraph(in_order(nodes), graph.feeds, graph.fetches, tuple(targets))


def _joined(sends: list[Node]) -> Node:
    first = sends[0]
    attrs = {name: first.attrs[name] for name in _SHARED_ATTRS}
    attrs["tensor_names"] = [send.attrs["tensor_name"] for send in sends]
    return first._replace(
        name=f"{first.name}_all", op="_SendAll", attrs=standing_for(attrs, sends),
        inputs=tuple(send.inputs[0] for send in sends),
        controls=tuple(dict.fromkeys(control for send in sends for control in send.controls)),
        input_dtypes=tuple(send.input_dtypes[0] for send in sends),
    )  # fmt: skip
