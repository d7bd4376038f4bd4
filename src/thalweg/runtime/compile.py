"""Compiles a step: runs the passes over the pruned graph and hands the result to the native core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg._native import core
from thalweg.graph.op_registry import all_ops
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.fold_constants import fold_constants
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import StepGraph

LOCAL_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"

_registered_kernels: set[str] = set()


def register_python_kernels() -> None:
    """Tells the core about the kernels written in Python; op files may have been imported since the last call."""
    for op_def in all_ops():
        if op_def.python_kernel is not None and op_def.name not in _registered_kernels:
            _registered_kernels.add(op_def.name)
            core.register_python_kernel(op_def.name, op_def.python_kernel)


def optimize(graph: StepGraph) -> StepGraph:
    """Applies the passes that every step gets."""
    graph = fold_constants(graph, _evaluate)
    return merge_common_subexpressions(graph)


def compile_step(
    session: Any,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    optimized: bool = True,
) -> Any:
    """Compiles a step for a native session; returns the core's CompiledStep."""
    graph = prune(feeds, fetches, targets)
    return compile_graph(session, optimize(graph) if optimized else graph)


def compile_graph(session: Any, graph: StepGraph) -> Any:
    """Hands a step graph to the core."""
    index = {name: i for i, name in enumerate(graph.nodes)}
    make = core.NodeSpec
    specs = [
        make(
            node.name,
            node.op,
            node.device,
            node.attrs,
            [(index[name], output) for name, output in node.inputs],
            [index[name] for name in node.controls],
            node.input_dtypes,
            node.output_dtypes,
            node.stateful,
        )
        for node in graph.nodes.values()
    ]
    feeds = [(feed.name, feed.dtype, feed.shape) for feed in graph.feeds]
    return core.CompiledStep(session, specs, feeds, [(index[name], output) for name, output in graph.fetches])


def _evaluate(graph: StepGraph) -> Any:
    return compile_graph(core.Session(LOCAL_DEVICE), graph).run([])
