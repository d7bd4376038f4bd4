"""One task of a test's cluster, in a process of its own: `python -m tests.dist.task_process '{"cluster": …}'`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import thalweg as tf


def _end_with_parent(parent: int) -> None:
    """A test that is killed must leave no processes behind."""
    while os.getppid() == parent:
        threading.Event().wait(0.5)
    os._exit(1)


def main() -> None:
    """Starts the server, says so, and serves until it is killed."""
    given = json.loads(sys.argv[1])
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    config = tf.ConfigProto(device_count={"CPU": given.get("devices", 1)}, intra_op_parallelism_threads=1)
    server = tf.train.Server(given["cluster"], given["job"], given["index"], config=config)
    print("ready", server.target, flush=True)
    server.join()


if __name__ == "__main__":
    main()
