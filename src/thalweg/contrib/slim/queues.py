"""tf.contrib.slim.queues.QueueRunners: queue runners of a session, for the duration of a `with` block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.slim.queues.QueueRunners")
@contextlib.contextmanager
def QueueRunners(session: Any) -> Iterator[None]:
    """Starts the queue runners of the graph, and stops them at the end of the block."""
    coordinator = tf.train.Coordinator()
    threads = [
        thread
        for runner in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        for thread in runner.create_threads(session, coord=coordinator, daemon=True, start=True)
    ]
    try:
        yield
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=120, ignore_live_threads=True)
