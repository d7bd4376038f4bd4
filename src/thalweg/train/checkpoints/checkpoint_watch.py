"""train.checkpoints_iterator: waits for the checkpoints that another program writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging
from thalweg.train.checkpoints.checkpoint_state import latest_checkpoint

_POLL_SECONDS = 1.0


@export("train.checkpoints_iterator")
def checkpoints_iterator(
    checkpoint_dir: Any,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yields the prefix of the newest checkpoint of a directory, each time there is a new one.

    Checkpoints that were written while the last one was used are skipped, but for the newest.

    Args:
        checkpoint_dir: The directory; it need not exist yet.
        min_interval_secs: At least so many seconds lie between two of them.
        timeout: How many seconds to wait for a new one; without end if None.
        timeout_fn: Called when that has passed; the iteration ends if it returns True. It ends at once if None.

    Yields:
        The prefix, as `latest_checkpoint` returns it.
    """
    last: str | None = None
    while True:
        found = _new_checkpoint(checkpoint_dir, last, timeout)
        if found is None:
            logging.info("Timed-out waiting for a checkpoint in %s.", checkpoint_dir)
            if timeout_fn is None or timeout_fn():
                return
            continue
        begin = time.monotonic()
        last = found
        yield found
        time.sleep(max(0.0, begin + min_interval_secs - time.monotonic()))


def _new_checkpoint(directory: Any, last: str | None, timeout: float | None) -> str | None:
    """The newest checkpoint as soon as it is not `last`; None after `timeout` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        found = latest_checkpoint(directory)
        if found is not None and found != last:
            return found
        left = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
        if left <= 0:
            return None
        time.sleep(left)
