"""SyncReplicasOptimizer: workers as threads train as one process does; backup workers; what is in the graph."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.replicas.workers import Replica, batch, run_workers

STEPS = 6


def sync(aggregate: int, total: int | None = None, **arguments: Any) -> Any:
    return lambda opt: tf.train.SyncReplicasOptimizer(opt, aggregate, total, **arguments)


def train(replica: Replica, is_chief: bool, num_tokens: int = 0, steps: int = STEPS, hooks: Any = ()) -> Any:
    """Trains until the global step is `steps`; returns the variables at the end, if this is the chief."""
    with replica.graph.as_default():
        hook = replica.optimizer.make_session_run_hook(is_chief, num_tokens)
        with tf.train.MonitoredTrainingSession(is_chief=is_chief, hooks=[*hooks, hook]) as session:
            step = 0
            while step < steps:
                step = session.run(replica.train_op, replica.feeds(step))
            fetches = [replica.w, replica.table, replica.step]
            return session.run_step_fn(lambda step_context: step_context.session.run(fetches)) if is_chief else None


def train_alone(workers: int, opt: Any = None, steps: int = STEPS) -> Any:
    """The same by one process: the gradients of all workers' batches, averaged."""
    with tf.Graph().as_default():
        towers: list[Any] = []
        for _ in range(workers):
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                tower = Replica.__new__(Replica)
                tower.build()
                towers.append(tower)
        variables = [towers[0].w, towers[0].table]
        grads = [tf.gradients(tower.loss, variables) for tower in towers]
        w_grad = tf.add_n([g[0] for g in grads]) / workers
        # The mean of a row is over the workers that have it.
        rows = tf.concat([g[1].indices for g in grads], 0)
        values = tf.concat([g[1].values for g in grads], 0)
        count = tf.unsorted_segment_sum(tf.ones_like(rows, tf.float32), rows, 6)
        ids, where = tf.unique(rows)
        means = tf.unsorted_segment_sum(values, where, tf.size(ids)) / tf.gather(count, ids)[:, None]
        pairs = [(w_grad, variables[0]), (tf.IndexedSlices(means, ids), variables[1])]
        update = (tf.train.GradientDescentOptimizer(0.25) if opt is None else opt()).apply_gradients(pairs)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(steps):
                inputs = [batch(worker, step) for worker in range(workers)]
                feeds = {t: v for tower, b in zip(towers, inputs, strict=True)
                         for t, v in zip((tower.x, tower.y, tower.ids), b, strict=True)}  # fmt: skip
                session.run(update, feeds)
            return session.run(variables)


def test_two_workers_are_one_process_bit_for_bit(container: str) -> None:
    replicas = [Replica(container, worker, sync(2, worker_index=worker)) for worker in range(2)]
    (w, table, step), _ = run_workers(*(lambda r=r: train(r, r.worker == 0) for r in replicas))
    alone = train_alone(2)
    assert step == STEPS
    np.testing.assert_array_equal(w, alone[0])
    np.testing.assert_array_equal(table, alone[1])


def test_four_workers_with_momentum_are_one_process_bit_for_bit(container: str) -> None:
    def momentum() -> Any:
        return tf.train.MomentumOptimizer(0.05, 0.9)

    replicas = [Replica(container, worker, sync(4, worker_index=worker), momentum) for worker in range(4)]
    (w, table, step), *_ = run_workers(*(lambda r=r: train(r, r.worker == 0) for r in replicas))
    alone = train_alone(4, momentum)
    assert step == STEPS
    np.testing.assert_array_equal(w, alone[0])
    np.testing.assert_array_equal(table, alone[1])


def test_towers_of_one_graph_share_accumulators_and_tokens() -> None:
    """Replicas within one graph and session, each with a thread of its own."""
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    inner = tf.train.GradientDescentOptimizer(1.0)
    towers = []
    for tower in range(3):
        opt = tf.train.SyncReplicasOptimizer(inner, 3, worker_index=tower)
        towers.append((opt, opt.minimize(w * float(tower + 1), global_step=step)))
    assert [opt._local_step.op.name for opt, _ in towers] == [
        "sync_rep_local_step", "sync_rep_local_step_1", "sync_rep_local_step_2"
    ]  # fmt: skip
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(towers[0][0].chief_init_op)
        session.run([opt.local_step_init_op for opt, _ in towers[1:]])
        towers[0][0].get_chief_queue_runner().create_threads(session, coord=coord, daemon=True, start=True)

        def worker(train_op: Any) -> None:
            while session.run(train_op) < 5:
                pass

        run_workers(*(lambda op=op: worker(op) for _, op in towers))
        assert session.run([step, w]) == [5, -10.0]  # Five times the mean of 1, 2 and 3.
        coord.request_stop()


class Slow:
    """A worker whose gradient is 1000 and waits for a signal; the others' is 1."""

    def __init__(self, container: str, is_slow: bool, worker_index: int | None) -> None:
        self.gate = threading.Event()
        self.started = threading.Event()
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container):
            self.step = tf.train.get_or_create_global_step()
            self.w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
            factor = tf.py_func(self._wait, [], tf.float32, stateful=True) if is_slow else 1.0
            opt = tf.train.GradientDescentOptimizer(1.0)
            self.optimizer = tf.train.SyncReplicasOptimizer(opt, 2, 3, worker_index=worker_index)
            self.train_op = self.optimizer.apply_gradients([(tf.reshape(factor, []), self.w)], self.step)

    def _wait(self) -> Any:
        self.started.set()
        assert self.gate.wait(60)
        return np.float32(1000.0)


@pytest.mark.parametrize(("num_tokens", "own_tokens"), [(-1, False), (0, False), (-1, True)])
def test_the_gradients_of_a_slow_backup_worker_are_dropped(container: str, num_tokens: int, own_tokens: bool) -> None:
    fast = [Slow(container, False, worker if own_tokens else None) for worker in range(2)]
    slow = Slow(container, True, 2 if own_tokens else None)
    values: list[Any] = []

    def worker(replica: Slow, is_chief: bool) -> None:
        with replica.graph.as_default():
            hook = replica.optimizer.make_session_run_hook(is_chief, num_tokens)
            with tf.train.MonitoredTrainingSession(is_chief=is_chief, hooks=[hook]) as session:
                if replica is slow:
                    step = session.run(replica.train_op)
                    # With tokens of its own it goes on with the newest step (the last token may be on its way), else
                    # with any that is left over.
                    assert step in ((9, 10) if own_tokens else range(11))
                else:
                    assert slow.started.wait(60)
                    while session.run(replica.train_op) < 10:
                        pass
                    slow.gate.set()
                if is_chief:
                    done.wait(60)
                    raw = session.run_step_fn(lambda step_context: step_context.session)
                    values.extend(raw.run([replica.step, replica.w]))
                else:
                    left.append(replica)
                    if len(left) == 2:
                        done.set()

    left: list[Any] = []
    done = threading.Event()
    run_workers(lambda: worker(fast[0], True), lambda: worker(fast[1], False), lambda: worker(slow, False))
    # Ten steps of exactly the fast workers' gradients; the slow one's came for step 0.
    assert values == [10, -10.0]


def test_fewer_workers_than_gradients_contribute_several_times(container: str) -> None:
    replicas = [Replica(container, worker, sync(4, 2)) for worker in range(2)]
    (_, _, step), _ = run_workers(*(lambda r=r: train(r, r.worker == 0, num_tokens=2) for r in replicas))
    assert step == STEPS
    with replicas[0].graph.as_default(), pytest.raises(ValueError, match=r"1 \(given\) vs 2 \(needed\)"):
        replicas[0].optimizer.get_init_tokens_op(1)


class StopByAnEarlyLook(tf.train.SessionRunHook):
    """Stops as StopAtStepHook does where the global step is read before the rest of the step runs."""

    def __init__(self, last_step: int) -> None:
        self._last_step = last_step

    def begin(self) -> None:
        self._step = tf.train.get_global_step()

    def before_run(self, run_context: Any) -> None:
        self._seen = run_context.session.run(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._seen + 1 >= self._last_step:
            run_context.request_stop()


@pytest.mark.parametrize("own_tokens", [True, False])
def test_a_backup_worker_that_is_late_for_the_last_step_ends(container: str, own_tokens: bool) -> None:
    """It has looked at the global step when it began, and so begins another step, for which no token would come."""
    fast = [Slow(container, False, worker if own_tokens else None) for worker in range(2)]
    slow = Slow(container, True, 2 if own_tokens else None)
    ended = [threading.Event() for _ in fast]

    def worker(replica: Slow, is_chief: bool) -> None:
        with replica.graph.as_default():
            stop = StopByAnEarlyLook(5) if replica is slow else tf.train.StopAtStepHook(last_step=5)
            hooks = [replica.optimizer.make_session_run_hook(is_chief), stop]
            with tf.train.MonitoredTrainingSession(is_chief=is_chief, hooks=hooks) as session:
                assert replica is slow or slow.started.wait(60)
                while not session.should_stop():
                    session.run(replica.train_op)
        if replica is not slow:
            ended[fast.index(replica)].set()

    def open_gate() -> None:
        for each in ended:
            assert each.wait(60)
        slow.gate.set()

    run_workers(lambda: worker(fast[0], True), lambda: worker(fast[1], False), lambda: worker(slow, False), open_gate)


class ChiefThatWaits(tf.train.SessionRunHook):
    """Lets the chief begin synchronous training only when a worker has given gradients and waits for its token."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def begin(self) -> None:
        self._held = [accumulator.num_accumulated() for accumulator in self._replica.optimizer._accumulators]

    def after_create_session(self, session: Any, coord: Any) -> None:
        while min(session.run(self._held)) < 1:
            assert not coord.wait_for_stop(0.001)


@pytest.mark.parametrize("aggregate", [2, 4])
def test_a_worker_may_begin_before_the_chief(container: str, aggregate: int) -> None:
    """The chief drops the early gradient, as it may be one of a lost session, and the worker gets another token."""
    chief, worker = [Replica(container, index, sync(aggregate, 2)) for index in range(2)]
    tokens = aggregate - 2
    (_, _, step), _ = run_workers(
        lambda: train(chief, True, tokens, hooks=[ChiefThatWaits(chief)]), lambda: train(worker, False)
    )
    assert step == STEPS


def test_moving_averages_follow_the_steps(container: str) -> None:
    def averaged(opt: Any) -> Any:
        average = tf.train.ExponentialMovingAverage(0.5)
        variables = tf.trainable_variables()
        return tf.train.SyncReplicasOptimizer(opt, 1, variable_averages=average, variables_to_average=variables)

    replica = Replica(container, 0, averaged)
    with replica.graph.as_default():
        hook = replica.optimizer.make_session_run_hook(True, 0)
        average = replica.optimizer._variable_averages.average(replica.w)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            expected = np.zeros(3, np.float32)
            for step in range(4):
                session.run(replica.train_op, replica.feeds(step))
                expected = 0.5 * expected + 0.5 * session.run(replica.w)
                np.testing.assert_allclose(session.run(average), expected, rtol=1e-6)


def test_replicas_that_share_tokens_make_exactly_so_many_steps(container: str) -> None:
    replicas = [Replica(container, worker, sync(3)) for worker in range(3)]
    (_, _, step), *_ = run_workers(*(lambda r=r: train(r, r.worker == 0, num_tokens=-1, steps=20) for r in replicas))
    assert step == 20


def test_a_chief_that_comes_back_gives_lost_tokens_again(container: str) -> None:
    replicas = [Replica(container, worker, sync(2, worker_index=worker)) for worker in range(2)]
    chief, worker = (tf.Session(graph=replica.graph) for replica in replicas)
    ops = [replica.optimizer for replica in replicas]
    with replicas[0].graph.as_default():
        init_tokens = ops[0].get_init_tokens_op()
        chief.run(tf.global_variables_initializer())
    chief.run(ops[0].chief_init_op)
    chief.run(init_tokens)
    worker.run(ops[1].local_step_init_op)
    queues = [replica.graph.get_operation_by_name("sync_token_q_1").outputs[0] for replica in replicas]
    with replicas[1].graph.as_default():
        size = tf.raw_ops.QueueSizeV2(handle=queues[1])
    assert worker.run(size) == 0
    chief.run(init_tokens)
    assert worker.run(size) == 1
    # A new session of the worker does not begin with an old token.
    worker.run(ops[1].local_step_init_op)
    assert worker.run(size) == 0
    for session in (chief, worker):
        session.close()
