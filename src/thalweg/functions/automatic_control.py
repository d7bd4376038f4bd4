"""Automatic control dependencies: the side effects of a traced body happen in the order of the program."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.graph import dtypes
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

# Stateful for other reasons than an effect that anybody could see: nothing is lost where no result needs them.
_WITHOUT_EFFECT = frozenset(
    ("VarHandleOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape", "ResourceGather", "ResourceGatherNd",
     "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "ParameterizedTruncatedNormal", "TruncatedNormal",
     "RandomShuffle", "Multinomial", "RandomGamma", "RandomGammaGrad", "RandomPoisson", "RandomPoissonV2",
     "TensorArrayV3", "StackV2", "HashTableV2", "VariableV2", "Variable")
)  # fmt: skip
_READING = frozenset(("ReadVariableOp", "VarIsInitializedOp", "VariableShape", "ResourceGather", "ResourceGatherNd"))
_UNORDERED = _WITHOUT_EFFECT - _READING


def has_effect(op: Operation) -> bool:
    """Whether running an operation may be seen by others than the readers of its outputs."""
    return op.op_def.stateful and op.type not in _WITHOUT_EFFECT


def effects(graph: FuncGraph) -> list[Operation]:
    """The operations of a body that run even if no result needs them."""
    return [op for op in graph.get_operations() if has_effect(op)]


def order_effects(graph: FuncGraph, operations: Iterable[Operation]) -> None:
    """Makes operations on one resource run in the order of their creation, and those with other effects, too.

    Reads of a variable wait for the updates before them, updates for the reads and updates before them. What is inside
    of loops and branches keeps the order that its author gave it.
    """
    writers: dict[Tensor | None, Operation] = {}
    readers: dict[Tensor | None, list[Operation]] = {}
    for op in operations:
        if not op.op_def.stateful or op.type in _UNORDERED or op._control_flow_context is not None:
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
