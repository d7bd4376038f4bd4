"""Placer: gives the nodes of a session's steps their devices, and cuts placed steps into parts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from thalweg._native import core
from thalweg.devices import plugins
from thalweg.devices.memory import memory_limits
from thalweg.graph.device_spec import device_type, matches
from thalweg.passes.device_memory import host_sides
from thalweg.passes.drop_gates import drop_gates
from thalweg.passes.null_device import NULL
from thalweg.passes.partition import Partition, partition, whole
from thalweg.passes.step_graph import Node, StepGraph
from thalweg.placement.costs import CostModel, placed_seconds
from thalweg.placement.options import PlacementOptions, placement_options
from thalweg.placement.place import Device, Strategy, Survey, place
from thalweg.placement.policy import PlacementPolicy

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph

TASK = "/job:localhost/replica:0/task:0"
LOCAL_DEVICE = f"{TASK}/device:CPU:0"
_RUNTIME_OPS = frozenset({"_Arg", "_Send", "_Recv"})


class Placer:
    """Places and partitions the steps of one session.

    It remembers which device each node with state was given (`state_devices`): such a node stays where its first step
    put it. Nothing else that one call leaves behind changes what a later call returns.
    """

    def __init__(
        self,
        devices: list[Device],
        soft: bool = False,
        log: bool = False,
        options: PlacementOptions = PlacementOptions(),  # noqa: B008 (immutable)
        compressed: bool = False,
        memory_limits: dict[str, int] | None = None,
        costs: Callable[[], CostModel] = CostModel,
    ) -> None:
        """Takes the session's devices, what its ConfigProto says about them and about placement, and known costs."""
        self.devices = devices
        self.memory_limits = {}  # Of devices that have one of their own.
        for wanted, limit in (memory_limits or {}).items():
            self.memory_limits.update({device.name: limit for device in devices if matches(device.name, wanted)})
        self.state_devices: dict[str, str] = {}
        self._policy = PlacementPolicy(devices, options, costs, self.memory_limits)
        self._costs = costs
        self._soft = soft
        self._log = log
        self._compressed = compressed
        self._survey = Survey()
        self._logged: set[str] = set()

    @classmethod
    def from_config(cls, config: Any, costs: Callable[[], CostModel] = CostModel) -> Placer:
        """The placer that a ConfigProto asks for: `device_count`, `allow_soft_placement`, `log_device_placement`."""
        devices = local_devices(dict(config.device_count) if config is not None else {})
        if config is None:
            return cls(devices, costs=costs)
        return cls(
            devices, bool(config.allow_soft_placement), bool(config.log_device_placement), placement_options(config),
            bool(config.graph_options.enable_bfloat16_sendrecv), memory_limits(config), costs,
        )  # fmt: skip

    def place(self, graph: StepGraph, program: Graph) -> StepGraph:
        """The step with a device for every node; `program` is the graph that it was cut from."""
        constrained = any(node.device for node in graph.nodes.values())
        if len(self.devices) == 1 and not constrained and not self._log:
            return graph
        self._survey.update(program.get_operations())
        settled = self._policy.settle_state(graph, program, self.state_devices, self._place)
        self.state_devices.update(settled)
        if len(self.devices) > 1:
            graph = drop_gates(graph)
        placed = self._place(graph, self._policy.strategy())
        for name, node in placed.nodes.items():
            if node.stateful:
                self.state_devices[name] = node.device
        if self._log:
            self._write_log(placed)
        return placed

    def _place(self, graph: StepGraph, strategy: Strategy) -> StepGraph:
        return place(graph, self.devices, _has_kernel, self._soft, strategy, self.state_devices, self._survey)

    @property
    def incarnations(self) -> dict[str, int]:
        """The incarnations of the devices, by name."""
        return {device.name: device.incarnation for device in self.devices}

    def seconds(self, graph: StepGraph) -> dict[str, float]:
        """How long the nodes of a placed step take, measured or estimated."""
        return placed_seconds(graph, self._costs(), {device.name: device.type for device in self.devices})

    def partition(self, graph: StepGraph) -> dict[str, Partition]:
        """The parts of a placed step."""
        if len(self.devices) == 1:
            return {self.devices[0].name: whole(graph)}
        graph = host_sides(graph, self.devices[0].name, has_own_memory, _host_inputs)
        return partition(graph, self._compressed, has_own_memory, self.incarnations)

    def _write_log(self, graph: StepGraph) -> None:
        for name, node in graph.nodes.items():
            if name not in self._logged and node.op not in _RUNTIME_OPS:
                self._logged.add(name)
                print(f"{name}: ({node.op}): {node.device}", file=sys.stderr)


class GivenPlacer(Placer):
    """Puts each node of a step on the device that is given for its name, and nodes without one on the first device."""

    def __init__(self, devices: list[Device], where: Mapping[str, str], costs: Callable[[], CostModel]) -> None:
        """Takes the devices, and a device for each node."""
        super().__init__(devices, costs=costs)
        self._where = where

    def place(self, graph: StepGraph, program: Graph) -> StepGraph:
        """The step with the given devices."""
        graph = drop_gates(graph)
        first = self.devices[0].name
        nodes = {name: node._replace(device=self._where.get(name, first)) for name, node in graph.nodes.items()}
        return graph.with_nodes(nodes)


def local_devices(count: dict[str, int]) -> list[Device]:
    """The devices of this process, as many of each type as `device_count` says.

    The host's devices come first: they are used unless the program asks for another.
    """
    devices = [Device(f"{TASK}/device:CPU:{i}", "CPU") for i in range(max(1, count.get("CPU", 1)))]
    devices += [Device(f"{TASK}/device:NULL:{i}", NULL, True) for i in range(count.get(NULL, 0))]
    for plugin in plugins.loaded.values():
        there = min(plugin.num_devices, count.get(plugin.type, plugin.num_devices))
        devices += [Device(f"{TASK}/device:{plugin.type}:{i}", plugin.type, True) for i in range(there)]
    return devices


def has_own_memory(name: str) -> bool:
    """Whether a device has memory of its own."""
    return device_type(name) in plugins.loaded


def has_kernel_on(op: str, attrs: dict[str, Any], device: str) -> bool:
    """Whether a device with memory of its own can run an op with these attributes."""
    plugin = plugins.loaded.get(device_type(device))
    return plugin is not None and plugin.kernel(op, attrs) is not None


def _host_inputs(node: Node) -> int:
    kernel = plugins.loaded[device_type(node.device)].kernel(node.op, node.attrs)
    return kernel.host_inputs if kernel is not None else 0


def _has_kernel(node: Node, device_type: str) -> bool:
    if device_type in ("CPU", NULL):
        return node.op_def is None or core.has_kernel(node.op)
    if node.op in plugins.FORWARDING or node.op == "_Arg":
        return True
    return plugins.loaded[device_type].kernel(node.op, node.attrs) is not None
