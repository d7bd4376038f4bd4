"""train.StaleSynchronousOptimizer: asynchronous replicas, of which none gets further ahead than a bound."""

from __future__ import annotations

from typing import Any, Final

from thalweg.control_flow.while_loop import while_loop
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import colocate_with, control_dependencies, device, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.ops.state.queues import FIFOQueue
from thalweg.state.variable import Variable
from thalweg.train.hooks.session_run_hook import SessionRunHook
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.wrapper_optimizer import WrapperOptimizer

# The clock of a worker that has left: no one waits for it.
_LEFT: Final = dtypes.int64.max


@export("train.StaleSynchronousOptimizer")
class StaleSynchronousOptimizer(WrapperOptimizer):
    """Bounded staleness: a worker begins a step only if it is at most `staleness` steps ahead of the slowest one.

    Every worker applies its own gradients at once, as in asynchronous training, and then waits while it is too far
    ahead. `staleness=0` lets all workers begin a step together; a large bound is asynchronous training. An update is
    computed from parameters that miss at most the last `staleness` steps of each other worker. The global step counts
    the steps of all workers.

    A variable beside the global step holds the clock of each worker: how many steps it has ended. The slowest worker,
    when it advances, wakes the others, which wait at a queue each: nothing polls, and no thread of a chief is needed.
    The variable is part of checkpoints; its size is the number of workers.

    All `num_workers` workers are waited for from the beginning. The hook of `make_session_run_hook` lets a worker take
    part again after its session was lost, from the clock of the slowest, and takes it out at its end, so that the
    others do not wait for it. TensorFlow has no such optimizer.

    Example:
        >>> w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        >>> opt = tf.train.GradientDescentOptimizer(0.25)
        >>> opt = tf.train.StaleSynchronousOptimizer(opt, num_workers=1, worker_index=0, staleness=3)
        >>> train_op = opt.minimize(tf.square(w - 3.0), global_step=tf.train.get_or_create_global_step())
        >>> with tf.train.MonitoredSession(hooks=[opt.make_session_run_hook()]) as session:
        ...     for _ in range(4):
        ...         session.run(train_op)
        ...     print(session.run(w), session.run(opt.clocks))
        2.8125 [4]
    """

    def __init__(
        self, opt: Optimizer, num_workers: int, worker_index: int, staleness: int, name: str = "stale_synchronous"
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: The optimizer that computes and applies gradients.
            num_workers: How many workers there are.
            worker_index: Which of them this is, from 0.
            staleness: How many steps a worker may be ahead of the slowest one when it begins a step; from 0.
            name: A name that all workers share: of the operations, the clocks and the queues.

        Raises:
            TypeError: If `opt` is not an Optimizer.
            ValueError: If a number is out of its range.
        """
        super().__init__(opt, name)
        for label, value, least in (
            ("num_workers", num_workers, 1), ("worker_index", worker_index, 0), ("staleness", staleness, 0)
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{label} must be an integer from {least}, got {value!r}.")
        if worker_index >= num_workers:
            raise ValueError(f"worker_index must be less than num_workers={num_workers}, got {worker_index}.")
        self._num_workers = num_workers
        self._worker_index = worker_index
        self._staleness = staleness
        self._clocks: Any = None
        self._wake_queues: list[FIFOQueue] = []
        self.join_op: Any = None
        self.leave_op: Any = None

    @property
    def clocks(self) -> Any:
        """The variable with the number of steps that each worker has ended; that of one that has left is the largest.

        Raises:
            ValueError: If `apply_gradients` was not called.
        """
        if self._clocks is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._clocks

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns an operation that applies gradients, and then waits until this worker may begin another step.

        It sets `join_op` (a worker runs it once in each session) and `leave_op` (at its end); the hook runs them.

        Args:
            grads_and_vars: Pairs, as from `compute_gradients`.
            global_step: A variable to be incremented after the update; the clocks are on its device.
            name: The name of the update.
        """
        pairs = list(grads_and_vars)
        update = self._optimizer.apply_gradients(pairs, global_step, name)
        where = (pairs[0][1] if global_step is None else global_step).device
        # On one device, loop included: a worker that waits costs no transfers.
        with device(where):
            with name_scope(""), control_dependencies(None):
                self._make_state()
            with name_scope(None, self._name) as scope:
                with control_dependencies([update]):
                    ticked = self._change_own_clock("Add", 1)
                train_op = constants.group(*self._wake_and_wait(ticked), name=scope)
            with name_scope(None, f"{self._name}_join"):
                joined = self._change_own_clock("Update", self._clock_to_join_at())
                self.join_op = self._wake_others(1, after=joined)
            with name_scope(None, f"{self._name}_leave"):
                self.leave_op = self._wake_others(1, after=self._change_own_clock("Update", _LEFT))
        return train_op

    def _make_state(self) -> None:
        zeros = constants.constant([0] * self._num_workers, dtypes.int64)
        self._clocks = Variable(zeros, trainable=False, name=f"{self._name}_clocks")
        names = [f"{self._name}_wake_{worker}" for worker in range(self._num_workers)]
        self._wake_queues = [FIFOQueue(-1, dtypes.int32, shapes=(), name=n, shared_name=n) for n in names]

    def _change_own_clock(self, kind: str, value: Any) -> Any:
        row = constants.constant([self._worker_index], dtypes.int32)
        updates = apply_one("Reshape", convert_to_tensor(value, dtypes.int64), [1])
        with colocate_with(self._clocks.op):
            return apply_op(f"ResourceScatter{kind}", self._clocks.handle, row, updates)

    def _wake_and_wait(self, ticked: Any) -> list[Any]:
        """After this worker's clock has advanced: wakes the others if it is the slowest, waits if it is too fast."""
        own_queue = self._wake_queues[self._worker_index]
        # Old signals first, then the clocks: a signal that comes after the look at them is not lost.
        with control_dependencies([ticked]):
            drained = own_queue.dequeue_many(own_queue.size())
        with control_dependencies([drained]):
            clocks = self._clocks.value()
        own, slowest = self._own(clocks), _smallest(clocks)
        woken = self._wake_others(apply_one("Cast", apply_one("Equal", own, slowest), DstT=dtypes.int32), clocks)

        def too_fast(slowest: Any) -> Any:
            return apply_one("Greater", own - slowest, constants.constant(self._staleness, dtypes.int64))

        def wait(slowest: Any) -> Any:
            with control_dependencies([own_queue.dequeue()]):
                return _smallest(self._clocks.value())

        return [woken, while_loop(too_fast, wait, [slowest], parallel_iterations=1, back_prop=False)]

    def _wake_others(self, signals: Any, after: Any) -> Any:
        """Puts so many signals, one or none, into the queues of the other workers."""
        with control_dependencies([after]):
            tokens = apply_one("Fill", apply_one("Reshape", signals, [1]), constants.constant(1, dtypes.int32))
            others = [queue for worker, queue in enumerate(self._wake_queues) if worker != self._worker_index]
            return constants.group(tokens, *(queue.enqueue_many((tokens,)) for queue in others))

    def _own(self, clocks: Any) -> Tensor:
        return apply_one("GatherV2", clocks, constants.constant(self._worker_index, dtypes.int32), 0)

    def _clock_to_join_at(self) -> Tensor:
        """The own clock, but no less than that of the slowest other worker: no one has to wait for a latecomer."""
        clocks = self._clocks.value()
        left = constants.constant(_LEFT, dtypes.int64)
        zero = constants.constant(0, dtypes.int64)
        before = apply_one("Slice", clocks, [0], [self._worker_index])
        behind = apply_one("Slice", clocks, [self._worker_index + 1], [-1])
        others = _smallest(apply_one("ConcatV2", [before, behind, apply_one("Reshape", left, [1])], 0))
        choices = [
            apply_one("SelectV2", apply_one("Equal", clock, left), zero, clock) for clock in (self._own(clocks), others)
        ]
        return apply_one("Maximum", *choices)

    def make_session_run_hook(self) -> SessionRunHook:
        """A hook that lets this worker take part in each new session, and takes it out at the end."""
        return _StaleSynchronousHook(self)


class _StaleSynchronousHook(SessionRunHook):
    """Runs `join_op` in each new session, and `leave_op` at the end."""

    def __init__(self, optimizer: StaleSynchronousOptimizer) -> None:
        self._optimizer = optimizer

    def begin(self) -> None:
        if self._optimizer.join_op is None:
            raise ValueError("StaleSynchronousOptimizer.apply_gradients should be called before using the hook.")

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._optimizer.join_op)

    def end(self, session: Any) -> None:
        session.run(self._optimizer.leave_op)


def _smallest(clocks: Any) -> Tensor:
    return apply_one("Min", clocks, [0])
