"""Ops on resources: no value to compare in one call, so tests/state has tests of their own."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere
from thalweg.graph.definitions.op_registry import all_ops

_RESOURCE_OPS = (
    "_ResourceClaimCount", "VarHandleOp", "VarIsInitializedOp", "VariableShape", "DestroyResourceOp",
    "DeleteSessionTensor", "DisableCopyOnRead",
)  # fmt: skip
_FAMILIES = (
    "Resource",
    "TensorArray",
    "Stack",
    "LookupTable",
    "InitializeTable",
    "Anonymous",
    "MutableDenseHashTable",
    "MutableHashTable",
    "HashTable",
    "Assign",
    "GetSession",
)
_REFERENCE_OPS = tuple(op.name for op in all_ops() if any(arg.is_ref for arg in (*op.inputs, *op.outputs)))


def _keeps_state(op: str) -> bool:
    return op in _RESOURCE_OPS or op in _REFERENCE_OPS or op.startswith(_FAMILIES) or op.endswith("VariableOp")


covered_elsewhere("works on a resource; see tests/state", *[op.name for op in all_ops() if _keeps_state(op.name)])
