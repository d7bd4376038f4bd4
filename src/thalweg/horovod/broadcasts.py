"""Broadcasts of variables, so that all processes begin with the same."""

from __future__ import annotations

from typing import Any

from thalweg.graph.operation import Operation
from thalweg.horovod.operations import broadcast
from thalweg.horovod.state_exchange import LOSSES, StateExchange
from thalweg.horovod.world import WORLD, is_shared, reinit, world
from thalweg.ops.array.constants import group
from thalweg.platform import logging
from thalweg.state.variable_lists import global_variables
from thalweg.train.global_step import get_global_step
from thalweg.train.hooks.session_run_hook import SessionRunContext, SessionRunHook, SessionRunValues


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

    Variables on PS tasks, which all processes share, stay as they are.

    Args:
        root_rank: The rank of that process.
    """
    return broadcast_variables(own_variables(), root_rank)


def own_variables() -> list[Any]:
    """The global variables that each process has for itself."""
    return [var for var in global_variables() if not is_shared(var)]


class BroadcastGlobalVariablesHook(SessionRunHook):
    """Gives all global variables the values of one process, when a session has been made: initialized or restored.

    When a process is lost in the middle of training, the others go on: they agree on new ranks, and all of them take
    over the variables of the one whose global step is the highest. No checkpoint is read. A process that is started
    again joins them, and takes over their variables.
    """

    def __init__(self, root_rank: int, device: str = "", elastic: bool = True) -> None:
        """Takes the process.

        Args:
            root_rank: The rank of the process whose values all others take over at the beginning.
            device: Without effect.
            elastic: Whether to go on without processes that are lost. If not, the session waits until they are back.
        """
        self._root_rank = root_rank
        self._elastic = elastic
        self._step: Any = None
        self._has_trained = False

    def begin(self) -> None:
        """Adds the broadcast to the graph."""
        self._step = get_global_step()
        self._exchange = StateExchange(own_variables())
        if self._elastic:
            world().open()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the broadcast."""
        self._has_trained = False
        if self._elastic:
            world().groups.open_groups.begin(WORLD)
            self._exchange.run_with_survivors(session, self._root_rank, None)
        else:
            found = world()
            if not found.is_whole:
                found.groups.native.declare(WORLD, len(found.tasks))  # Waits for processes that come back.
            self._exchange.run(session, self._root_rank, None)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Notes that this process has variables worth keeping."""
        self._has_trained = True

    def recover(self, session: Any, error: Exception) -> bool:
        """Agrees with the processes that are left, and exchanges the variables."""
        if not self._elastic or world().is_whole:
            return False
        logging.warning("Training goes on without a process that was lost, or with one that is back: %s", error)
        try:
            reinit()
            self._exchange.run_with_survivors(session, self._root_rank, self._progress(session))
        except LOSSES as e:
            logging.warning("The processes have not agreed on who takes part: %s", e)
            return False
        return True

    def _progress(self, session: Any) -> int | None:
        if not self._has_trained:
            return None
        return 0 if self._step is None else int(session.run(self._step))

    def end(self, session: Any) -> None:
        """Gives the variables to processes that have lost another one in the last step."""
        while self._elastic and self._has_trained and world().groups.open_groups.is_needed(WORLD):
            if not self.recover(session, RuntimeError("another process needs the variables of this one")):
                return
