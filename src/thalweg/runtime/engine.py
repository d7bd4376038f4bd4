"""Engine: where the steps of a session run: in this process, or on the tasks of a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from thalweg._native import core
from thalweg.graph.dtypes import QUANTIZED_DTYPES, DType, bfloat16
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.options import pass_options
from thalweg.passes.step_graph import StepGraph
from thalweg.placement.options import PlacementOptions, placement_options
from thalweg.placement.placer import Placer
from thalweg.planning.plan_step import Planner
from thalweg.planning.planned_step import PlannedStep
from thalweg.runtime import partition_graphs
from thalweg.runtime.devices import DeviceAttributes, incarnation
from thalweg.runtime.install import evaluate, install, local_kernels, register_python_kernels, supports
from thalweg.runtime.measurements import Measurements

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.placement.costs import CostModel


for _dtype in (bfloat16, *sorted(QUANTIZED_DTYPES, key=str)):
    if not _dtype._is_ref_dtype:
        core.register_numpy_dtype(_dtype.as_datatype_enum, np.dtype(_dtype.as_numpy_dtype))


class EngineStep(NamedTuple):
    """A step that an engine can run.

    Attributes:
        compiled: The core's step, or an object with the same methods.
        planned: The step as a value; None if another process has planned it.
        parts: For each device of this process, the nodes that the core was given; for those of other tasks, the nodes
            that were planned, of which the tasks may fuse some. Empty if another process has planned the step.
        number: The number by which a master in another process knows the step.
    """

    compiled: Any
    planned: PlannedStep | None
    parts: dict[str, StepGraph]
    number: int = 0


class Engine(Protocol):
    """What a session asks to plan, install and run its steps. Thread-safe, apart from `install`."""

    def install(
        self,
        graph: Graph,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        precision: DType | None = None,
        piecewise: bool = False,
    ) -> EngineStep:
        """Plans and installs a step. Called with the graph's lock."""

    def partial_step(self, step: EngineStep) -> Any:
        """Starts a step that was installed `piecewise`: an object with `send` and `recv`."""

    def fill_partition_graphs(self, run_metadata: Any, step: EngineStep) -> None:
        """Adds the graphs that the devices of a step run to a RunMetadata."""

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices that steps can use."""

    def memory_info(self, device: str) -> dict[str, int]:
        """The bytes that the tensors of a device hold, by its full name."""

    def costs(self) -> CostModel:
        """The costs of operations that were measured."""

    def measured_graph(self, compiled: Any) -> StepGraph | None:
        """The placed step that a compiled one was made of, if it is measured."""

    def close(self) -> None:
        """Ends running steps, and forgets all of them."""


def limit_inter_op_threads(session: Any, config: Any) -> None:
    """Lets steps of a core's Session run nodes on as many threads as a ConfigProto says.

    Without a number in it, steps share as many threads as the machine has cores with all other sessions, or only with
    each other if the session is to have threads of its own.
    """
    if config is None:
        return
    threads = int(config.inter_op_parallelism_threads)
    if threads > 0 or config.use_per_session_threads:
        session.limit_inter_op_threads(threads if threads > 0 else len(os.sched_getaffinity(0)))


class LocalEngine:
    """Runs steps on the devices of this process, which belong to one session."""

    def __init__(self, config: Any) -> None:
        """Takes the session's ConfigProto, or None."""
        register_python_kernels()
        self._measurements = Measurements(placement_options(config) if config is not None else PlacementOptions())
        self._placer = Placer.from_config(config, self._measurements.costs)
        self._planner = Planner(self._placer, pass_options(config), evaluate, local_kernels, supports)
        self._native = core.Session([device.name for device in self._placer.devices])
        limit_inter_op_threads(self._native, config)
        for name, limit in self._placer.memory_limits.items():
            self._native.set_memory_limit(name, limit)

    def install(
        self,
        graph: Graph,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        precision: DType | None = None,
        piecewise: bool = False,
    ) -> EngineStep:
        """Plans and installs a step."""
        planned = self._planner.plan(graph, feeds, fetches, targets, precision, piecewise)
        installed = install(self._native, planned, planned.fused)
        if not piecewise:
            self._measurements.observe(installed.compiled, planned.placed, self._placer.devices)
        return EngineStep(installed.compiled, planned, installed.parts)

    def partial_step(self, step: EngineStep) -> Any:
        """Starts a step that is fed and fetched through its rendezvous."""
        return core.PartialStep(step.compiled)

    def fill_partition_graphs(self, run_metadata: Any, step: EngineStep) -> None:
        """Adds the graphs that the devices of a step run to a RunMetadata."""
        partition_graphs.fill(run_metadata, step.parts)

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices of this process."""
        return [
            DeviceAttributes(device.name, device.type, self.memory_info(device.name)["limit"], incarnation(device.name))
            for device in self._placer.devices
        ]

    def memory_info(self, device: str) -> dict[str, int]:
        """The bytes that the tensors of a device hold."""
        return dict(self._native.memory_info(device))

    def costs(self) -> CostModel:
        """The costs that were measured or read."""
        return self._measurements.costs()

    def measured_graph(self, compiled: Any) -> StepGraph | None:
        """The placed step that a compiled one was made of, if it is measured."""
        return self._measurements.graph_of(compiled)

    def close(self) -> None:
        """Ends running steps with CancelledError, and writes the costs that were measured."""
        try:
            self._measurements.close()
        finally:
            self._native.close()

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is not None:
            native.close()
