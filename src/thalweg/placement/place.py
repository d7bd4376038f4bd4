"""Place: gives every node of a step a device, within the constraints of its program (OSDI section 3.3).

Nodes that must share a device form a *group*: those that `colocate_with` ties together, and state with all its users (a
resource handle never leaves its device). The partial device names of a group's members are merged, where those of state
take precedence over those of its users; the devices that match and have kernels for all members are the group's
*feasible set*. Among them a strategy chooses; without one, each group goes to the first of its devices.

Nothing here knows about one process: a device is a full name and a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from thalweg import errors
from thalweg.graph.device_spec import DeviceSpec, matches
from thalweg.graph.dtypes import resource
from thalweg.passes.free_handles import free_handles
from thalweg.passes.inline_functions import is_call
from thalweg.passes.step_graph import Node, StepGraph, failed_node

if TYPE_CHECKING:
    from thalweg.graph.operation import Operation
    from thalweg.graph.tensor import Tensor


_LOCATION = b"loc:@"


class Device(NamedTuple):
    """A device that nodes can be placed on.

    Attributes:
        name: Its full name.
        type: Its type, such as "CPU".
        on_request: Whether it gets only nodes that ask for its type.
        incarnation: The number that tells it from a device of the same name in another process, or in the process
            that takes its task's place after a crash. 0: that of the device of this process.
    """

    name: str
    type: str
    on_request: bool = False
    incarnation: int = 0


class Request(NamedTuple):
    """A node that asks for a device. The request of a node that only uses state is not hard: the state decides."""

    name: str
    is_hard: bool


@dataclass
class Group:
    """Nodes that must be on one device, and the devices that would do."""

    nodes: list[Node] = field(default_factory=list)
    asked: dict[str, Request] = field(default_factory=dict)  # constraints, each with a node that has it
    feasible: list[Device] = field(default_factory=list)


# Whether there is a kernel for a node on a type of device.
HasKernel = Callable[[Node, str], bool]
# Chooses a device for each group with several feasible ones, given the devices of the other groups' nodes.
Strategy = Callable[[StepGraph, Sequence[Group], Mapping[str, Device]], Sequence[Device]]

# Cheap ops that run on the device of their input.
_FOLLOWERS = frozenset({"Identity", "Shape", "ShapeN", "Size", "Rank", "StopGradient"})


def first_device(graph: StepGraph, groups: Sequence[Group], decided: Mapping[str, Device]) -> list[Device]:
    """The strategy that uses one device unless constraints ask for another."""
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
    survey: Survey | None = None,
    keep_task: bool = True,
) -> StepGraph:
    """Returns the step with the full name of a device in every node.

    Args:
        graph: The step; the devices of its nodes are partial names.
        devices: Where nodes can go, best first.
        has_kernel: Which nodes can run on which type of device.
        soft: Whether a node may go elsewhere if the device that it asks for is missing, or has no kernel for it.
        strategy: Decides where the constraints leave a choice.
        fixed: Where nodes with state have been placed by earlier steps; their groups go there.
        survey: The constraints of the whole program: a step that initializes a variable sees only some of its users.
        keep_task: Whether even a soft placement stays within the task that was asked for.

    Raises:
        errors.InvalidArgumentError: If constraints cannot be met.
    """
    graph = free_handles(graph)
    groups = groups_of(graph)
    for group in groups:
        group.asked = _asked(group, survey)
        group.feasible = _feasible(group, devices, has_kernel, soft, keep_task)
        placed = _fixed_device(group, fixed) if fixed else None
        if placed is not None:
            group.feasible = [device for device in group.feasible if device.name == placed] or group.feasible
    choices = [group for group in groups if len(group.feasible) > 1]
    where = {node.name: group.feasible[0] for group in groups if len(group.feasible) == 1 for node in group.nodes}
    for group, device in zip(choices, strategy(graph, choices, where), strict=True):
        where.update((node.name, device) for node in group.nodes)
    return graph.with_nodes({name: node._replace(device=where[name].name) for name, node in graph.nodes.items()})


def _fixed_device(group: Group, fixed: Mapping[str, str]) -> str | None:
    """The device that earlier steps have given a group, if any.

    Raises:
        errors.InvalidArgumentError: If they have put state that must share a device on several.
    """
    known = [node for node in group.nodes if node.name in fixed]
    state = [node for node in known if resource in node.output_dtypes and resource not in node.input_dtypes]
    for node in state:
        if fixed[node.name] != fixed[state[0].name]:
            user = next((each for each in group.nodes if each.input_dtypes.count(resource) > 1), node)
            raise errors.InvalidArgumentError(
                failed_node(user),
                None,
                f"Cannot assign a device for operation '{user.name}': it needs '{state[0].name}', which is on "
                f"{fixed[state[0].name]}, and '{node.name}', which is on {fixed[node.name]} since the step that "
                "used it first. Put both on one device with tf.device.",
            )
    return fixed[(state or known)[0].name] if known else None


class DisjointSets:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        """Begins with nothing joined."""
        self._parents: dict[str, str] = {}

    def root(self, name: str) -> str:
        """The name that stands for the set of `name`."""
        path = []
        while (parent := self._parents.setdefault(name, name)) != name:
            path.append(name)
            name = parent
        for each in path:
            self._parents[each] = name
        return name

    def join(self, a: str, b: str) -> tuple[str, str]:
        """Joins two sets; returns the new root and the one that it replaces."""
        root, absorbed = self.root(a), self.root(b)
        self._parents[absorbed] = root
        return root, absorbed


class Survey:
    """The constraints on state in a whole graph, which grows: its users, and the devices that they ask for."""

    def __init__(self) -> None:
        """Begins with an empty graph."""
        self._union = DisjointSets()
        self._asked: dict[str, dict[str, Request]] = {}
        self._seen = 0

    def update(self, operations: Sequence[Operation]) -> None:
        """Adds the operations that are new; `operations` are all of the graph's, in their order."""
        for op in operations[self._seen :]:
            if is_call(op):  # The nodes of the function's body are placed one by one.
                continue
            if op.type == "IdentityN":  # See `free_handles`.
                continue
            touched = [_origin(tensor).op.name for tensor in op.inputs if tensor.dtype.base_dtype is resource]
            if op.device:
                asked = self._asked.setdefault(self._union.root(op.name), {})
                _add(asked, op.device, Request(op.name, not touched))
            for other in touched + _locations(op.attrs.get("_class")):
                root, absorbed = self._union.join(op.name, other)
                if root != absorbed and absorbed in self._asked:
                    _add_all(self._asked.setdefault(root, {}), self._asked.pop(absorbed))
        self._seen = len(operations)

    def asked(self, name: str) -> Mapping[str, Request]:
        """The devices that the group of an operation asks for, each with a node that does."""
        return self._asked.get(self._union.root(name), {})


def groups_of(graph: StepGraph) -> list[Group]:
    """The nodes of a step in groups that must stay together, in the order of their first nodes."""
    union = DisjointSets()
    for name, node in graph.nodes.items():
        for other in colocated_with(node):
            union.join(name, other)
        for (source, _), dtype in zip(node.inputs, node.input_dtypes, strict=True):
            if dtype is resource and graph.nodes[source].op != "_Arg":
                union.join(name, source)
    groups: dict[str, Group] = {}
    for name, node in graph.nodes.items():
        groups.setdefault(union.root(name), Group()).nodes.append(node)
    return list(groups.values())


def _origin(handle: Tensor) -> Tensor:
    """The handle that a chain of IdentityN nodes forwards."""
    while handle.op.type == "IdentityN":
        handle = handle.op.inputs[handle.value_index]
    return handle


def _asked(group: Group, survey: Survey | None) -> dict[str, Request]:
    asked: dict[str, Request] = {}
    for node in group.nodes:
        if node.device:
            _add(asked, node.device, Request(node.name, resource not in node.input_dtypes))
        if survey is not None:
            _add_all(asked, survey.asked(node.name))
    return asked


def _add(asked: dict[str, Request], device: str, request: Request) -> None:
    known = asked.get(device)
    if known is None or (request.is_hard and not known.is_hard):
        asked[device] = request


def _add_all(asked: dict[str, Request], more: Mapping[str, Request]) -> None:
    for device, request in more.items():
        _add(asked, device, request)


def colocated_with(node: Node) -> list[str]:
    """The names of the nodes that a node asks to share a device with."""
    return _locations(node.attrs.get("_class"))


def _locations(groups: Iterable[bytes] | None) -> list[str]:
    return [each[len(_LOCATION) :].decode() for each in groups or () if each.startswith(_LOCATION)]


def _feasible(
    group: Group, devices: Sequence[Device], has_kernel: HasKernel, soft: bool, keep_task: bool
) -> list[Device]:
    able = [device for device in devices if all(has_kernel(node, device.type) for node in group.nodes)]
    asked = {DeviceSpec.from_string(constraint).device_type for constraint in group.asked}
    able = [device for device in able if not device.on_request or device.type in asked]
    found = able
    for constraint, request in sorted(group.asked.items(), key=lambda item: not item[1].is_hard):
        narrowed = [device for device in found if matches(device.name, constraint)]
        # A user of state goes to the device of the state, but an infeasible request is an error.
        if narrowed or request.is_hard or not any(matches(device.name, constraint) for device in able):
            found = narrowed
    if found:
        return found
    if soft and able:
        # The device is given up, the task that it is in is not.
        tasks = [_task_of(constraint) for constraint in group.asked]
        near = [device for device in able if all(matches(device.name, task) for task in tasks)]
        if near or not keep_task:
            return near or able
    raise _impossible(group, devices, able, has_kernel)


def _task_of(constraint: str) -> str:
    spec = DeviceSpec.from_string(constraint)
    return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()


def _impossible(group: Group, devices: Sequence[Device], able: list[Device], has_kernel: HasKernel) -> errors.OpError:
    """Names the node, the device asked for, and the devices that would do."""
    would_do = ", ".join(device.name for device in able) or "none"
    there = ", ".join(device.name for device in devices)

    def error(name: str, why: str) -> errors.OpError:
        failed = next((node for node in group.nodes if node.name == name), group.nodes[0])
        return errors.InvalidArgumentError(
            failed_node(failed), None, f"Cannot assign a device for operation '{name}': {why}"
        )

    for node in group.nodes:
        if not any(has_kernel(node, device.type) for device in devices):
            return error(node.name, f"no device has a kernel for {node.op}. Devices: {there}.")
    for constraint, (name, _) in group.asked.items():
        if not any(matches(device.name, constraint) for device in devices):
            in_task = any(matches(device.name, _task_of(constraint)) for device in devices)
            remedy = (
                "Make sure that the device specification refers to a valid device, or use "
                "ConfigProto(allow_soft_placement=True)."
                if in_task
                else f"None of them is in {_task_of(constraint)}: allow_soft_placement does not leave the task."
            )
            return error(
                name,
                f"it was explicitly assigned to {constraint}, but available devices are [ {there} ]. Devices that "
                f"would do: {would_do}. {remedy}",
            )
    for constraint in group.asked:
        for node in group.nodes:
            lacking = [d for d in devices if matches(d.name, constraint) and not has_kernel(node, d.type)]
            if lacking and not any(matches(device.name, constraint) for device in able):
                return error(
                    node.name,
                    f"it must be on {constraint}, and {lacking[0].name} has no kernel for {node.op}. Devices that "
                    f"would do: {would_do}.",
                )
    requests = "; ".join(f"'{name}' asks for {constraint}" for constraint, (name, _) in group.asked.items())
    return error(
        group.nodes[0].name,
        f"the nodes of its group must be colocated, and their devices do not agree: {requests}. They share state or "
        f"were tied by colocate_with. Available devices: {there}.",
    )
