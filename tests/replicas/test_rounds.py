"""Rounds of synchronous training: no gradient counts twice, and none of an earlier model counts at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import thalweg as tf
from tests.queues.waiting import InThread


class Worker:
    """A replica of a model with one variable, whose gradient is fed; every step is a separate operation."""

    def __init__(self, container: str, index: int | None, workers: int = 2) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container):
            self.step = tf.train.get_or_create_global_step()
            self.w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
            self.gradient = tf.placeholder(tf.float32, [])
            inner = tf.train.GradientDescentOptimizer(1.0)
            self.optimizer = tf.train.SyncReplicasOptimizer(inner, workers, workers, worker_index=index)
            self.train_op = self.optimizer.apply_gradients([(self.gradient, self.w)], self.step)
            self.give = next(op for op in self.graph.get_operations() if "AccumulatorApplyGradient" in op.type)
            self.held = self.optimizer._accumulators[0].num_accumulated()
            self.update = self.optimizer.get_chief_queue_runner().enqueue_ops[0]
            self.first_tokens = self.optimizer.get_init_tokens_op()
            self.clear = self.optimizer._make_clear_op()
            self.progress = self.optimizer._make_progress()
            self.give_again = self.optimizer._make_give_again_op()
            self.initialize = tf.global_variables_initializer()
        self.sessions: list[Any] = []
        self.restart()

    def restart(self) -> None:
        """A new session, as after the loss of the worker."""
        self.sessions.append(tf.Session(graph=self.graph))

    def run(self, fetches: Any, gradient: float = 0.0) -> Any:
        return self.sessions[-1].run(fetches, {self.gradient: gradient})

    def close(self) -> None:
        for session in self.sessions:
            session.close()


@pytest.fixture
def pair(container: str) -> Iterator[list[Worker]]:
    workers = [Worker(container, index) for index in range(2)]
    chief, other = workers
    chief.run(chief.initialize)
    chief.run(chief.optimizer.chief_init_op)
    chief.run(chief.first_tokens)
    other.run(other.optimizer.local_step_init_op)
    yield workers
    for worker in workers:
        worker.close()


def test_a_worker_that_is_killed_before_its_token_does_not_count_twice(pair: list[Worker]) -> None:
    chief, other = pair
    other.run(other.give, 4.0)
    other.restart()
    other.run(other.optimizer.local_step_init_op)
    other.run(other.give, 4.0)
    assert chief.run(chief.held) == 1
    chief.run(chief.give, 2.0)
    chief.run(chief.update)
    assert chief.run([chief.step, chief.w]) == [1, -3.0]


def test_gradients_from_before_the_chief_came_back_are_dropped(pair: list[Worker]) -> None:
    chief, other = pair
    other.run(other.give, 100.0)
    chief.restart()
    chief.run(chief.initialize)
    chief.run(chief.optimizer.chief_init_op)
    chief.run(chief.first_tokens)
    assert chief.run(chief.held) == 0
    other.run(other.give, 100.0)  # A straggler: the worker has not noticed yet.
    assert chief.run(chief.held) == 0
    # The step that it began before gives it the token of the new round.
    assert other.run(other.train_op, 100.0) == 0
    other.run(other.give, 4.0)
    chief.run(chief.give, 2.0)
    chief.run(chief.update)
    assert chief.run([chief.step, chief.w]) == [1, -3.0]


def test_a_worker_with_a_token_too_many_does_not_count_twice(pair: list[Worker]) -> None:
    chief, other = pair
    chief.run(chief.first_tokens)  # as a chief that comes back gives them
    for _ in range(2):
        assert other.run(other.give, 4.0) is None
    assert other.run(other.train_op, 4.0) == 0
    assert chief.run(chief.held) == 1


def test_tokens_that_were_lost_are_given_again(pair: list[Worker]) -> None:
    chief, other = pair
    chief.run(chief.give, 2.0)
    other.run(other.give, 4.0)
    chief.run(chief.update)
    other.run(other.optimizer.local_step_init_op)  # takes the token away
    chief.run(chief.give_again)
    assert other.run(other.train_op, 4.0) == 1
    assert chief.run(chief.held) == 1


def test_who_is_late_is_known(pair: list[Worker]) -> None:
    chief, other = pair
    chief.run(chief.first_tokens)
    other.run(other.train_op, 1.0)
    step, last = chief.run(chief.progress)
    assert (step, last[1]) == (0, 0)
    assert last[0] < 0


def test_with_shared_tokens_a_chief_that_comes_back_drops_what_accumulators_hold(container: str) -> None:
    chief = Worker(container, None, 1)
    chief.run(chief.initialize)
    chief.run(chief.optimizer.chief_init_op)
    chief.run(chief.clear)
    chief.run(chief.give, 100.0)
    chief.restart()
    chief.run(chief.clear)
    chief.run(chief.optimizer.chief_init_op)
    assert chief.run(chief.held) == 0
    chief.run(chief.give, 1.0)
    chief.run(chief.update)
    assert chief.run([chief.step, chief.w]) == [1, -1.0]
    chief.close()


def test_an_abandoned_session_of_a_worker_does_not_take_the_token_of_the_next_one(pair: list[Worker]) -> None:
    chief, other = pair
    # The link to the worker is cut while it waits for its token, and the task of the queues has not noticed.
    abandoned = InThread(other.run, other.train_op, 4.0)
    assert abandoned.is_waiting()
    other.restart()
    other.run(other.optimizer.local_step_init_op)
    chief.run(chief.give, 2.0)
    chief.run(chief.update)
    assert other.run(other.train_op, 4.0) == 1
    assert abandoned.result() == -1
    assert chief.run([chief.step, chief.w]) == [1, -3.0]


@pytest.mark.parametrize("index", [0, None])
def test_an_abandoned_session_of_the_chief_does_not_take_the_means_of_the_next_round(
    container: str, index: int | None
) -> None:
    chief = Worker(container, index, 1)
    chief.run(chief.initialize)
    chief.run(chief.optimizer.chief_init_op)
    abandoned = InThread(chief.run, chief.update)
    assert abandoned.is_waiting()
    chief.restart()
    chief.run(chief.optimizer.chief_init_op)
    with pytest.raises(tf.errors.AbortedError, match="new round"):
        abandoned.result()
    chief.run(chief.give, 1.0)
    chief.run(chief.update)
    assert chief.run([chief.step, chief.w]) == [1, -1.0]
    chief.close()
