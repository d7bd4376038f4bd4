"""RunMetadata: the core's record of a traced step, as StepStats that TensorBoard and timelines read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg._native import core
from thalweg.passes.node_work import guessed
from thalweg.placement.costs import tensor_bytes
from thalweg.planning.planned_step import PlannedStep
from thalweg.runtime.trace import label

if TYPE_CHECKING:
    from thalweg.passes.step_graph import StepGraph
    from thalweg.placement.costs import CostModel


def fill(run_metadata: Any, compiled: Any, trace: Any, step: PlannedStep | None) -> None:
    """Replaces the contents of a RunMetadata by the trace of one step; tasks label what they trace themselves."""
    if step is not None and isinstance(compiled, core.CompiledStep):
        label(compiled, step)
    run_metadata.Clear()
    run_metadata.step_stats.MergeFromString(trace.step_stats())


def fill_cost_graph(run_metadata: Any, graph: StepGraph, costs: CostModel, device: str) -> None:
    """Adds the costs of a step's nodes, as a CostGraphDef; `device` is that of nodes without a full name."""
    number = {name: i for i, name in enumerate(graph.nodes)}
    final = {name for name, _ in graph.fetches} | set(graph.targets)
    for name, node in graph.nodes.items():
        measured = costs.measurement(node, "CPU")
        micros = 0 if measured is None else max(1, round(measured.seconds * measured.runs * 1e6))
        entry = run_metadata.cost_graph.node.add(
            name=name, device=node.device or device, id=number[name], compute_cost=micros, compute_time=micros,
            is_final=name in final, inaccurate=measured is None,
        )  # fmt: skip
        for source, output in node.inputs:
            entry.input_info.add(preceding_node=number[source], preceding_port=output)
        entry.control_input.extend(number[control] for control in node.controls)
        for output, dtype in enumerate(node.output_dtypes):
            info = entry.output_info.add(
                size=int(tensor_bytes(graph, (name, output))), alias_input_port=-1, dtype=dtype.as_datatype_enum
            )
            for dim in guessed(graph.shape((name, output)).dims_tuple):
                info.shape.dim.add(size=dim)
