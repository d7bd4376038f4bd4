"""The tokens of synchronous replicas: each holds the global step, and lets a replica begin a step.

In one queue for all replicas, as in TensorFlow, or in one for each. They are made and used within `tf.device` of the
global step, under names that the graphs of all replicas share.
"""

from __future__ import annotations

import abc
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import control_dependencies
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.ops.state.queues import FIFOQueue


class TokenQueues(metaclass=abc.ABCMeta):
    """Where replicas wait for the next step."""

    def __init__(self, global_step: Any) -> None:
        """Takes the variable whose value tokens hold."""
        self._global_step = global_step

    @abc.abstractmethod
    def take(self) -> Tensor:
        """Waits for a token of this replica; the step in it."""

    @abc.abstractmethod
    def give(self) -> Any:
        """An operation of the chief after an update: tokens for all replicas."""

    @abc.abstractmethod
    def give_first(self, num_tokens: int) -> Any:
        """An operation of the chief in each new session: what replicas need to begin."""

    def drop_own(self) -> list[Any]:
        """Operations that remove the tokens that an earlier session of this replica has left."""
        return []

    def _queue(self, name: str) -> FIFOQueue:
        return FIFOQueue(-1, self._global_step.dtype.base_dtype, shapes=(), name=name, shared_name=name)

    def _enqueue(self, queue: FIFOQueue, count: Any) -> Any:
        tokens = apply_one("Fill", apply_one("Reshape", count, [1]), self._global_step.value())
        return queue.enqueue_many((tokens,))


class SharedTokens(TokenQueues):
    """One queue: a token is for whoever takes it."""

    def __init__(self, global_step: Any, per_step: int) -> None:
        """Makes the queue.

        Args:
            global_step: The global step.
            per_step: How many tokens follow an update.
        """
        super().__init__(global_step)
        self._per_step = per_step
        self._tokens = self._queue("sync_token_q")

    def take(self) -> Tensor:
        """Waits for a token."""
        return _one_component(self._tokens.dequeue())

    def give(self) -> Any:
        """Adds the tokens of a step."""
        return self._enqueue(self._tokens, self._per_step)

    def give_first(self, num_tokens: int) -> Any:
        """Adds `num_tokens`."""
        if num_tokens <= 0:
            return constants.no_op(name="no_init_tokens")
        return self._enqueue(self._tokens, num_tokens)


class WorkerTokens(TokenQueues):
    """A queue for each replica: nobody takes the token of another."""

    def __init__(self, global_step: Any, workers: int, worker_index: int, backup: bool) -> None:
        """Makes the queues.

        Args:
            global_step: The global step.
            workers: How many replicas there are.
            worker_index: Which of them this is.
            backup: Whether updates may come without a gradient of this replica, so that its tokens pile up.
        """
        super().__init__(global_step)
        self._backup = backup
        self._all = [self._queue(f"sync_token_q_{worker}") for worker in range(workers)]
        self._own = self._all[worker_index]
        # Remembers, as long as the queues live, that there was a chief before.
        self._chiefs = self._queue("sync_chief_sessions")

    def take(self) -> Tensor:
        """Waits for a token; of several, the newest counts."""
        token = _one_component(self._own.dequeue())
        if not self._backup:
            return token
        with control_dependencies([token]):
            later = self._drain()
        return apply_one("Max", apply_one("ConcatV2", [apply_one("Reshape", token, [1]), later], 0), [0])

    def _drain(self) -> Tensor:
        """All tokens of this replica; it is the only one to take them, so none is waited for."""
        return _one_component(self._own.dequeue_many(self._own.size()))

    def drop_own(self) -> list[Any]:
        """Removes the tokens of this replica."""
        return [self._drain()]

    def give(self) -> Any:
        """Adds a token for each replica; for this one, the chief, last: it may end its session when it has that."""
        others = [self._enqueue(queue, 1) for queue in self._all if queue is not self._own]
        with control_dependencies(others):
            return self._enqueue(self._own, 1)

    def give_first(self, num_tokens: int) -> Any:
        """Adds a token for each replica if there was a chief before: its last tokens may be lost."""
        one_or_none = apply_one("Minimum", self._chiefs.size(), 1)
        with control_dependencies([one_or_none]):
            given = [self._enqueue(queue, one_or_none) for queue in self._all]
        with control_dependencies(given):
            return self._enqueue(self._chiefs, 1)


def _one_component(dequeued: Any) -> Tensor:
    """The element of a queue with one component."""
    assert isinstance(dequeued, Tensor)
    return dequeued
