"""Names of `tensorflow.python.ops.resource_variable_ops`: every variable is a resource here."""

from __future__ import annotations

from typing import Any

from thalweg.state.variable import Variable

ResourceVariable = Variable
BaseResourceVariable = Variable


def is_resource_variable(var: Any) -> bool:
    """Whether a value is a variable held by a resource: each is."""
    return isinstance(var, Variable)
