"""Names of `tensorflow.python.training.optimizer` that are not public."""

from __future__ import annotations

from typing import Any


def _get_processor(v: Any) -> Any:
    """What an optimizer applies to a variable: the variable itself."""
    return v


def _var_key(var: Any) -> Any:
    """The key of a variable in dicts of slots."""
    return (var.op.graph, var.op.name)
