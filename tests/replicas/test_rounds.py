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
            self.set_step = self.step.assign(tf.cast(self.gradient, tf.int64)).op
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


def ending_hooks(pair: list[Worker]) -> list[Any]:
    """The hooks of the chief and of the other worker, ready for the end of training."""
    hooks = []
    for worker in pair:
        with worker.graph.as_default():
            hooks.append(worker.optimizer.make_session_run_hook(worker is pair[0]))
            hooks[-1].begin()
        worker.restart()
    return hooks


def test_a_worker_ends_after_the_chief(pair: list[Worker]) -> None:
    chief, other = pair
    of_chief, of_other = ending_hooks(pair)
    of_chief.before_end(chief.sessions[-1])
    ending = InThread(of_other.before_end, other.sessions[-1])
    assert ending.is_alive(0.1)
    of_chief.end(chief.sessions[-1])
    ending.result()


def test_a_worker_that_ends_goes_on_when_the_last_checkpoint_has_failed(pair: list[Worker]) -> None:
    chief, other = pair
    _, of_other = ending_hooks(pair)
    chief.run(chief.set_step, 7.0)
    ending = InThread(of_other.before_end, other.sessions[-1])
    assert ending.is_alive(0.1)
    chief.run(chief.set_step, 5.0)  # as restored
    with pytest.raises(tf.errors.AbortedError, match="from step 7 to step 5"):
        ending.result()


def test_a_worker_does_not_wait_for_ever_for_a_chief_without_the_hook(
    pair: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.train.replicas.sync_replicas_hook._END_SECONDS", 0.1)
    _, of_other = ending_hooks(pair)
    of_other.before_end(pair[1].sessions[-1])
