"""Names of tf.contrib.tpu for one replica: an optimizer over shards of which there is one, and bfloat16 variables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.tpu.CrossShardOptimizer")
class CrossShardOptimizer(tf.train.Optimizer):
    """Averages gradients over the shards of a TPU. Here is one shard: it does as the optimizer that it wraps.

    Args:
        opt: The optimizer.
        reduction: `tf.losses.Reduction.MEAN` or SUM: the same for one shard.
        name: The name of this optimizer.
        group_assignment: Groups of shards; must be None.
    """

    def __init__(
        self, opt: Any, reduction: Any = "weighted_mean", name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:  # fmt: skip
        """Wraps the optimizer.

        Raises:
            ValueError: If the reduction is another one, or there are groups.
        """
        if reduction not in (tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN):
            raise ValueError(f"Unsupported reduction: {reduction}.")
        if group_assignment is not None:
            raise ValueError("There is one shard: group_assignment must be None.")
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the wrapped optimizer."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """The update of the wrapped optimizer."""
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
@contextlib.contextmanager
def bfloat16_scope(name: str | None = None) -> Iterator[Any]:
    """A variable scope that keeps variables in float32 and gives them as bfloat16 where that type is asked for."""

    def kept_in_float32(getter: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dtype") != tf.bfloat16:
            return getter(*args, **kwargs)
        return tf.cast(getter(*args, **{**kwargs, "dtype": tf.float32}), tf.bfloat16)

    with tf.variable_scope("" if name is None else name, custom_getter=kept_in_float32) as scope:
        yield scope


@export("contrib.tpu.cross_replica_sum")
def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Any:
    """The sum of a tensor over all replicas: of one, so the tensor itself."""
    return tf.identity(x, name=name or "CrossReplicaSum")
