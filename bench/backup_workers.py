"""Backup workers (OSDI paper, section 6.3, figure 8): `python bench/backup_workers.py`.

Eight gradients make a synchronous step; 8 + b workers compute them, b = 0, 1, 2. A gradient takes 60 ms (a sleep, so
that two cores suffice), and in each step one worker, drawn at random, needs twice as long. Printed are the median and
the 90th percentile of the time of a step, and the speed-up of the median, t(0) / t(b), normalized by the workers that
it takes: times 8 / (8 + b). The settings take turns, each in new processes; the figures are over all rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
WORKERS = 8


def train(cluster: dict[str, list[str]], index: int, args: argparse.Namespace) -> None:
    """A worker: prints [[step, the time when it knew that the step was done], …] at the end."""
    import thalweg as tf

    total = len(cluster["worker"])
    server = tf.train.Server(cluster, "worker", index, config=tf.ConfigProto(intra_op_parallelism_threads=1))
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [1000], initializer=tf.ones_initializer())
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.01), WORKERS, total, worker_index=index
        )
        train_op = optimizer.minimize(tf.reduce_sum(tf.square(weights)), global_step=step)
    hooks = [optimizer.make_session_run_hook(index == 0), tf.train.StopAtStepHook(last_step=args.steps)]
    jitter = np.random.default_rng(index)
    done: list[tuple[int, float]] = []
    with tf.train.MonitoredTrainingSession(
        server.target, index == 0, hooks=hooks, log_step_count_steps=None
    ) as session:
        while not session.should_stop():
            # All workers draw the same: the slow one of the step that this worker computes a gradient for.
            current = done[-1][0] if done else 0
            is_slow = np.random.default_rng((args.seed, current)).integers(total) == index
            time.sleep(args.work * jitter.uniform(0.95, 1.05) * (args.slow if is_slow else 1.0))
            done.append((int(session.run(train_op)), time.monotonic()))
    print(json.dumps(done), flush=True)
    os._exit(0)  # The chief's thread may still wait for gradients that nobody gives.


def serve(cluster: dict[str, list[str]]) -> None:
    """The PS task."""
    import thalweg as tf

    tf.train.Server(cluster, "ps", 0, config=tf.ConfigProto(intra_op_parallelism_threads=1)).join()


def step_times(backups: int, seed: int, args: argparse.Namespace) -> list[float]:
    """The times of the steps of one run, those of the start left out."""
    from bench.cases.clusters import free_ports

    addresses = [f"localhost:{port}" for port in free_ports(1 + WORKERS + backups)]
    cluster = json.dumps({"ps": addresses[:1], "worker": addresses[1:]})
    command = [sys.executable, __file__, "--steps", str(args.steps), "--work", str(args.work), "--slow", str(args.slow),
               "--seed", str(seed), "--task", cluster]  # fmt: skip
    ps = subprocess.Popen([*command, "ps"])
    workers = [
        subprocess.Popen([*command, str(index)], stdout=subprocess.PIPE, text=True)
        for index in range(WORKERS + backups)
    ]
    try:
        # A backup worker that is late in the last step gets no token any more: enough that most have reported.
        logs = [json.loads(worker.communicate(timeout=60)[0] or "[]") for worker in workers[:WORKERS]]
    finally:
        for process in (ps, *workers):
            process.kill()
            process.wait()
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.close()
    first_known: dict[int, float] = {}
    for step, at in (entry for log in logs for entry in log):
        first_known[step] = min(at, first_known.get(step, at))
    steps = sorted(first_known)[5:]
    return [
        (first_known[later] - first_known[earlier]) / (later - earlier) for earlier, later in itertools.pairwise(steps)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backups", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=100, help="of a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=float, default=0.06, help="seconds for a gradient")
    parser.add_argument("--slow", type=float, default=2.0, help="how many times as long the slow worker needs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--task", nargs=2, metavar=("CLUSTER", "TASK"), help=argparse.SUPPRESS)
    args: Any = parser.parse_args()
    sys.path[:0] = [str(HERE.parent), str(HERE)]
    if args.task is not None:
        cluster = json.loads(args.task[0])
        return serve(cluster) if args.task[1] == "ps" else train(cluster, int(args.task[1]), args)
    times: dict[int, list[float]] = {backups: [] for backups in args.backups}
    for round_number in range(args.rounds):
        for backups, known in times.items():
            known += step_times(backups, args.seed + round_number, args)
    print(f"{'backups':>8} {'median ms':>10} {'p90 ms':>8} {'normalized speed-up':>20}")
    base = statistics.median(times[args.backups[0]])
    for backups, known in times.items():
        median, p90 = statistics.median(known), float(np.percentile(known, 90))
        normalized = base / median * WORKERS / (WORKERS + backups)
        print(f"{backups:>8} {median * 1e3:>10.1f} {p90 * 1e3:>8.1f} {normalized:>20.2f}")
    return None


if __name__ == "__main__":
    main()
