"""One task of a test's cluster, in a process of its own: `python -m tests.dist.task_process '{"cluster": …}'`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

import thalweg as tf


def _end_with_parent(parent: int) -> None:
    """A test that is killed must leave no processes behind."""
    while os.getppid() == parent:
        threading.Event().wait(0.5)
    os._exit(1)


def start_server(given: dict[str, Any]) -> Any:
    """Starts the server that the first argument describes, and says so."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    config = tf.ConfigProto(device_count={"CPU": given.get("devices", 1)}, intra_op_parallelism_threads=1)
    server = tf.train.Server(given["cluster"], given["job"], given["index"], config=config)
    print("ready", server.target, flush=True)
    return server


if __name__ == "__main__":
    start_server(json.loads(sys.argv[1])).join()
