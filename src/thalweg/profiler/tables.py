"""Profile: where the time of traced steps went, by op type, by node and by line of the program.

The time of a gradient counts for the line of the operation that it is the gradient of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thalweg.graph import source_location
from thalweg.profiler.critical_path import Link, critical_path
from thalweg.profiler.flops import Flops
from thalweg.profiler.memory import Alive, alive_at, over_time
from thalweg.profiler.step_kinds import StepKind, StepKinds
from thalweg.profiler.step_records import Record

if TYPE_CHECKING:
    from thalweg.graph.operation import Operation

UNKNOWN_PLACE = "(made by the runtime)"


@dataclass
class Row:
    """A line of a table.

    Attributes:
        key: The op type, the node, or the place in the program.
        seconds: The time that it took itself, in all traced steps.
        calls: How many times it ran.
        bytes: The bytes of its outputs.
        flops: Its arithmetic, as far as that is known.
        waited: The time that it waited, in seconds; not part of `seconds`.
        backward: The part of `seconds` that nodes of gradients took.
        fused: How many of its calls were parts of fused nodes.
        about: More about the key: a node's op type, a line's text.
    """

    key: str
    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0
    flops: float = 0.0
    waited: float = 0.0
    about: str = ""
    backward: float = 0.0
    fused: int = 0


@dataclass
class Step:
    """The traced runs of one compiled step.

    Attributes:
        name: Its fetches, as text.
        graph: Its graph.
        kind: What it is for.
        seconds: How long each run took, as `Session.run` saw it.
        runs: The records of each.
    """

    name: str
    graph: Any
    kind: StepKind = StepKind.STEADY
    seconds: list[float] = field(default_factory=list)
    runs: list[list[Record]] = field(default_factory=list)


@dataclass
class Peak:
    """The largest amount of memory in use on a device: when (seconds after the step began), how much, for what."""

    device: str
    step: str
    seconds: float
    bytes: int
    alive: list[Alive]
    over_time: list[tuple[float, int]]


class Profile:
    """Adds up the records of steps."""

    def __init__(
        self,
        count: int = 0,
        seconds: float = 0.0,
        elapsed: float = 0.0,
        traced: int = 0,
        untraced: Mapping[str, int] | None = None,
    ) -> None:
        """Takes what is known of the program beside its traces.

        Args:
            count: How many steps ran, traced or not.
            seconds: How long they took.
            elapsed: How long the program took.
            traced: How many steps were traced.
            untraced: How often steps ran without a trace, by their fetches.
        """
        self.count, self.seconds, self.elapsed = count, seconds, elapsed
        self.traced, self.untraced = traced, dict(untraced or {})
        self.steps: dict[int, Step] = {}
        self._kinds = StepKinds()
        self._sources = Sources()

    def add(
        self, records: list[Record], graph: Any, key: int, name: str, seconds: float = 0.0, counts: bool = True
    ) -> None:
        """Adds the records of one run of a step.

        Args:
            records: The result of `records_of`.
            graph: The graph of the step, for the places where nodes were made.
            key: Identifies the step among those of the program.
            name: Its name in reports.
            seconds: How long the run took.
            counts: Whether it is part of the tables: a first run is not if others follow.
        """
        step = self.steps.get(key)
        if step is None:
            step = self.steps[key] = Step(name, graph, self._kinds.kind(records, graph))
        if counts:
            step.seconds.append(seconds)
            step.runs.append(records)

    def kinds(self) -> list[StepKind]:
        """The kinds of the traced steps, in the order of `StepKind`."""
        return [kind for kind in StepKind if any(step.runs and step.kind is kind for step in self.steps.values())]

    def by_op(self, kind: StepKind | None = None) -> list[Row]:
        """A row for each op type, those that took longest first; of all steps, or of those of one kind."""
        return self._table(lambda record, graph: (record.op, ""), kind)

    def by_node(self, kind: StepKind | None = None) -> list[Row]:
        """A row for each node."""
        return self._table(lambda record, graph: (record.node, record.op), kind)

    def by_line(self, kind: StepKind | None = None) -> list[Row]:
        """A row for each line of the program that made nodes, or nodes that gradients belong to."""
        return self._table(lambda record, graph: self._sources.place(record.node, graph), kind)

    def _table(self, key_of: Callable[[Record, Any], tuple[str, str]], kind: StepKind | None) -> list[Row]:
        rows: dict[str, Row] = {}
        for step in self.steps.values():
            if kind is not None and step.kind is not kind:
                continue
            flops = Flops(step.graph)
            for records in step.runs:
                flops.record_shapes(records)
                for record in records:
                    key, about = key_of(record, step.graph)
                    row = rows.get(key)
                    if row is None:
                        row = rows[key] = Row(key, about=about)
                    row.calls += 1
                    row.bytes += record.made_bytes
                    row.seconds += record.own / 1e9
                    row.fused += bool(record.kernel)
                    if self._sources.is_backward(record.node, step.graph):
                        row.backward += record.own / 1e9
                    if record.waits:
                        row.waited += record.duration / 1e9
                    else:
                        row.flops += flops.of(record)
        return sorted(rows.values(), key=lambda row: (-row.seconds, -row.waited, row.key))

    def longest_step(self) -> Step | None:
        """The step that took most of the traced time; a steady one if there are any."""
        steady = [step for step in self.steps.values() if step.kind is StepKind.STEADY and step.runs]
        return max(steady or self.steps.values(), key=lambda step: sum(step.seconds), default=None)

    def critical_path(self, step: Step | None = None) -> list[Link]:
        """The longest chain of nodes of a step's median run; of the step that took longest if none is given."""
        step = step or self.longest_step()
        return critical_path(median_run(step)) if step is not None and step.runs else []

    def peaks(self) -> list[Peak]:
        """For each device, the run of a step in which most memory was in use there."""
        found: dict[str, Peak] = {}
        for step in self.steps.values():
            for records in step.runs:
                start = min((record.start for record in records), default=0)
                for device in dict.fromkeys(record.device for record in records):
                    own = [record for record in records if record.device == device]
                    times = over_time(own)
                    if not times:
                        continue
                    when, most = max(times, key=lambda item: item[1])
                    if device in found and found[device].bytes >= most:
                        continue
                    track = [((time - start) / 1e9, used) for time, used in times]
                    found[device] = Peak(device, step.name, (when - start) / 1e9, most, alive_at(own, when), track)
        return list(found.values())


def median_run(step: Step) -> list[Record]:
    """The records of the run of median length."""
    order = sorted(range(len(step.runs)), key=lambda i: step.seconds[i])
    return step.runs[order[len(order) // 2]]


class Sources:
    """Finds the lines of the program where nodes were made; of a gradient, where the forward operation was made."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[str, str, bool]] = {}

    def place(self, node: str, graph: Any) -> tuple[str, str]:
        """The file and line, and its text."""
        return self._find(node, graph)[:2]

    def is_backward(self, node: str, graph: Any) -> bool:
        """Whether a node is part of a gradient."""
        return self._find(node, graph)[2]

    def _find(self, node: str, graph: Any) -> tuple[str, str, bool]:
        key = (id(graph), node)
        found = self._known.get(key)
        if found is None:
            operation = operation_of(node, graph)
            forward = forward_operation(operation)
            found = self._known[key] = (*_place(forward), forward is not operation)
        return found


def forward_operation(operation: Operation | None) -> Operation | None:
    """The operation whose gradient an operation is part of, at the end of all gradients of gradients; or itself."""
    while operation is not None and operation._original_op is not None:
        operation = operation._original_op
    return operation


def operation_of(node: str, graph: Any) -> Operation | None:
    """The operation of the program that a node belongs to: of the same name, or the call that it runs within."""
    operations: dict[str, Operation] = graph._operations_by_name
    while node:
        found = operations.get(node)
        if found is not None:
            return found
        node = node.rpartition("/")[0]
    return None


def _place(operation: Operation | None) -> tuple[str, str]:
    if operation is None:
        return UNKNOWN_PLACE, ""
    frames = source_location.resolve(operation._captured)
    if not frames:
        return UNKNOWN_PLACE, ""
    file, line, _, text = frames[-1]
    shown = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{shown if not shown.startswith('..') else file}:{line}", text


def total_seconds(rows: Iterable[Row]) -> float:
    """The time of all rows."""
    return sum(row.seconds for row in rows)
