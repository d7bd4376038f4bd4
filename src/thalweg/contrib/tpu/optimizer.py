"""tf.contrib.tpu.CrossShardOptimizer and bfloat16_scope: parts of training programs for TPUs, on one device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export
from thalweg.train.optimizers.optimizer import Optimizer


@export("contrib.tpu.CrossShardOptimizer")
class CrossShardOptimizer(Optimizer):
    """An optimizer that sums gradients over the shards of a TPU; elsewhere there is one shard, and nothing to sum.

    Args:
        opt: The optimizer that applies the gradients.
        reduction: `tf.losses.Reduction.SUM` or `MEAN`: the same for one shard.
        name: The name of the optimizer.
        group_assignment: Groups of shards: must be None, or hold one shard.

    Example:
        >>> optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(0.5))
        >>> v = tf.Variable(3.0)
        >>> train = optimizer.minimize(tf.square(v))
        >>> session.run(tf.global_variables_initializer())
        >>> _ = session.run(train)
        >>> float(session.run(v))
        0.0
    """

    def __init__(
        self,
        opt: Any,
        reduction: str = "weighted_mean",
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:
        """Checks the arguments.

        Raises:
            ValueError: If the reduction is neither a sum nor a mean, or there is more than one shard.
        """
        if reduction not in (tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN):
            raise ValueError(f"Unsupported reduction: {reduction}.")
        if group_assignment is not None and sum(map(len, group_assignment)) != 1:
            raise ValueError(f"There is one shard here, but group_assignment is {group_assignment}.")
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the wrapped optimizer."""
        return self._opt.compute_gradients(loss, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies the gradients with the wrapped optimizer."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The names of the slots of the wrapped optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """The variables of the wrapped optimizer."""
        return self._opt.variables()


@export("contrib.tpu.bfloat16_scope")
@contextmanager
def bfloat16_scope(name: str | None = None) -> Iterator[Any]:
    """A variable scope in which variables that are asked for as bfloat16 are kept as float32, and read as bfloat16.

    Example:
        >>> with tf.contrib.tpu.bfloat16_scope():
        ...     weights = tf.get_variable("weights", [2], tf.bfloat16)
        >>> weights.dtype, tf.global_variables()[-1].dtype.base_dtype
        (tf.bfloat16, tf.float32)
    """

    def kept_as_float32(getter: Any, name: str, dtype: Any = None, **kwargs: Any) -> Any:
        is_narrow = dtype is not None and tf.as_dtype(dtype) == tf.bfloat16
        variable = getter(name, dtype=tf.float32 if is_narrow else dtype, **kwargs)
        return tf.cast(variable, tf.bfloat16) if is_narrow else variable

    with tf.variable_scope(name if name is not None else "", custom_getter=kept_as_float32) as scope:
        yield scope
