"""Rounds of synchronous training: a round begins whenever the chief has initialized or restored the model.

Gradients carry their round. Those of earlier rounds were computed from another model, or for a step that is done anew,
and are dropped, wherever they come from: a worker that was stopped, a session that was lost, an accumulator on a
parameter server that survived.
"""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import colocate_with, control_dependencies, get_default_graph
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.state.variable import Variable


class Round:
    """The number of the present round, and the last gradients that each replica has given.

    Both are kept where the object is made: beside the global step, under names that the graphs of all replicas share,
    and in no checkpoint.
    """

    dtype = dtypes.int64

    def __init__(self, workers: int, local: Any) -> None:
        """Takes the number of replicas, and the local variable with the round of this one."""
        self._workers = workers
        self.local = local
        self._current = _shared(self.dtype, [], "sync_rep_round")
        self._seen = _shared(self.dtype, [workers], "sync_rep_seen")

    def value(self) -> Tensor:
        """The present round. FailedPreconditionError until the chief has begun one."""
        return apply_one("ReadVariableOp", self._current, dtype=self.dtype)

    def at(self, number: Any, step: Any) -> Tensor:
        """A step of a round as one number, which grows with the step and with the round."""
        return apply_one("AddV2", number, _as_int64(step))

    def start(self) -> Tensor:
        """The number of a new round: the time, in nanoseconds, of the task with the global step.

        It is larger than that of any step of earlier rounds, also if no task remembers them.
        """
        seconds = apply_one("Timestamp")
        return apply_one("Cast", apply_one("Mul", seconds, constants.constant(1e9, dtypes.float64)), DstT=self.dtype)

    def publish(self, number: Any, after: list[Any]) -> list[Any]:
        """Operations that make a round the present one, after some others."""
        nothing = constants.constant([-1] * self._workers, self.dtype)
        with control_dependencies(after):
            cleared = apply_op("AssignVariableOp", self._seen, nothing)
        with control_dependencies([cleared]):
            return [apply_op("AssignVariableOp", self._current, number)]

    def note(self, worker: int, stamp: Any) -> Any:
        """An operation that notes that a replica has given gradients with a stamp: [number from `at`, replica]."""
        row = constants.constant([worker], dtypes.int32)
        return apply_op("ResourceScatterUpdate", self._seen, row, apply_one("Slice", stamp, [0], [1]))

    def last_steps(self) -> Tensor:
        """The last step that each replica has given gradients for; negative: none in this round."""
        return apply_one("Sub", apply_one("ReadVariableOp", self._seen, dtype=self.dtype), self.value())


def worker_variable(dtype: dtypes.DType, name: str) -> Any:
    """A local variable of a replica: on its worker, whatever places variables on parameter servers.

    It is in the default container, which belongs to the session: replicas whose graphs share a container have one each.
    """
    graph = get_default_graph()
    with colocate_with(constants.no_op()), graph.container(""):
        return Variable(0, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], dtype=dtype, name=name)


def _shared(dtype: dtypes.DType, shape: list[int], name: str) -> Tensor:
    return apply_one("VarHandleOp", dtype=dtype, shape=shape, shared_name=name, name=name)


def _as_int64(value: Any) -> Tensor:
    return value if value.dtype == dtypes.int64 else apply_one("Cast", value, DstT=dtypes.int64)
