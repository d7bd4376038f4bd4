"""A training job that is killed at random instants loses no row that an acknowledged checkpoint held."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

# How often a job is killed; more for a soak test.
ROUNDS = int(os.environ.get("THALWEG_KILL_ROUNDS", "3"))
ROWS, WINDOW = 2000, 150
# For each line on stdin, a child process goes on with training at that step. Step i adds one to a window of the rows
# (the first two steps to all of them), and makes a row that never comes again, and leaves after some steps. Each step
# ends with a checkpoint; changes are merged in the background after some of them. (tests/native/embedding_kills.cc does
# the same without Python, and faster.)
WRITER = f"""
import os, sys
import numpy as np
import thalweg as tf

def ids_of(i):
    rows = np.arange({ROWS}) if i < 2 else (np.arange({WINDOW}) + i * 37) % {ROWS}
    return np.append(rows, 1_000_000 + i)

def train(folder, first, on_disk):
    more = dict(ram_bytes=1, folder=folder + "/rows") if on_disk else dict()
    options = tf.EmbeddingOptions(min_count=2, idle_steps=5, **more)
    parts = tf.fixed_size_partitioner(2)
    table = tf.get_embedding_variable("t", 8, initializer=0.0, options=options, partitioner=parts)
    ids = tf.placeholder(tf.int64, [None])
    step = tf.train.GradientDescentOptimizer(-1.0).minimize(tf.reduce_sum(tf.nn.embedding_lookup(table, ids)))
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        found = tf.train.latest_checkpoint(folder)
        if found:
            saver.restore(session, found)
        else:
            session.run(tf.global_variables_initializer())
        for i in range(first, first + 100000):
            session.run(step, {{ids: ids_of(i)}})
            saver.save(session, folder + "/m", global_step=i, write_meta_graph=False)
            print(i, flush=True)

if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            train(sys.argv[1], int(line), sys.argv[2] == "disk")
        print("pid", child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)
"""


def expected_rows(last: int) -> np.ndarray:
    """How often each row has been updated by the steps up to `last`."""
    counts = np.zeros(ROWS)
    for i in range(last + 1):
        counts[np.arange(ROWS) if i < 2 else (np.arange(WINDOW) + i * 37) % ROWS] += 1
    return counts


def killed_job(jobs: Any, first: int, rng: random.Random) -> int:
    """Lets a job run from a step on, kills it, and returns the last step that it has acknowledged."""
    jobs.stdin.write(f"{first}\n")
    jobs.stdin.flush()
    pid, acknowledged, wanted = 0, first - 1, rng.randint(0, 8)
    for line in iter(jobs.stdout.readline, ""):
        words = line.split()
        if words[0] == "ended":
            return acknowledged
        if words[0] == "pid":
            pid = int(words[1])
        else:
            acknowledged = int(words[0])
        if pid and acknowledged >= first + wanted:
            wanted = 1 << 30
            signal.sigtimedwait([], rng.random() * 0.02)
            os.kill(pid, signal.SIGKILL)
    raise AssertionError("the jobs have ended")


@pytest.mark.processes
@pytest.mark.timeout(120 + 10 * ROUNDS)
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_killed_job_goes_on_from_what_it_acknowledged(tmp_path: Path, where: str) -> None:
    rng = random.Random(5)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", WRITER, str(tmp_path), where]
    acknowledged = -1
    with subprocess.Popen(command, stdin=-1, stdout=-1, env=environment, text=True) as jobs:
        for _ in range(ROUNDS):
            acknowledged = killed_job(jobs, acknowledged + 1, rng)
            with tf.Graph().as_default(), tf.Session() as session:
                table = tf.get_embedding_variable("t", 8, initializer=0.0)
                latest = tf.train.latest_checkpoint(str(tmp_path))
                assert latest is not None
                step = int(latest.rsplit("-", 1)[1])
                assert step >= acknowledged
                session.run(tf.train.restore_rows(table, latest))
                rows = session.run(table.lookup(np.arange(ROWS)))
                assert (rows == expected_rows(step)[:, None]).all()
                # The rows of the last steps are there; evicted ones have not come back from older files.
                recent = session.run(table.lookup(1_000_000 + np.arange(max(step - 4, 0), step + 1)))
                assert (recent == 1).all()
                assert session.run(table.size()) < ROWS + 1000
                acknowledged = step
        jobs.stdin.close()
