"""Members of collective groups that run sessions of their own, in the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import thalweg as tf


def each_on_its_own(
    workers: Sequence[tf.train.Server], build: Callable[[int], Any], runs: int = 1, tasks: Sequence[int] | None = None
) -> list[Any]:
    """Runs a member's graph on each worker, by a session of its own: the last values, or the errors.

    Args:
        workers: The workers.
        build: Makes the graph of a worker, by its place among them.
        runs: How often to run it.
        tasks: Their task indices, if they are not all workers of the cluster.
    """
    results: list[Any] = [None] * len(workers)

    def run(index: int) -> None:
        with tf.Graph().as_default():
            with tf.device(f"/job:worker/task:{tasks[index] if tasks else index}"):
                fetched = build(index)
            with tf.Session(workers[index].target) as sess:
                try:
                    for _ in range(runs):
                        results[index] = sess.run(fetched)
                except tf.errors.OpError as e:
                    results[index] = e

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
