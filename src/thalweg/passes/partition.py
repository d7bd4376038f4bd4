"""Partition: cuts a placed step into one subgraph per device, joined by Send and Recv (OSDI sections 3.3 and 3.4).

An edge that crosses devices becomes a `_Send` beside its source and a `_Recv` beside its readers: one pair for each
tensor and destination, however many readers there are. A control edge that crosses carries an empty tensor. A dead
tensor travels like a live one.

Inside a loop, a Recv must run once in each iteration, though nothing on its device may say when an iteration begins.
So every device that a loop reaches, other than the one that decides whether it goes on, gets a *control loop*: Enter,
Merge, Switch and NextIteration of its own, whose Switch follows the predicate received from the deciding device. The
Recvs of the loop wait for its Merge. Its Enter takes a token that is sent from outside of the loop and is dead when the
loop is: so loops inside of conditionals and of other loops work as well.

Constants and fed values are copied to the devices of their readers instead of being sent.

A device with memory of its own (a plug-in's) gets its inputs there, but for those that `_host_inputs` names, and the
nodes that this pass adds, which are the host's wherever they run.

Transfers of float32 can be compressed to 16 bits (white paper, section 5.5): those of nodes that carry the attribute
`_compress_transfers`, or all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.dtypes import DType, float32, int32
from thalweg.graph.marks import COMPRESS
from thalweg.passes.device_memory import DEVICE_CONST, HOST_INPUTS
from thalweg.passes.lower_loops import Frame, frames_of
from thalweg.passes.step_graph import Edge, Node, StepGraph, asked_device


class Partition(NamedTuple):
    """One device's part of a step.

    Attributes:
        graph: Its nodes; feeds and fetches are those that concern it.
        feeds: For each of its feeds, which of the step's feeds it is.
        fetches: For each of its fetches, which of the step's fetches it is.
    """

    graph: StepGraph
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]


def whole(graph: StepGraph) -> Partition:
    """The only part of a step that needs no cutting."""
    return Partition(graph, tuple(range(len(graph.feeds))), tuple(range(len(graph.fetches))))


def partition(
    graph: StepGraph,
    compressed: bool = False,
    has_own_memory: Callable[[str], bool] = lambda device: False,
    incarnations: Mapping[str, int] | None = None,
) -> dict[str, Partition]:
    """Returns the parts of a step by device; one part, unchanged, if all nodes are on one device.

    Args:
        graph: The step, placed.
        compressed: Whether all float32 tensors travel in 16 bits.
        has_own_memory: Whether a device has memory of its own.
        incarnations: The incarnations of the devices, by name; 0 for others.
    """
    devices = list(dict.fromkeys(node.device for node in graph.nodes.values()))
    if len(devices) == 1:
        return {devices[0]: whole(graph)}
    graph = _on_merge_devices(graph)
    return _Partitioner(graph, compressed, has_own_memory, incarnations or {}).run()


def _on_merge_devices(graph: StepGraph) -> StepGraph:
    """The step with every Enter and NextIteration on the device of its Merge.

    A device function may have put one elsewhere. The value would then be sent in one iteration and received in another.
    """
    moved = {
        source: graph.nodes[source]._replace(device=node.device)
        for node in graph.nodes.values()
        if node.op == "Merge"
        for source, _ in node.inputs
        if graph.nodes[source].device != node.device and graph.nodes[source].op in ("Enter", "NextIteration")
    }
    return graph.with_nodes({**graph.nodes, **moved}) if moved else graph


class _Partitioner:
    def __init__(
        self,
        graph: StepGraph,
        compressed: bool,
        has_own_memory: Callable[[str], bool],
        incarnations: Mapping[str, int],
    ) -> None:
        self._graph = graph
        self._incarnations = incarnations
        self._has_own_memory = has_own_memory
        self._compressed = compressed
        self._parts: dict[str, dict[str, Node]] = defaultdict(dict)
        self._received: dict[tuple[Edge, str, bool], Edge] = {}
        self._control_recvs: dict[tuple[str, str], str] = {}
        self._frame_of: dict[str, Frame] = {}  # of a node's outputs
        self._merges: dict[tuple[str, str], str] = {}  # the Merge of the control loop of (frame, device)
        frames = frames_of(graph)
        if frames is None:
            raise errors.InvalidArgumentError(None, None, "the graph has a cycle that is not a loop")
        self._root = frames[0]
        self._conditional = any(node.op == "Switch" for node in graph.nodes.values())
        self._loop_cond: dict[str, Node] = {}
        for frame in frames:
            for node in frame.nodes:
                self._frame_of[node.name] = frame
                if node.op == "LoopCond":
                    self._loop_cond[frame.name] = node
        for frame in frames:
            for enter in frame.enters:
                self._frame_of[enter.name] = frame
            for node in frame.nodes:
                if node.op == "Exit" and frame.parent is not None:
                    self._frame_of[node.name] = frame.parent

    def run(self) -> dict[str, Partition]:
        for node in self._graph.nodes.values():
            part = self._parts[node.device]
            frame = self._input_frame(node)
            # The control loop comes first: the node may have no other way into the frame.
            if frame is not self._root:
                self._control_loop(frame, node.device)
            host_inputs = node.attrs.get(HOST_INPUTS, -1) if self._has_own_memory(node.device) else -1
            inputs = tuple(
                self._local(edge, dtype, node.device, bool(host_inputs >> i & 1))
                for i, (edge, dtype) in enumerate(_data(node))
            )
            controls = tuple(dict.fromkeys(self._local_control(name, node.device) for name in node.controls))
            part[node.name] = node._replace(inputs=inputs, controls=controls)
        return {device: self._part(device, nodes) for device, nodes in self._parts.items()}

    def _input_frame(self, node: Node) -> Frame:
        frame = self._frame_of[node.name]
        if node.op == "Enter":
            return frame.parent or self._root
        if node.op == "Exit":
            return self._frame_of[node.inputs[0][0]]
        return frame

    def _local(self, edge: Edge, dtype: DType, device: str, host: bool = True) -> Edge:
        """A tensor as `device` sees it, in the host's memory or its own."""
        source = self._graph.nodes[edge[0]]
        if source.device == device:
            return edge
        if (source.op in ("Const", DEVICE_CONST) or (source.op == "_Arg" and host)) and not source.controls:
            copy = self._copy_name(source, device, host)
            op = source.op if source.op == "_Arg" else "Const" if host else DEVICE_CONST
            self._parts[device].setdefault(copy, source._replace(name=copy, op=op, device=device))
            return copy, 0
        if source.op == "Enter" and source.attrs.get("is_constant"):
            return self._copied_enter(source, device, host)
        found = self._received.get((edge, device, host))
        if found is None:
            found = self._transfer(edge, dtype.base_dtype, source, device, host)
        return found

    def _copy_name(self, source: Node, device: str, host: bool) -> str:
        return f"{source.name}/_on/{short_name(device)}" + ("/_host" if host and self._has_own_memory(device) else "")

    def _copied_enter(self, enter: Node, device: str, host: bool) -> Edge:
        """A copy of the Enter of a loop invariant: the invariant is sent once, outside of the loop."""
        copy = self._copy_name(enter, device, host)
        if copy not in self._parts[device]:
            inputs = (self._local(enter.inputs[0], enter.input_dtypes[0], device, host),)
            controls = tuple(dict.fromkeys(self._local_control(each, device) for each in enter.controls))
            self._parts[device][copy] = enter._replace(name=copy, inputs=inputs, controls=controls, device=device)
        return copy, 0

    def _transfer(self, edge: Edge, dtype: DType, source: Node, device: str, host: bool = True) -> Edge:
        frame = self._frame_of[source.name]
        to_host = host and self._has_own_memory(device)
        name = f"{edge[0]}/_{edge[1]}/{short_name(device)}" + ("/_host" if to_host else "")
        found = self._received[edge, device, host] = (f"{name}/_recv", 0)
        incarnation = self._incarnations.get(source.device, 0)
        send, recv = transfer_pair(edge, dtype, source.device, device, name, "/host" if to_host else "", incarnation)
        # A token is sent for its arrival, and has no elements.
        if dtype is float32 and source.op != "Const" and (self._compressed or source.attrs.get(COMPRESS)):
            send.attrs["_compress"] = recv.attrs["_compress"] = True
        self._parts[source.device][send.name] = send
        controls = () if frame is self._root else (self._control_loop(frame, device),)
        recv.attrs.update(_maybe_dead=self._conditional, _host_memory=to_host)
        if edge[0] in self._graph.nodes:
            shape, asked = self._graph.shape(edge), asked_device(self._graph.nodes[edge[0]])
            recv = recv._replace(shapes=(shape,), requested_device=asked)
        self._parts[device][recv.name] = recv._replace(controls=controls)
        return found

    def _local_control(self, name: str, device: str) -> str:
        """A node to wait for on `device` instead of a node elsewhere."""
        source = self._graph.nodes[name]
        if source.device == device:
            return name
        found = self._control_recvs.get((name, device)) or self._pivot(source, device)
        if found is None:
            token = f"{name}/_done"
            part = self._parts[source.device]
            if token not in part:
                empty = {"value": np.zeros([0], np.float32), "dtype": float32}
                part[token] = Node(token, "Const", empty, (), (name,), source.device, (), (float32,))
                self._frame_of[token] = self._frame_of[name]
            found = self._control_recvs[name, device] = self._transfer((token, 0), float32, part[token], device)[0]
        return found

    def _pivot(self, node: Node, device: str) -> str | None:
        """The pivot of the control loop on `device`, if `node` is a pivot of the loop: it runs once per iteration."""
        frame = self._frame_of[node.name]
        condition = self._loop_cond.get(frame.name)
        if condition is None or condition.device == device or node.op != "Identity":
            return None
        switch = self._graph.nodes[node.inputs[0][0]]
        if switch.op != "Switch" or node.inputs[0][1] != 1 or switch.inputs[1] != (condition.name, 0):
            return None
        self._control_loop(frame, device)
        return f"{_base(condition, device)}/Pivot"

    def _control_loop(self, frame: Frame, device: str) -> str:
        """The node of a loop that runs once per iteration on `device`; makes the device's own loop if needed."""
        known = self._merges.get((frame.name, device))
        if known is not None:
            return known
        condition = self._loop_cond.get(frame.name)
        if condition is None:
            raise errors.InvalidArgumentError(
                None, None, f"the loop '{frame.name}' has no condition, so that it cannot span devices"
            )
        if condition.device == device:
            own = next((node.name for node in frame.nodes if node.device == device and self._is_loop_merge(node)), None)
            if own is not None:
                self._merges[frame.name, device] = own
                return own
        parent = frame.parent or self._root
        if parent is not self._root:
            self._control_loop(parent, device)
        base = _base(condition, device)
        merge = self._merges[frame.name, device] = f"{base}/Merge"
        part = self._parts[device]
        token = self._token(frame, condition.device)
        entered = token if condition.device == device else self._received_token(token, int32, condition.device, device)
        attrs = dict(frame.enters[0].attrs)
        enter = Node(f"{base}/Enter", "Enter", {**attrs, "T": int32, "is_constant": False}, (entered,), (), device,
                     (int32,), (int32,))  # fmt: skip
        part[enter.name] = enter
        back = f"{base}/NextIteration"
        part[merge] = Node(merge, "Merge", {"T": int32, "N": 2}, ((enter.name, 0), (back, 0)), (), device,
                           (int32, int32), (int32, int32))  # fmt: skip
        predicate = self._local((condition.name, 0), dtypes.bool, device)
        switch = Node(f"{base}/Switch", "Switch", {"T": int32}, ((merge, 0), predicate), (), device,
                      (int32, dtypes.bool), (int32, int32))  # fmt: skip
        pivot = Node(f"{base}/Pivot", "Identity", {"T": int32}, ((switch.name, 1),), (), device, (int32,), (int32,))
        following = Node(back, "NextIteration", {"T": int32}, ((pivot.name, 0),), (), device, (int32,), (int32,))
        part.update({node.name: node for node in (switch, pivot, following)})
        return merge

    def _is_loop_merge(self, node: Node) -> bool:
        """Whether a node is the Merge where a variable enters an iteration, and not one of a conditional."""
        return node.op == "Merge" and any(self._graph.nodes[name].op == "NextIteration" for name, _ in node.inputs)

    def _token(self, frame: Frame, device: str) -> Edge:
        """A scalar on the deciding device, outside of the loop, that is dead if the loop does not run."""
        enter = next((e for e in frame.enters if e.device == device), frame.enters[0])
        name = f"{enter.name}/_token"
        part = self._parts[device]
        if name not in part:
            source = self._local(enter.inputs[0], enter.input_dtypes[0], device)
            attrs = {"T": enter.input_dtypes[0].base_dtype}
            # The value may be an invariant of an outer loop; control edges tie it to an iteration that takes place.
            controls = tuple(dict.fromkeys(self._local_control(each, device) for each in enter.controls))
            part[name] = Node(name, "Rank", attrs, (source,), controls, device, enter.input_dtypes, (int32,))
            self._frame_of[name] = frame.parent or self._root
        return name, 0

    def _received_token(self, edge: Edge, dtype: DType, source: str, device: str) -> Edge:
        found = self._received.get((edge, device, True))
        return found or self._transfer(edge, dtype, self._parts[source][edge[0]], device)

    def _part(self, device: str, nodes: dict[str, Node]) -> Partition:
        graph = self._graph
        placed = {}
        read = {name for node in nodes.values() for name in (*node.controls, *(source for source, _ in node.inputs))}
        read.update(name for name, _ in graph.fetches)
        for name, node in nodes.items():
            if node.op != "_Arg" or name in read:  # Otherwise only other devices read it: they have copies.
                placed[name] = node
        # In the order of the step's feeds: a part that reads all of them is run without looking them up.
        arguments = {name: int(node.attrs["index"]) for name, node in placed.items() if node.op == "_Arg"}
        feeds = {index: i for i, index in enumerate(sorted(set(arguments.values())))}
        for name, index in arguments.items():
            node = placed[name]
            placed[name] = node._replace(attrs={**node.attrs, "index": feeds[index]})
        fetches = [i for i, (name, _) in enumerate(graph.fetches) if graph.nodes[name].device == device]
        sends = [name for name, node in placed.items() if node.op == "_Send"]
        targets = [name for name in graph.targets if name in placed]
        part = StepGraph(
            in_order(placed),
            tuple(graph.feeds[i] for i in feeds),
            tuple(graph.fetches[i] for i in fetches),
            tuple(targets + sends),
        )
        return Partition(part, tuple(feeds), tuple(fetches))


def _data(node: Node) -> list[tuple[Edge, DType]]:
    return list(zip(node.inputs, node.input_dtypes, strict=True))


def _base(condition: Node, device: str) -> str:
    return f"{condition.name}/_control/{short_name(device)}"


def transfer_pair(
    edge: Edge, dtype: DType, source: str, device: str, name: str, kind: str = "", incarnation: int = 0
) -> tuple[Node, Node]:
    """A Send and its Recv, which agree on the tensor and on where it goes from and to.

    Args:
        edge: The tensor.
        dtype: Its type.
        source: The device that has it.
        device: The device that receives it.
        name: The prefix of both names.
        kind: Tells several transfers of one tensor between the same devices apart.
        incarnation: The incarnation of the source device.
    """
    attrs: dict[str, Any] = {
        "tensor_name": f"{edge[0]}:{edge[1]}{kind}".encode(),
        "send_device": source.encode(),
        "recv_device": device.encode(),
        "send_device_incarnation": incarnation,
        "client_terminated": False,
    }
    received = {**attrs, "tensor_type": dtype, "_maybe_dead": False}
    return (
        Node(f"{name}/_send", "_Send", {**attrs, "T": dtype}, (edge,), (), source, (dtype,), ()),
        Node(f"{name}/_recv", "_Recv", received, (), (), device, (), (dtype,)),
    )


def short_name(device: str) -> str:
    """A device's name as part of a node's name."""
    return device.strip("/").replace(":", "_").replace("/", "_")


def in_order(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes in topological order, apart from the edges that close loops."""
    done: dict[str, Node] = {}
    begun: set[str] = set()
    for start in nodes:
        stack = [(start, False)]
        while stack:
            name, complete = stack.pop()
            node = nodes[name]
            if complete:
                done[name] = node
                continue
            if name in begun:
                continue
            begun.add(name)
            stack.append((name, True))
            for source in (*node.controls, *(source for source, _ in node.inputs)):
                if source not in begun and not (node.op == "Merge" and nodes[source].op == "NextIteration"):
                    stack.append((source, False))
    return done
