"""Where the nodes of a session's steps go: its devices, and what earlier steps have decided."""

from __future__ import annotations

import sys
from typing import Any

from thalweg._native import core
from thalweg.passes.partition import Partition, partition, whole
from thalweg.passes.place import Device, Strategy, Survey, place
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
    ) -> None:
        """Takes the session's devices and what its ConfigProto says about placement."""
        self.devices = devices
        self.planning = Planning(devices, options)
        self._soft = soft
        self._log = log
        self._fixed: dict[str, str] = {}
        self._survey = Survey()
        self._logged: set[str] = set()
        self._latest: StepGraph | None = None

    @classmethod
    def from_config(cls, config: Any) -> Placer:
        """The placer that a ConfigProto asks for: `device_count`, `allow_soft_placement`, `log_device_placement`."""
        count = 1
        if config is not None and "CPU" in config.device_count:
            count = max(1, int(config.device_count["CPU"]))
        devices = [Device(f"{TASK}/device:CPU:{i}", "CPU") for i in range(count)]
        if config is None:
            return cls(devices)
        options = placement_options(config)
        return cls(devices, bool(config.allow_soft_placement), bool(config.log_device_placement), options)

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
        model = self.planning.costs()
        kinds = {device.name: device.type for device in self.devices}
        return {name: model.seconds(graph, node, kinds.get(node.device, "CPU")) for name, node in graph.nodes.items()}

    def partition(self, graph: StepGraph) -> dict[str, Partition]:
        """The parts of a placed step."""
        return {self.devices[0].name: whole(graph)} if len(self.devices) == 1 else partition(graph)

    def _write_log(self, graph: StepGraph) -> None:
        for name, node in graph.nodes.items():
            if name not in self._logged and node.op not in _OWN:
                self._logged.add(name)
                print(f"{name}: ({node.op}): {node.device}", file=sys.stderr)


def _has_kernel(node: Node, device_type: str) -> bool:
    # Kernels are registered for the host so far; the null device and plug-ins will have tables of their own.
    return device_type == "CPU" and (node.op_def is None or core.has_kernel(node.op))
