"""What the operations of a traced body do beside computing, and which of them must run."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.control_flow import effects
from thalweg.graph import dtypes, marks
from thalweg.graph.handle_data import handle_data
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation


def has_effect(op: Operation) -> bool:
    """Whether an operation does more than compute its outputs, so that it must run even if they have no readers."""
    return op.op_def.effect.must_run


def is_repeatable(op: Operation) -> bool:
    """Whether a second run in the same step gives the same outputs, without further effects."""
    effect = op.op_def.effect
    if op.attrs.get(marks.OWN_STATE):
        return True
    if effect is Effect.READS:
        return handle_data(op.inputs[0]) is not None if op.inputs else False  # Of a variable.
    if effect is Effect.CREATES:
        # Without a name, another node makes another resource.
        return bool(op.attrs.get("shared_name")) or dtypes.variant in [output.dtype for output in op.outputs]
    return not effect.must_run and effect is not Effect.RANDOM


def order_effects(operations: Iterable[Operation]) -> None:
    """Makes operations on one resource run in the order of their creation, and those with other effects, too.

    A loop or a branch with effects is one step in this order: see `control_flow/effects.py`.
    """
    effects.order_effects(list(operations))


def effects_to_run(operations: Iterable[Operation]) -> list[Operation]:
    """The operations with effects; for those in loops and branches, what is there when all of the construct is done."""
    found: dict[Operation, None] = {}
    for op in operations:
        if has_effect(op):
            context = op._control_flow_context
            while context is not None:
                op = context.effects_done or op
                context = context.outer_context
            found[op] = None
    return list(found)
