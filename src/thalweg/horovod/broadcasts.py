"""Broadcasts of variables, so that all processes begin with the same."""

from __future__ import annotations

from typing import Any

from thalweg.graph.operation import Operation
from thalweg.horovod.operations import broadcast
from thalweg.ops.array.constants import group
from thalweg.state.variable_lists import global_variables
from thalweg.train.hooks.session_run_hook import SessionRunHook


def broadcast_variables(variables: Any, root_rank: int) -> Operation:
    """An operation that gives variables the values that they have in one process.

    Args:
        variables: The variables.
        root_rank: The rank of that process.
    """
    assigned = []
    for var in variables:
        value = broadcast(var.value(), root_rank, name=f"HorovodBroadcast_{var.op.name.replace('/', '_')}")
        assigned.append(var.assign(value, read_value=False))
    return group(*assigned)


def broadcast_global_variables(root_rank: int) -> Operation:
    """An operation that gives all global variables the values that they have in one process.

    Args:
        root_rank: The rank of that process.
    """
    return broadcast_variables(global_variables(), root_rank)


class BroadcastGlobalVariablesHook(SessionRunHook):
    """Gives all global variables the values of one process, when a session has been made: initialized or restored."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        """Takes the rank of that process; `device` is without effect."""
        self._root_rank = root_rank
        self._operation: Operation | None = None

    def begin(self) -> None:
        """Adds the broadcast to the graph."""
        self._operation = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the broadcast."""
        session.run(self._operation)
