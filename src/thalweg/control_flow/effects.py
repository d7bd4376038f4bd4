"""The order of side effects: operations on one resource run as the program has them, also in loops and branches.

A construct (a conditional or a loop) is one step in the order of what is around it. A conditional with effects gets one
more result, which is there when the branch taken has done its work. A loop gets one more variable, a token: what an
iteration does first waits for the token, and the token goes on when all of it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thalweg.control_flow.cond_context import CondContext
from thalweg.control_flow.scoping import in_context
from thalweg.control_flow.while_context import WhileContext
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.control_flow_context import ControlFlowContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

Resource = Tensor | None
"""A handle, or None for the world outside."""


class _Order:
    """What has happened to each resource so far, in one context."""

    def __init__(self) -> None:
        self.writers: dict[Resource, tuple[Operation, ...]] = {}
        self.readers: dict[Resource, tuple[Operation, ...]] = {}
        self.start: tuple[Operation, ...] = ()  # Comes before everything.

    def copy(self) -> _Order:
        other = _Order()
        other.writers, other.readers, other.start = dict(self.writers), dict(self.readers), self.start
        return other

    def before_read(self, resource: Resource) -> tuple[Operation, ...]:
        return self.writers.get(resource, self.start)

    def before_write(self, resource: Resource) -> tuple[Operation, ...]:
        return (*self.before_read(resource), *self.readers.get(resource, ()))

    def add(self, step: Operation, reads: Iterable[Resource], writes: Iterable[Resource]) -> None:
        for resource in reads:
            self.readers[resource] = (*self.readers.get(resource, ()), step)
        for resource in writes:
            self.readers.pop(resource, None)
            self.writers[resource] = (step,)


class _Construct:
    """A conditional, or a loop, with the effects in it, in order."""

    def __init__(self, key: Any) -> None:
        self.key = key  # The Conditional, or the WhileContext.
        self.parts: dict[ControlFlowContext, list[Any]] = {}
        self.reads: dict[Resource, None] = {}
        self.writes: dict[Resource, None] = {}


def order_effects(operations: Sequence[Operation]) -> list[Operation]:
    """Makes operations on one resource run in the order of their creation, and those with other effects, too.

    Reads of a variable wait for the updates before them, updates for the reads and updates before them.

    Args:
        operations: Those of one function, or of one part of a graph.

    Returns:
        The operations that must run for all effects to happen: none of them is in a loop or a branch.
    """
    top: list[Any] = []
    constructs: dict[Any, _Construct] = {}
    written: set[Resource] = set()
    for op in operations:
        effect = op.op_def.effect
        if not (effect.must_run or effect is Effect.READS):
            continue
        resources = _resources(op)
        reads_only = effect is Effect.READS
        if not reads_only:
            written.update(resources)
        _place(op, top, constructs, resources, reads_only)
    if not top:
        return []
    with operations[0].graph.as_default():
        return _ordered(top, _Order(), written)


def _outside(handle: Tensor) -> Tensor:
    """The handle that a branch or a loop has from outside."""
    while handle.op.inputs and handle.op.op_def.flow.passes_input and handle.op.type != "Merge":
        handle = handle.op.inputs[0]
    return handle


def _resources(op: Operation) -> list[Resource]:
    """What an operation reads or changes."""
    handles = [_outside(t) for t in op.inputs if t.dtype.base_dtype is dtypes.resource]
    return list(dict.fromkeys(handles)) or [None]


def _place(
    op: Operation, top: list[Any], constructs: dict[Any, _Construct], resources: Iterable[Resource], reads_only: bool
) -> None:
    chain: list[ControlFlowContext] = []
    context = op._control_flow_context
    while context is not None:
        if isinstance(context, (WhileContext, CondContext)):
            chain.append(context)
        context = context.outer_context
    items = top
    for context in reversed(chain):
        key = context.conditional if isinstance(context, CondContext) else context
        if key is None or (isinstance(key, WhileContext) and key.pivot is None):
            return  # An imported one: its parts are not known.
        found = constructs.get(key)
        if found is None:
            found = constructs[key] = _Construct(key)
            items.append(found)
        (found.reads if reads_only else found.writes).update(dict.fromkeys(resources))
        items = found.parts.setdefault(context, [])
    items.append(op)


def _ordered(items: Iterable[Any], order: _Order, written: set[Resource]) -> list[Operation]:
    """Orders the effects of one context; returns the operations that stand for those that must run."""
    last: list[Operation] = []
    for item in items:
        if isinstance(item, _Construct):
            if not (item.writes or written.intersection(item.reads)):
                continue
            done = (
                _branches(item, order, written)
                if not isinstance(item.key, WhileContext)
                else _loop(item, order, written)
            )
            order.add(done, item.reads, item.writes)
            if item.writes:
                last.append(done)
                for context in item.parts:
                    context.effects_done = done
                if not isinstance(item.key, WhileContext):
                    for context in item.key.branches:
                        context.effects_done = done
            continue
        resources = _resources(item)
        reads_only = item.op_def.effect is Effect.READS
        before: dict[Operation, None] = {}
        for resource in resources:
            before.update(dict.fromkeys((order.before_read if reads_only else order.before_write)(resource)))
        awaited = [other for other in before if other is not item and other not in item.control_inputs]
        if awaited:
            item._add_control_inputs(awaited)
        order.add(item, resources if reads_only else (), () if reads_only else resources)
        if not reads_only:
            last.append(item)
    return last


def _branches(construct: _Construct, order: _Order, written: set[Resource]) -> Operation:
    conditional = construct.key
    signals = []
    for context in conditional.branches:
        inner = order.copy()
        outside = {op for group in (order.writers, order.readers) for ops in group.values() for op in ops}
        _ordered(construct.parts.get(context, ()), inner, written)
        own = [op for group in (inner.writers, inner.readers) for ops in group.values() for op in ops]
        after = [op for op in dict.fromkeys(own) if op not in outside and op not in order.start]
        with in_context(context.graph, context, after):
            signals.append(apply_one("Identity", context.pivot, name="effects"))
    done: Operation = conditional.add_output(*signals).op
    # Where a branch has no effect, what came before it is not awaited by the branch.
    done._add_control_inputs([op for op in _awaited(construct, order) if op not in done.control_inputs])
    return done


def _awaited(construct: _Construct, order: _Order) -> list[Operation]:
    """What an effect before or in a construct must wait for, outside of it."""
    before: dict[Operation, None] = {}
    for resource in construct.reads:
        before.update(dict.fromkeys(order.before_read(resource)))
    for resource in construct.writes:
        before.update(dict.fromkeys(order.before_write(resource)))
    return list(before)


def _loop(construct: _Construct, order: _Order, written: set[Resource]) -> Operation:
    context: WhileContext = construct.key
    assert context.pivot is not None
    items = construct.parts.get(context, [])
    decided = context.pivot.op._id
    with in_context(context.graph, context.outer_context, _awaited(construct, order)):
        token = apply_one("Const", value=np.array(True), dtype=dtypes.bool, name="effects")

    def next_token(body: Tensor) -> Tensor:
        merge = context.variables[-1].merge
        inner = _Order()
        inner.start = (merge.op,)
        in_condition = [item for item in items if isinstance(item, Operation) and item._id < decided]
        _ordered(in_condition, inner, written)
        inner.start = (body.op,)
        for writers in inner.writers:
            inner.writers[writers] = (*inner.writers[writers], body.op)
        _ordered([item for item in items if item not in in_condition], inner, written)
        own = [op for group in (inner.writers, inner.readers) for ops in group.values() for op in ops]
        with in_context(context.graph, context, list(dict.fromkeys(own))):
            return apply_one("Identity", body, name="effects")

    return context.add_variable(token, next_token).exit.op
