"""Compiles a step: runs the passes over the pruned graph and hands the result to the native core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.functions.graph_function import GraphFunction, find_function, referred_functions, used_functions
from thalweg.graph.definitions.op_registry import all_ops
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.dtypes import DType
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.choose_algorithms import choose_algorithms
from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.fold_constants import fold_constants
from thalweg.passes.fusion import fuse
from thalweg.passes.inline_functions import inline_functions
from thalweg.passes.joint_schedule import planned
from thalweg.passes.keep_weights import changes_resources, keep_weights
from thalweg.passes.late_transfers import produce_late
from thalweg.passes.lower_loops import LoopBody, lower_loops
from thalweg.passes.mixed_precision import lower_precision
from thalweg.passes.null_device import NULL, compute_nothing, output_shapes
from thalweg.passes.options import PassOptions
from thalweg.passes.pack_weights import pack_weights
from thalweg.passes.partition import whole
from thalweg.passes.prune import prune
from thalweg.passes.references import lower_references
from thalweg.passes.share_packed import share_packed
from thalweg.passes.step_graph import Edge, Node, StepGraph, standing_for
from thalweg.passes.travel_layouts import travel_layouts
from thalweg.runtime.placement import TASK, Placer, device_type

LOCAL_DEVICE = f"{TASK}/device:CPU:0"

_ALL = PassOptions()
_NO_RANKS: Mapping[str, float] = {}

# Stateful because of the functions that they call: their kernels keep nothing, and a gradient may change the function.
_CALLING = frozenset(("StatefulPartitionedCall", "RemoteCall", "If", "Case", "While"))

_registered_kernels: set[str] = set()

core.set_shape_rule(output_shapes)


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
    precision: DType | None = None,
    placer: Placer | None = None,
) -> Any:
    """Compiles a step for a native session; returns the core's CompiledStep.

    Args:
        session: The core's Session.
        feeds: Tensors that the caller gives values for.
        fetches: Tensors to return.
        targets: Operations to run for their effect.
        options: Which passes run.
        precision: The 16-bit type to compute products in, if any.
        placer: Decides which devices nodes run on; without one, all run on the session's first.
    """
    compiler = Compiler(session, options, precision)
    graph = compiler.prepared(prune(feeds, fetches, targets), placer)
    parts = placer.partition(graph) if placer is not None else {"": whole(graph)}
    # What becomes one node must not depend on the order in which nodes are to run.
    parts = {device: part._replace(graph=compiler.for_device(part.graph, device)) for device, part in parts.items()}
    ranks: Mapping[str, Mapping[str, float]] = {}
    if placer is not None and len(parts) > 1:
        parts = share_packed(parts)
        costs = placer.costs(graph)
        parts = produce_late(parts, costs) if options.optimized else parts
        plan = planned(parts, costs)
        ranks = plan.priorities if plan is not None else {}
        placer.expected_seconds = plan.seconds if plan is not None else None
    native = []
    for device, (part, fed, fetched) in parts.items():
        native.append((device, *compiler.specs(part, device=device, ranks=ranks.get(device, {})), fed, fetched))
    compiler.define_functions()
    compiled = _compiled(session, native, graph)
    if placer is not None:
        placer.observe(compiled)
    return compiled


def step_parts(
    session: Any,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    options: PassOptions,
    precision: DType | None,
    placer: Placer,
) -> dict[str, StepGraph]:
    """What `compile_step` hands to the core, for each device: somebody wants to look at it."""
    compiler = Compiler(session, options, precision)
    parts = placer.partition(compiler.prepared(prune(feeds, fetches, targets), placer))
    return {device: compiler.fused(part) for device, (part, _, _) in parts.items()}


def compile_whole(
    session: Any,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    options: PassOptions,
    precision: DType | None,
    placer: Placer,
    change: Callable[[StepGraph], StepGraph],
) -> Any:
    """Compiles a step that `change` alters once it is placed. No node waits for what it does not need.

    So nothing is fused, and nothing is put off until another device wants it.
    """
    compiler = Compiler(session, options, precision, unfused=True)
    graph = change(compiler.prepared(prune(feeds, fetches, targets), placer))
    native = []
    for device, (part, fed, fetched) in placer.partition(graph).items():
        native.append((device, *compiler.specs(compiler.for_device(part, device), device=device), fed, fetched))
    compiler.define_functions()
    return _compiled(session, native, graph)


def compile_graph(session: Any, graph: StepGraph) -> Any:
    """Hands a step graph to the core as it is, for the session's first device."""
    compiler = Compiler(session)
    specs, fetches = compiler.specs(graph)
    compiler.define_functions()
    _, fed, fetched = whole(graph)
    return _compiled(session, [("", specs, fetches, fed, fetched)], graph)


def _compiled(session: Any, parts: list[Any], graph: StepGraph) -> Any:
    native = [(device, specs, list(fed), fetches, list(fetched)) for device, specs, fetches, fed, fetched in parts]
    feeds = [(feed.name, feed.dtype, feed.shape) for feed in graph.feeds]
    return core.CompiledStep(session, native, feeds, len(graph.fetches))


class Compiler:
    """Runs the passes over steps and functions of one session, and makes the core's specs of the nodes."""

    def __init__(
        self, session: Any, options: PassOptions = _ALL, precision: DType | None = None, unfused: bool = False
    ) -> None:
        """See `compile_step`; `unfused`: every node of the program runs by itself."""
        self._session = session
        self._options = options
        self._unfused = unfused
        self._precision = precision
        self._changes_resources = False  # the step, or one of its functions so far
        self._waiting: list[tuple[Any, GraphFunction, str]] = []  # Declared functions without bodies, and devices.

    def prepared(self, graph: StepGraph, placer: Placer | None = None) -> StepGraph:
        """Applies the passes that see the whole step, on whatever devices."""
        options = self._options
        graph = lower_references(inline_functions(graph, options.optimized and options.inlined))
        if placer is not None:
            graph = placer.place(graph)
        if self._precision is not None:
            graph = lower_precision(graph, self._precision, _supports)
        self._changes_resources |= changes_resources(graph)
        return optimize(graph, options) if options.optimized else graph

    def for_device(self, part: StepGraph, device: str) -> StepGraph:
        """Applies the passes that depend on what one device is: only the host's has kernels for fused nodes."""
        kind = device_type(device)
        if kind == NULL:
            return compute_nothing(part)
        return self.fused(part) if kind == "CPU" else part

    def fused(self, graph: StepGraph) -> StepGraph:
        """Applies the passes that make one node of several, to what one device does."""
        options = self._options
        if options.optimized and not self._unfused:
            if options.layouts:
                graph = travel_layouts(graph, core.operands_of_rows)
            if options.fused:
                graph = fuse(graph, core.operands_of_rows)
            if not self._changes_resources:
                graph = keep_weights(graph)
            if core.packs_products():
                graph = pack_weights(graph)
            graph = lower_loops(graph, _is_synchronous)
        return graph

    def specs(
        self, graph: StepGraph, function: str = "", device: str = "", ranks: Mapping[str, float] = _NO_RANKS
    ) -> tuple[list[Any], list[tuple[int, int]]]:
        """The core's nodes and fetches of a step, or of a function's body, on one device; `ranks` by name."""
        index = {name: i for i, name in enumerate(graph.nodes)}
        specs = [
            self._spec(node, [(index[name], output) for name, output in node.inputs],
                       [index[name] for name in node.controls], function, device, ranks.get(node.name, -1.0))
            for node in graph.nodes.values()
        ]  # fmt: skip
        return specs, [(index[name], output) for name, output in graph.fetches]

    def _spec(
        self, node: Node, inputs: Sequence[tuple[int, int]], controls: Sequence[int], function: str, device: str,
        rank: float = -1.0,
    ) -> Any:  # fmt: skip
        attrs = node.attrs
        if node.op == "_Loop":
            attrs = {"program": self._loop_program(attrs["program"], function, device)}
        elif node.origin is not None:
            attrs = self._with_functions(attrs, node.origin.graph, device)
        stateful = node.stateful and node.op not in _CALLING
        # The session keeps the kernels and resources of stateful nodes by name.
        name = node.name
        if function and stateful:
            name, attrs = f"{function}/{name}", standing_for(attrs, [node])  # Traces name the node itself.
        return core.NodeSpec(
            name, node.op, node.device, attrs, inputs, controls, node.input_dtypes, node.output_dtypes, stateful,
            rank,
        )  # fmt: skip

    def _loop_program(self, body: LoopBody, function: str, device: str) -> Any:
        def numbered(edges: Sequence[Edge]) -> list[tuple[int, int]]:
            return [(int(source), output) for source, output in edges]

        # Within a loop's straight lists the order of the nodes already is what the control edges ask for.
        specs = [
            self._spec(node, numbered(edges), (), function, device)
            for node, edges in zip(body.nodes, body.inputs, strict=True)
        ]
        return core.LoopProgram(
            self._session, specs, body.num_condition, body.num_variables, body.num_invariants, body.predicate,
            list(body.next), device,
        )  # fmt: skip

    # Functions.

    def _with_functions(self, attrs: dict[str, Any], graph: Graph, device: str) -> dict[str, Any]:
        """The attributes of a node, with the core's functions in the place of references to them."""
        found: dict[str, Any] = {}
        for key, value in attrs.items():
            if key[:1] == "_":
                continue
            if isinstance(value, GraphFunction):
                found[key] = self._function(value, device)
            elif isinstance(value, NameAttrList):
                found[key] = self._function(find_function(graph, value), device)
            elif isinstance(value, list) and value and isinstance(value[0], NameAttrList):
                found[key] = [self._function(find_function(graph, item), device) for item in value]
        return {**attrs, **found} if found else attrs

    def _function(self, function: GraphFunction, device: str) -> Any:
        """The core's Function, one per device. Its body may come later: it may use the function itself."""
        name = function.name if self._session.is_first(device) else f"{function.name}@{device}"
        native = self._session.function(name)
        if native is None:
            native = self._session.declare_function(
                name,
                [(tensor.dtype.base_dtype, tensor.shape) for tensor in function.inputs],
                function.output_dtypes,
                is_blocking(function),
            )
            self._waiting.append((native, function, device))
        return native

    def define_functions(self) -> None:
        """Compiles the bodies of the functions that were declared; all of them are taken back if one fails."""
        declared = []
        try:
            while self._waiting:
                native, function, device = self._waiting.pop()
                declared.append(native.name)
                self._define(native, function, device)
        except BaseException:
            declared.extend(native.name for native, _, _ in self._waiting)
            self._waiting.clear()
            for name in declared:
                self._session.drop_function(name)
            raise

    def _define(self, native: Any, function: GraphFunction, device: str) -> None:
        try:
            graph = self.fused(self.prepared(prune(function.inputs, function.outputs, function.targets)))
            self._session.define_function(native, *self.specs(graph, function.name, device), device)
        except errors.OpError as e:
            raise _in_function(e, function) from None


def is_blocking(function: GraphFunction) -> bool:
    """Whether a body, or one that it uses, has operations that may have to wait."""
    return any(core.is_async(op.type) for each in (function, *used_functions(function)) for op in each.operations)


def _in_function(error: errors.OpError, function: GraphFunction) -> errors.OpError:
    node = getattr(error.node_def, "name", None)
    where = f"node '{node}' of function '{function.name}'" if node else f"function '{function.name}'"
    return errors.error_from_code(error.error_code, f"{error.message} [{where}]")


def _supports(op: str, attr: str, dtype: DType) -> bool:
    accepted = core.kernel_dtypes(op, attr)
    return core.has_kernel(op) and (not accepted or dtype.as_datatype_enum in accepted)


def _is_synchronous(node: Node) -> bool:
    if node.origin is not None and any(
        is_blocking(find_function(node.origin.graph, each)) for each in referred_functions(node.origin)
    ):
        return False
    return node.op == "_Loop" or not core.is_async(node.op)


def _evaluate(graph: StepGraph) -> Any:
    return compile_graph(core.Session([LOCAL_DEVICE]), graph).run([])
