"""Random faults in clusters of real processes, and a checker of what the workers saw.

A run trains a small model (`training.py`) over parameter servers and workers, kills, stops and continues tasks, cuts
links (where network namespaces can be made) and fills disks at random moments, and then checks the history: training
has ended at the exact step, no acknowledged checkpoint was lost or torn, and synchronous training has the bits of one
process. The seed decides everything but the scheduler.

    python -m tests.dist.fault_harness --runs 100 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.dist.network_hosts import Hosts, hosts_if_permitted
from tests.dist.training_cluster import TrainingCluster

MODES = ("async", "consistent", "sync", "backup")
KINDS = ("kill", "stop", "disk", "cut")
KEPT = 3  # checkpoints that training.py keeps


class Faults:
    """Random faults in a cluster, in the order and at the moments that a seed decides."""

    def __init__(self, cluster: TrainingCluster, seed: int, only: str | None = None) -> None:
        self._cluster = cluster
        cuts = ["cut", "cut"] if cluster.hosts else []
        self._kinds = [only] if only else ["kill", "kill", "kill", "stop", "disk", *cuts]
        self._random = random.Random(seed)
        self.log: list[str] = []

    def _can_fail(self) -> list[tuple[str, int]]:
        """All tasks but workers that have reached the end."""
        return [task for task, process in self._cluster.running.items() if process.poll() is None]

    def strike(self, count: int) -> None:
        """Strikes `count` times, and leaves all tasks running."""
        for _ in range(count):
            time.sleep(self._random.uniform(0.0, 0.8))
            tasks = self._can_fail()
            if ("worker", 0) not in tasks or any(each["event"] == "end" for each in self._cluster.history()):
                return  # The model is not restored any more: a worker that is started again would wait for it.
            job, index = self._random.choice(tasks)
            kind = self._random.choice(self._kinds)
            pause = self._random.choice([0.0, 0.0, 0.3, 1.0])
            self.log.append(f"{time.time():.3f} {kind} {job} {index} {pause}")
            if kind == "kill":
                self._kill(job, index, pause)
            elif kind == "stop":
                self._stop(job, index, self._random.choice([0.3, 3.5]))
            elif kind == "cut":
                self._cut(job, index, self._random.choice([0.3, 2.7, 3.5]))
            else:
                self._fill_disk(job, index)

    def _kill(self, job: str, index: int, pause: float) -> None:
        self._cluster.kill(job, index)
        time.sleep(pause)
        self._cluster.start(job, index)

    def _stop(self, job: str, index: int, pause: float) -> None:
        self._cluster.signal(job, index, signal.SIGSTOP)
        time.sleep(pause)
        self._cluster.signal(job, index, signal.SIGCONT)

    def _cut(self, job: str, index: int, pause: float) -> None:
        """Cuts the link of a task's host: other tasks of that host are cut off with it, and reach each other."""
        hosts = self._cluster.hosts
        assert hosts is not None, "links are cut between network namespaces only"
        host = hosts.host(job, index)
        hosts.cut(host)
        time.sleep(pause)
        hosts.join(host)

    def _fill_disk(self, job: str, index: int) -> None:
        # A task that starts could not say that it is ready, because its log is on the same disk.
        if job == "ps" and self._cluster.is_ready(job, index):
            self._cluster.limit_files(job, index, 20)
            time.sleep(0.5)
            self._cluster.limit_files(job, index, -1)


def check(cluster: TrainingCluster, mode: str, workers: int, steps: int) -> None:
    """Checks the history of a run that has ended."""
    from thalweg.train.checkpoints.checkpoint_reader import load_checkpoint

    history = cluster.history()
    final = [event for event in history if event["event"] == "model"]
    assert final, "the chief has not reported a model"
    assert final[-1]["step"] == steps, f"training ended at step {final[-1]['step']} instead of {steps}"
    # A chief begins no earlier than its last acknowledged checkpoint.
    saved = -1
    acknowledged: list[int] = []
    for event in history:
        if event["event"] == "saved":
            saved = event["step"]
            acknowledged = [each for each in acknowledged if each != saved] + [saved]
        elif event["event"] == "session":
            assert event["step"] >= saved, f"the chief went on from step {event['step']}: checkpoint {saved} is lost"
    for step in acknowledged[-KEPT:]:
        found = load_checkpoint(str(cluster.folder / "checkpoints" / f"model.ckpt-{step}"))
        values = {name: found.get_tensor(name) for name in found.get_variable_to_shape_map()}  # checksums are verified
        _check_checkpoint(mode, step, values)
    _check_model(mode, workers, steps, final[-1]["values"])


def _check_checkpoint(mode: str, step: int, values: dict[str, Any]) -> None:
    """Whole steps only, where that is promised."""
    if mode == "sync":
        assert values["global_step"] == step
    if mode in ("sync", "backup"):
        assert values["count"] == values["global_step"] >= step, f"checkpoint {step} is torn: {values}"
    if mode == "consistent":
        counts = {*values["b"], *values["c"], values["global_step"]}
        assert len(counts) == 1, f"checkpoint {step} is torn: {values}"


def _check_model(mode: str, workers: int, steps: int, values: list[str]) -> None:
    from tests.dist import training

    got = [bytes.fromhex(value) for value in values]
    if mode == "sync":
        expected = [value.tobytes() for value in training.in_one_process(workers, steps)]
        assert got == expected, "synchronous training differs from one process"
    elif mode == "backup":
        assert np.frombuffer(got[2], np.float32)[0] == steps, "an update was lost, or applied twice"
    elif mode == "consistent":
        assert {count for each in got for count in np.frombuffer(each)} == {steps}, "an update was lost or made twice"
    else:
        # A step adds one to each variable. If a fault interrupts it, or a checkpoint cuts it, it may be in one only.
        for each in got:
            assert abs(np.frombuffer(each)[0] - steps) <= 20 * workers


class Run(NamedTuple):
    """A run that has ended well."""

    seed: int
    mode: str
    workers: int
    has_hosts: bool
    faults: int
    restarts: int
    seconds: float

    def __str__(self) -> str:
        where = "network namespaces" if self.has_hosts else "one host"
        counts = f"{self.workers} workers, {self.faults} faults, {self.restarts} restarts"
        return f"seed {self.seed}: {self.mode}, {where}, {counts}, {self.seconds:.1f} s"


def _hosts(wanted: bool, only: str | None) -> Hosts | None:
    found = hosts_if_permitted(3) if wanted or only == "cut" else None
    assert found or only != "cut", "network namespaces cannot be made"
    return found


def run(seed: int, folder: Path, mode: str | None = None, only: str | None = None) -> Run:
    """One run.

    Raises:
        AssertionError: If something is wrong.
    """
    chooser = random.Random(seed)
    mode = mode or chooser.choice(MODES)
    workers = chooser.choice([2, 3]) if mode != "backup" else 3
    steps = 150
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        hosts = _hosts(chooser.random() < 0.5, only)
        if hosts:
            stack.enter_context(hosts)
        # Long enough pauses between steps for most faults to strike before the end.
        cluster = TrainingCluster(folder, 2, workers, hosts, mode=mode, steps=steps, pause=0.025)
        stack.enter_context(cluster)
        faults = Faults(cluster, seed, only)
        try:
            cluster.wait_for_step(chooser.randrange(1, 40))
            faults.strike(chooser.randrange(1, 6))
            cluster.wait_for_end()
            check(cluster, mode, workers, steps)
        except BaseException:
            print(f"seed {seed}, {mode}: {folder}", *faults.log, sep="\n", file=sys.stderr)
            raise
    seconds = time.monotonic() - began
    return Run(seed, mode, workers, hosts is not None, len(faults.log), cluster.restarts, seconds)


def main() -> None:
    """Runs as many as asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--only", choices=KINDS, help="one kind of fault")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after so many")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    done: list[Run] = []
    failed: list[int] = []
    for seed in range(given.seed, given.seed + given.runs):
        if time.monotonic() > until:
            break
        folder = Path(tempfile.mkdtemp(prefix=f"faults_{seed}_"))
        try:
            done.append(run(seed, folder, given.mode, given.only))
            print(done[-1], flush=True)
            shutil.rmtree(folder)
        except AssertionError as e:
            failed.append(seed)
            print(f"seed {seed} FAILED: {e}", flush=True)
    print(
        f"{len(done)} of {len(done) + len(failed)} runs are right, {sum(each.faults == 0 for each in done)} of them "
        f"without a fault, {sum(each.has_hosts for each in done)} in network namespaces; "
        f"{sum(each.faults for each in done)} faults, {sum(each.restarts for each in done)} restarts of workers"
        + (f"; failed: {failed}" if failed else "")
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
