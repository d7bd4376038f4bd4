"""Compares strategies: how long a step would take on a machine if each of them placed it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thalweg._native import core
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.passes.drop_gates import drop_gates
from thalweg.passes.prepare import prepared_step
from thalweg.passes.step_graph import Node, StepGraph
from thalweg.placement.costs import CostModel
from thalweg.placement.machine import Machine
from thalweg.placement.place import Device, Group, Survey, place
from thalweg.placement.planner import STRATEGIES, chooser
from thalweg.placement.simulator import Schedule, planned
from thalweg.placement.tasks import Tasks, tasks_of

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


@dataclass(frozen=True)
class Comparison:
    """The simulated step of one strategy.

    Attributes:
        strategy: Its name.
        step_seconds: The predicted time of a step.
        transfers: How many tensors it sends between devices.
        transferred_bytes: How many bytes they have.
        peak_bytes: For each device, by name, the most memory that it needs at a time.
        fits: Whether every device has that much, as far as its limit is known.
        place_seconds: How long the strategy took to decide.
        devices: For each node, the full name of its device.
        tasks: The step in numbers.
        schedule: When each node would run.
    """

    strategy: str
    step_seconds: float
    transfers: int
    transferred_bytes: float
    peak_bytes: dict[str, float]
    fits: bool
    place_seconds: float
    devices: dict[str, str]
    tasks: Tasks
    schedule: Schedule


def strategy_names() -> list[str]:
    """The names of all strategies, the plainest first.

    Example:
        >>> "heft" in tf.placement.strategy_names()
        True
    """
    return list(STRATEGIES)


def compare(
    fetches: Any,
    machine: Machine | int,
    graph: Graph | None = None,
    costs: CostModel | None = None,
    names: Iterable[str] | None = None,
    soft: bool = True,
    progress: Callable[[str], None] | None = None,
) -> list[Comparison]:
    """Places a step by several strategies and simulates each; returns the results in the order of their names.

    Args:
        fetches: Tensors and operations of the step, or their names. Placeholders that they need count as fed.
        machine: The devices: a `tf.placement.Machine`, or the number of equal CPU devices.
        graph: The graph; the default graph if there is none.
        costs: The costs of nodes; estimates if nothing was measured.
        names: Strategies; all if there are none.
        soft: Whether nodes may go elsewhere if the machine lacks the device that they ask for.
        progress: Called with the name of each strategy before its turn.

    Raises:
        ValueError: If there is no such strategy or fetch, or nothing to run.
        errors.InvalidArgumentError: If the constraints of the program cannot be met.

    Example:
        >>> x = tf.random_normal([256, 256])
        >>> y = tf.matmul(x, x) + tf.matmul(x, x, transpose_a=True)
        >>> one, two = tf.placement.compare(y, machine=2, names=["single", "heft"])
        >>> one.transfers, two.step_seconds < one.step_seconds
        (0, True)
    """
    graph = get_default_graph() if graph is None else graph
    machine = Machine.of_cpus(machine) if isinstance(machine, int) else machine
    chosen = [(name, chooser(name)) for name in (names or STRATEGIES)]
    step = step_of(graph, fetches if isinstance(fetches, (list, tuple)) else [fetches])
    tasks = _tasks(step, graph, machine, costs or CostModel(), soft)
    found = []
    for name, choose in chosen:
        if progress is not None:
            progress(name)
        begin = time.perf_counter()
        choice = choose(tasks)
        seconds = time.perf_counter() - begin
        found.append(_compared(name, tasks, planned(tasks, tasks.where(choice)), seconds))
    return found


def _tasks(step: StepGraph, graph: Graph, machine: Machine, costs: CostModel, soft: bool) -> Tasks:
    """The tasks of a step, with the groups that its constraints leave open."""
    survey = Survey()
    survey.update(graph.get_operations())
    made: list[Tasks] = []

    def capture(step: StepGraph, groups: Sequence[Group], decided: Mapping[str, Device]) -> list[Device]:
        made.append(tasks_of(step, machine, costs, groups, decided))
        return [group.feasible[0] for group in groups]

    place(
        step,
        [processor.device for processor in machine.processors],
        _has_kernel,
        soft,
        capture,
        None,
        survey,
        keep_task=False,
    )
    return made[0]


def _compared(name: str, tasks: Tasks, schedule: Schedule, seconds: float) -> Comparison:
    devices = [processor.name for processor in tasks.machine.processors]
    return Comparison(
        name,
        schedule.makespan,
        schedule.transfers,
        schedule.moved,
        dict(zip(devices, schedule.peak, strict=True)),
        schedule.fits(tasks),
        seconds,
        {node.name: devices[device] for node, device in zip(tasks.nodes, schedule.where, strict=True)},
        tasks,
        schedule,
    )


def step_of(graph: Graph, fetches: Sequence[Any]) -> StepGraph:
    """The step that computes these fetches with all placeholders fed.

    Raises:
        ValueError: If a fetch is not in the graph, or there is none.
    """
    return drop_gates(prepared_step(graph._functions, *step_ends(graph, fetches))).reachable()


def step_ends(graph: Graph, fetches: Sequence[Any]) -> tuple[list[Tensor], list[Tensor], list[Operation]]:
    """The feeds (all placeholders), fetched tensors and targets of the step that computes these fetches.

    Raises:
        ValueError: If a fetch is not in the graph, or there is none.
    """
    tensors: list[Tensor] = []
    targets: list[Operation] = []
    for fetch in fetches:
        try:
            element = graph.as_graph_element(fetch)
        except (KeyError, TypeError, ValueError) as e:
            raise ValueError(f"Cannot fetch {fetch!r}: {e}") from None
        if isinstance(element, Operation):
            targets.append(element)
        else:
            tensors.append(element)
    if not tensors and not targets:
        raise ValueError("There is nothing to place: name at least one fetch.")
    feeds = [op.outputs[0] for op in graph.get_operations() if op.type in ("Placeholder", "PlaceholderV2")]
    return feeds, tensors, targets


def _has_kernel(node: Node, device_type: str) -> bool:
    """Described devices of other types are taken to have the kernels of the host."""
    return node.op_def is None or core.has_kernel(node.op) or node.op_def.python_kernel is not None
