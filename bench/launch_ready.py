"""The time from `thalweg launch --ps 2 --workers 4` to all workers' first steps: `python bench/launch_ready.py`.

Each worker trains a perceptron whose variables are on the PS tasks (784-128-10, fed), with a MonitoredTrainingSession,
and notes the time when its session is ready, and when it has run its first step. Printed are medians of the times when
the last worker has come that far, counted from the start of the command.

`python bench/launch_ready.py --on ray`, in an environment that has Ray, starts a Ray cluster of four nodes here, and
compares the steps a second of all workers there with those of a local launch, in turn, for several models. Counted are
the steps in the time in which all workers were training: workers do not begin and end together.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SLOTS = 10  # of a second, in which steps are counted


def perceptron() -> tuple[Any, dict[Any, Any]]:
    """A loss of a perceptron, and what to feed."""
    import numpy as np

    import thalweg as tf

    images, labels = tf.placeholder(tf.float32, [64, 784]), tf.placeholder(tf.int64, [64])
    scores = tf.layers.dense(tf.layers.dense(images, 128, tf.nn.relu), 10)
    feeds = {images: np.zeros([64, 784], np.float32), labels: np.zeros([64], np.int64)}
    return tf.losses.sparse_softmax_cross_entropy(labels, scores), feeds


def null_model(size: int) -> tuple[Any, dict[Any, Any]]:
    """A loss of two variables of so many elements, one on each PS task, which costs little besides their transfer."""
    import thalweg as tf

    variables = [tf.get_variable(f"v{i}", [size], initializer=tf.zeros_initializer()) for i in range(2)]
    return tf.add_n([tf.reduce_sum(each) for each in variables]), {}


MODELS: dict[str, Callable[[], tuple[Any, dict[Any, Any]]]] = {
    "perceptron": perceptron,
    "scalar": lambda: null_model(1),
    "dense": lambda: null_model(1 << 20),
}


def task_program(model: str, seconds: float) -> None:
    """What every task runs: prints when it was ready, when its first step ended, and its steps in each slot of time."""
    import thalweg as tf

    task = tf.distribute.start_task(config=tf.ConfigProto(intra_op_parallelism_threads=1))
    if task.job_name == "ps":
        task.serve()
        return
    with tf.device(tf.train.replica_device_setter(worker_device=task.device, cluster=task.cluster)):
        loss, feeds = MODELS[model]()
        train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, tf.train.get_or_create_global_step())
    steps: Counter[int] = Counter()
    with tf.train.MonitoredTrainingSession(task.server.target, task.is_chief) as session:
        ready = time.monotonic()
        session.run(train_op, feeds)
        stepped = now = time.monotonic()
        while now < stepped + seconds:
            session.run(train_op, feeds)
            now = time.monotonic()
            steps[int(now * SLOTS)] += 1
    print(f"MEASURED {json.dumps([ready, stepped, steps])}", flush=True)
    task.leave()


class Launch(NamedTuple):
    """Seconds until all were ready, until all had stepped, and the steps a second of all together."""

    ready: float
    stepped: float
    speed: float


def launch(workers: int, model: str, seconds: float, options: list[str]) -> Launch:
    """Launches two PS tasks and some workers, each of which trains for some seconds."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"))
    # An installed package has its bytecode; a checkout must be allowed to keep it, too.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "thalweg", "launch", "--ps", "2", "--workers", str(workers), "--restarts", "0",
               *options, str(Path(__file__).resolve()), "--task", model, str(seconds)]  # fmt: skip
    begin = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    found = [json.loads(line) for line in re.findall(r"MEASURED (.*)", done.stdout)]
    if len(found) != workers:
        raise RuntimeError(f"{len(found)} of {workers} workers have reported:\n{done.stdout}{done.stderr}")
    ready, stepped, steps = zip(*found, strict=True)
    return Launch(max(ready) - begin, max(stepped) - begin, speed_of(steps))


def speed_of(workers: Sequence[Mapping[str, int]]) -> float:
    """The steps a second of all workers while all were training, from their steps in each slot of time."""
    if not all(workers):
        return 0.0
    first = max(min(map(int, steps)) for steps in workers) + 1
    end = min(max(map(int, steps)) for steps in workers)  # In their last slot they have ended.
    count = sum(steps.get(str(slot), 0) for steps in workers for slot in range(first, end))
    return count * SLOTS / max(1, end - first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10.0, help="with --on: how long each worker trains")
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS), help="with --on")
    parser.add_argument("--on", choices=["ray"], help="compare steps/s there with those of a local launch")
    parser.add_argument("--launch", nargs="*", default=[], help="further options of `thalweg launch`, without dashes")
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task is not None:
        task_program(args.task[0], float(args.task[1]))
        return
    options = [f"--{option}" for option in args.launch]
    if args.on is None:
        show_start(args.workers, args.rounds, options)
        return
    with ray_cluster() as address:
        remote = [*options, "--on", "ray", "--ray-address", address]
        for model in args.models:
            pairs = [
                [launch(args.workers, model, args.seconds, place).speed for place in (options, remote)]
                for _ in range(args.rounds)
            ]
            here, there = (statistics.median(speeds) for speeds in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            print(f"{model}, {args.workers} workers: {here:.0f} steps/s local, {there:.0f} on Ray,", end=" ")
            print(f"ratio of medians {there / here:.3f}, median of ratios {ratio:.3f}", flush=True)


def show_start(workers: int, rounds: int, options: list[str]) -> None:
    """Prints how long launches take to come to their first steps."""
    launch(workers, "perceptron", 0.0, options)  # The first one only warms the page cache.
    runs = [launch(workers, "perceptron", 0.0, options) for _ in range(rounds)]
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
