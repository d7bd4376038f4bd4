"""Installs planned steps: runs the passes that depend on a task's kernels, and hands nodes to the native core.

A task installs the parts of its own devices; it needs no other part of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.graph.definitions.op_registry import all_ops, flow_of
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.device_spec import device_type
from thalweg.graph.dtypes import DType
from thalweg.graph.dtypes import bool as boolean
from thalweg.passes.for_device import TaskKernels, for_device, fused
from thalweg.passes.inline_functions import function_attrs
from thalweg.passes.join_messages import join_messages
from thalweg.passes.keep_weights import changes_resources
from thalweg.passes.late_transfers import delayed
from thalweg.passes.lower_loops import LoopBody, loop_of_functions
from thalweg.passes.null_device import output_shapes
from thalweg.passes.options import PassOptions
from thalweg.passes.partition import Partition, whole
from thalweg.passes.share_packed import share_packed
from thalweg.passes.step_graph import Edge, Node, StepGraph, members_of, standing_for
from thalweg.placement.placer import LOCAL_DEVICE
from thalweg.planning.plan_step import in_function
from thalweg.planning.planned_step import PlannedFunction, PlannedPart, PlannedStep, referred_names
from thalweg.platform.garbage import collector_paused
from thalweg.runtime.node_conflicts import may_wait, resource_use

_FUNCTIONAL_LOOPS = frozenset({"While", "StatelessWhile"})
_registered_kernels: set[str] = set()

core.set_shape_rule(output_shapes)


def register_python_kernels() -> None:
    """Tells the core about the kernels written in Python; op files may have been imported since the last call."""
    for op_def in all_ops():
        if op_def.python_kernel is not None and op_def.name not in _registered_kernels:
            _registered_kernels.add(op_def.name)
            core.register_python_kernel(op_def.name, op_def.python_kernel, op_def.looks_at_step)


class InstalledStep:
    """A step in the core, ready to run.

    Attributes:
        compiled: The core's CompiledStep.
        parts: For each device, the nodes that the core was given.
    """

    __slots__ = ("compiled", "parts")

    def __init__(self, compiled: Any, parts: dict[str, StepGraph]) -> None:
        """Keeps both."""
        self.compiled = compiled
        self.parts = parts


def install(session: Any, step: PlannedStep, fused: Mapping[str, StepGraph] | None = None) -> InstalledStep:
    """Installs a planned step, or the parts of one that belong to the devices of a session.

    Args:
        session: The core's Session.
        step: The step.
        fused: The graphs of `step.fused`, if the planner's kernels were `local_kernels`: they are not fused again.
    """
    with collector_paused():
        return _Installer(session, step).install(fused)


def evaluate(graph: StepGraph) -> Any:
    """Runs a step without feeds in a session of its own: the fetched values, as arrays."""
    parts = {LOCAL_DEVICE: PlannedPart(*whole(graph))}
    step = PlannedStep(parts, {}, graph.feeds, len(graph.fetches), PassOptions(separate=True))
    return install(core.Session([LOCAL_DEVICE]), step).compiled.run([])


def local_kernels(functions: Mapping[str, PlannedFunction] | None = None) -> TaskKernels:
    """What the kernels of this process can do; `functions` are those that nodes refer to."""
    known = functions or {}

    def is_synchronous(node: Node) -> bool:
        if any(name in known and is_blocking(known[name], known) for name in referred_names(node)):
            return False
        return node.op == "_Loop" or not core.is_async(node.op)

    return TaskKernels(core.operands_of_rows, is_synchronous, core.can_record)


def supports(op: str, attr: str, dtype: DType) -> bool:
    """Whether an op has a kernel when one of its type attributes is `dtype`."""
    accepted = core.kernel_dtypes(op, attr)
    return core.has_kernel(op) and (not accepted or dtype.as_datatype_enum in accepted)


def is_blocking(function: PlannedFunction, functions: Mapping[str, PlannedFunction]) -> bool:
    """Whether a body, or one that it uses, has operations that may have to wait."""
    return _has_op(function, functions, core.is_async)


def _has_op(
    function: PlannedFunction, functions: Mapping[str, PlannedFunction], is_meant: Callable[[str], bool]
) -> bool:
    """Whether a body, or one that it uses, has an operation whose type is meant."""
    seen = {function.name}
    stack = [function]
    while stack:
        for node in stack.pop().graph.nodes.values():
            if is_meant(node.op):
                return True
            for name in referred_names(node):
                if name not in seen:
                    seen.add(name)
                    stack.append(functions[name])
    return False


class _Installer:
    """Makes the core's specs of the nodes of one step, and of the functions that it uses."""

    def __init__(self, session: Any, step: PlannedStep) -> None:
        self._session = session
        self._step = step
        self._kernels = local_kernels(step.functions)
        self._undefined: list[tuple[Any, PlannedFunction, str]] = []  # Declared functions without bodies, and devices.

    def install(self, fused: Mapping[str, StepGraph] | None) -> InstalledStep:
        step = self._step
        graphs = {
            device: join_messages(graph) for device, graph in (fused if fused is not None else self._fused()).items()
        }
        native = []
        for device, part in step.parts.items():
            specs, results = self._specs(graphs[device], device=device, priorities=part.priorities)
            native.append((device, specs, list(part.feeds), results, list(part.fetches)))
        self._define_functions()
        feeds = [(feed.name, feed.dtype, feed.shape) for feed in step.feeds]
        return InstalledStep(core.CompiledStep(self._session, native, feeds, step.num_fetches), graphs)

    def _fused(self) -> dict[str, StepGraph]:
        """The graphs of the parts as the kernels here can run them."""
        step = self._step
        parts = {
            device: Partition(
                for_device(part.graph, device_type(device), step.options, self._kernels, step.changes_resources),
                part.feeds,
                part.fetches,
            )
            for device, part in step.parts.items()
        }
        if len(parts) > 1:
            parts = share_packed(parts)
        delays = {device: part.delays for device, part in step.parts.items()}
        return {
            device: delayed(part.graph, delays[device]) if delays[device] else part.graph
            for device, part in parts.items()
        }

    def _specs(
        self, graph: StepGraph, function: str = "", device: str = "", priorities: Mapping[str, float] | None = None
    ) -> tuple[list[Any], list[tuple[int, int]]]:
        """The core's nodes and fetches of a part, or of a function's body, on one device."""
        index = {name: i for i, name in enumerate(graph.nodes)}
        specs = [
            self._spec(self._lowered(node, device), [(index[name], output) for name, output in node.inputs],
                       [index[name] for name in node.controls], function, device, _priority(node, priorities))
            for node in graph.nodes.values()
        ]  # fmt: skip
        return specs, [(index[name], output) for name, output in graph.fetches]

    def _spec(
        self, node: Node, inputs: Sequence[tuple[int, int]], controls: Sequence[int], function: str, device: str,
        priority: float = -1.0,
    ) -> Any:  # fmt: skip
        attrs = node.attrs
        if node.op == "_Loop":
            attrs = {**attrs, "program": self._loop_program(attrs["program"], function, device)}
        elif function_attrs(node.op):
            attrs = self._with_functions(node, device)
        # Kernels of calls keep nothing: the nodes are stateful because of their functions, which a gradient may change.
        stateful = node.stateful and not flow_of(node.op).calls
        # The session keeps the kernels and resources of stateful nodes by name.
        name = node.name
        if function and stateful:
            name, attrs = f"{function}/{name}", standing_for(attrs, [node])  # Traces name the node itself.
        return core.NodeSpec(
            name, node.op, node.device, attrs, inputs, controls, node.input_dtypes, node.output_dtypes, stateful,
            priority, may_wait(node, self._step.functions), resource_use(node),
        )  # fmt: skip

    def _lowered(self, node: Node, device: str) -> Node:
        """The node itself, or a `_Loop` in the place of a functional While whose functions are simple."""
        options = self._step.options
        if node.op not in _FUNCTIONAL_LOOPS or not options.optimized or options.separate:
            return node
        functions = [self._step.functions[node.attrs[name].name] for name in ("cond", "body")]
        arguments = [tuple(feed.dtype for feed in function.graph.feeds) for function in functions]
        results = [tuple(function.output_dtypes) for function in functions]
        types = tuple(node.input_dtypes)
        # The kernel of While reports functions that do not fit, and takes conditions of other types.
        if device_type(device) != "CPU" or arguments != [types, types] or results != [(boolean,), types]:
            return node
        graphs = []
        for function in functions:
            changes = self._step.changes_resources or changes_resources(function.graph)
            graphs.append(fused(function.graph, options, self._kernels, changes))
        return loop_of_functions(node, graphs[0], graphs[1], self._kernels.is_synchronous) or node

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

    def _with_functions(self, node: Node, device: str) -> dict[str, Any]:
        """The attributes of a node, with the core's functions in the place of references to them."""
        found: dict[str, Any] = {}
        for name in function_attrs(node.op):
            value = node.attrs.get(name)
            if isinstance(value, NameAttrList):
                found[name] = self._function(value.name, device)
            elif isinstance(value, list):
                found[name] = [self._function(each.name, device) for each in value]
        return {**node.attrs, **found}

    def _function(self, name: str, device: str) -> Any:
        """The core's Function, one per device. Its body may come later: it may use the function itself."""
        key = name if self._session.is_first(device) else f"{name}@{device}"
        native = self._session.function(key)
        if native is None:
            function = self._step.functions[name]
            native = self._session.declare_function(
                key,
                [(feed.dtype, feed.shape) for feed in function.graph.feeds],
                list(function.output_dtypes),
                is_blocking(function, self._step.functions),
                _has_op(function, self._step.functions, core.is_python),
            )
            self._undefined.append((native, function, device))
        return native

    def _define_functions(self) -> None:
        """Compiles the bodies of the declared functions; drops all of the functions if one fails."""
        declared = []
        try:
            while self._undefined:
                native, function, device = self._undefined.pop()
                declared.append(native.name)
                self._define(native, function, device)
        except BaseException:
            declared.extend(native.name for native, _, _ in self._undefined)
            self._undefined.clear()
            for name in declared:
                self._session.drop_function(name)
            raise

    def _define(self, native: Any, function: PlannedFunction, device: str) -> None:
        step = self._step
        changes = step.changes_resources or changes_resources(function.graph)
        try:
            graph = fused(function.graph, step.options, self._kernels, changes)
            self._session.define_function(native, *self._specs(graph, function.name, device), device)
        except errors.OpError as e:
            raise in_function(e, function.name) from None


def _priority(node: Node, priorities: Mapping[str, float] | None) -> float:
    """The priority of a node, or the highest of its members: a task may fuse other nodes than the plan expects."""
    if not priorities:
        return -1.0
    known = priorities.get(node.name)
    if known is None:
        known = max((priorities[name] for name, _ in members_of(node) if name in priorities), default=-1.0)
    return known
