"""A training job that is killed at random instants loses no row that an acknowledged checkpoint held."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf

# How often a job is killed; more for a soak test.
ROUNDS = int(os.environ.get("THALWEG_KILL_ROUNDS", "3"))
# Step i adds one to rows i % 5 ... 199, and to one that never comes again; rows leave by age; it saves, and restores
# what is there first.
WRITER = """
import sys, threading
import numpy as np
import thalweg as tf
folder, first = sys.argv[1], int(sys.argv[2])
options = tf.EmbeddingOptions(steps_to_live=10)
table = tf.get_embedding_variable("t", 8, initializer=0.0, options=options, partitioner=tf.fixed_size_partitioner(2))
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
        session.run(step, {ids: np.append(np.arange(i % 5, 200), 1000 + i)})
        saver.save(session, folder + "/m", global_step=i, write_meta_graph=False)
        print(i, flush=True)
"""


def expected_rows(last: int) -> np.ndarray:
    """How often each row has been updated by the steps up to `last`."""
    counts = np.zeros(200)
    for i in range(last + 1):
        counts[i % 5 :] += 1
    return counts


@pytest.mark.processes
def test_a_killed_job_goes_on_from_what_it_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(5)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    acknowledged = -1
    for _ in range(ROUNDS):
        first = acknowledged + 1
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as job:
            assert job.stdout is not None
            for _ in range(rng.randint(2, 25)):
                acknowledged = int(job.stdout.readline())
            delay = rng.random() * 0.02
            try:
                job.wait(delay)
            except subprocess.TimeoutExpired:
                job.kill()
            rest = job.stdout.read().split()
            acknowledged = int(rest[-1]) if rest else acknowledged
        with tf.Graph().as_default(), tf.Session() as session:
            table = tf.get_embedding_variable("t", 8, initializer=0.0)
            latest = tf.train.latest_checkpoint(str(tmp_path))
            assert latest is not None
            step = int(latest.rsplit("-", 1)[1])
            assert step >= acknowledged
            session.run(tf.train.restore_rows(table, latest))
            rows = session.run(table.lookup(np.arange(200)))
            assert (rows == expected_rows(step)[:, None]).all()
            acknowledged = step
