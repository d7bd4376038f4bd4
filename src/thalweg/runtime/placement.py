"""Where the nodes of a session's steps go: its devices, and what earlier steps have decided."""

from __future__ import annotations

import sys
from typing import Any

from thalweg._native import core
from thalweg.devices import plugins
from thalweg.devices.memory import memory_limits
from thalweg.graph.device_spec import matches
from thalweg.passes.drop_gates import drop_gates
from thalweg.passes.null_device import NULL
from thalweg.passes.partition import Partition, partition, whole
from thalweg.passes.place import Device, Strategy, Survey, place
from thalweg.passes.remote_devices import host_sides
from thalweg.passes.step_graph import Node, StepGraph
from thalweg.placement.options import PlacementOptions, placement_options
from thalweg.runtime.planning import Planning

TASK = "/job:localhost/replica:0/task:0"
_OWN = frozenset({"_Arg", "_Send", "_Recv"})


class Placer:
    """Places and partitions the steps of one session. What has state stays where its first step put it."""

    def __init__(
        self,
        devices: list[Device],
        soft: bool = False,
        log: bool = False,
        options: PlacementOptions = PlacementOptions(),  # noqa: B008 (immutable)
        compressed: bool = False,
        memory_limits: dict[str, int] | None = None,
    ) -> None:
        """Takes the session's devices and what its ConfigProto says about them and about placement."""
        self.devices = devices
        self.memory_limits = {}  # Of devices that have one of their own.
        for wanted, limit in (memory_limits or {}).items():
            self.memory_limits.update({device.name: limit for device in devices if matches(device.name, wanted)})
        self.planning = Planning(devices, options, self.memory_limits)
        self._soft = soft
        self._log = log
        self._compressed = compressed
        self._fixed: dict[str, str] = {}
        self._survey = Survey()
        self._logged: set[str] = set()
        self._latest: StepGraph | None = None
        self.expected_seconds: float | None = None  # of the step over several devices that was compiled last

    @classmethod
    def from_config(cls, config: Any) -> Placer:
        """The placer that a ConfigProto asks for: `device_count`, `allow_soft_placement`, `log_device_placement`."""
        devices = _devices(dict(config.device_count) if config is not None else {})
        if config is None:
            return cls(devices)
        return cls(
            devices, bool(config.allow_soft_placement), bool(config.log_device_placement), placement_options(config),
            bool(config.graph_options.enable_bfloat16_sendrecv), memory_limits(config),
        )  # fmt: skip

    def place(self, graph: StepGraph) -> StepGraph:
        """The step with a device for every node."""
        self._latest = self._placed(graph)
        return self._latest

    def observe(self, compiled: Any) -> None:
        """Measures what was compiled of the step that was placed last, if the session is asked to."""
        if self._latest is not None and self.planning.measures:
            self.planning.observe(compiled, self._latest)

    def _placed(self, graph: StepGraph) -> StepGraph:
        constrained = any(node.device for node in graph.nodes.values())
        if len(self.devices) == 1 and not constrained and not self._log:
            return graph
        origins = (node.origin for node in graph.nodes.values() if node.origin is not None)
        origin = next((op for op in origins if not op.graph.building_function), None)
        if origin is not None:
            self._survey.update(origin.graph.get_operations())
            self._fixed.update(self.planning.settle_state(graph, origin.graph, self._fixed, self._place))
        if len(self.devices) > 1:
            graph = drop_gates(graph)
        placed = self._place(graph, self.planning.strategy())
        for name, node in placed.nodes.items():
            if node.stateful:
                self._fixed[name] = node.device
        if self._log:
            self._write_log(placed)
        return placed

    def _place(self, graph: StepGraph, strategy: Strategy) -> StepGraph:
        return place(graph, self.devices, _has_kernel, self._soft, strategy, self._fixed, self._survey)

    def costs(self, graph: StepGraph) -> dict[str, float]:
        """How long the nodes of a placed step take, measured or estimated."""
        from thalweg.placement.costs import placed_seconds

        return placed_seconds(graph, self.planning.costs(), {device.name: device.type for device in self.devices})

    def partition(self, graph: StepGraph) -> dict[str, Partition]:
        """The parts of a placed step."""
        if len(self.devices) == 1:
            return {self.devices[0].name: whole(graph)}
        graph = host_sides(graph, self.devices[0].name, is_remote, _host_inputs)
        return partition(graph, self._compressed, is_remote)

    def _write_log(self, graph: StepGraph) -> None:
        for name, node in graph.nodes.items():
            if name not in self._logged and node.op not in _OWN:
                self._logged.add(name)
                print(f"{name}: ({node.op}): {node.device}", file=sys.stderr)


def _devices(count: dict[str, int]) -> list[Device]:
    """The host's devices come first: where nobody asks for another, they are used."""
    devices = [Device(f"{TASK}/device:CPU:{i}", "CPU") for i in range(max(1, count.get("CPU", 1)))]
    devices += [Device(f"{TASK}/device:NULL:{i}", NULL, True) for i in range(count.get(NULL, 0))]
    for plugin in plugins.loaded.values():
        there = min(plugin.num_devices, count.get(plugin.type, plugin.num_devices))
        devices += [Device(f"{TASK}/device:{plugin.type}:{i}", plugin.type, True) for i in range(there)]
    return devices


def device_type(name: str) -> str:
    """The type in the full name of a device; that of the host for an empty name."""
    return name.rpartition("/device:")[2].partition(":")[0] if name else "CPU"


def is_remote(name: str) -> bool:
    """Whether a device has memory of its own."""
    return device_type(name) in plugins.loaded


def _host_inputs(node: Node) -> int:
    kernel = plugins.loaded[device_type(node.device)].kernel(node.op, node.attrs)
    return kernel.host_inputs if kernel is not None else 0


def _has_kernel(node: Node, device_type: str) -> bool:
    if device_type in ("CPU", NULL):
        return node.op_def is None or core.has_kernel(node.op)
    if node.op in plugins.PASSING or node.op == "_Arg":
        return True
    return plugins.loaded[device_type].kernel(node.op, node.attrs) is not None
