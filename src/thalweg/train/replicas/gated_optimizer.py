"""train.GatedOptimizer: updates that a consistent checkpoint has as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.default_graph import control_dependencies, device, get_collection, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.array import constants
from thalweg.train.checkpoints.step_gate import StepGate, updates_of_variables
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.wrapper_optimizer import WrapperOptimizer


@export("train.GatedOptimizer")
class GatedOptimizer(WrapperOptimizer):
    """Lets `tf.train.Saver(consistent=True)` cut between steps, while workers train.

    Without it, a checkpoint that is saved during asynchronous training over several parameter servers may have the
    update of a step on one of them and not on the other. With it, the updates of a step, the global step included, are
    in a checkpoint all or not at all. A step waits for its worker's permit, on the task of the global step, when its
    gradients are ready, and gives it back after its last update. Only the saver uses this permit beside the worker; it
    holds all permits while it takes snapshots of the variables: some milliseconds.

    The price is one message to the task of the global step before the updates, and one after them. Programs without a
    Scaffold run `tf.tables_initializer()` once in each session, which makes the permit.

    Updates of variables in `GraphKeys.UPDATE_OPS`, such as the moving averages of batch normalization, wait for the
    permit, too, and are part of the step. If gradients depend on them, as within `tf.control_dependencies(update_ops)`,
    the step takes its permit at its beginning: a saver then waits for a whole step. Other updates are made by a
    function, `further_updates`. With a `last_step`, each step claims its number before it updates anything, and changes
    nothing if that step has been made: training by many workers ends at exactly that step.

    In synchronous training only the chief applies updates: wrap the optimizer that is within the SyncReplicasOptimizer,
    with `num_workers=1` and the index 0 in the chief, None in all others. TensorFlow has no such optimizer.

    Example:
        >>> w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        >>> opt = tf.train.GatedOptimizer(tf.train.GradientDescentOptimizer(0.25), num_workers=1, worker_index=0)
        >>> train_op = opt.minimize(tf.square(w - 3.0), global_step=tf.train.get_or_create_global_step())
        >>> saver = tf.train.Saver(sharded=True, consistent=True)
        >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
        >>> with tf.Session() as session:
        ...     session.run(tf.global_variables_initializer())
        ...     session.run(tf.tables_initializer())
        ...     for _ in range(4):
        ...         session.run(train_op)
        ...     path = saver.save(session, prefix)
        >>> tf.train.load_variable(path, "w").item()
        2.8125
    """

    def __init__(
        self,
        opt: Optimizer,
        num_workers: int,
        worker_index: int | None,
        name: str = "step_gate",
        patience_secs: float = 3.5,
        last_step: int | None = None,
        further_updates: Callable[[], Any] | None = None,
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: The optimizer that computes and applies gradients.
            num_workers: How many workers there are.
            worker_index: Which of them this is, from 0; None if this process makes no updates.
            name: A name that all workers share.
            patience_secs: How long the updates of a step may take before the step counts as interrupted.
            last_step: The value of the global step after which steps change nothing; None for no limit.
            further_updates: Makes operations that are to follow the update within the step, such as the `apply` of an
                ExponentialMovingAverage, and returns one of them or a list.

        Raises:
            TypeError: If `opt` is not an Optimizer.
            ValueError: If `worker_index` is not one of a worker.
        """
        super().__init__(opt, name)
        if worker_index is not None and worker_index not in range(num_workers):
            raise ValueError(f"worker_index must be in range({num_workers}), got {worker_index!r}.")
        self._num_workers = num_workers
        self._worker_index = worker_index
        self._patience_secs = patience_secs
        self._last_step = last_step
        self._further_updates = further_updates
        self._gate: StepGate | None = None

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns an operation that applies gradients while no saver reads.

        Args:
            grads_and_vars: Pairs, as from `compute_gradients`.
            global_step: A variable to be incremented; the permits are on its device.
            name: The name of the update.

        Raises:
            ValueError: If there is a last step and no global step.
        """
        if self._last_step is not None and global_step is None:
            raise ValueError("An optimizer with a last_step needs the global_step.")
        pairs = list(grads_and_vars)
        if self._gate is None:
            where = (pairs[0][1] if global_step is None else global_step).device
            self._gate = StepGate(self._num_workers, self._worker_index, where, self._name, self._patience_secs)
        computed = [grad.values if isinstance(grad, IndexedSlices) else grad for grad, _ in pairs if grad is not None]
        others = get_collection(GraphKeys.UPDATE_OPS)
        with name_scope(None, self._name):
            entered = self._gate.enter_before(updates_of_variables(others), computed)
        with control_dependencies([entered]):
            update = self._updates(pairs, global_step, name)
        with name_scope(None, self._name):
            return constants.group(self._gate.leave([update, *others]))

    def _updates(self, pairs: list[Any], global_step: Any, name: str | None) -> Any:
        """All updates of a step that has its permit; none if the last step has been made."""
        if self._last_step is None:
            return self._apply(pairs, global_step, name)
        with device(global_step.device):
            claimed = apply_one(
                "_ResourceClaimCount", global_step.handle, limit=self._last_step, T=global_step.dtype.base_dtype
            )

        def apply() -> Any:
            with control_dependencies([self._apply(pairs, None, name)]):
                return constants.constant(True)

        return cond(claimed, apply, lambda: constants.constant(False))

    def _apply(self, pairs: list[Any], global_step: Any, name: str | None) -> Any:
        update = self._optimizer.apply_gradients(pairs, global_step, name)
        if self._further_updates is None:
            return update
        with control_dependencies([update]):
            further = self._further_updates()
        return constants.group(update, *(further if isinstance(further, (list, tuple)) else [further]))
