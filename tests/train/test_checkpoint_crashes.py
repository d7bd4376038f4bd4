"""Checkpoints under failures: processes killed in the middle of saving, full disks, several writers at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf

# How often a writer is killed; more for a soak test.
ROUNDS = int(os.environ.get("THALWEG_KILL_ROUNDS", "2"))
# Saves a vector of `size` equal numbers again and again: always under one name, or with steps in it.
WRITER = """
import sys
import numpy as np
import thalweg as tf
folder, size, steps, sharded, first, last = sys.argv[1], *map(int, sys.argv[2:])
v = tf.Variable(np.zeros(size, np.float32), name="v")
w = tf.Variable(np.zeros(size // 2, np.float32), name="w")
number = tf.placeholder(tf.float32, [])
put = tf.group(v.assign(tf.fill([size], number)), w.assign(tf.fill([size // 2], number)))
saver = tf.train.Saver(max_to_keep=2, sharded=bool(sharded))
with tf.Session() as session:
    for i in range(first, last):
        session.run(put, {number: i})
        try:
            saver.save(session, folder + "/m", global_step=i if steps else None, write_meta_graph=False)
        except tf.errors.OpError as error:
            print(type(error).__name__, str(error), flush=True)
            sys.exit(3)
        print("saved", i, flush=True)
"""


def command(folder: Path, size: int, steps: bool, sharded: bool, first: int, last: int) -> list[str]:
    numbers: Sequence[int] = (size, int(steps), int(sharded), first, last)
    return [sys.executable, "-c", WRITER, str(folder), *map(str, numbers)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def value_of(prefix: str) -> float:
    """The number that all elements have: anything else was torn."""
    reader = tf.train.NewCheckpointReader(prefix)
    values = np.unique(np.concatenate([reader.get_tensor("v"), reader.get_tensor("w")]))
    assert values.size == 1
    return float(values[0])


@pytest.mark.processes
@pytest.mark.parametrize(("steps", "sharded"), [(False, False), (True, False), (False, True)])
def test_a_killed_writer_leaves_the_last_checkpoint(tmp_path: Path, steps: bool, sharded: bool) -> None:
    rng = np.random.default_rng(int(steps) + 2 * int(sharded))
    known, first = -1.0, 0
    for _ in range(ROUNDS):
        process = subprocess.Popen(
            command(tmp_path, 100_000, steps, sharded, first, first + 100_000),
            stdout=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        assert process.stdout is not None
        with process:
            for _ in range(3):
                word, number = process.stdout.readline().split()
                assert word == "saved"
                first = int(number) + 1
            time.sleep(rng.random() * 0.05)
            process.kill()
            for line in process.stdout:  # Its last lines of output: those saves were complete.
                if line.startswith("saved") and line.endswith("\n"):
                    first = int(line.split()[1]) + 1
        latest = tf.train.latest_checkpoint(str(tmp_path))
        assert latest is not None
        now = value_of(latest)
        assert now >= first - 1 > known
        known = now
        # Every checkpoint on disk is complete.
        for index in tmp_path.glob("*.index"):
            value_of(str(index)[: -len(".index")])
    done = subprocess.run(
        command(tmp_path, 100_000, steps, sharded, 10**6, 10**6 + 3), capture_output=True, env=environment(), check=True
    )
    assert done.stdout.count(b"saved") == 3
    assert not [name for name in os.listdir(tmp_path) if ".writing-" in name], "Leftovers are cleaned up."


@pytest.mark.processes
@pytest.mark.parametrize(("sharded", "limit"), [(False, 150_000), (True, 40)])
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path, sharded: bool, limit: int) -> None:
    subprocess.run(command(tmp_path, 20_000, False, sharded, 1, 2), capture_output=True, env=environment(), check=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limited = ["bash", "-c", 'ulimit -S -f "$0"; exec "$@"', str(limit // 1024 + 1)]
    process = subprocess.run(
        [*limited, *command(tmp_path, 100_000, False, sharded, 2, 3)],
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert process.returncode == 3, process.stderr
    assert process.stdout.startswith("ResourceExhaustedError"), process.stdout
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert value_of(str(tmp_path / "m")) == 1


@pytest.mark.processes
def test_two_processes_save_under_one_name(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            command(tmp_path, 30_000, False, sharded, 100 * sharded, 100 * sharded + 12),
            stdout=subprocess.PIPE, env=environment(),
        )
        for sharded in (False, True)
    ]  # fmt: skip
    reads = 0
    while any(writer.poll() is None for writer in writers):
        if (tmp_path / "m.index").exists():
            with tf.Graph().as_default(), tf.Session() as session:
                values = session.run(
                    tf.raw_ops.RestoreV2(
                        prefix=str(tmp_path / "m"), tensor_names=["v", "w"], shape_and_slices=["", ""],
                        dtypes=[tf.float32] * 2,
                    )
                )  # fmt: skip
            assert np.unique(np.concatenate(values)).size == 1
            reads += 1
    for writer in writers:
        out, _ = writer.communicate()
        assert writer.returncode == 0 and out.count(b"saved") == 12
    assert reads > 0 and value_of(str(tmp_path / "m")) in (11, 111)
    assert not [name for name in os.listdir(tmp_path) if ".writing-" in name or "_temp" in name]


def test_threads_save_and_restore_at_once(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        v = tf.Variable(np.zeros(1000, np.float32), name="v")
        number = tf.placeholder(tf.float32, [])
        put = v.assign(tf.fill([1000], number))
        savers = [tf.train.Saver(name=f"save{i}") for i in range(3)]
    failures: list[BaseException] = []
    with tf.Session(graph=graph) as session:
        session.run(put, {number: 0})
        savers[0].save(session, str(tmp_path / "m"), write_meta_graph=False)

        def work(i: int) -> None:
            try:
                for _ in range(8):
                    session.run(put, {number: i})
                    savers[i].save(session, str(tmp_path / "m"), write_meta_graph=False)
                    savers[i].restore(session, str(tmp_path / "m"))
                    assert np.unique(session.run(v)).size == 1
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures, failures
    assert set(os.listdir(tmp_path)) == {"checkpoint", "m.index", "m.data-00000-of-00001"}
