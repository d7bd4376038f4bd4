"""A task of a benchmark's cluster: `task_process.py FRAMEWORK CLUSTER JOB INDEX [CASE COUNT]`.

It runs in the framework's own Python. Without a case it only serves. With one, it is a further worker that runs the
case's steps until it is ended, as long as the worker that is measured runs steps, which that one counts in the file
COUNT: it takes no core from another framework whose turn it is. It ends with the process that has started it.
"""

import json
import os
import sys
import threading
import time


def _end_with_parent(parent):
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def main():
    """Serves, or works."""
    framework, cluster, job, index = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    from worker import load

    tf, _ = load(framework, 1)
    from cases import clusters

    if len(sys.argv) == 5:
        server = clusters.start_server(tf, cluster, job, index)
        print("ready", flush=True)
        server.join()
    step = clusters.PROGRAMS[sys.argv[5]](tf, cluster, index)
    step()
    print("ready", flush=True)
    counted, at = 0, time.monotonic()
    count = clusters.step_count(sys.argv[6])
    while True:
        if count[0] != counted:
            counted, at = count[0], time.monotonic()
        if time.monotonic() - at < 0.05:
            step()
        else:
            time.sleep(0.002)


if __name__ == "__main__":
    main()
