"""StaleSynchronousOptimizer: no worker is further ahead than the bound; workers leave and come back."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.replicas.workers import Replica, run_workers

LEFT = np.iinfo(np.int64).max


def replicas_of(container: str, count: int, staleness: int) -> list[Replica]:
    def make(worker: int) -> Any:
        return lambda opt: tf.train.StaleSynchronousOptimizer(opt, count, worker, staleness)

    return [Replica(container, worker, make(worker)) for worker in range(count)]


def open_session(replica: Replica, is_chief: bool) -> Any:
    hooks = [replica.optimizer.make_session_run_hook()]
    return tf.train.MonitoredTrainingSession(is_chief=is_chief, hooks=hooks)


def raw(session: Any, fetches: Any) -> Any:
    return session.run_step_fn(lambda step_context: step_context.session.run(fetches))


@pytest.mark.parametrize("staleness", [0, 2])
def test_no_worker_is_further_ahead_than_the_bound(container: str, staleness: int) -> None:
    replicas = replicas_of(container, 3, staleness)
    lead = []

    def work(replica: Replica) -> Any:
        rng = np.random.RandomState(replica.worker)
        with replica.graph.as_default(), open_session(replica, replica.worker == 0) as session:
            for step in range(25):
                session.run(replica.train_op, replica.feeds(step))
                # Other clocks only grow, so that a bound that held when the step ended still does.
                lead.append(step + 1 - min(raw(session, replica.optimizer.clocks)))
                time.sleep(rng.choice([0.0, 0.003]))
            return raw(session, replica.step)

    assert max(run_workers(*(lambda r=r: work(r) for r in replicas))) == 75
    assert len(lead) == 75
    assert max(lead) <= staleness


def test_a_fast_worker_waits_at_the_bound_until_the_slow_one_moves(container: str) -> None:
    replicas = replicas_of(container, 2, 3)
    go, joined = threading.Event(), threading.Event()
    steps: list[int] = []

    def fast() -> None:
        with replicas[0].graph.as_default(), open_session(replicas[0], True) as session:
            assert joined.wait(60)
            for step in range(6):
                session.run(replicas[0].train_op, replicas[0].feeds(step))
                steps.append(step)

    def slow() -> None:
        with replicas[1].graph.as_default(), open_session(replicas[1], False) as session:
            joined.set()
            while raw(session, replicas[1].optimizer.clocks)[0] < 4:
                time.sleep(0.01)
            # The fast worker has ended its fourth step, and may not begin a fifth.
            assert not go.wait(0.2)
            assert steps == [0, 1, 2]
            assert raw(session, replicas[1].optimizer.clocks).tolist() == [4, 0]
            session.run(replicas[1].train_op, replicas[1].feeds(0))
            while raw(session, replicas[1].optimizer.clocks)[0] < 5:
                time.sleep(0.01)
            assert raw(session, replicas[1].optimizer.clocks).tolist() == [5, 1]
        # The end of the slow worker lets the fast one run without waiting.

    run_workers(fast, slow)
    assert steps == list(range(6))


def test_a_worker_that_comes_back_goes_on_with_the_slowest(container: str) -> None:
    replicas = replicas_of(container, 3, 5)
    sessions = []
    for replica in replicas:
        with replica.graph.as_default():
            sessions.append(tf.Session(graph=replica.graph))
            if replica.worker == 0:
                sessions[0].run(tf.global_variables_initializer())
    chief, second, third = sessions
    clocks = replicas[0].optimizer.clocks

    def step(worker: int, times: int) -> None:
        for i in range(times):
            sessions[worker].run(replicas[worker].train_op, replicas[worker].feeds(i))

    step(0, 4)
    step(1, 5)
    assert chief.run(clocks).tolist() == [4, 5, 0]
    third.run(replicas[2].optimizer.join_op)
    assert chief.run(clocks).tolist() == [4, 5, 4]
    second.run(replicas[1].optimizer.join_op)
    assert chief.run(clocks).tolist() == [4, 5, 4]
    third.run(replicas[2].optimizer.leave_op)
    chief.run(replicas[0].optimizer.leave_op)
    assert chief.run(clocks).tolist() == [LEFT, 5, LEFT]
    step(1, 4)
    chief.run(replicas[0].optimizer.join_op)
    assert chief.run(clocks).tolist() == [9, 9, LEFT]
    for replica, session in zip(replicas[:2], sessions, strict=False):
        session.run(replica.optimizer.leave_op)
    third.run(replicas[2].optimizer.join_op)
    assert chief.run(clocks).tolist() == [LEFT, LEFT, 0]
    for session in sessions:
        session.close()


def test_one_worker_never_waits_and_slots_are_those_of_the_optimizer() -> None:
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    opt = tf.train.StaleSynchronousOptimizer(tf.train.MomentumOptimizer(1.0, 0.5), 1, 0, 0)
    train_op = opt.minimize(2.0 * w)
    assert isinstance(train_op, tf.Operation)
    assert opt.get_slot_names() == ["momentum"]
    assert opt.get_slot(w, "momentum") is not None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        session.run(train_op)
        assert session.run([w, opt.clocks[0]]) == [-5.0, 2]


def test_clocks_and_queues_are_beside_the_global_step() -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:3")):
        w = tf.get_variable("w", [])
        step = tf.train.get_or_create_global_step()
        opt = tf.train.StaleSynchronousOptimizer(tf.train.GradientDescentOptimizer(1.0), 2, 1, 0)
        opt.minimize(2.0 * w, global_step=step)
    assert step.device == opt.clocks.device == "/job:ps/task:1"
    graph = tf.get_default_graph()
    for name in ("stale_synchronous_wake_0", "stale_synchronous_wake_1", "stale_synchronous/while/Switch"):
        assert graph.get_operation_by_name(name).device == "/job:ps/task:1"


@pytest.mark.parametrize("numbers", [(0, 0, 0), (2, 2, 0), (2, -1, 0), (2, 0, -1), (2, 0, 1.5), (True, 0, 0)])
def test_numbers_out_of_range_are_refused(numbers: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        tf.train.StaleSynchronousOptimizer(tf.train.GradientDescentOptimizer(1.0), *numbers)


def test_the_hook_needs_gradients() -> None:
    opt = tf.train.StaleSynchronousOptimizer(tf.train.GradientDescentOptimizer(1.0), 1, 0, 0)
    with pytest.raises(ValueError, match="apply_gradients"):
        opt.make_session_run_hook().begin()
    with pytest.raises(ValueError, match="apply_gradients"):
        opt.clocks  # noqa: B018
    with pytest.raises(TypeError, match="Optimizer"):
        tf.train.StaleSynchronousOptimizer(3, 1, 0, 0)
