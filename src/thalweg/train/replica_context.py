"""The replica context of a program without a distribution strategy, the only one there is: a single replica.

Library code of TensorFlow 1.15 asks for it to merge values over replicas (`merge_call`), which is a plain call here.
Synchronous training over several tasks is `tf.train.SyncReplicasOptimizer`'s and the collectives' business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from thalweg.graph.definitions.op_registry import export


class DefaultStrategy:
    """The strategy of a program that has chosen none: everything runs once, variables are where they are created."""

    num_replicas_in_sync = 1

    @contextlib.contextmanager
    def scope(self) -> Iterator[DefaultStrategy]:
        """A block that changes nothing."""
        yield self


@export("distribute.ReplicaContext")
class ReplicaContext:
    """What `tf.distribute.get_replica_context` returns.

    Example:
        >>> context = tf.distribute.get_replica_context()
        >>> context.merge_call(lambda strategy, x: x * strategy.num_replicas_in_sync, args=(3,))
        3
    """

    num_replicas_in_sync = 1
    replica_id_in_sync_group = 0

    def __init__(self, strategy: DefaultStrategy) -> None:
        """Takes the strategy."""
        self.strategy = strategy

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Calls a function of the strategy and of the values of all replicas, of which there is one."""
        return merge_fn(self.strategy, *args, **(kwargs or {}))

    def all_reduce(self, reduce_op: Any, value: Any) -> Any:
        """The sum or mean over the replicas: the value."""
        return value


_strategy = DefaultStrategy()
_context = ReplicaContext(_strategy)


@export("distribute.get_replica_context")
def get_replica_context() -> ReplicaContext:
    """The context of the only replica."""
    return _context


@export("distribute.get_strategy")
def get_strategy() -> DefaultStrategy:
    """The default strategy."""
    return _strategy


@export("distribute.has_strategy")
def has_strategy() -> bool:
    """Whether a strategy other than the default is in use: never."""
    return False


@export("distribute.in_cross_replica_context")
def in_cross_replica_context() -> bool:
    """Whether the code is outside of the replicas: never."""
    return False
