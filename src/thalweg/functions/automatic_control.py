"""Automatic control dependencies: the side effects of a traced body happen in the order of the program."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.graph import dtypes
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

_READING = frozenset(("ReadVariableOp", "VarIsInitializedOp", "VariableShape", "ResourceGather", "ResourceGatherNd"))
_RANDOM = frozenset(
    ("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "ParameterizedTruncatedNormal", "TruncatedNormal",
     "RandomShuffle", "Multinomial", "RandomGamma", "RandomGammaGrad", "RandomPoisson", "RandomPoissonV2")
)  # fmt: skip
_MAKING = frozenset(("VarHandleOp", "HashTableV2", "VariableV2", "Variable"))
# State that lives in one step, and is seen by those only who are given a handle and a flow, or wait for the writer.
_WITHIN_STEP = ("TensorArray", "Stack")


def has_effect(op: Operation) -> bool:
    """Whether running an operation may be seen by others than the readers of its outputs."""
    if not op.op_def.stateful or op.type.startswith(_WITHIN_STEP):
        return False
    return op.type not in _READING and op.type not in _RANDOM and op.type not in _MAKING


def is_repeatable(op: Operation) -> bool:
    """Whether an operation gives the same again, in the same step, and nobody notices."""
    return not has_effect(op) and op.type not in _RANDOM


def order_effects(operations: Iterable[Operation]) -> None:
    """Makes operations on one resource run in the order of their creation, and those with other effects, too.

    Reads of a variable wait for the updates before them, updates for the reads and updates before them. What is inside
    of loops and branches keeps the order that its author gave it.
    """
    writers: dict[Tensor | None, Operation] = {}
    readers: dict[Tensor | None, list[Operation]] = {}
    for op in operations:
        if op._control_flow_context is not None or not (has_effect(op) or op.type in _READING):
            continue
        resources: list[Tensor | None] = [t for t in op.inputs if t.dtype.base_dtype is dtypes.resource]
        before: dict[Operation, None] = {}
        for resource in dict.fromkeys(resources or [None]):
            writer = writers.get(resource)
            if writer is not None:
                before[writer] = None
            if op.type in _READING:
                readers.setdefault(resource, []).append(op)
            else:
                before.update(dict.fromkeys(readers.pop(resource, ())))
                writers[resource] = op
        awaited = [other for other in before if other is not op]
        if awaited:
            op._add_control_inputs(awaited)
