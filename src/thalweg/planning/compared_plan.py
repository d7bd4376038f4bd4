"""The planned step of a placement that `tf.placement.compare` has found: what a session would install."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thalweg.passes.fold_constants import Evaluate
from thalweg.passes.for_device import TaskKernels
from thalweg.passes.mixed_precision import Supports
from thalweg.passes.options import PassOptions
from thalweg.placement.comparison import Comparison, step_ends
from thalweg.placement.costs import CostModel
from thalweg.placement.placer import GivenPlacer
from thalweg.planning.plan_step import Planner
from thalweg.planning.planned_step import PlannedStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from thalweg.graph.graph import Graph
    from thalweg.planning.planned_step import PlannedFunction


def plan_compared(
    comparison: Comparison,
    graph: Graph,
    fetches: Sequence[Any],
    costs: CostModel,
    evaluate: Evaluate,
    kernels: Callable[[Mapping[str, PlannedFunction]], TaskKernels],
    supports: Supports,
) -> PlannedStep:
    """Plans the step of a comparison on the devices that its strategy has chosen.

    Args:
        comparison: What one strategy has made of the step.
        graph: The graph.
        fetches: What was compared.
        costs: What nodes take.
        evaluate: Computes constants, as for `Planner`.
        kernels: What the kernels of the devices' tasks are expected to do.
        supports: As for `Planner`.
    """
    devices = [processor.device for processor in comparison.tasks.machine.processors]
    placer = GivenPlacer(devices, comparison.devices, lambda: costs)
    feeds, tensors, targets = step_ends(graph, fetches)
    return Planner(placer, PassOptions(), evaluate, kernels, supports).plan(graph, feeds, tensors, targets)
