"""The time from `thalweg launch --ps 2 --workers 4` to all workers' first steps: `python bench/launch_ready.py`.

Each worker trains a perceptron whose variables are on the PS tasks (784-128-10, fed), with a MonitoredTrainingSession,
and notes the time when its session is ready, and when it has run its first step. Printed are medians of the times when
the last worker has come that far, counted from the start of the command.

`python bench/launch_ready.py --on ray`, in an environment that has Ray, starts a Ray cluster of four nodes here, and
compares the steps a second of all workers there with those of a local launch, in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def task_program(steps: int) -> None:
    """What every task runs: prints when it was ready, when its first step ended, and its steps a second."""
    import numpy as np

    import thalweg as tf

    task = tf.distribute.start_task(config=tf.ConfigProto(intra_op_parallelism_threads=1))
    if task.job_name == "ps":
        task.serve()
        return
    with tf.device(tf.train.replica_device_setter(worker_device=task.device, cluster=task.cluster)):
        images, labels = tf.placeholder(tf.float32, [64, 784]), tf.placeholder(tf.int64, [64])
        scores = tf.layers.dense(tf.layers.dense(images, 128, tf.nn.relu), 10)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, scores)
        train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, tf.train.get_or_create_global_step())
    feeds = {images: np.zeros([64, 784], np.float32), labels: np.zeros([64], np.int64)}
    with tf.train.MonitoredTrainingSession(task.server.target, task.is_chief) as session:
        ready = time.monotonic()
        session.run(train_op, feeds)
        stepped = time.monotonic()
        for _ in range(steps):
            session.run(train_op, feeds)
        speed = steps / max(1e-9, time.monotonic() - stepped)
    print(f"MEASURED {ready} {stepped} {speed}", flush=True)
    task.leave()


def launch(workers: int, steps: int, options: list[str]) -> tuple[float, float, float]:
    """Seconds until all were ready, until all had stepped, and the steps a second of all together."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"))
    # An installed package has its bytecode; a checkout must be allowed to keep it, too.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "thalweg", "launch", "--ps", "2", "--workers", str(workers), "--restarts", "0",
               *options, str(Path(__file__).resolve()), "--task", str(steps)]  # fmt: skip
    begin = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    found = re.findall(r"MEASURED (\S+) (\S+) (\S+)", done.stdout)
    if len(found) != workers:
        raise RuntimeError(f"{len(found)} of {workers} workers have reported:\n{done.stdout}{done.stderr}")
    ready, stepped, speeds = (list(map(float, column)) for column in zip(*found, strict=True))
    return max(ready) - begin, max(stepped) - begin, sum(speeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2000, help="with --on: of each worker, for steps/s")
    parser.add_argument("--on", choices=["ray"], help="compare steps/s there with those of a local launch")
    parser.add_argument("--launch", nargs="*", default=[], help="further options of `thalweg launch`, without dashes")
    parser.add_argument("--task", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task is not None:
        task_program(args.task)
        return
    options = [f"--{option}" for option in args.launch]
    if args.on is None:
        show_start(args.workers, args.rounds, options)
        return
    with ray_cluster() as address:
        remote = [*options, "--on", "ray", "--ray-address", address]
        pairs = [
            (launch(args.workers, args.steps, options)[2], launch(args.workers, args.steps, remote)[2])
            for _ in range(args.rounds)
        ]
    for place, speeds in zip(("local", "on Ray"), zip(*pairs, strict=True), strict=True):
        print(f"{place:>8}: {statistics.median(speeds):.0f} steps/s of {args.workers} workers")
    print(f"on Ray / local, median of pairs: {statistics.median(there / here for here, there in pairs):.3f}")


def show_start(workers: int, rounds: int, options: list[str]) -> None:
    """Prints how long launches take to come to their first steps."""
    launch(workers, 0, options)  # The first one only warms the page cache.
    runs = [launch(workers, 0, options) for _ in range(rounds)]
    ready, stepped, _ = zip(*runs, strict=True)
    print(f"2 PS tasks and {workers} workers, medians of {rounds} launches:")
    print(f"all sessions ready {statistics.median(ready):.2f} s (least {min(ready):.2f})")
    print(f"all have stepped {statistics.median(stepped):.2f} s (least {min(stepped):.2f})")


@contextlib.contextmanager
def ray_cluster() -> Iterator[str]:
    """The address of a Ray cluster on this machine, which lasts as long as the context."""
    environment = dict(os.environ, PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
        [sys.executable, "-m", "tests.dist.ray_cluster"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        word, _, address = process.stdout.readline().strip().partition(" ")
        if word != "ready":
            process.wait()
            log.seek(0)
            raise RuntimeError(f"The Ray cluster has not started: {log.read()[-2000:]}")
        yield address


if __name__ == "__main__":
    main()
