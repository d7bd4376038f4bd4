"""Memory over the time of a step: how much was in use, when most, and which tensors were alive then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from thalweg.profiler.step_records import Producers, Record


class AllocationMaximum(NamedTuple):
    """The largest amount of memory that a device had in use.

    Attributes:
        timestamp: When, in microseconds since the epoch.
        num_bytes: How much.
        tensors: The nodes whose outputs were alive then.
    """

    timestamp: int
    num_bytes: int
    tensors: set[str]


class Alive(NamedTuple):
    """A tensor that is alive at some time: its producer and its size."""

    node: str
    slot: int
    bytes: int


def over_time(records: Iterable[Record]) -> list[tuple[int, int]]:
    """Times and bytes in use, in order, on the device that the records are of."""
    return sorted((record.end, record.in_use) for record in records if record.in_use >= 0)


def maximum(records: Sequence[Record]) -> AllocationMaximum | None:
    """When most was in use on the device that the records are of; None if that is not known."""
    known = [record for record in records if record.in_use >= 0]
    if not known:
        return None
    most = max(known, key=lambda record: record.in_use)
    alive = {tensor.node for tensor in alive_at(records, most.end)}
    return AllocationMaximum(most.end // 1000, most.in_use, alive)


def alive_at(records: Sequence[Record], time: int) -> list[Alive]:
    """The tensors that were made before a time and read after it or at it, the largest first.

    A tensor lives from the end of its node to the end of its last reader. Tensors that share a buffer (a node that
    writes its result over its input, a variable that several nodes read) are listed once, by the last writer.
    """
    producers = Producers(records)
    until: dict[int, int] = {}
    for record in records:
        for producer in producers.inputs(record, controls=False):
            until[id(producer)] = max(until.get(id(producer), 0), record.kernel_end)
    found: dict[int, tuple[int, Alive]] = {}
    for record in records:
        # A tensor without readers is fetched, or freed at once.
        if record.end > time or until.get(id(record), record.end) < time:
            continue
        for output in record.outputs:
            key = output.address or -id(output)
            if output.bytes and (key not in found or found[key][0] <= record.end):
                found[key] = (record.end, Alive(record.node, output.slot, output.bytes))
    return sorted((alive for _, alive in found.values()), key=lambda alive: -alive.bytes)
