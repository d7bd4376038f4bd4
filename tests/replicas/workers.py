"""Workers as threads of one process: each with a graph and a session of its own, over a container that they share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf


def run_workers(*bodies: Callable[[], Any]) -> list[Any]:
    """Runs each function in a thread; returns the results, or raises the first exception."""
    results: list[Any] = [None] * len(bodies)
    errors: list[BaseException] = []

    def run(index: int, body: Callable[[], Any]) -> None:
        try:
            results[index] = body()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=pair, name=f"worker {pair[0]}") for pair in enumerate(bodies)]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        # One failed worker may leave the others waiting for ever.
        while thread.is_alive() and not errors:
            thread.join(0.05)
    if errors:
        raise errors[0]
    return results


class Replica:
    """One worker's copy of a small model with a dense and a sparse variable, in a graph of its own.

    `batch(worker, step)` gives the inputs, `Replica.feeds` the feeds of a step.
    """

    def __init__(self, container: str, worker: int, make_optimizer: Callable[[Any], Any], opt: Any = None) -> None:
        self.worker = worker
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container), tf.device("/cpu:0"):
            self.step = tf.train.get_or_create_global_step()
            self.build()
            self.inner = tf.train.GradientDescentOptimizer(0.25) if opt is None else opt()
            self.optimizer = make_optimizer(self.inner)
            self.train_op = self.optimizer.minimize(self.loss, global_step=self.step)

    def build(self) -> None:
        self.x = tf.placeholder(tf.float32, [4, 3])
        self.y = tf.placeholder(tf.float32, [4])
        self.ids = tf.placeholder(tf.int64, [4])
        self.w = tf.get_variable("w", [3], initializer=tf.zeros_initializer())
        self.table = tf.get_variable("table", [6, 3], initializer=tf.ones_initializer())
        rows = tf.nn.embedding_lookup(self.table, self.ids)
        predicted = tf.linalg.matvec(self.x, self.w) + tf.reduce_sum(rows * self.x, 1)
        self.loss = tf.reduce_mean(tf.square(predicted - self.y))

    def feeds(self, step: int, worker: int | None = None) -> dict[Any, Any]:
        x, y, ids = batch(self.worker if worker is None else worker, step)
        return {self.x: x, self.y: y, self.ids: ids}


def batch(worker: int, step: int) -> tuple[Any, Any, Any]:
    """The inputs of a worker's step."""
    rng = np.random.RandomState(1000 * worker + step)
    return rng.randn(4, 3).astype(np.float32), rng.randn(4).astype(np.float32), rng.permutation(6)[:4]
