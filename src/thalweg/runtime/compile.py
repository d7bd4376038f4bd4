"""Compiles a step: runs the passes over the pruned graph and hands the result to the native core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg._native import core
from thalweg.graph.dtypes import DType
from thalweg.graph.op_registry import all_ops
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.choose_algorithms import choose_algorithms
from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.fold_constants import fold_constants
from thalweg.passes.fuse_contractions import fuse_contractions
from thalweg.passes.fuse_elementwise import fuse_elementwise
from thalweg.passes.join_products import join_products
from thalweg.passes.keep_weights import keep_weights
from thalweg.passes.lower_loops import LoopBody, lower_loops
from thalweg.passes.mixed_precision import lower_precision
from thalweg.passes.options import PassOptions
from thalweg.passes.prune import prune
from thalweg.passes.references import lower_references
from thalweg.passes.step_graph import Edge, Node, StepGraph
from thalweg.passes.travel_layouts import travel_layouts
from thalweg.runtime import native_errors  # noqa: F401 (the core needs to know how to make its errors)

LOCAL_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"

_ALL = PassOptions()

_registered_kernels: set[str] = set()


def register_python_kernels() -> None:
    """Tells the core about the kernels written in Python; op files may have been imported since the last call."""
    for op_def in all_ops():
        if op_def.python_kernel is not None and op_def.name not in _registered_kernels:
            _registered_kernels.add(op_def.name)
            core.register_python_kernel(op_def.name, op_def.python_kernel)


def optimize(graph: StepGraph, options: PassOptions = _ALL) -> StepGraph:
    """Applies the passes that every step gets, and that keep every node's name in sight."""
    graph = fold_constants(graph, _evaluate)
    graph = merge_common_subexpressions(drop_identities(graph))
    return choose_algorithms(graph) if options.any_algorithm else graph


def compile_step(
    session: Any,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    options: PassOptions = _ALL,
    traced: bool = False,
    precision: DType | None = None,
) -> Any:
    """Compiles a step for a native session; returns the core's CompiledStep.

    Args:
        session: The core's Session.
        feeds: Tensors that the caller gives values for.
        fetches: Tensors to return.
        targets: Operations to run for their effect.
        options: Which passes run.
        traced: Whether every node must be seen to run: then nodes are neither fused nor lowered.
        precision: The 16-bit type to compute products in, if any.
    """
    graph = lower_references(prune(feeds, fetches, targets))
    if precision is not None:
        graph = lower_precision(graph, precision, _supports)
    if options.optimized:
        graph = optimize(graph, options)
        if not traced:
            if options.layouts:
                graph = travel_layouts(graph, core.operands_of_rows)
            if options.fused:
                graph = fuse_contractions(join_products(graph))
                graph = fuse_elementwise(graph, core.operands_of_rows)
            graph = keep_weights(graph)
            graph = lower_loops(graph, _is_synchronous)
    return compile_graph(session, graph)


def compile_graph(session: Any, graph: StepGraph) -> Any:
    """Hands a step graph to the core."""
    index = {name: i for i, name in enumerate(graph.nodes)}
    specs = [_spec(session, node, [(index[name], output) for name, output in node.inputs],
                   [index[name] for name in node.controls]) for node in graph.nodes.values()]  # fmt: skip
    feeds = [(feed.name, feed.dtype, feed.shape) for feed in graph.feeds]
    return core.CompiledStep(session, specs, feeds, [(index[name], output) for name, output in graph.fetches])


def _spec(session: Any, node: Node, inputs: Sequence[tuple[int, int]], controls: Sequence[int]) -> Any:
    attrs = node.attrs
    if node.op == "_Loop":
        attrs = {"program": _loop_program(session, attrs["program"])}
    return core.NodeSpec(
        node.name, node.op, node.device, attrs, inputs, controls, node.input_dtypes, node.output_dtypes, node.stateful
    )


def _loop_program(session: Any, body: LoopBody) -> Any:
    def numbered(edges: Sequence[Edge]) -> list[tuple[int, int]]:
        return [(int(source), output) for source, output in edges]

    # Within a loop's straight lists the order of the nodes already is what the control edges ask for.
    specs = [_spec(session, node, numbered(edges), ()) for node, edges in zip(body.nodes, body.inputs, strict=True)]
    return core.LoopProgram(
        session, specs, body.num_condition, body.num_variables, body.num_invariants, body.predicate, list(body.next)
    )


def _supports(op: str, attr: str, dtype: DType) -> bool:
    accepted = core.kernel_dtypes(op, attr)
    return core.has_kernel(op) and (not accepted or dtype.as_datatype_enum in accepted)


def _is_synchronous(node: Node) -> bool:
    return node.op == "_Loop" or not core.is_async(node.op)


def _evaluate(graph: StepGraph) -> Any:
    return compile_graph(core.Session(LOCAL_DEVICE), graph).run([])
