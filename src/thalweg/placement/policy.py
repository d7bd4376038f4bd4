"""PlacementPolicy: how a session places nodes that its program leaves open.

Where state lives is decided by the program's training step (or, without one, by all that it computes without effect),
not by the first step, which initializes variables. State that the deciding step lacks goes to the first device.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from thalweg import errors
from thalweg._native import core
from thalweg.graph.dtypes import resource
from thalweg.passes.step_graph import Node, StepGraph
from thalweg.placement.costs import CostModel
from thalweg.placement.options import PlacementOptions
from thalweg.placement.place import Device, Group, Strategy, first_device

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


class PlacementPolicy:
    """The strategy of one session."""

    def __init__(
        self,
        devices: Sequence[Device],
        options: PlacementOptions,
        costs: Callable[[], CostModel] = CostModel,
        memory: Mapping[str, int] | None = None,
    ) -> None:
        """Takes devices and options; `costs` returns the current cost model, `memory` are limits of devices."""
        self._devices = list(devices)
        self._memory = memory or {}
        self._options = options
        self._costs = costs
        self._cores = parallel_cpus()
        self._settled = -1  # the size of the program whose state has been settled

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one device that it would make sense to use."""
        return self._options.strategy != "single" and len(self._usable()) > 1

    def strategy(self, places_state: bool = False) -> Strategy:
        """Decides where the constraints leave a choice; state that is not placed goes to the first device."""
        if not self.has_choice:
            return first_device
        # Start-up time: sessions with one device need neither.
        from thalweg.placement.machine import Machine
        from thalweg.placement.planner import DEFAULT, MARGIN, Planner

        usable = self._usable()
        # A strategy that the user names is always followed. Without cores for them, other devices only add memory.
        margin = None if self._options.strategy else MARGIN if self._has_cores() else 1.0
        machine = Machine.from_devices(self._devices, self._memory)
        planner = Planner(machine, self._costs(), self._options.strategy or DEFAULT, margin)

        def planned(graph: StepGraph, groups: Sequence[Group], decided: Mapping[str, Device]) -> list[Device]:
            for group in groups:
                group.feasible = [device for device in group.feasible if device in usable] or group.feasible
                fixed = is_found_by_name if places_state else makes_state
                if any(fixed(node) for node in group.nodes):
                    group.feasible = group.feasible[:1]
            return planner(graph, groups, decided)

        return planned

    def settle_state(
        self,
        graph: StepGraph,
        program: Graph,
        fixed: Mapping[str, str],
        place: Callable[[StepGraph, Strategy], StepGraph],
    ) -> dict[str, str]:
        """Devices for the state of the whole program, if this step has some without a device.

        Args:
            graph: The step.
            program: The graph that it was cut from.
            fixed: The devices of state that has one.
            place: Places a step by a strategy.
        """
        size = len(program.get_operations())
        if not self.has_choice or self._settled == size:
            return {}
        if not any(makes_state(node) and node.name not in fixed for node in graph.nodes.values()):
            return {}
        from thalweg.placement.program import program_step  # Start-up time: see `strategy`.

        self._settled = size
        try:
            placed = place(program_step(program), self.strategy(places_state=True))
        except errors.OpError:
            return {}  # A node that this step does not need cannot be placed.
        return {name: node.device for name, node in placed.nodes.items() if node.stateful and name not in fixed}

    def _usable(self) -> list[Device]:
        """The devices that it may make sense to use: those that can work at the same time, or add memory."""
        devices = [device for device in self._devices if not device.on_request]
        if self._options.strategy or (self._memory and not self._has_cores()):
            return devices
        cpus = [device for device in devices if device.type == "CPU"][: self._cores]
        return [device for device in devices if device.type != "CPU" or device in cpus]

    def _has_cores(self) -> bool:
        return self._cores > 1


def parallel_cpus() -> int:
    """How many CPU devices of this process can work at the same time: they share the cores that kernels spread over."""
    return max(1, len(os.sched_getaffinity(0)) // max(1, core.intra_op_threads()))


def makes_state(node: Node) -> bool:
    """Whether a node makes a variable, a queue or another resource, which lives where it is made."""
    return (node.stateful and resource in node.output_dtypes) or is_found_by_name(node)


def is_found_by_name(node: Node) -> bool:
    """Whether a node finds state by a name that nodes of other steps share: all of them must be on one device.

    Variables have names, too, but each is made by one node.
    """
    if not node.stateful or node.op == "VarHandleOp":
        return False
    # By type: a feedable iterator finds others by their string handles, which no attribute tells.
    return bool(node.attrs.get("shared_name")) or node.op.startswith(("Iterator", "OneShotIterator"))
