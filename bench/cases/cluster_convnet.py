"""A small convnet trained by two workers with one thread each, beside one such worker alone.

The value is the time that an image takes two workers, as a fraction of the time that it takes one: 50% if two workers
were twice as fast, 62.5% if they are 1.6 times as fast. All processes live through
the whole measurement, and take turns.
"""

import json
import subprocess
import sys
from pathlib import Path

from case import Case
from cases.clusters import ClusterStep, Others

ORDER = 62
STEPS, ROUNDS, WORKERS = 15, 3, 2
PROGRAM = Path(__file__).parents[1] / "convnet_worker.py"


class Trainer:
    """A process that trains when told to."""

    def __init__(self, framework, mode, cluster, index):
        command = [sys.executable, str(PROGRAM), framework, mode, json.dumps(cluster), str(index)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def answer(self):
        """The next line that it prints."""
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"A worker has ended with code {self._process.wait()}.")
        return line.strip()

    def begin(self, steps):
        """Lets it train for so many steps; `answer` gives the seconds."""
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()

    def __del__(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def seconds_of(trainers):
    """The time until all have trained, when all begin at once."""
    for each in trainers:
        each.begin(STEPS)
    return max(float(each.answer()) for each in trainers)


def builder(mode):
    """Builder for a step that measures itself."""

    def build(tf, setting):
        framework = "thalweg" if tf.__name__.startswith("thalweg") else "tensorflow"
        if mode == "all_reduce" and framework == "tensorflow":
            raise RuntimeError("TensorFlow has no all-reduce for sessions without the Horovod package.")
        others = Others(framework, None, 1 if mode == "ps" else 0, WORKERS)
        single = Trainer(framework, "alone", {}, 0)
        workers = [Trainer(framework, mode, others.cluster, index) for index in range(WORKERS)]
        for each in (single, *workers):
            each.answer()

        def step():
            alone = together = 0.0
            for _ in range(ROUNDS):
                alone += seconds_of([single])
                together += seconds_of(workers)
            return together / WORKERS / alone

        step.keep = (single, workers)
        return ClusterStep(others, step)

    return build


CASES = {
    f"{mode}_convnet_2": Case(
        f"time of an image with two workers, {name}, of that with one", builder(mode), at_most=1 / 1.6, unit="%",
        self_measured=True, ends_workers=True,
    )
    for mode, name in (("ps", "by PS"), ("all_reduce", "by all-reduce"))
}  # fmt: skip
