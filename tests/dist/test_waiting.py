"""Threads that wait for short steps read from the network themselves: kernels that wait for other tasks still end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.dist.processes import Processes, free_ports

SHORT_STEPS = 100  # after which a step counts as short


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker of this process that is its own master, beside a PS task in another one."""
    with Processes(ps=1) as cluster:
        server = tf.train.Server({**cluster.jobs, "worker": [f"localhost:{free_ports(1)[0]}"]}, "worker", 0)
        with tf.Graph().as_default(), tf.Session(server.target) as session, tf.device("/job:ps/task:0"):
            session.run(tf.constant(0))  # The connection stays.
        yield server.target
        server.stop()


class Step:
    """Reads a number of the PS task, hands it to a Python function of the worker, and adds the result to the number."""

    def __init__(self, session_target: str, function: Any) -> None:
        with tf.Graph().as_default() as graph:
            with tf.device("/job:ps/task:0"):
                value = tf.get_variable("value", [], initializer=tf.zeros_initializer(), use_resource=True)
            with tf.device("/job:worker/task:0"):
                change = tf.py_func(function, [value.read_value()], tf.float32)
            with tf.device("/job:ps/task:0"):
                self.train = value.assign_add(tf.reshape(change, []), read_value=False)
                self.value = value.read_value()
                self.queue = tf.FIFOQueue(10, tf.int32, shapes=())
                self.taken = self.queue.dequeue()
                self.put = self.queue.enqueue(7)
            init = tf.global_variables_initializer()
        self.session = tf.Session(session_target, graph=graph)
        self.session.run(init)

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *exception: object) -> None:
        self.session.close()


def test_a_kernel_may_run_another_step_of_the_session(target: str) -> None:
    def nested(value: Any) -> Any:
        return step.session.run(step.value) - value + np.float32(1)

    with Step(target, nested) as step:
        for _ in range(SHORT_STEPS):
            step.session.run(step.train)
        assert step.session.run(step.value) == SHORT_STEPS


def test_a_kernel_may_wait_for_a_step_that_began_before(target: str) -> None:
    def wait(value: Any) -> Any:
        if value == SHORT_STEPS:
            step.session.run(step.put)
            assert ended.wait(30)
        return np.float32(1)

    def take() -> None:
        taken.append(step.session.run(step.taken))
        ended.set()

    taken: list[Any] = []
    ended = threading.Event()
    with Step(target, wait) as step:
        for _ in range(SHORT_STEPS):
            step.session.run(step.train)
        other = threading.Thread(target=take)
        other.start()
        step.session.run(step.train)
        other.join()
    assert taken == [7]


def test_a_kernel_that_takes_longer_than_the_patience_of_tasks_loses_no_connection(target: str) -> None:
    def wait(value: Any) -> Any:
        if value == SHORT_STEPS:
            time.sleep(4)
        return np.float32(1)

    with Step(target, wait) as step:
        for _ in range(SHORT_STEPS + 1):
            step.session.run(step.train)
        assert step.session.run(step.value) == SHORT_STEPS + 1


def test_many_threads_wait_for_short_steps(target: str) -> None:
    def count() -> None:
        for _ in range(SHORT_STEPS):
            step.session.run(step.train)

    with Step(target, lambda value: np.float32(1)) as step:
        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert step.session.run(step.value) == 4 * SHORT_STEPS
