"""The thread of the chief that applies the gradients of all replicas."""

from __future__ import annotations

from typing import Any

from thalweg import errors
from thalweg.train.coordinator import Coordinator
from thalweg.train.input.queue_runner import QueueRunner


class ChiefQueueRunner(QueueRunner):
    """A QueueRunner whose steps wait for gradients, which no queue can interrupt: only the end of the session does.

    So the coordinator does not wait for its thread, and a step that the session's end cancels is no error.
    """

    _joins = False

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None) -> None:
        try:
            super()._run(sess, enqueue_op, coord)
        except (errors.CancelledError, RuntimeError):  # RuntimeError: the session was closed between two steps.
            if coord is None or not coord.should_stop():
                raise
