"""Timeline: the StepStats of a traced step as a Chrome trace, which chrome://tracing and Perfetto show.

The trace is in the Trace Event Format: a process for each device, a row for each of its threads and for nodes that
wait; complete events ("X") for nodes, with the parts of a fused node within it; flow events ("s", "f") from a producer
to its readers; counters ("C") for memory. Times are microseconds since midnight (UTC): so the traces of several steps
can be put together, and a number holds their nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from thalweg.profiler.memory import AllocationMaximum, maximum
from thalweg.profiler.step_records import Producers, Record, records_of

_DAY: Final = 86_400 * 10**9

Place = tuple[int, int]  # process and row


class _ChromeTrace:
    """Events, and how to write them."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON."""
        if pretty:
            return json.dumps({"traceEvents": self.events}, indent=4, separators=(",", ": "))
        return json.dumps({"traceEvents": self.events})


class StepStatsAnalysis(NamedTuple):
    """A trace, and by allocator (device) the largest amount of memory in use."""

    chrome_trace: _ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


class Timeline:
    """Makes Chrome traces of StepStats.

    Example:
        >>> Timeline(tf.RunMetadata().step_stats).generate_chrome_trace_format()
        '{"traceEvents": []}'
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        """Takes the `step_stats` of a RunMetadata; `graph` is accepted for TensorFlow's sake."""
        self._step_stats = step_stats

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """Returns the trace as JSON.

        Args:
            show_dataflow: Whether to draw arrows from producers to readers, across threads and devices.
            show_memory: Whether to add the bytes that tensors hold on each device over time.
            op_time: Accepted for TensorFlow's sake; times are always those that were measured.
        """
        return self.analyze_step_stats(show_dataflow, show_memory).chrome_trace.format_to_string()

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: str = "schedule"
    ) -> StepStatsAnalysis:
        """Returns the trace and the memory maximums; for the arguments see `generate_chrome_trace_format`."""
        records = records_of(self._step_stats)
        maximums = {device: maximum(own) for device, own in by_device(records).items()} if show_memory else {}
        events = trace_events(records, show_dataflow, show_memory)
        return StepStatsAnalysis(_ChromeTrace(events), {k: v for k, v in maximums.items() if v is not None})


def by_device(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of each device."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.device, []).append(record)
    return found


def trace_events(records: list[Record], show_dataflow: bool = True, show_memory: bool = False) -> list[dict[str, Any]]:
    """The events of a trace, in order of time, the names of processes and rows first."""
    if not records:
        return []
    origin = min(record.start for record in records) // _DAY * _DAY
    names: list[dict[str, Any]] = []
    events: list[tuple[int, int, dict[str, Any]]] = []  # time, rank among events of one time, event
    places: dict[int, Place] = {}
    for pid, (device, own) in enumerate(by_device(records).items()):
        names.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": device}})
        rows = _Rows()
        for group in _groups(own):
            row = rows.place(group)
            if len(group) > 1:
                events.append(_slice(group[0].kernel.partition(" ")[0], group, (pid, row), origin))
            for record in group:
                places[id(record)] = (pid, row)
                events.append(_slice(record.op, [record], (pid, row), origin))
        for row, name in enumerate(rows.names):
            names.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": row, "args": {"name": name}})
        if show_memory:
            events += [
                (record.end, 3, {"name": "memory", "cat": "Memory", "ph": "C", "pid": pid, "tid": 0,
                                 "ts": _micros(record.end, origin), "args": {"bytes": record.in_use}})
                for record in own if record.in_use >= 0
            ]  # fmt: skip
    if show_dataflow:
        events += _flows(records, places, origin)
    events.sort(key=lambda item: item[:2])
    return names + [event for _, _, event in events]


def _micros(time: int, origin: int) -> float:
    return (time - origin) / 1000


def _groups(records: Iterable[Record]) -> list[list[Record]]:
    """Records one by one, but the parts of one run of a fused node together."""
    groups: list[list[Record]] = []
    for record in records:
        last = groups[-1][-1] if groups else None
        # The last member of a group carries the name of the kernel: later records belong to another run.
        if (
            last is not None
            and record.kernel
            and (record.kernel, record.start) == (last.kernel, last.end)
            and record.kernel.partition(" ")[2] != last.node
        ):
            groups[-1].append(record)
        else:
            groups.append([record])
    return groups


def _slice(name: str, group: list[Record], place: Place, origin: int) -> tuple[int, int, dict[str, Any]]:
    start, end = group[0].start, group[-1].end
    last = group[-1]
    args: dict[str, Any] = {"name": last.node if len(group) == 1 else last.kernel.partition(" ")[2], "op": name}
    if len(group) == 1:
        args.update({f"input{i}": source for i, source in enumerate(last.inputs)})
        if last.outputs:
            args["outputs"] = ", ".join(str(list(output.shape)) for output in last.outputs)
            args["bytes"] = last.output_bytes
        if last.temporary:
            args["temporary bytes"] = last.temporary
    else:
        args["members"] = ", ".join(record.node for record in group)
    kind = "Wait" if last.waits else "Kernel" if len(group) > 1 else "Op"
    return (
        start, 0 if len(group) > 1 else 1,
        {"name": name, "cat": kind, "ph": "X", "pid": place[0], "tid": place[1], "ts": _micros(start, origin),
         "dur": (end - start) / 1000, "args": args},
    )  # fmt: skip


def _flows(records: list[Record], places: dict[int, Place], origin: int) -> list[tuple[int, int, dict[str, Any]]]:
    """An arrow for each input: it leaves the producer just before its end and arrives when the reader begins."""
    producers = Producers(records)
    events: list[tuple[int, int, dict[str, Any]]] = []
    number = 0
    for record in records:
        for producer in producers.inputs(record, controls=False):
            number += 1
            # A waiting node gets its value at its end; by then a Send may not have ended.
            arrives = max(record.start, record.end - 1) if record.waits else record.start
            leaves = max(producer.start, min(producer.end - 1, arrives))
            arrives = max(arrives, leaves)
            common = {"name": producer.node, "cat": "DataFlow", "id": number}
            (pid, row), (to_pid, to_row) = places[id(producer)], places[id(record)]
            events.append(
                (leaves, 2, {**common, "ph": "s", "pid": pid, "tid": row, "ts": _micros(leaves, origin)})
            )  # fmt: skip
            events.append(
                (arrives, 3, {**common, "ph": "f", "bp": "e", "pid": to_pid, "tid": to_row,
                              "ts": _micros(arrives, origin)})
            )  # fmt: skip
    return events


class _Rows:
    """Gives records rows in which slices lie one after the other or one within the other."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._rows: dict[str, list[tuple[int, list[int]]]] = {}  # by kind: rows with the ends of their open slices

    def place(self, group: list[Record]) -> int:
        start, end = group[0].start, group[-1].end
        kind = "waiting" if group[-1].waits else f"thread {group[-1].thread}"
        rows = self._rows.setdefault(kind, [])
        for row, ends in rows:
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or (ends[-1] >= end and kind != "waiting"):
                ends.append(end)
                return row
        row = len(self.names)
        self.names.append(kind if not rows else f"{kind} ({len(rows) + 1})")
        rows.append((row, [end]))
        return row
