"""Place: gives every node of a step a device, within the constraints of its program (OSDI section 3.3).

Nodes that must share a device form a *group*: those that `colocate_with` ties together, and state with all that touches
it (a resource handle never leaves its device). The partial device names of a group's members are merged; the devices
that match and have kernels for all members are the group's *feasible set*. What the constraints leave open a strategy
decides; without one, each such group goes to the first of its devices.

Nothing here knows about one process: a device is a full name and a type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from thalweg import errors
from thalweg.graph.device_spec import DeviceSpec
from thalweg.graph.dtypes import resource
from thalweg.passes.step_graph import Node, StepGraph

_FIELDS = ("job", "replica", "task", "device_type", "device_index")
_LOCATION = b"loc:@"


class Device(NamedTuple):
    """A device that nodes can be placed on."""

    name: str
    type: str


@dataclass
class Group:
    """Nodes that must be on one device, and the devices that would do."""

    nodes: list[Node] = field(default_factory=list)
    feasible: list[Device] = field(default_factory=list)


# Whether there is a kernel for a node on a type of device.
HasKernel = Callable[[Node, str], bool]
# Chooses a device for each group that has several; knows where the nodes of the others are.
Strategy = Callable[[StepGraph, Sequence[Group], Mapping[str, Device]], Sequence[Device]]

# Cheap, and at home where their input is.
_FOLLOWERS = frozenset({"Identity", "Shape", "ShapeN", "Size", "Rank", "StopGradient"})


def first_device(graph: StepGraph, groups: Sequence[Group], decided: Mapping[str, Device]) -> list[Device]:
    """The strategy that uses one device as long as nobody asks for another."""
    known = dict(decided)
    chosen = []
    for group in groups:
        device = group.feasible[0]
        first = group.nodes[0]
        if len(group.nodes) == 1 and first.op in _FOLLOWERS and known.get(first.inputs[0][0]) in group.feasible:
            device = known[first.inputs[0][0]]
        known.update((node.name, device) for node in group.nodes)
        chosen.append(device)
    return chosen


def place(
    graph: StepGraph,
    devices: Sequence[Device],
    has_kernel: HasKernel,
    soft: bool = False,
    strategy: Strategy = first_device,
    fixed: Mapping[str, str] | None = None,
) -> StepGraph:
    """Returns the step with the full name of a device in every node.

    Args:
        graph: The step; the devices of its nodes are partial names.
        devices: Where nodes can go, best first.
        has_kernel: Which nodes can run on which type of device.
        soft: Whether a node may go elsewhere if what it asks for is not there, or has no kernel for it.
        strategy: Decides where the constraints leave a choice.
        fixed: Where nodes with state have been placed by earlier steps; their groups go there.

    Raises:
        errors.InvalidArgumentError: If constraints cannot be met.
    """
    groups = groups_of(graph)
    for group in groups:
        group.feasible = _feasible(group, devices, has_kernel, soft)
        placed = next((fixed[node.name] for node in group.nodes if node.name in fixed), None) if fixed else None
        if placed is not None:
            group.feasible = [device for device in group.feasible if device.name == placed] or group.feasible
    choices = [group for group in groups if len(group.feasible) > 1]
    where = {node.name: group.feasible[0] for group in groups if len(group.feasible) == 1 for node in group.nodes}
    for group, device in zip(choices, strategy(graph, choices, where), strict=True):
        where.update((node.name, device) for node in group.nodes)
    return graph.with_nodes({name: node._replace(device=where[name].name) for name, node in graph.nodes.items()})


def groups_of(graph: StepGraph) -> list[Group]:
    """The nodes of a step in groups that must stay together, in the order of their first nodes."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        path = []
        while (parent := parents.setdefault(name, name)) != name:
            path.append(name)
            name = parent
        for each in path:
            parents[each] = name
        return name

    for name, node in graph.nodes.items():
        root(name)
        for other in colocated_with(node):
            parents[root(other)] = root(name)
        for (source, _), dtype in zip(node.inputs, node.input_dtypes, strict=True):
            if dtype is resource and graph.nodes[source].op != "_Arg":
                parents[root(source)] = root(name)
    groups: dict[str, Group] = {}
    for name, node in graph.nodes.items():
        groups.setdefault(root(name), Group()).nodes.append(node)
    return list(groups.values())


def colocated_with(node: Node) -> list[str]:
    """The names of the nodes that a node asks to share a device with."""
    asked: Iterable[bytes] = node.attrs.get("_class") or ()
    return [each[len(_LOCATION) :].decode() for each in asked if each.startswith(_LOCATION)]


@functools.lru_cache(maxsize=4096)
def matches(device: str, constraint: str) -> bool:
    """Whether a full device name has all that a partial one asks for."""
    full, wanted = DeviceSpec.from_string(device), DeviceSpec.from_string(constraint)
    return all(getattr(wanted, f) is None or getattr(wanted, f) == getattr(full, f) for f in _FIELDS)


def _feasible(group: Group, devices: Sequence[Device], has_kernel: HasKernel, soft: bool) -> list[Device]:
    asked = list(dict.fromkeys(node.device for node in group.nodes if node.device))
    able = [device for device in devices if all(has_kernel(node, device.type) for node in group.nodes)]
    found = [device for device in able if all(matches(device.name, constraint) for constraint in asked)]
    if found:
        return found
    if soft and able:
        # The task stays what was asked for if it can; the device within it is given up.
        tasks = [_task_of(constraint) for constraint in asked]
        return [device for device in able if all(matches(device.name, task) for task in tasks)] or able
    raise _impossible(group, asked, devices, able, has_kernel)


def _task_of(constraint: str) -> str:
    spec = DeviceSpec.from_string(constraint)
    return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()


def _impossible(
    group: Group, asked: list[str], devices: Sequence[Device], able: list[Device], has_kernel: HasKernel
) -> errors.OpError:
    """Names the node, the device asked for, and the devices that would do."""
    node = next((node for node in group.nodes if node.device), group.nodes[0])
    would_do = ", ".join(device.name for device in able) or "none"
    there = ", ".join(device.name for device in devices)
    unable = next((n for n in group.nodes if not any(has_kernel(n, device.type) for device in devices)), None)
    if unable is not None:
        text = f"Cannot assign a device for operation '{unable.name}': no device has a kernel for {unable.op}."
        return errors.InvalidArgumentError(None, unable.origin, f"{text} Devices: {there}.")
    for constraint in asked:
        node = next(n for n in group.nodes if n.device == constraint)
        if not any(matches(device.name, constraint) for device in devices):
            return errors.InvalidArgumentError(
                None,
                node.origin,
                f"Cannot assign a device for operation '{node.name}': it was explicitly assigned to {constraint}, but "
                f"available devices are [ {there} ]. Devices that would do: {would_do}. Make sure that the device "
                "specification refers to a valid device, or use ConfigProto(allow_soft_placement=True).",
            )
    for constraint in asked:
        for device in devices:
            lacking = next((n for n in group.nodes if not has_kernel(n, device.type)), None)
            if lacking is not None and matches(device.name, constraint):
                return errors.InvalidArgumentError(
                    None,
                    lacking.origin,
                    f"Cannot assign a device for operation '{lacking.name}': it must be on {constraint}, and "
                    f"{device.name} has no kernel for {lacking.op}. Devices that would do: {would_do}.",
                )
    others = "; ".join(f"'{next(n for n in group.nodes if n.device == c).name}' asks for {c}" for c in asked)
    return errors.InvalidArgumentError(
        None,
        node.origin,
        f"Cannot colocate the nodes of one group, because their devices do not agree: {others}. They share state or "
        f"were tied by colocate_with. Available devices: {there}.",
    )
