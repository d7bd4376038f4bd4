"""train.SyncReplicasOptimizer: replicas that train in step, with backup workers if there are more than needed."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.default_graph import colocate_with, control_dependencies, device, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.ops.state.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from thalweg.ops.state.queues import FIFOQueue
from thalweg.platform import logging
from thalweg.state.variable_lists import global_variables, report_uninitialized_variables
from thalweg.train.hooks.session_run_hook import SessionRunHook
from thalweg.train.input.queue_runner import QueueRunner
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.wrapper_optimizer import WrapperOptimizer
from thalweg.train.replicas.chief_queue_runner import ChiefQueueRunner
from thalweg.train.replicas.rounds import Round, worker_variable
from thalweg.train.replicas.sync_replicas_hook import SyncReplicasHook
from thalweg.train.replicas.token_queues import SharedTokens, TokenQueues, WorkerTokens


@export("train.SyncReplicasOptimizer")
class SyncReplicasOptimizer(WrapperOptimizer):
    """Averages the gradients of several replicas, applies the mean once, and lets all replicas go on together.

    A replica's step adds its gradients to accumulators, one beside each variable, and waits for a token. A thread of
    the chief takes the means as soon as every accumulator has `replicas_to_aggregate` gradients, lets the wrapped
    optimizer apply them, increments the global step, and puts one token for each replica into a queue. A token holds
    the global step: the replica that gets it notes it in its local variable `sync_rep_local_step`, and the gradients
    of its next step carry it. Accumulators drop gradients of steps that are over (stale ones).

    With `total_num_replicas > replicas_to_aggregate` the difference are *backup workers*: the first
    `replicas_to_aggregate` gradients of a step count, those of slower workers are dropped, and no step waits for the
    slowest. With `total_num_replicas < replicas_to_aggregate`, replicas contribute several gradients to a step.

    All replicas take their tokens from one queue. A fast one may so take the token of a slow one, and contribute twice
    to a step while the other does not. With a `worker_index` (an addition to TensorFlow's arguments; all replicas give
    theirs), each replica has a queue of its own: it contributes at most once to a step, and with as many replicas as
    are aggregated exactly once. The result is then, bit for bit, that of one process that averages the gradients of all
    batches: also if workers, the chief or parameter servers are lost and come back, as long as a worker's batch depends
    on the step only. A backup worker that comes late goes on with the newest step at once.

    Accumulators are on the device of their variable, queues on that of the global step, both under names that all
    replicas share: parameter servers hold them, if `tf.train.replica_device_setter` places the variables there.

    Example:
        In each worker, after building its model within `tf.device(tf.train.replica_device_setter(...))`:

        >>> w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        >>> loss = tf.square(w - 3.0)
        >>> opt = tf.train.GradientDescentOptimizer(0.25)
        >>> opt = tf.train.SyncReplicasOptimizer(opt, replicas_to_aggregate=1, total_num_replicas=1, worker_index=0)
        >>> train_op = opt.minimize(loss, global_step=tf.train.get_or_create_global_step())
        >>> is_chief = True  # in one of the workers
        >>> hooks = [opt.make_session_run_hook(is_chief), tf.train.StopAtStepHook(last_step=4)]
        >>> with tf.train.MonitoredTrainingSession(is_chief=is_chief, hooks=hooks) as session:
        ...     while not session.should_stop():
        ...         step = session.run(train_op)
        ...     print(step, session.run_step_fn(lambda step_context: step_context.session.run(w)))
        4 2.8125
    """

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
        worker_index: int | None = None,
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: The optimizer that computes gradients, and applies their means.
            replicas_to_aggregate: How many gradients make a step.
            total_num_replicas: How many replicas there are; as many as are aggregated if None.
            variable_averages: An ExponentialMovingAverage, applied in each step.
            variables_to_average: The variables for it.
            use_locking: Stored, without effect: every update is atomic.
            name: The name scope of the accumulators.
            worker_index: The number of this replica, from 0, if replicas shall not take each other's tokens. None for
                TensorFlow's behaviour.

        Raises:
            TypeError: If `opt` is not an Optimizer.
            ValueError: If a number is not a positive integer, `worker_index` is not one of a replica, or is given for
                fewer replicas than are aggregated.
        """
        super().__init__(opt, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        for label, count in (("replicas_to_aggregate", replicas_to_aggregate), ("total_num_replicas", total)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{label} must be a positive integer, got {count!r}.")
        if worker_index is not None and (worker_index not in range(total) or total < replicas_to_aggregate):
            raise ValueError(
                f"worker_index must be in range({total}), and total_num_replicas at least replicas_to_aggregate="
                f"{replicas_to_aggregate}, got worker_index={worker_index!r}."
            )
        logging.info("SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s", replicas_to_aggregate, total)
        self._use_locking = use_locking
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = total
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._worker_index = worker_index
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._gradients_applied = False
        self._global_step: Any = None
        self._local_step: Any = None
        self._accumulators: list[Any] = []
        self._tokens: TokenQueues | None = None
        self._chief_queue_runner: QueueRunner | None = None
        # What `apply_gradients` adds to the graph for programs without the hook.
        self.local_step_init_op: Any = None
        self.chief_init_op: Any = None
        self.ready_for_local_init_op: Any = None

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns the operation of a replica's step: gives its gradients away, and waits for the next token.

        It sets `local_step_init_op` (a worker runs it once, when the model is ready), `chief_init_op` (the chief does
        that instead) and `ready_for_local_init_op` (lists what these need and is not initialized); the hook runs them.

        Args:
            grads_and_vars: Pairs, as from `compute_gradients`. Variables whose gradient is None stay as they are.
            global_step: The variable that counts steps; needed to recognize stale gradients.
            name: Ignored.

        Returns:
            The replica's step; run, it gives the global step of the token.

        Raises:
            ValueError: If there is no variable, no global step, or a gradient is neither a tensor nor IndexedSlices.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        self._local_step = worker_variable(global_step.dtype.base_dtype, "sync_rep_local_step")
        tokens = self._tokens = self._make_tokens()
        self.local_step_init_op = self._join()

        with name_scope(None, self._name):
            added, means = [], []
            with colocate_with(self._local_step.op), name_scope(""):
                stamp = tokens.stamp(self._local_step)
            for grad, var in pairs:
                if grad is None:
                    means.append((None, var))
                    continue
                with device(var.device):
                    accumulator, add, mean = self._accumulated(grad, var, stamp)
                self._accumulators.append(accumulator)
                added.append(add)
                means.append((mean, var))
            with device(global_step.device), name_scope(""), control_dependencies(added):
                token, noted = tokens.take(stamp)
            with colocate_with(self._local_step.op), name_scope(""), control_dependencies(noted):
                train_op = self._local_step.assign(token)
            self._chief_queue_runner = self._chief_runner(means)
            with device(global_step.device):
                begun = tokens.begin(self._accumulators)
            if self._worker_index is None:
                self.chief_init_op = constants.group(self.local_step_init_op.op, *begun)
            else:
                with control_dependencies(begun):
                    self.chief_init_op = constants.group(self._join())
        with name_scope(""):
            self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        self._gradients_applied = True
        return train_op

    def _make_tokens(self) -> TokenQueues:
        step = self._global_step
        if self._worker_index is None:
            with device(step.device), name_scope(""):
                return SharedTokens(step, self._tokens_per_step)
        local_round = worker_variable(Round.dtype, "sync_rep_local_round")
        total = self._total_num_replicas
        with device(step.device), name_scope(""):
            return WorkerTokens(step, local_round, total, self._worker_index, total > self._replicas_to_aggregate)

    def _join(self) -> Any:
        """Sets the local step of this replica, and what else its session begins with."""
        assert self._tokens is not None
        with device(self._global_step.device), name_scope(""):
            joined = self._tokens.join()
        with colocate_with(self._local_step.op), control_dependencies(joined):
            return self._local_step.assign(self._global_step.value())

    def _accumulated(self, grad: Any, var: Any, stamp: Any) -> tuple[Any, Any, Any]:
        """The accumulator of a variable, the operation that adds a replica's gradient, and the mean of enough."""
        shared_name = var.name + "/grad_accum"
        if isinstance(grad, Tensor):
            dense = ConditionalAccumulator(grad.dtype, shape=var.shape, shared_name=shared_name)
            add = dense.apply_grad(grad, local_step=stamp)
            return dense, add, dense.take_grad(self._replicas_to_aggregate)
        if isinstance(grad, IndexedSlices):
            sparse = SparseConditionalAccumulator(grad.dtype, shape=var.shape, shared_name=shared_name)
            add = sparse.apply_indexed_slices_grad(grad, local_step=stamp)
            return sparse, add, sparse.take_indexed_slices_grad(self._replicas_to_aggregate)
        raise ValueError(
            f"Unknown grad type! The gradient of {var.name} is neither a Tensor nor IndexedSlices: {grad!r}"
        )

    def _chief_runner(self, means: list[tuple[Any, Any]]) -> QueueRunner:
        """Runs the chief's step: the update by the means, the global step, then a token for each replica."""
        step = self._global_step
        with device(step.device), name_scope(""):
            update = self._optimizer.apply_gradients(means, step)
            # The runner closes its queue at the end. The queue of the tokens stays open for the next session.
            dummy_queue = FIFOQueue(1, dtypes.int32, shapes=(), name="dummy_queue", shared_name="dummy_queue")
            # Tokens come last: the chief may end its session, and with it this step, as soon as it has its own.
            if self._variable_averages is not None:
                with control_dependencies([update]):
                    update = self._variable_averages.apply(self._variables_to_average)
            assert self._tokens is not None
            with control_dependencies([update]):
                sync_op = self._tokens.give()
            return ChiefQueueRunner(dummy_queue, [sync_op])

    def get_chief_queue_runner(self) -> QueueRunner:
        """The QueueRunner whose thread applies the means; started by the chief only, once its session is ready.

        Raises:
            ValueError: If `apply_gradients` was not called.
        """
        if self._chief_queue_runner is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def _make_clear_op(self) -> Any:
        """Drops what accumulators hold from an earlier session of the chief; None if a new round does that.

        A parameter server may have survived the loss of another one, or of the chief, and a restored model may be that
        of an earlier step. Run, the tensor says whether anything was dropped: a worker that began before the chief has
        then lost its gradients, and waits for a token.
        """
        if self._worker_index is not None:
            return None
        cleared = []
        for accumulator in self._accumulators:
            with device(accumulator.accumulator_ref.device):
                held = accumulator.num_accumulated()

                def drop(accumulator: Any = accumulator, held: Any = held) -> Any:
                    with control_dependencies([constants.group(accumulator.take_grad(held))]):
                        return constants.constant(True)

                cleared.append(cond(apply_one("Greater", held, 0), drop, lambda: constants.constant(False)))
        return apply_one("Any", apply_one("Pack", cleared), 0)

    def _make_replace_op(self) -> Any:
        """Adds the tokens of a step in place of dropped gradients; surplus ones cost gradients that are stale."""
        assert self._tokens is not None
        with device(self._global_step.device), name_scope(""):
            return self._tokens.give()

    def _make_progress(self) -> Any:
        """The global step, and the last step of each replica; None if replicas have no numbers."""
        if not isinstance(self._tokens, WorkerTokens):
            return None
        with device(self._global_step.device), name_scope(""):
            return [self._global_step.value(), self._tokens.round.last_steps()]

    def _make_end(self) -> tuple[Any, Any]:
        """An operation by which the chief says that it has ended; the global step, and whether it has said so."""
        assert self._tokens is not None
        with device(self._global_step.device), name_scope(""):
            return self._tokens.end(), [self._global_step.value(), self._tokens.num_ends()]

    def _make_give_again_op(self) -> Any:
        """Gives each replica another token of the present step; None if replicas have no numbers."""
        if not isinstance(self._tokens, WorkerTokens):
            return None
        with device(self._global_step.device), name_scope(""):
            return self._tokens.give_again()

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """An operation that puts the first tokens into the queue; run by the chief only, once its session is ready.

        Args:
            num_tokens: How many; as many as gradients are aggregated if -1. Fewer make the first step stricter; at
                least `replicas_to_aggregate - total_num_replicas` are needed for it. When only the chief is restarted,
                workers may wait for tokens that were lost with it: with 0 they would wait on. With a `worker_index`
                none are given at first, and one to each replica when the chief comes back; `num_tokens` is ignored.

        Raises:
            ValueError: If there are too few, or `apply_gradients` was not called.
        """
        if self._tokens is None:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} (needed)")
        with device(self._global_step.device), name_scope(""):
            return self._tokens.give_first(num_tokens)

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """A hook that runs the initialization ops and, in the chief, the thread that applies the means.

        Args:
            is_chief: Whether this worker is the chief; exactly one is.
            num_tokens: As for `get_init_tokens_op`.
        """
        return SyncReplicasHook(self, is_chief, num_tokens)
