"""The step that decides where a program's state lives: the step that it will run most often."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from thalweg.graph.collections import GraphKeys
from thalweg.graph.definitions.op_registry import is_defined, op_def
from thalweg.graph.operation import Operation
from thalweg.passes.drop_gates import drop_gates
from thalweg.passes.prepare import prepared_step
from thalweg.passes.step_graph import StepGraph

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph

# The op types by which optimizers update variables.
_UPDATE: Final = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")


def program_step(program: Graph) -> StepGraph:
    """The step of a graph's training operations, or results. Placeholders are fed; it initializes and saves nothing.

    Raises:
        errors.OpError: If a function does not exist, or a reference has no resource counterpart.
    """
    feeds = [op.outputs[0] for op in program.get_operations() if op.type in ("Placeholder", "PlaceholderV2")]
    return drop_gates(prepared_step(program._functions, feeds, [], program_targets(program)))


def program_targets(program: Graph) -> list[Operation]:
    """The training operations of a graph, or its results without effects if there are none.

    A GraphDef does not say which operations train, as a MetaGraphDef does. There, they are those that nothing needs and
    that need updates by an optimizer.
    """
    operations = program.get_operations()
    trained = [op for op in program.get_collection(GraphKeys.TRAIN_OP) if isinstance(op, Operation)]
    if trained:
        return trained
    read = {tensor.op for op in operations for tensor in op.inputs}
    read.update(control for op in operations for control in op.control_inputs)
    updating = _after_updates(operations)
    training = [op for op in operations if op in updating and op not in read]
    if training:
        return training
    ends = [op for op in operations if op.outputs and op not in read and is_defined(op.type)]
    return [op for op in ends if not op_def(op.type).stateful]


def _after_updates(operations: Sequence[Operation]) -> set[Operation]:
    """The optimizers' updates, and all operations that need one of them."""
    stack = [op for op in operations if _UPDATE.match(op.type)]
    found = set(stack)
    if not found:
        return found
    waiting: dict[Operation, list[Operation]] = {}
    for op in operations:
        for control in op.control_inputs:
            waiting.setdefault(control, []).append(op)
    while stack:
        op = stack.pop()
        for reader in (*(each for output in op.outputs for each in output.consumers()), *waiting.get(op, ())):
            if reader not in found:
                found.add(reader)
                stack.append(reader)
    return found
