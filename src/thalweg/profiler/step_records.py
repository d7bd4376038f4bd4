"""Reads StepStats into records: one run of a node each, with its inputs, outputs and times.

StepStats come from Thalweg or from TensorFlow: fields that TensorFlow's lack (nanoseconds, memory in use) are
estimated.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

# "[cpu 0.3MB 0.3MB] name = Op(inputs) in _FusedOp last": the parts in front and behind are there only for some.
_LABEL: Final = re.compile(r"^(?:\[.*?\] )?(.*?) = ([^(]*)(?:\((.*?)\))?(?: in (\S+) (\S+))?$")


class Output(NamedTuple):
    """A tensor that a node produced."""

    slot: int
    dtype: int
    shape: tuple[int, ...]
    bytes: int
    address: int


@dataclass(slots=True)
class Record:
    """One run of a node of the program. Times are nanoseconds since the epoch.

    Attributes:
        node: Its name.
        op: Its op type.
        device: The full name of its device.
        thread: The number of the thread that it ran on.
        start: When it began.
        end: When its outputs were ready.
        inputs: The nodes that it read; those that it only waited for begin with "^".
        outputs: The tensors that it produced.
        waits: Whether it waited and did not compute: a Recv, a Dequeue.
        kernel: For a part of a fused node, the op type and the name of the fused node; else "".
        kernel_end: When the fused node ended, or the node itself: until then its inputs are alive.
        made_bytes: The bytes of its outputs for tables. The result of a fused node counts for the member that does
            most of the work, not for the last one, whose name it has.
        taken: Bytes that it allocated.
        temporary: Bytes that it gave back before its end.
        in_use: Bytes that tensors of the device held at its end; -1 if unknown.
        own: Its time without that of the nodes that ran within it: a loop's, a function's.
    """

    node: str
    op: str
    device: str
    thread: int
    start: int
    end: int
    inputs: list[str] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    waits: bool = False
    kernel: str = ""
    kernel_end: int = 0
    made_bytes: int = 0
    taken: int = 0
    temporary: int = 0
    in_use: int = -1
    own: int = 0
    inner: int = 0  # how many nodes ran within it

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start

    @property
    def output_bytes(self) -> int:
        """The bytes of its outputs."""
        return sum(output.bytes for output in self.outputs)


def is_accelerator(device: str) -> bool:
    """Whether the name of a device, perhaps only a partial one, asks for one that is not the host."""
    kind = device.upper().replace("DEVICE:", "").rpartition("/")[2].partition(":")[0]
    return kind not in ("", "CPU", "NULL", "*")


def records_of(step_stats: Any) -> list[Record]:
    """The records of all devices, each device's in order of their starts."""
    found: list[Record] = []
    for device in step_stats.dev_stats:
        if not any(node.all_start_micros for node in device.node_stats):
            continue  # Findings of a numeric check, not a device.
        records = [_record(node, device.device) for node in device.node_stats]
        _join_parts(records)
        records.sort(key=lambda record: record.start)  # Stable: a node comes before those within it.
        _find_own_times(records)
        _add_up_allocations(device, records)
        found.extend(records)
    return found


def _record(node: Any, device: str) -> Record:
    match = _LABEL.match(node.timeline_label)
    op, inputs, kernel = node.node_name, "", ""
    if match is not None:
        op, inputs = match[2].strip() or op, match[3] or ""
        kernel = f"{match[4]} {match[5]}" if match[4] else ""
    start = node.all_start_nanos or node.all_start_micros * 1000
    duration = node.all_end_rel_nanos or node.all_end_rel_micros * 1000
    record = Record(
        node.node_name, op, device, node.thread_id, start, start + max(0, duration),
        [name.strip().partition(":")[0] for name in inputs.split(",") if name.strip()],
        waits=bool(node.all_start_nanos and duration and not node.op_end_rel_nanos), kernel=kernel,
    )  # fmt: skip
    for output in node.output:
        description = output.tensor_description
        allocation = description.allocation_description
        record.outputs.append(
            Output(
                output.slot,
                description.dtype,
                tuple(dim.size for dim in description.shape.dim),
                allocation.requested_bytes,
                allocation.ptr,
            )
        )
    for memory in node.memory:
        record.taken += memory.total_bytes
        record.in_use = max(record.in_use, memory.allocator_bytes_in_use)
    record.temporary = node.memory_stats.temp_memory_size
    record.own = 0 if record.waits else record.duration
    return record


def _add_up_allocations(device: Any, records: list[Record]) -> None:
    """Finds the memory in use where only allocations were recorded, as TensorFlow does for processors."""
    changes = sorted(
        (change.alloc_micros * 1000, change.alloc_bytes)
        for node in device.node_stats
        for memory in node.memory
        for change in memory.allocation_records
    )
    if not changes or any(record.in_use > 0 for record in records):
        return
    total, at = 0, 0
    for record in sorted(records, key=lambda record: record.end):
        while at < len(changes) and changes[at][0] <= record.end:
            total += changes[at][1]
            at += 1
        record.in_use = total


def _join_parts(records: Iterable[Record]) -> None:
    """Finds the end of each fused node: its parts follow one another, the last one carries its name."""
    parts: list[Record] = []
    for record in records:
        record.kernel_end = record.end
        record.made_bytes = record.output_bytes
        if not record.kernel:
            continue
        parts.append(record)
        if record.node == record.kernel.partition(" ")[2]:
            total = sum(part.output_bytes for part in parts)
            heaviest = max(parts, key=lambda part: part.duration)
            for part in parts:
                part.kernel_end = record.end
                part.made_bytes = total if part is heaviest else 0
            parts = []


def _find_own_times(records: Iterable[Record]) -> None:
    """Takes the time of nodes within nodes from those around them: their intervals lie within on the same thread."""
    open_records: dict[int, list[Record]] = {}
    for record in records:
        if record.waits:
            continue
        stack = open_records.setdefault(record.thread, [])
        while stack and stack[-1].end <= record.start:
            stack.pop()
        if stack and record.end <= stack[-1].end:
            stack[-1].own -= record.duration
            stack[-1].inner += 1
        stack.append(record)


class Producers:
    """Finds the run of a node that another one's input came from: in a loop a node runs many times."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Takes all records of a step."""
        self._runs: dict[str, list[Record]] = {}
        for record in records:
            self._runs.setdefault(record.node, []).append(record)
        for runs in self._runs.values():
            runs.sort(key=lambda record: (record.start, record.end))

    def inputs(self, record: Record, controls: bool = True) -> Iterator[Record]:
        """The runs whose results a record used: of each input the last one that ended before it began."""
        for name in record.inputs:
            if name[:1] == "^":
                if not controls:
                    continue
                name = name[1:]
            found = self._before(name, record)
            if found is not None:
                yield found

    def _before(self, name: str, record: Record) -> Record | None:
        runs = self._runs.get(name)
        if not runs:
            return None
        # A value arrives while its Send still runs; all other readers begin after their producers end.
        sent = record.op == "_Recv" or record.waits
        limit = record.end if sent else record.start
        at = bisect.bisect_right(runs, limit, key=lambda run: run.start)
        while at > 0 and (runs[at - 1] is record or (not sent and runs[at - 1].end > limit)):
            at -= 1
        return runs[at - 1] if at else None
