"""Automatic control dependencies: the side effects of a traced body happen in the order of the program."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.graph import dtypes
from thalweg.graph.handle_data import handle_data
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


def has_effect(op: Operation) -> bool:
    """Whether an operation does more than compute its outputs, so that it must run even if they have no readers."""
    return op.op_def.effect.must_run


def is_repeatable(op: Operation) -> bool:
    """Whether a second run in the same step gives the same outputs, without further effects."""
    effect = op.op_def.effect
    if effect is Effect.READS:
        return handle_data(op.inputs[0]) is not None if op.inputs else False  # Of a variable.
    if effect is Effect.CREATES:
        # Without a name, another node makes another resource.
        return bool(op.attrs.get("shared_name")) or dtypes.variant in [output.dtype for output in op.outputs]
    return not effect.must_run and effect is not Effect.RANDOM


def order_effects(operations: Iterable[Operation]) -> None:
    """Makes operations on one resource run in the order of their creation, and those with other effects, too.

    Reads of a variable wait for the updates before them, updates for the reads and updates before them. Operations
    inside of loops and branches keep the order that the program gives them.
    """
    writers: dict[Tensor | None, Operation] = {}
    readers: dict[Tensor | None, list[Operation]] = {}
    for op in operations:
        if op._control_flow_context is not None or not (has_effect(op) or op.op_def.effect is Effect.READS):
            continue
        resources: list[Tensor | None] = [t for t in op.inputs if t.dtype.base_dtype is dtypes.resource]
        before: dict[Operation, None] = {}
        for resource in dict.fromkeys(resources or [None]):
            writer = writers.get(resource)
            if writer is not None:
                before[writer] = None
            if op.op_def.effect is Effect.READS:
                readers.setdefault(resource, []).append(op)
            else:
                before.update(dict.fromkeys(readers.pop(resource, ())))
                writers[resource] = op
        awaited = [other for other in before if other is not op]
        if awaited:
            op._add_control_inputs(awaited)
