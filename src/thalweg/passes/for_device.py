"""The passes over one device's part of a step, which depend on what its type is and which kernels its task has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from thalweg.passes.fuse_elementwise import CanRecord
from thalweg.passes.fusion import fuse
from thalweg.passes.keep_weights import keep_weights
from thalweg.passes.lower_loops import lower_loops
from thalweg.passes.null_device import NULL, compute_nothing
from thalweg.passes.options import PassOptions
from thalweg.passes.pack_weights import pack_weights
from thalweg.passes.step_graph import Node, StepGraph
from thalweg.passes.travel_layouts import travel_layouts


class TaskKernels(NamedTuple):
    """What the kernels of a task can do.

    Attributes:
        operands_of: How many operands an op that can be fused element by element has; 0 for all others.
        is_synchronous: Whether a node has a kernel that never waits, so that it may run inside a lowered loop.
        can_record: Whether machine code can be made for an element-wise op on inputs of some types.
    """

    operands_of: Callable[[str], int]
    is_synchronous: Callable[[Node], bool]
    can_record: CanRecord | None = None


def for_device(
    part: StepGraph, device_type: str, options: PassOptions, kernels: TaskKernels, changes_resources: bool
) -> StepGraph:
    """Returns the part as its device runs it: only the host's devices have kernels for fused nodes.

    Args:
        part: The part.
        device_type: The type of the device.
        options: Which passes run.
        kernels: What the kernels of the device's task can do.
        changes_resources: Whether the step changes a variable or anything else that outlives it.
    """
    if device_type == NULL:
        return compute_nothing(part)
    return fused(part, options, kernels, changes_resources) if device_type == "CPU" else part


def fused(graph: StepGraph, options: PassOptions, kernels: TaskKernels, changes_resources: bool) -> StepGraph:
    """Applies the passes that make one node of several, to a part of a step or to the body of a function."""
    if not options.optimized or options.separate:
        return graph
    if options.layouts:
        graph = travel_layouts(graph, kernels.operands_of)
    if options.fused:
        graph = fuse(graph, kernels.operands_of, kernels.can_record)
    if not changes_resources:
        graph = keep_weights(graph)
    return lower_loops(pack_weights(graph), kernels.is_synchronous)
