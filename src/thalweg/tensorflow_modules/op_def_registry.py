"""`tensorflow.python.framework.op_def_registry`: the definitions of op types."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions import op_registry
from thalweg.graph.messages.op_def_proto import op_def_proto


def get(name: str) -> Any:
    """The OpDef of an op type, or None."""
    definition = op_registry.find_op(name)
    return None if definition is None else op_def_proto(definition)


def get_registered_ops() -> dict[str, Any]:
    """The OpDefs of all op types by name."""
    return {definition.name: op_def_proto(definition) for definition in op_registry.all_ops()}
