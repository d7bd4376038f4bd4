"""Planner: prunes, inlines, places, optimizes, cuts and schedules steps. It runs no step and knows no session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from thalweg import errors
from thalweg.functions.graph_function import GraphFunction
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.device_spec import device_type, task_of
from thalweg.graph.dtypes import DType
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.choose_algorithms import choose_algorithms
from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.final_no_ops import drop_final_no_ops
from thalweg.passes.fold_constants import Evaluate, fold_constants
from thalweg.passes.for_device import TaskKernels, for_device
from thalweg.passes.inline_functions import function_attrs, functions_of
from thalweg.passes.join_messages import message_groups, with_messages
from thalweg.passes.joint_schedule import planned
from thalweg.passes.keep_weights import changes_resources
from thalweg.passes.late_transfers import Delays, delayed, produce_late, with_tokens
from thalweg.passes.mixed_precision import Supports, lower_precision
from thalweg.passes.options import PassOptions
from thalweg.passes.partition import Partition
from thalweg.passes.prepare import prepared_step
from thalweg.passes.share_packed import share_packed
from thalweg.passes.step_graph import Node, StepGraph, members_of
from thalweg.passes.through_rendezvous import through_rendezvous
from thalweg.planning.planned_step import PlannedFunction, PlannedPart, PlannedStep
from thalweg.platform.garbage import collector_paused

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.placement.placer import Placer

NO_DELAYS = Delays({}, {})
_EMPTY = StepGraph({}, (), (), ())


class _Schedule(NamedTuple):
    """How the devices of a step work together; the defaults are those of a step that is not scheduled.

    Attributes:
        delays: The nodes that wait for other devices.
        priorities: Of the nodes of each device.
        seconds: How long the step should take.
        fused: The graphs that were scheduled.
        messages: The Sends of each device that travel in one message with others, and its number.
    """

    delays: Delays = NO_DELAYS
    priorities: Mapping[str, Mapping[str, float]] = {}
    seconds: float | None = None
    fused: Mapping[str, StepGraph] | None = None
    messages: Mapping[str, Mapping[str, int]] = {}


class Planner:
    """Plans the steps of one session."""

    def __init__(
        self,
        placer: Placer,
        options: PassOptions,
        evaluate: Evaluate,
        kernels: Callable[[Mapping[str, PlannedFunction]], TaskKernels],
        supports: Supports,
    ) -> None:
        """Takes all that plans depend on besides the graph.

        Args:
            placer: Decides which devices nodes run on.
            options: Which passes run.
            evaluate: Computes the constants of a step ahead of it.
            kernels: What the kernels of the devices' tasks are expected to do, given the functions of a step.
            supports: Whether an op has a kernel when one of its type attributes is some 16-bit type.
        """
        self._placer = placer
        self._options = options
        self._evaluate = evaluate
        self._kernels = kernels
        self._supports = supports
        self._bodies: dict[tuple[GraphFunction, DType | None], tuple[PlannedFunction, tuple[GraphFunction, ...]]] = {}

    def plan(
        self,
        program: Graph,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        precision: DType | None = None,
        piecewise: bool = False,
    ) -> PlannedStep:
        """Plans a step.

        Args:
            program: The graph.
            feeds: Tensors that the caller gives values for.
            fetches: Tensors to return.
            targets: Operations to run for their effect.
            precision: The 16-bit type to compute products in, if any.
            piecewise: Whether feeds and fetches come and go through the step's rendezvous, one by one, while it runs.

        Raises:
            errors.OpError: If a function does not exist, or constraints on devices cannot be met.
        """
        with collector_paused():
            return self._plan(program, feeds, fetches, targets, precision, piecewise)

    def _plan(
        self,
        program: Graph,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        precision: DType | None,
        piecewise: bool,
    ) -> PlannedStep:
        functions: dict[str, PlannedFunction] = {}
        graph = prepared_step(program._functions, feeds, fetches, targets, self._inlines)
        graph = placed = self._placer.place(self._with_names(graph, functions, precision), program)
        graph = self._optimized(graph, precision)
        options = self._options
        if piecewise:
            graph = through_rendezvous(graph, [tensor.name for tensor in fetches], self._placer.devices[0].name)
            options = options._replace(separate=True)
        elif options.optimized and len({task_of(node.device) for node in graph.nodes.values()}) > 1:
            graph = drop_final_no_ops(graph)
        parts = self._placer.partition(graph)
        changes = changes_resources(graph)
        schedule = _Schedule()
        if len(parts) > 1 and not piecewise:
            schedule = self._schedule(graph, parts, changes, self._kernels(functions))
        delays = schedule.delays
        parts = {
            device: part._replace(graph=with_messages(part.graph, schedule.messages.get(device, {})))
            for device, part in parts.items()
        }
        return PlannedStep(
            {
                device: PlannedPart(
                    *with_tokens(part, delays.nodes.get(device, {})),
                    schedule.priorities.get(device, {}),
                    tuple(delays.waits.get(device, ())),
                )
                for device, part in parts.items()
            },
            functions, graph.feeds, len(graph.fetches), options, changes, schedule.seconds, placed,
            schedule.fused,
        )  # fmt: skip

    @property
    def _inlines(self) -> bool:
        return self._options.optimized and self._options.inlined

    def _optimized(self, graph: StepGraph, precision: DType | None) -> StepGraph:
        """Applies the passes that see a whole step, or a whole body, and keep the names of nodes."""
        if precision is not None:
            graph = lower_precision(graph, precision, self._supports)
        return optimize(graph, self._options, self._evaluate) if self._options.optimized else graph

    def _schedule(
        self, graph: StepGraph, parts: Mapping[str, Partition], changes: bool, kernels: TaskKernels
    ) -> _Schedule:
        """Schedules the parts of a step.

        Nodes that tasks will fuse are scheduled as one. Which those are must not depend on the schedule, so delays are
        not part of the parts that are fused here.
        """
        expected = {
            device: part._replace(graph=for_device(part.graph, device_type(device), self._options, kernels, changes))
            for device, part in parts.items()
        }
        one_task = len({task_of(device) for device in parts}) == 1
        if one_task:
            expected = share_packed(expected)
        costs = self._placer.seconds(graph)
        # Between tasks a wait costs a message.
        late = self._options.optimized and one_task
        delays = produce_late(expected, costs, incarnations=self._placer.incarnations) if late else NO_DELAYS
        if any(delays.waits.values()):
            expected = {
                device: part._replace(
                    graph=delayed(with_tokens(part, delays.nodes[device]).graph, delays.waits[device])
                )
                for device, part in expected.items()
            }
        schedule = planned(expected, costs)
        messages: Mapping[str, Mapping[str, int]] = {}
        if self._options.optimized and not one_task:
            messages = message_groups(expected, costs, lambda node: _may_wait(node, kernels))
        fused = {device: with_messages(part.graph, messages.get(device, {})) for device, part in expected.items()}
        if schedule is None:
            return _Schedule(delays, fused=fused, messages=messages)
        priorities: dict[str, dict[str, float]] = {}
        for device, part in expected.items():
            ranks = schedule.priorities[device]
            members = {m: ranks[name] for name, node in part.graph.nodes.items() for m, _ in members_of(node)}
            priorities[device] = {**members, **ranks}
        return _Schedule(delays, priorities, schedule.seconds, fused, messages)

    # Functions.

    def _with_names(
        self, graph: StepGraph, functions: dict[str, PlannedFunction], precision: DType | None
    ) -> StepGraph:
        """The step with the names of functions in attributes, and the functions themselves, planned, in `functions`."""
        users = {name: node for name, node in graph.nodes.items() if functions_of(node)}
        if not users:
            return graph
        for node in users.values():
            for function in functions_of(node):
                self._plan_function(function, functions, precision)
        return graph.with_nodes({**graph.nodes, **{name: _by_name(node) for name, node in users.items()}})

    def _plan_function(
        self, function: GraphFunction, functions: dict[str, PlannedFunction], precision: DType | None
    ) -> None:
        """Adds a function, and those that its body uses, to `functions`."""
        if function.name in functions:
            return
        known = self._bodies.get((function, precision))
        if known is not None:
            functions[function.name] = known[0]
            for each in known[1]:
                self._plan_function(each, functions, precision)
            return
        functions[function.name] = PlannedFunction(function.name, _EMPTY, ())  # The body may call the function itself.
        try:
            library = function.graph._functions
            body = prepared_step(library, function.inputs, function.outputs, function.targets, self._inlines)
            used = [each for node in body.nodes.values() for each in functions_of(node)]
            body = self._with_names(body, functions, precision)
            body = self._optimized(body, precision)
        except errors.OpError as e:
            raise in_function(e, function.name) from None
        found = PlannedFunction(function.name, body, tuple(function.output_dtypes))
        functions[function.name] = found
        self._bodies[function, precision] = found, tuple(dict.fromkeys(used))


def optimize(graph: StepGraph, options: PassOptions, evaluate: Evaluate) -> StepGraph:
    """Folds constants, merges common subexpressions and drops Identities; lets convolutions choose their algorithm."""
    graph = fold_constants(graph, evaluate)
    graph = merge_common_subexpressions(drop_identities(graph))
    return choose_algorithms(graph) if options.any_algorithm else graph


def _may_wait(node: Node, kernels: TaskKernels) -> bool:
    """Whether a node may wait for other operations: its kernel is asynchronous, or it runs code of the user."""
    definition = node.op_def
    return (definition is not None and definition.runs_user_code) or not kernels.is_synchronous(node)


def _by_name(node: Node) -> Node:
    """A node with references to functions in the place of functions."""
    found: dict[str, Any] = {}
    for name in function_attrs(node.op):
        value = node.attrs.get(name)
        if isinstance(value, GraphFunction):
            found[name] = NameAttrList(value.name)
        elif isinstance(value, list):
            found[name] = [NameAttrList(each.name) for each in value]
    return node._replace(attrs={**node.attrs, **found})


def in_function(error: errors.OpError, function: str) -> errors.OpError:
    """The error with the name of the function that it was found in."""
    node = getattr(error.node_def, "name", None)
    where = f"node '{node}' of function '{function}'" if node else f"function '{function}'"
    return errors.error_from_code(error.error_code, f"{error.message} [{where}]")
