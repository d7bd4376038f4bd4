"""Resident memory of the tasks of a cluster on one host: `python bench/cluster_memory.py`.

- A parameter server with 1 GB of variables that serves four workers, each of which reads all of them in every step;
  then the same while every step also updates 32 rows of each variable: an update copies what a worker still reads.
- Such a worker: what it has beside the arena of the parameter server, which it maps and does not copy.
- Growth of both over many scalar steps.

Memory is the resident set without shared memory, plus all pages of the process's own shared arena, whoever has touched
them: each page counts once, for the task that owns it.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
MB = 1 << 20
ROW = 64  # floats
_REST_SECONDS = 25  # Idle pages of an arena have gone back to the system by then.


class Memory(NamedTuple):
    """Bytes of a process."""

    private: int  # not shared with other tasks
    arena: int  # of its own shared arena
    mapped: int  # pages of other tasks' arenas that it has touched

    @property
    def own(self) -> int:
        """What would be free without the process."""
        return self.private + self.arena

    def __str__(self) -> str:
        own = f"{self.own / MB:8.1f} MB (private {self.private / MB:.1f}, arena {self.arena / MB:.1f})"
        return f"{own}, maps {self.mapped / MB:.1f} MB of others"


def memory_of(pid: int) -> Memory:
    """The memory of a process at present."""
    private = arena = mapped = 0
    arenas = set()
    place, inode, kind = "", "", ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            place, permissions, inode = words[0], words[1], words[4]
            is_arena = len(words) > 5 and words[5].startswith("/memfd:") and permissions[3] == "s"
            kind = ("own" if permissions[1] == "w" else "other") if is_arena else "private"
        elif words[0] == "Rss:":
            resident = int(words[1]) * 1024
            if kind == "private":
                private += resident
            elif kind == "other":
                mapped += resident
            elif inode not in arenas:
                arenas.add(inode)
                arena += _pages(pid, place, resident)
    return Memory(private, arena, mapped)


def _pages(pid: int, place: str, resident: int) -> int:
    """Bytes of the pages of a mapped memfd; those that the process has touched, if more may not be known."""
    first, _, last = place.partition("-")
    try:
        return os.stat(f"/proc/{pid}/map_files/{int(first, 16):x}-{int(last, 16):x}").st_blocks * 512
    except OSError:
        return resident


# The tasks.


def build(tf: Any, variables: int, rows: int, updates: bool) -> tuple[Any, Any]:
    """The initializer, and a worker's step: the sums of all variables, and updates of a few rows of each."""
    sums, changed = [], []
    values = []
    for i in range(variables):
        with tf.device("/job:ps/task:0"):
            # Different values: equal ones would share their memory, and constants would be in the graph.
            value = tf.random_uniform_initializer()
            w = tf.get_variable(f"w{i}", [rows, ROW], initializer=value, use_resource=True)
        values.append(w)
        sums.append(tf.reduce_sum(w.read_value()))
        if updates:
            with tf.device("/job:ps/task:0"):
                changed.append(tf.scatter_add(w, list(range(32)), tf.zeros([32, ROW])).op)
    return tf.variables_initializer(values), [tf.add_n(sums), *changed]


def build_scalar(tf: Any) -> tuple[Any, Any]:
    """The initializer and a step of one number."""
    with tf.device("/job:ps/task:0"):
        w = tf.get_variable("scalar", [], initializer=tf.zeros_initializer(), use_resource=True)
    return w.initializer, w.assign_add(tf.square(w.read_value()) * 0.0 + 1.0)


def serve(cluster: dict[str, list[str]], job: str, index: int, given: dict[str, Any]) -> None:
    """A task. Workers run as many steps as each line of the input says."""
    import thalweg as tf

    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    server = tf.train.Server(cluster, job, index)
    if job == "ps":
        print("ready", flush=True)
        server.join()
    initialize, step = (
        build_scalar(tf) if given["scalar"] else build(tf, given["variables"], given["rows"], given["updates"])
    )
    session = tf.Session(server.target)
    if index == 0:
        session.run(initialize)
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            session.run(step)
        print("done", flush=True)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


class Cluster:
    """A parameter server and workers."""

    def __init__(self, workers: int, **given: Any) -> None:
        """Starts all, one after the other: the first worker initializes the variables."""
        sockets = [socket.socket() for _ in range(workers + 1)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
        for each in sockets:
            each.close()
        cluster = {"ps": addresses[:1], "worker": addresses[1:]}
        self.tasks = []
        for job, index in [("ps", 0), *(("worker", index) for index in range(workers))]:
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
            task = subprocess.Popen(
                [sys.executable, __file__, "--task", json.dumps([cluster, job, index, given])],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            )  # fmt: skip
            self.tasks.append(task)
            self._read(task)

    @staticmethod
    def _read(task: subprocess.Popen[str]) -> None:
        assert task.stdout is not None
        if not task.stdout.readline():
            raise RuntimeError("a task has ended")

    def run(self, steps: int) -> None:
        """Lets all workers run steps at the same time."""
        for task in self.tasks[1:]:
            assert task.stdin is not None
            task.stdin.write(f"{steps}\n")
            task.stdin.flush()
        for task in self.tasks[1:]:
            self._read(task)

    def memory(self) -> list[Memory]:
        """That of the parameter server, then of the workers."""
        return [memory_of(task.pid) for task in self.tasks]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        for task in self.tasks:
            task.kill()
            task.wait()
            assert task.stdin is not None and task.stdout is not None
            task.stdin.close()
            task.stdout.close()


def serving(megabytes: int, workers: int, steps: int, updates: bool) -> tuple[list[Memory], Memory]:
    """Memory after some steps over variables of a size in all: of the parameter server, then of the workers.

    And that of the parameter server when nobody has used it for some seconds.
    """
    variables = max(1, megabytes // 64)
    rows = megabytes * MB // variables // (4 * ROW)
    with Cluster(workers, scalar=False, variables=variables, rows=rows, updates=updates) as cluster:
        cluster.run(steps)
        found = cluster.memory()
        time.sleep(_REST_SECONDS)
        return found, cluster.memory()[0]


def growth(before: int, steps: int) -> list[int]:
    """By how many bytes the parameter server and a worker grow in some steps, after others."""
    with Cluster(1, scalar=True) as cluster:
        cluster.run(before)
        first = cluster.memory()
        cluster.run(steps)
        return [now.own - then.own for now, then in zip(cluster.memory(), first, strict=True)]


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="of variables")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20, help="over these variables")
    parser.add_argument("--scalar-steps", type=int, default=100_000)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        serve(*json.loads(given.task))
        return
    for updates in (False, True):
        (ps, *workers), at_rest = serving(given.megabytes, given.workers, given.steps, updates)
        what = f"{given.megabytes} MB, {given.workers} workers, {'reads and updates' if updates else 'reads'}"
        print(f"{what}: parameter server {ps}", flush=True)
        print(f"{'':20} {_REST_SECONDS} s later {at_rest}", flush=True)
        for each in workers:
            print(f"{'':20} worker {each}", flush=True)
    grown = [f"{each / 1024:+.0f} KB" for each in growth(20_000, given.scalar_steps)]
    print(f"{given.scalar_steps} scalar steps: parameter server {grown[0]}, worker {grown[1]}")


if __name__ == "__main__":
    main()
