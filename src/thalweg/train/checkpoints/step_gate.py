"""StepGate: lets a saver cut between steps, so that a checkpoint has the updates of a step on all tasks, or none.

Each worker has a permit: an element of a queue beside the global step. A step takes the permit of its worker before its
first update and puts it back after its last. A saver that has the permits of all workers finds no step half done. It
needs them only while it reads the variables, and a read is a snapshot: what is written to the disk is shared with
nobody, so that steps go on while it is written.

A permit that does not come back belonged to a step that was interrupted between two updates, because its worker or a
task was lost. The model is torn then, and only a checkpoint has a whole one: savers raise AbortedError, upon which
monitored sessions restore the last checkpoint. Restoring takes the permits, too, as far as they come back, and renews
them.
"""

from __future__ import annotations

from typing import Any, Final

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import (
    add_to_collection,
    control_dependencies,
    device,
    get_collection,
    name_scope,
)
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.ops.array import constants
from thalweg.ops.state.queues import FIFOQueue
from thalweg.platform import logging

GATES: Final = "__step_gates"  # the collection of a graph's gates; not in MetaGraphs


class StepGate:
    """The permits of all workers, as one worker's graph sees them."""

    def __init__(self, num_workers: int, worker_index: int | None, where: str, name: str, patience_secs: float) -> None:
        """Makes the queues, and an initializer among those of the tables: each worker makes its own permit.

        Args:
            num_workers: How many workers there are.
            worker_index: Which of them this is; None if it makes no updates.
            where: The device of the queues.
            name: A name that all workers share.
            patience_secs: How long a permit may be away before the step that has it is taken for lost.
        """
        self._patience_ms = int(patience_secs * 1000)
        self._device = where
        with device(where), name_scope(""), control_dependencies(None):
            self._permits = [_queue(f"{name}_permit_{worker}") for worker in range(num_workers)]
            # Elements tell: the permit of a worker was made; a saver has the permits; a step was interrupted.
            self._made = [_queue(f"{name}_made_{worker}") for worker in range(num_workers)]
            self._held, self._torn = _queue(f"{name}_held"), _queue(f"{name}_torn")
            self._own = self._permits[worker_index or 0]
            self.init_op = constants.no_op() if worker_index is None else self._make_permit(worker_index)
            self._made_sizes = [queue.size() for queue in self._made]
            self._held_size, self._torn_size = self._held.size(), self._torn.size()
            self._acquire = constants.group(*(queue.dequeue() for queue in self._permits))
            with control_dependencies([self._held.enqueue(1)]):
                self._hold = constants.group(*(queue.dequeue() for queue in self._permits))
            self._open = self._put_back()
            self._release = self.release_after([])
            missing = [apply_one("Sub", 1, apply_one("Minimum", size, 1)) for size in self._made_sizes]
            marked = [_put(queue, count) for queue, count in zip(self._made, missing, strict=True)]
            emptied = [queue.dequeue_many(queue.size()) for queue in (self._held, self._torn)]
            self._mark = constants.group(*emptied, *marked)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, self.init_op)
        add_to_collection(GATES, self)

    def _make_permit(self, worker: int) -> Any:
        """Makes the permit of a worker unless it exists. If it was made and is gone, a step was interrupted."""
        made = self._made[worker]
        is_new = apply_one("Sub", 1, apply_one("Minimum", made.size(), 1))
        with control_dependencies([is_new]):
            present = apply_one("Minimum", self._own.size(), 1)
        with control_dependencies([present]):
            held = apply_one("Minimum", self._held.size(), 1)
            explained = apply_one("Add", apply_one("Add", is_new, present), held)
            torn = _put(self._torn, apply_one("Sub", 1, apply_one("Minimum", explained, 1)))
        with control_dependencies([torn]):
            put = _put(self._own, is_new)
        with control_dependencies([put]):
            return _put(made, is_new)

    def _put_back(self) -> Any:
        return constants.group(*(queue.enqueue(1) for queue in self._permits))

    def enter(self, after: list[Any]) -> Any:
        """An operation that waits for the permit of this worker."""
        with device(self._device), control_dependencies(after):
            return self._own.dequeue(name="enter_step_gate")

    def enter_before(self, writes: list[Operation], after: list[Any]) -> Any:
        """As `enter`, and lets existing operations wait for the permit.

        If `after` depends on these operations, the permit is waited for at the beginning of the step.
        """
        if not writes:
            return self.enter(after)
        # The caller's own dependencies may be these operations.
        with control_dependencies(None):
            before = ancestors(after)
            entered = self.enter([] if any(op in before for op in writes) else after)
        for op in writes:
            op._add_control_input(entered if isinstance(entered, Operation) else entered.op)
        return entered

    def leave(self, after: list[Any]) -> Any:
        """An operation that puts it back."""
        with device(self._device), control_dependencies(after):
            return self._own.enqueue(1, name="leave_step_gate")

    def release_after(self, tensors: list[Any]) -> Any:
        """An operation that puts all permits back when tensors have been computed."""
        with device(self._device), control_dependencies(tensors):
            no_longer = self._held.dequeue()
            with control_dependencies([no_longer]):
                return self._put_back()

    # What a saver does.

    def check(self, session: Any) -> None:
        """Raises AbortedError if a step was interrupted between two updates."""
        if session.run(self._torn_size) > 0:
            raise _torn("a worker has lost its permit")

    def close(self, session: Any) -> None:
        """Takes all permits: no step is half done until they are released.

        Raises:
            errors.AbortedError: If one does not come back.
        """
        self.check(session)
        if not self._took(session, self._hold):
            raise _torn(f"a step has not ended its updates within {self._patience_ms / 1000:.1f} s")

    def release(self, session: Any) -> None:
        """Puts the permits back after a save that failed, unless that has happened."""
        if session.run(self._held_size) > 0:
            session.run(self._release)

    def _took(self, session: Any, take: Any) -> bool:
        from tensorboard.compat.proto.config_pb2 import RunOptions  # Start-up time: protobuf is slow to import.

        try:
            session.run(take, options=RunOptions(timeout_in_ms=self._patience_ms))
        except errors.DeadlineExceededError:
            return False
        return True

    def close_for_restore(self, session: Any) -> None:
        """Takes all permits that there are, and gives up those that do not come back."""
        if all(session.run(self._made_sizes)) and not self._took(session, self._acquire):
            logging.info("A step has not left the gate: it was interrupted, and the restored model is without it.")
        session.run(self._mark)

    def open(self, session: Any) -> None:
        """Puts all permits there after a restore."""
        session.run(self._open)


def gates() -> list[StepGate]:
    """The gates of the default graph."""
    return get_collection(GATES)


def updates_of_variables(ops: list[Any]) -> list[Operation]:
    """The operations among `ops`, and those that they depend on, that change variables, except in loops."""
    found = []
    for op in ancestors(ops):
        if op.op_def.effect is not Effect.WRITES or not op.inputs or op.inputs[0].op.type != "VarHandleOp":
            continue
        context = op._control_flow_context
        while context is not None and not context.is_while_context():
            context = context.outer_context
        if context is None:
            found.append(op)
        else:
            logging.warning(
                "%s is an update in a loop: consistent checkpoints may cut between it and its step", op.name
            )
    return found


def ancestors(values: list[Any]) -> set[Operation]:
    """The operations of tensors or operations, and all that these depend on."""
    left = [value if isinstance(value, Operation) else value.op for value in values]
    found: set[Operation] = set()
    while left:
        op = left.pop()
        if op not in found:
            found.add(op)
            left += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return found


def _queue(name: str) -> FIFOQueue:
    return FIFOQueue(-1, dtypes.int32, shapes=(), name=name, shared_name=name)


def _put(queue: FIFOQueue, count: Any) -> Any:
    """Puts so many elements, one or none, into a queue."""
    return queue.enqueue_many((apply_one("Fill", apply_one("Reshape", count, [1]), 1),))


def _torn(what: str) -> errors.AbortedError:
    return errors.AbortedError(
        None, None, f"No consistent checkpoint can be made: {what}, so that the model has a part of a step. Restore "
        "the last checkpoint (tf.train.MonitoredTrainingSession does).",
    )  # fmt: skip
