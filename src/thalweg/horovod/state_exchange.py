"""StateExchange: gives variables the values of the process that has trained the longest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.horovod.operations import allgather
from thalweg.horovod.world import WORLD, reinit, world
from thalweg.ops.array.constants import group, placeholder
from thalweg.ops.flow import collective_ops
from thalweg.platform import logging

LOSSES = (errors.UnavailableError, errors.AbortedError)
"""What operations fail with when a process is lost, or when one comes back."""


class StateExchange:
    """Operations by which one process gives its variables to all others."""

    def __init__(self, variables: Sequence[Any], name: str = "HorovodState") -> None:
        """Adds the operations to the graph.

        Args:
            variables: The variables.
            name: What the operations are called, in all processes.
        """
        with name_scope(name):
            self._progress = placeholder(dtypes.int64, [1, 2], name="progress")
            self._gathered = allgather(self._progress, name="gathered")
            sends: list[Operation] = []
            received: list[Tensor] = []
            for var in variables:
                arguments: dict[str, Any] = {
                    "shape": var.shape,
                    "dtype": var.dtype.base_dtype,
                    "group_size": 0,
                    "group_key": WORLD,
                    "instance_key": collective_ops.instance_key_of(f"{name}/{var.op.name}"),
                }
                sends.append(collective_ops.broadcast_send(var.value(), **arguments).op)
                received.append(collective_ops.broadcast_recv(**arguments))
            self._send = group(*sends, name="send")
            # A variable changes when all values are there: the sender may be lost in between, and this process may be
            # the next one to send.
            with control_dependencies(received):
                assigned = [var.assign(value, read_value=False) for var, value in zip(variables, received, strict=True)]
            self._receive = group(*assigned, name="receive")

    def run(self, session: Any, root_rank: int, step: int | None) -> int:
        """Gives all processes the state of one; all of them call this.

        Args:
            session: The session.
            root_rank: Whose state it is if none of the processes has trained.
            step: How far this process has come; None if it has not trained.

        Returns:
            The rank of that process.

        Raises:
            errors.UnavailableError: If a process is lost meanwhile.
            errors.AbortedError: As well.
        """
        own = [[0, 0] if step is None else [1, step]]
        progress = session.run(self._gathered, {self._progress: own})
        world().groups.open_groups.has_run(WORLD)
        root = root_of(progress, root_rank)
        session.run(self._send if world().tasks.index(world().own) == root else self._receive)
        return root

    def run_with_survivors(self, session: Any, root_rank: int, step: int | None) -> None:
        """The same; when a process is lost, with those that are left.

        Raises:
            errors.UnavailableError: If they do not agree within a minute.
        """
        while True:
            try:
                self.run(session, root_rank, step)
                return
            except LOSSES as e:
                logging.info("The processes agree anew on who takes part: %s", e.message)
                reinit()


def root_of(progress: np.ndarray[Any, Any], root_rank: int) -> int:
    """The rank that gives its state: the one that has come furthest, and of several the first.

    Args:
        progress: For each rank whether it has trained, and its step.
        root_rank: The answer if none has; the first if there is no such rank.
    """
    if not progress[:, 0].any():
        return root_rank if root_rank < len(progress) else 0
    return int(np.argmax(np.where(progress[:, 0] == 1, progress[:, 1], -1)))
