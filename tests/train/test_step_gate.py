"""Consistent checkpoints: whole steps of all workers, while they go on; steps that were interrupted are noticed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import thalweg as tf
from tests.queues.waiting import InThread
from thalweg.train.checkpoints.step_gate import ancestors, gates

CONFIG = {"CPU": 2}


@pytest.fixture
def container() -> Iterator[str]:
    name = "step_gates"
    yield name
    tf.Session.reset("", [name])


class Worker:
    """Adds one to a variable on each of two devices in every step."""

    def __init__(self, container: str, index: int | None, workers: int, last_step: int | None = None) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container):
            with tf.device("/cpu:0"):
                self.step = tf.train.get_or_create_global_step()
                a = tf.get_variable("a", [2000], initializer=tf.zeros_initializer())
            with tf.device("/cpu:1"):
                b = tf.get_variable("b", [2000], initializer=tf.zeros_initializer())
            inner = tf.train.GradientDescentOptimizer(1.0)
            optimizer = tf.train.GatedOptimizer(inner, workers, index, patience_secs=0.5, last_step=last_step)
            self.values = [a, b, self.step]
            self.train_op = optimizer.minimize(-tf.reduce_sum(a) - tf.reduce_sum(b), global_step=self.step)
            self.saver = tf.train.Saver(sharded=True, consistent=True)
            self.initialize = tf.global_variables_initializer()
            self.join = tf.tables_initializer()
            self.enter = next(op for op in self.graph.get_operations() if op.name.endswith("enter_step_gate"))
        self.session = tf.Session(graph=self.graph, config=tf.ConfigProto(device_count=CONFIG))

    def save(self, folder: Path, number: int) -> str:
        with self.graph.as_default():
            path = self.saver.save(self.session, str(folder / "model"), global_step=number, write_meta_graph=False)
        assert path is not None
        return path


def test_permits_are_back_before_a_write_that_may_fail(container: str, tmp_path: Path) -> None:
    worker = Worker(container, 0, 1)
    writes = [op for op in worker.graph.get_operations() if op.type == "SaveV2"]
    put_back = {op for op in ancestors([worker.saver._release]) if op.type == "QueueEnqueueV2"}
    assert len(writes) == 2 and put_back
    for write in writes:
        assert put_back <= ancestors([write])
    worker.session.run(worker.initialize)
    worker.session.run(worker.join)
    for number in range(20):
        # The folder of the parts cannot be made: the write fails at once.
        with pytest.raises((tf.errors.OpError, ValueError)):
            worker.save(tmp_path / "file" / "below", number)
        worker.session.run(worker.train_op)
    assert counts(worker.save(tmp_path, 2)) == {20.0}


def counts(path: str) -> set[float]:
    reader = tf.train.load_checkpoint(path)
    return {float(x) for name in ("a", "b", "global_step") for x in reader.get_tensor(name).ravel()}


def test_checkpoints_have_whole_steps_of_workers_that_go_on(container: str, tmp_path: Path) -> None:
    workers = [Worker(container, index, 3) for index in range(3)]
    workers[0].session.run(workers[0].initialize)
    done = threading.Event()

    def train(worker: Worker) -> None:
        while not done.is_set():
            worker.session.run(worker.train_op)

    for worker in workers:
        worker.session.run(worker.join)
    threads = [threading.Thread(target=train, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    saved = [counts(workers[0].save(tmp_path, number)) for number in range(10)]
    done.set()
    for thread in threads:
        thread.join()
    assert all(len(found) == 1 for found in saved), saved
    assert len({found.pop() for found in saved}) > 1  # They did go on.
    for worker in workers:
        worker.session.close()


def test_an_interrupted_step_is_noticed_and_restored_from(container: str, tmp_path: Path) -> None:
    chief, other = (Worker(container, index, 2) for index in range(2))
    chief.session.run(chief.initialize)
    for worker in (chief, other):
        worker.session.run(worker.join)
        worker.session.run(worker.train_op)
    path = chief.save(tmp_path, 0)
    assert counts(path) == {2.0}
    other.session.run(other.enter)  # and its worker is killed
    with pytest.raises(tf.errors.AbortedError, match=r"within 0\.5 s"):
        chief.save(tmp_path, 1)
    with chief.graph.as_default():
        chief.saver.restore(chief.session, path)
    other.session.run(other.train_op)
    chief.session.run(chief.train_op)
    assert counts(chief.save(tmp_path, 2)) == {4.0}
    for worker in (chief, other):
        worker.session.close()


def test_a_worker_that_comes_back_tells_that_its_step_was_interrupted(container: str, tmp_path: Path) -> None:
    chief, other = (Worker(container, index, 2) for index in range(2))
    chief.session.run(chief.initialize)
    for worker in (chief, other):
        worker.session.run(worker.join)
    chief.saver.check(chief.session)
    other.session.run(other.join)  # Nothing was interrupted.
    chief.saver.check(chief.session)
    path = chief.save(tmp_path, 0)
    other.session.run(other.enter)
    other.session.run(other.join)
    with pytest.raises(tf.errors.AbortedError, match="lost its permit"):
        chief.saver.check(chief.session)
    with pytest.raises(tf.errors.AbortedError, match="lost its permit"):
        chief.save(tmp_path, 1)
    with chief.graph.as_default():
        chief.saver.restore(chief.session, path)
    chief.saver.check(chief.session)
    other.session.run(other.train_op)
    for worker in (chief, other):
        worker.session.close()


def test_a_save_that_fails_lets_steps_go_on(container: str, tmp_path: Path) -> None:
    worker = Worker(container, 0, 1)
    worker.session.run([worker.initialize, worker.join])
    with pytest.raises(ValueError, match="Parent directory"):
        worker.save(tmp_path / "missing", 0)
    worker.session.run(worker.train_op)
    assert counts(worker.save(tmp_path, 0)) == {1.0}
    worker.session.close()


def test_a_consistent_saver_needs_a_gate() -> None:
    tf.get_variable("v", [])
    with pytest.raises(ValueError, match="GatedOptimizer"):
        tf.train.Saver(consistent=True)
    with pytest.raises(ValueError, match=r"range\(2\), got 2"):
        tf.train.GatedOptimizer(tf.train.GradientDescentOptimizer(1.0), 2, 2)


@pytest.mark.parametrize("first", [True, False], ids=["before gradients", "beside gradients"])
def test_updates_of_layers_and_averages_are_part_of_the_step(tmp_path: Path, first: bool) -> None:
    """A saver that has all permits sees no update at all."""
    x = tf.placeholder(tf.float32, [4, 2])
    y = tf.layers.batch_normalization(x, training=True, momentum=0.5)
    moving = next(v for v in tf.global_variables() if "moving_mean" in v.name)
    step = tf.train.get_or_create_global_step()
    averages = tf.train.ExponentialMovingAverage(0.5)
    optimizer = tf.train.GatedOptimizer(
        tf.train.GradientDescentOptimizer(1.0), 1, 0, further_updates=lambda: averages.apply(tf.trainable_variables())
    )
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS) if first else []):
        train_op = optimizer.minimize(tf.reduce_sum(y * [1.0, 2.0]), step)
    (gate,) = gates()
    values = [*tf.global_variables()]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        before = session.run(values)
        gate.close(session)
        training = InThread(session.run, train_op, {x: [[1.0, 2.0]] * 4})
        assert training.is_waiting()
        for value, now in zip(before, session.run(values), strict=True):
            assert (value == now).all()
        gate.release(session)
        training.result()
        assert (session.run(moving) == [0.5, 1.0]).all()
        assert session.run(step) == 1
        beta = next(v for v in tf.trainable_variables() if "beta" in v.name)
        assert (session.run(averages.average(beta)) == session.run(beta) * 0.5).all()


def test_training_ends_at_the_last_step_of_any_worker(container: str) -> None:
    workers = [Worker(container, index, 3, last_step=50) for index in range(3)]
    workers[0].session.run(workers[0].initialize)
    barrier = threading.Barrier(3)

    def train(worker: Worker) -> None:
        worker.session.run(worker.join)
        barrier.wait()
        for _ in range(40):
            worker.session.run(worker.train_op)

    threads = [threading.Thread(target=train, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {float(x) for value in workers[0].session.run(workers[0].values) for x in value.ravel()} == {50.0}
    for worker in workers:
        worker.session.close()


def test_a_last_step_needs_the_global_step() -> None:
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    optimizer = tf.train.GatedOptimizer(tf.train.GradientDescentOptimizer(1.0), 1, 0, last_step=3)
    with pytest.raises(ValueError, match="needs the global_step"):
        optimizer.minimize(tf.square(w))
