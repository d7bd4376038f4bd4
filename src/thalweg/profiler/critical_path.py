"""The critical path of a step: the chain of nodes, each waiting for the one before, that took longest.

No number of devices and threads makes the step shorter than this chain, so these nodes are the ones to make faster.
Transfers between devices and waiting for queues are part of it, with the time between the sender's end and the arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from thalweg.profiler.step_records import Producers, Record


class Link(NamedTuple):
    """A node on the critical path, and the seconds that it adds to the path."""

    record: Record
    seconds: float


def critical_path(records: Sequence[Record]) -> list[Link]:
    """The longest chain of a step by measured times, first node first."""
    inner = _inner(records)
    own = [record for record in records if id(record) not in inner]
    producers = Producers(own)
    inputs = {id(record): list(producers.inputs(record)) for record in own}
    length: dict[int, int] = {}
    before: dict[int, Record | None] = {}
    adds: dict[int, int] = {}
    last: Record | None = None
    for record in _in_order(own, inputs):
        known = [producer for producer in inputs[id(record)] if id(producer) in length]
        longest = max(known, key=lambda producer: length[id(producer)], default=None)
        if record.waits and longest is not None:
            # Waiting before the value was sent counts for the sender, not for this node.
            adds[id(record)] = max(0, record.end - max(record.start, longest.end))
        else:
            adds[id(record)] = record.duration
        before[id(record)] = longest
        length[id(record)] = adds[id(record)] + (length[id(longest)] if longest is not None else 0)
        if last is None or length[id(record)] > length[id(last)]:
            last = record
    chain: list[Link] = []
    while last is not None:
        chain.append(Link(last, adds[id(last)] / 1e9))
        last = before[id(last)]
    return chain[::-1]


def _in_order(records: Sequence[Record], inputs: dict[int, list[Record]]) -> Iterator[Record]:
    """The records, each after those that it read; by the clock alone a Send may end after its value has been used."""
    done: set[int] = set()
    begun: set[int] = set()
    for start in records:
        stack = [start]
        while stack:
            record = stack[-1]
            if id(record) not in begun:
                begun.add(id(record))
                stack.extend(each for each in inputs[id(record)] if id(each) not in begun)
                continue
            stack.pop()
            if id(record) not in done:
                done.add(id(record))
                yield record


def _inner(records: Sequence[Record]) -> set[int]:
    """Records of nodes that ran within others: of loops and functions, whose whole time the outer one has."""
    found: set[int] = set()
    ends: dict[tuple[str, int], int] = {}
    for record in sorted(records, key=lambda record: record.start):
        if record.waits:
            continue
        key = (record.device, record.thread)
        if record.inner and record.start >= ends.get(key, 0):
            ends[key] = record.end
        elif record.start < ends.get(key, 0) and record.end <= ends[key]:
            found.add(id(record))
    return found
