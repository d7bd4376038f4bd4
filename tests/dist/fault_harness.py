"""Random faults in clusters of real processes, and a checker of what the workers saw.

A run trains a small model (`training.py`) over parameter servers and workers, kills, stops and continues tasks at
random moments, and then checks the history: training has ended at the exact step, no acknowledged checkpoint was lost
or torn, and synchronous training has the bits of one process. The seed decides everything but the scheduler.

    python -m tests.dist.fault_harness --runs 100 --seed 1
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.dist.processes import ROOT, environment_of
from thalweg.dist.ports import free_ports

MODES = ("async", "consistent", "sync", "backup")
KINDS = ("kill", "stop", "disk")
KEPT = 3  # checkpoints that training.py keeps


class TrainingCluster:
    """The processes of a training program: parameter servers and workers, in a folder with their histories and logs."""

    def __init__(
        self,
        folder: Path,
        ps: int,
        workers: int,
        place: Callable[[str, int], tuple[str, list[str]]] = lambda job, index: ("localhost", []),
        **given: Any,
    ) -> None:
        """Starts all tasks.

        Args:
            folder: For histories, logs and checkpoints.
            ps: How many parameter servers.
            workers: How many workers.
            place: The host of a task, and how its command begins.
            **given: For `training.py`.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._place = place
        ports = iter(free_ports(ps + workers))
        self.cluster = {
            job: [f"{place(job, index)[0]}:{next(ports)}" for index in range(count)]
            for job, count in (("ps", ps), ("worker", workers))
        }
        self._given = {"directory": str(folder / "checkpoints"), "save_steps": 10, **given}
        self.restarts = 0  # of workers that ended by themselves
        self.running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        for job, tasks in self.cluster.items():
            for index in range(len(tasks)):
                self.start(job, index)

    def start(self, job: str, index: int) -> None:
        """Starts a task, or starts it again at the same address."""
        name = f"{job}{index}"
        given = {**self._given, "cluster": self.cluster, "job": job, "index": index,
                 "history": str(self.folder / f"{name}.history")}  # fmt: skip
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[job, index] = subprocess.Popen(
                [*self._place(job, index)[1], sys.executable, "-m", "tests.dist.training", json.dumps(given)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT,
                env=environment_of(OMP_NUM_THREADS="1"),
            )  # fmt: skip

    def kill(self, job: str, index: int) -> None:
        """Kills a task (SIGKILL)."""
        process = self.running[job, index]
        process.kill()
        process.wait()

    def signal(self, job: str, index: int, number: int) -> None:
        """Sends a signal to a task."""
        self.running[job, index].send_signal(number)

    def limit_files(self, job: str, index: int, size: int) -> None:
        """Lets a task write no file beyond a size: to it the disk is full. -1 takes the limit back."""
        hard = resource.RLIM_INFINITY
        resource.prlimit(self.running[job, index].pid, resource.RLIMIT_FSIZE, (size if size >= 0 else hard, hard))

    def history(self, job: str = "worker", index: int = 0) -> list[dict[str, Any]]:
        """The events that a task has noted so far."""
        path = self.folder / f"{job}{index}.history"
        lines = path.read_text().splitlines() if path.exists() else []
        events = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:  # Cut off by a kill, and the next process's first line behind it.
                start = line.find('{"time"', 1)
                if start > 0:
                    events.append(json.loads(line[start:]))
        return events

    def step(self, index: int = 0) -> int:
        """The last step that a worker saw."""
        steps = [event["step"] for event in self.history("worker", index) if event["event"] == "step"]
        return steps[-1] if steps else -1

    def latest_step(self) -> int:
        """The latest step that any worker saw last."""
        return max(self.step(index) for index in range(len(self.cluster["worker"])))

    def wait_for_step(self, step: int, seconds: float = 60) -> None:
        """Waits until a worker has seen a step."""
        until = time.monotonic() + seconds
        while self.latest_step() < step:
            assert time.monotonic() < until, f"no worker has come to step {step}\n{self.tail()}"
            time.sleep(0.02)

    def wait_for_log(self, job: str, index: int, text: str, seconds: float = 60) -> None:
        """Waits until the log of a task has a text."""
        until = time.monotonic() + seconds
        while text not in (self.folder / f"{job}{index}.log").read_text(errors="replace"):
            assert time.monotonic() < until, f"the log of {job} {index} has no {text!r}\n{self.tail()}"
            time.sleep(0.05)

    def wait_for_end(self, seconds: float = 60) -> None:
        """Waits until all workers have ended well. One that has ended because it lost a task is started again."""
        until = time.monotonic() + seconds
        left = [index for job, index in self.running if job == "worker"]
        while left:
            index = left[0]
            code = self.running["worker", index].poll()
            if code is None:
                assert time.monotonic() < until, f"workers {left} do not end\n{self.tail()}"
                time.sleep(0.02)
            elif code == 0:
                left.pop(0)
            else:
                last = (self.folder / f"worker{index}.log").read_text(errors="replace")[-2000:]
                lost = "errors.UnavailableError" in last or "errors.AbortedError" in last
                assert lost, f"worker {index} ended with {code}\n{self.tail()}"
                self.restarts += 1
                self.start("worker", index)

    def tail(self) -> str:
        """The ends of all logs."""
        texts = [(path.name, path.read_text(errors="replace")) for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(f"--- {name} of {self.folder}\n{text[-1500:]}" for name, text in texts)

    def close(self) -> None:
        """Kills what is left."""
        for process in self.running.values():
            process.kill()
            process.wait()

    def __enter__(self) -> TrainingCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Faults:
    """Random faults in a cluster, in the order and at the moments that a seed decides."""

    def __init__(self, cluster: TrainingCluster, seed: int, last: int, only: str | None = None) -> None:
        self._cluster = cluster
        self._last = last
        self._kinds = [only] if only else ["kill", "kill", "kill", "stop", "disk"]
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
            if ("worker", 0) not in tasks or self._cluster.latest_step() > self._last - 20:
                return  # A task that is lost after the end stays lost: nobody would restore it.
            job, index = self._random.choice(tasks)
            kind = self._random.choice(self._kinds)
            pause = self._random.choice([0.0, 0.0, 0.3, 1.0])
            self.log.append(f"{time.time():.3f} {kind} {job} {index} {pause}")
            if kind == "kill":
                self._kill(job, index, pause)
            elif kind == "stop":
                self._stop(job, index, self._random.choice([0.3, 3.5]))
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

    def _fill_disk(self, job: str, index: int) -> None:
        if job == "ps":
            self._cluster.limit_files(job, index, 20)
            time.sleep(0.5)
            self._cluster.limit_files(job, index, -1)


def check(cluster: TrainingCluster, mode: str, workers: int, steps: int) -> None:
    """Checks the history of a run that has ended."""
    from thalweg.train.checkpoints.checkpoint_reader import load_checkpoint

    history = cluster.history()
    final = [event for event in history if event["event"] == "model"]
    assert len(final) == 1, "the chief has not reported one model"
    # Without a claim, workers may end a step that they began before the last one was made, and begin another.
    most = steps + 3 * workers if mode == "consistent" else steps
    assert steps <= final[0]["step"] <= most, f"training ended at step {final[0]['step']} instead of {steps}"
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
    _check_model(mode, workers, steps, final[0]["values"])


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
    elif mode == "async":
        # A step adds one to each variable. If a fault interrupts it, or a checkpoint cuts it, it may be in one only.
        for each in got:
            assert abs(np.frombuffer(each)[0] - steps) <= 20 * workers


def run(seed: int, folder: Path, mode: str | None = None, only: str | None = None) -> str:
    """One run; a line about it.

    Raises:
        AssertionError: If something is wrong.
    """
    chooser = random.Random(seed)
    mode = mode or chooser.choice(MODES)
    workers = chooser.choice([2, 3]) if mode != "backup" else 3
    steps = 150
    began = time.monotonic()
    cluster = TrainingCluster(folder, ps=2, workers=workers, mode=mode, steps=steps, pause=0.01)
    faults = Faults(cluster, seed, steps, only)
    with cluster:
        try:
            cluster.wait_for_step(chooser.randrange(1, 40))
            faults.strike(chooser.randrange(1, 6))
            cluster.wait_for_end()
            check(cluster, mode, workers, steps)
        except BaseException:
            print(f"seed {seed}, {mode}: {folder}", *faults.log, sep="\n", file=sys.stderr)
            raise
    seconds = time.monotonic() - began
    counts = f"{workers} workers, {len(faults.log)} faults, {cluster.restarts} restarts"
    return f"seed {seed}: {mode}, {counts}, {seconds:.1f} s"


def main() -> None:
    """Runs as many as asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--only", choices=KINDS, help="one kind of fault")
    given = parser.parse_args()
    failed = []
    for seed in range(given.seed, given.seed + given.runs):
        folder = Path(tempfile.mkdtemp(prefix=f"faults_{seed}_"))
        try:
            print(run(seed, folder, given.mode, given.only), flush=True)
            shutil.rmtree(folder)
        except AssertionError as e:
            failed.append(seed)
            print(f"seed {seed} FAILED: {e}", flush=True)
    print(f"{given.runs - len(failed)} of {given.runs} runs are right" + (f"; failed: {failed}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
