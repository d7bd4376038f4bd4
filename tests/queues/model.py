"""A simple model of each queue, and a check that the results of many threads are linearizable.

A history is a list of calls, each with the times at which it began and ended, and how it ended. It is right if there is
an order of the calls that respects these times, in which the model gives every call the result that it had (Wing and
Gong, "Testing and verifying concurrent objects", 1993). Waiting is no part of the model: a call that waited simply
takes effect later. Nor is capacity, because a waiting dequeue of several elements takes them out one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """One call: `value` is the element enqueued, or the number to dequeue; `result` the elements, or the error's class.

    A batch that moves element by element is several calls, of which each `follows` the one with the number before.
    """

    kind: str
    value: Any
    result: Any
    began: int
    ended: int
    number: int = -1
    follows: int = -1


@dataclass(frozen=True)
class State:
    """The elements in the queue, in the order of arrival, and whether it is closed."""

    elements: tuple[int, ...] = ()
    closed: bool = False


def priority_of(element: int) -> int:
    """The priority that the tests give an element."""
    return element % 3


def _after_dequeues(order: str, elements: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The elements left after dequeues of `wanted`, one by one; None if the queue does not allow that order."""
    left = list(elements)
    for element in wanted:
        if element not in left:
            return None
        if order == "fifo" and left[0] != element:
            return None
        if order == "priority" and priority_of(element) != min(map(priority_of, left)):
            return None
        left.remove(element)
    return tuple(left)


def step(order: str, state: State, call: Call) -> State | None:
    """The state after a call with its result; None if the model does not allow that result."""
    if call.kind == "enqueue":
        if call.result == "CancelledError":
            return state if state.closed else None
        return None if state.closed else State((*state.elements, call.value))
    if call.kind == "close":
        if call.result == "CancelledError":
            return state if state.closed else None
        return State(state.elements, True)
    if call.kind == "size":
        # Waiting dequeues may hold elements, which no longer count.
        return state if call.result <= len(state.elements) else None
    if call.result == "OutOfRangeError":
        too_few = len(state.elements) < (1 if call.kind == "up_to" else call.value)
        return state if state.closed and too_few else None
    if len(call.result) > call.value or (len(call.result) < call.value and not (call.kind == "up_to" and state.closed)):
        return None
    left = _after_dequeues(order, state.elements, call.result)
    if left is None or (len(call.result) < call.value and left):
        return None
    return State(left, state.closed)


def explains(order: str, history: list[Call]) -> bool:
    """Whether some order of the calls explains the history."""
    places = {call.number: i for i, call in enumerate(history) if call.number >= 0}
    seen: set[tuple[frozenset[int], State]] = set()

    def search(done: frozenset[int], state: State) -> bool:
        if len(done) == len(history):
            return True
        if (done, state) in seen:
            return False
        seen.add((done, state))
        rest = [i for i in range(len(history)) if i not in done]
        first_end = min(history[i].ended for i in rest)
        for i in rest:
            # A call may come next only if no other one ended before it began.
            follows = places.get(history[i].follows)
            if history[i].began < first_end and (follows is None or follows in done):
                after = step(order, state, history[i])
                if after is not None and search(done | {i}, after):
                    return True
        return False

    return search(frozenset(), State())
