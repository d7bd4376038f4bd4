"""The backward walk over what a tape has recorded, from the last op to the first.

The gradient functions are those of the graph: a recorded op looks like an Operation to them. What they call runs at
once, and so is seen by the tapes that are open around this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.autodiff.aggregate import aggregate
from thalweg.autodiff.nodes import backpropagates
from thalweg.autodiff.recording import Backward
from thalweg.autodiff.walk import gradient_of_operation
from thalweg.autodiff.zeros import zeros_for
from thalweg.graph.definitions.op_registry import ZERO_GRADIENT
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


class RecordedCall:
    """A call of a function that brings its own gradient."""

    __slots__ = ("backward", "inputs", "outputs")

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], backward: Backward) -> None:
        """Keeps the three."""
        self.inputs = tuple(inputs)
        self.outputs = list(outputs)
        self.backward = backward


Entry = Operation | RecordedCall


def backpropagate(
    entries: list[Entry], targets: Sequence[Tensor], seeds: Sequence[Any], sources: Sequence[Tensor], keep: bool
) -> list[Any]:
    """The gradients of the sources; None where no target depends on one.

    Args:
        entries: What was recorded, in order.
        targets: The tensors to differentiate.
        seeds: Their gradients; None to leave one out.
        sources: The tensors with respect to which to differentiate.
        keep: Whether `entries` stay: if not, each is dropped when the walk has passed it, and its tensors with it.
    """
    wanted = {id(source) for source in sources}
    active = _active(entries, wanted)
    if not keep:
        entries.clear()
    collected: dict[int, list[Any]] = {}
    for target, seed in zip(targets, seeds, strict=True):
        if seed is not None:
            collected.setdefault(id(target), []).append(seed)
    found: dict[int, Any] = {}
    while active:
        entry = active.pop()
        grads: dict[Tensor, Any] = {}
        for output in entry.outputs:
            total = _total(collected.pop(id(output), None))
            if total is None:
                continue
            if id(output) in wanted:
                found[id(output)] = total
            grads[output] = total
        if grads:
            for tensor, grad in zip(entry.inputs, _input_grads(entry, grads), strict=True):
                if grad is not None and backpropagates(tensor):
                    collected.setdefault(id(tensor), []).append(grad)
    results = []
    for source in sources:
        grad = found.get(id(source))
        if grad is None:
            grad = _total(collected.get(id(source)))
        results.append(zeros_for(source) if grad is ZERO_GRADIENT else grad)
    return results


def _active(entries: Sequence[Entry], wanted: set[int]) -> list[Entry]:
    """The entries that depend on a source."""
    reached = set(wanted)
    active: list[Entry] = []
    for entry in entries:
        for tensor in entry.inputs:
            if id(tensor) in reached:
                active.append(entry)
                reached.update([id(output) for output in entry.outputs if backpropagates(output)])
                break
    return active


def _total(grads: list[Any] | None) -> Any:
    if grads is None:
        return None
    present = [grad for grad in grads if grad is not ZERO_GRADIENT]
    return aggregate(present) if present else ZERO_GRADIENT


def _input_grads(entry: Entry, grads: dict[Tensor, Any]) -> Sequence[Any]:
    if all(grad is ZERO_GRADIENT for grad in grads.values()):
        return [ZERO_GRADIENT] * len(entry.inputs)
    grads = {output: grad for output, grad in grads.items() if grad is not ZERO_GRADIENT}
    if isinstance(entry, Operation):
        return gradient_of_operation(entry, grads)
    given = [grads.get(output) for output in entry.outputs]
    filled = [
        zeros_for(output) if grad is None and backpropagates(output) else grad
        for output, grad in zip(entry.outputs, given, strict=True)
    ]
    found: Sequence[Any] = entry.backward(*filled)
    return found
