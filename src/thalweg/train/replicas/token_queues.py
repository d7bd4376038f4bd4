"""The tokens of synchronous replicas: each holds the global step, and lets a replica begin a step.

In one queue for all replicas, as in TensorFlow, or in one for each. They are made and used within `tf.device` of the
global step, under names that the graphs of all replicas share.
"""

from __future__ import annotations

import abc
from typing import Any, Final

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import control_dependencies, device
from thalweg.graph.tensor import Tensor
from thalweg.ops.array import constants
from thalweg.ops.state.queues import FIFOQueue
from thalweg.train.replicas.rounds import Round

# How many abandoned sessions of one replica may wait for tokens when a new session joins.
_ABANDONED: Final = 2


class TokenQueues(metaclass=abc.ABCMeta):
    """Where replicas wait for the next step."""

    def __init__(self, global_step: Any) -> None:
        """Takes the variable whose value tokens hold."""
        self._global_step = global_step
        self._dtype = global_step.dtype.base_dtype
        # Has an element when the chief has ended, with the last checkpoint saved.
        self._ended = FIFOQueue(-1, dtypes.int32, shapes=(), name="sync_ended", shared_name="sync_ended")

    @abc.abstractmethod
    def take(self, stamp: Tensor) -> tuple[Tensor, list[Any]]:
        """Waits for a token of this replica, which has given gradients with a stamp.

        Returns:
            The step in the token, and further operations of the replica's step.
        """

    @abc.abstractmethod
    def give(self) -> Any:
        """An operation of the chief after an update: tokens for all replicas."""

    @abc.abstractmethod
    def give_first(self, num_tokens: int) -> Any:
        """An operation of the chief in each new session: what replicas need to begin."""

    def stamp(self, local_step: Any) -> Tensor:
        """What the gradients of a replica carry, by which accumulators recognize stale ones."""
        value: Tensor = local_step.value()
        return value

    def begin(self, accumulators: list[Any]) -> list[Any]:
        """Operations of the chief in each new session: accumulators accept gradients of the present step only."""
        return [*self._set_steps(accumulators, self._global_step.value()), self._forget_end()]

    def end(self) -> Any:
        """An operation of the chief at the end: replicas need not wait for a further step any more.

        A backup worker that has taken the last token, in place of all before it, may have looked at the global step
        before that, and begun another step: it gets a token that lets it go.
        """
        with control_dependencies([self._ended.enqueue(1)]):
            return self.give()

    def num_ends(self) -> Tensor:
        """A positive number if the chief has ended."""
        return self._ended.size()

    def _forget_end(self) -> Any:
        return constants.group(self._ended.dequeue_many(self._ended.size()))

    def _set_steps(self, accumulators: list[Any], step: Any) -> list[Any]:
        """Sets the steps of accumulators, and ends takers that wait: they belong to a chief that has been replaced."""
        made = []
        for each in accumulators:
            with device(each.accumulator_ref.device):
                ends_takers = apply_one("Reshape", step, [1])
                made.append(each.set_global_step(ends_takers, name="SetGlobalStep"))
        return made

    def join(self) -> list[Any]:
        """Operations of a replica in each new session, before it reads the global step."""
        return []


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
        name = "sync_token_q"
        self._tokens = FIFOQueue(-1, self._dtype, shapes=(), name=name, shared_name=name)

    def take(self, stamp: Tensor) -> tuple[Tensor, list[Any]]:
        """Waits for a token."""
        token = self._tokens.dequeue()
        assert isinstance(token, Tensor)
        return token, []

    def give(self) -> Any:
        """Adds the tokens of a step."""
        return self._enqueue(self._per_step)

    def give_first(self, num_tokens: int) -> Any:
        """Adds `num_tokens`."""
        return self._enqueue(num_tokens) if num_tokens > 0 else constants.no_op(name="no_init_tokens")

    def _enqueue(self, count: int) -> Any:
        return self._tokens.enqueue_many((apply_one("Fill", [count], self._global_step.value()),))


class WorkerTokens(TokenQueues):
    """A queue for each replica: no replica takes the token of another. A token holds the round and the global step."""

    def __init__(self, global_step: Any, local_round: Any, workers: int, worker_index: int, backup: bool) -> None:
        """Makes the queues.

        Args:
            global_step: The global step.
            local_round: A local variable for the round that this replica takes part in.
            workers: How many replicas there are.
            worker_index: Which of them this is.
            backup: Whether updates may come without a gradient of this replica, so that its tokens pile up.
        """
        super().__init__(global_step)
        self._backup = backup
        self._index = worker_index
        self.round = Round(workers, local_round)
        self._all = [self._queue(f"sync_token_q_{worker}") for worker in range(workers)]
        self._own = self._all[worker_index]
        # Remembers, as long as the queues live, that there was a chief before.
        self._chiefs = self._queue("sync_chief_sessions")

    def _queue(self, name: str) -> FIFOQueue:
        types = [self.round.dtype, self._dtype]
        return FIFOQueue(-1, types, shapes=[(), ()], name=name, shared_name=name)

    def stamp(self, local_step: Any) -> Tensor:
        """The round and the step, as one number that grows from round to round, and the number of the replica."""
        at = self.round.at(self.round.local.value(), local_step.value())
        return apply_one("Pack", [at, constants.constant(self._index, self.round.dtype)])

    def begin(self, accumulators: list[Any]) -> list[Any]:
        """Begins a round. Whatever accumulators hold from earlier ones, or get from now on, is stale."""
        start = self.round.start()
        at = self.round.at(start, self._global_step.value())
        return self.round.publish(start, [*self._set_steps(accumulators, at), self._forget_end()])

    def join(self) -> list[Any]:
        """Removes the tokens that an earlier session of this replica has left, and reads the present round.

        After a cut link has come back, the task of the queues may serve such a session for a moment, whose step waits
        for a token. It gets one of no round, and so does not take one of this session.
        """
        of_no_round = [constants.constant([-1] * _ABANDONED, dtype) for dtype in (self.round.dtype, self._dtype)]
        with control_dependencies([self._own.enqueue_many(tuple(of_no_round))]):
            waiting = self._own.size()
        with control_dependencies([waiting]):
            dropped = self._own.dequeue_many(waiting)
        with control_dependencies(list(dropped)):
            return [self.round.local.assign(self.round.value()).op]

    def take(self, stamp: Tensor) -> tuple[Tensor, list[Any]]:
        """Waits for a token; of several, the last counts."""
        with control_dependencies([self.round.note(self._index, stamp)]):
            token: list[Any] = list(self._own.dequeue())
        if self._backup:
            with control_dependencies(token):
                # This replica is the only one to take them, so none is waited for.
                waiting = self._own.size()
                later = self._own.dequeue_many(waiting)
            token = [
                apply_one("GatherV2", apply_one("ConcatV2", [apply_one("Reshape", one, [1]), more], 0), waiting, 0)
                for one, more in zip(token, later, strict=True)
            ]
            # When the chief has ended, there always is a token: another step does not wait.
            with control_dependencies(list(later)):
                token_of_end = self._enqueue(self._own, apply_one("Minimum", self._ended.size(), 1))
            return token[1], [self.round.local.assign(token[0]).op, token_of_end]
        return token[1], [self.round.local.assign(token[0]).op]

    def give(self) -> Any:
        """Adds a token for each replica; for this one, the chief, last: it may end its session when it has that."""
        others = [self._enqueue(queue, 1) for queue in self._all if queue is not self._own]
        with control_dependencies(others):
            return self._enqueue(self._own, 1)

    def give_first(self, num_tokens: int) -> Any:
        """Adds a token for each replica if there was a chief before: its last tokens may be lost.

        A replica that has begun the present step already does it once more; accumulators drop the second gradient.
        """
        one_or_none = apply_one("Minimum", self._chiefs.size(), 1)
        with control_dependencies([one_or_none]):
            given = [self._enqueue(queue, one_or_none) for queue in self._all]
        with control_dependencies(given):
            return self._enqueue(self._chiefs, 1)

    def give_again(self) -> Any:
        """Adds a token for each replica: one may be lost with a session that was cut off. Harmless otherwise."""
        return constants.group(*(self._enqueue(queue, 1) for queue in self._all))

    def _enqueue(self, queue: FIFOQueue, count: Any) -> Any:
        many = apply_one("Reshape", count, [1])
        values = (self.round.value(), self._global_step.value())
        return queue.enqueue_many(tuple(apply_one("Fill", many, value) for value in values))
