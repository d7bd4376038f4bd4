"""train.GradientAccumulationOptimizer: one update for several micro-batches, for batches that do not fit in memory."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.array import constants
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.train.optimizers.optimizer import Optimizer
from thalweg.train.optimizers.wrapper_optimizer import WrapperOptimizer


@export("train.GradientAccumulationOptimizer")
class GradientAccumulationOptimizer(WrapperOptimizer):
    """Sums gradients, and every `steps` runs of the train operation applies their mean.

    The result is that of one batch of `steps` times the size, if the loss is a mean over its examples. Sparse gradients
    are summed as dense ones. The global step counts updates, not runs.

    Example:
        >>> w = tf.Variable(1.0)
        >>> x = tf.placeholder(tf.float32, [])
        >>> opt = tf.train.GradientAccumulationOptimizer(tf.train.GradientDescentOptimizer(0.5), steps=2)
        >>> train = opt.minimize(w * x)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     for value in (1.0, 3.0):
        ...         sess.run(train, {x: value})
        ...         print(sess.run(w))
        1.0
        0.0
    """

    def __init__(self, opt: Optimizer, steps: int, name: str = "GradientAccumulation") -> None:
        """Wraps an optimizer.

        Args:
            opt: The optimizer that gets the means.
            steps: How many gradients make a mean; positive.
            name: The name scope of the new operations, and of the slots with the sums.

        Raises:
            ValueError: If `steps` is not positive.
        """
        super().__init__(opt, name)
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ValueError(f"steps must be a positive integer, got {steps!r}.")
        self._steps = steps

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns an operation that adds gradients to the sums, and applies their mean every `steps` runs."""
        pairs = [(grad, var) for grad, var in grads_and_vars if grad is not None]
        if self._steps == 1 or not pairs:
            return self._optimizer.apply_gradients(grads_and_vars, global_step, name)
        tables = [var.op.name for _, var in pairs if isinstance(var, EmbeddingVariable)]
        if tables:
            raise NotImplementedError(f"Gradients of the embedding variables {tables} cannot be summed over steps.")
        with control_dependencies(None):
            counter = self._create_non_slot_variable(
                constants.constant(0, dtypes.int64), f"{self._name}/runs", pairs[0][1]
            )
            sums = [self._zeros_slot(var, "gradient_sum", self._name) for _, var in pairs]
        with name_scope(name, self._name) as scope:
            added = [
                total.scatter_add(grad) if isinstance(grad, IndexedSlices) else total.assign_add(grad, read_value=False)
                for total, (grad, _) in zip(sums, pairs, strict=True)
            ]
            with control_dependencies(added):
                runs = counter.assign_add(1).value()

            def update() -> Any:
                means = [(total.value() / self._steps, var) for total, (_, var) in zip(sums, pairs, strict=True)]
                with control_dependencies([self._optimizer.apply_gradients(means, global_step)]):
                    reset = [total.assign(apply_one("ZerosLike", total.value()), read_value=False) for total in sums]
                with control_dependencies(reset):
                    return constants.constant(True)

            due = apply_one("Equal", runs % self._steps, 0)
            return constants.group(cond(due, update, lambda: constants.constant(False)), name=scope)
