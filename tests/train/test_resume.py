"""A training with a checkpoint directory goes on where it was, also after its process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf

_PROGRAM = """
import sys
import thalweg as tf

step = tf.train.get_or_create_global_step()
w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
train = tf.group(w.assign_add(0.5), step.assign_add(1))
with tf.train.MonitoredTrainingSession(checkpoint_dir=sys.argv[1], save_checkpoint_steps=10) as session:
    print("start", session.run(step), flush=True)
    while not session.should_stop():
        session.run(train)
        value = session.run([step, w])
        assert value[1] == 0.5 * value[0], value
        print("step", value[0], flush=True)
        if value[0] >= int(sys.argv[2]):
            break
"""


def _start(folder: Path, last: int) -> Any:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(folder), str(last)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


@pytest.mark.processes
def test_a_killed_training_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    process = _start(tmp_path, 10**9)
    try:
        assert process.stdout.readline() == "start 0\n"
        for line in process.stdout:
            if int(line.split()[1]) >= 57:
                break
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.read()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest is not None
    saved = int(latest.rpartition("-")[2])
    assert saved >= 50
    assert saved % 10 == 0
    again = _start(tmp_path, saved + 15)
    out, err = again.communicate(timeout=100)
    assert again.returncode == 0, err
    lines = out.splitlines()
    assert lines[0] == f"start {saved}"
    assert lines[-1] == f"step {saved + 15}"
    # The end of the block saved once more.
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / f"model.ckpt-{saved + 15}")


def _train(folder: Path, steps: int) -> list[Any]:
    tf.reset_default_graph()
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    loss = tf.reduce_sum(tf.square(w), name="loss")
    tf.summary.scalar("loss", loss)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    values = []
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(folder), save_summaries_steps=2, hooks=[tf.train.StopAtStepHook(last_step=steps)]
    ) as session:
        while not session.should_stop():
            values.append(session.run([loss, train])[0])
    tf.summary.FileWriterCache.clear()
    return values


def test_two_halves_are_the_same_as_a_whole(tmp_path: Path) -> None:
    halves = _train(tmp_path / "halves", 5) + _train(tmp_path / "halves", 10)
    whole = _train(tmp_path / "whole", 10)
    assert halves == whole
    # Nothing is left to do: no step is run.
    assert len(_train(tmp_path / "whole", 10)) <= 1


def test_files_of_a_training(tmp_path: Path) -> None:
    before = time.time()
    _train(tmp_path, 4)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"checkpoint", "graph.pbtxt", "model.ckpt-0.meta", "model.ckpt-4.index"} <= names
    [events] = tmp_path.glob("events.out.*")
    kinds = [e.WhichOneof("what") for e in tf.train.summary_iterator(str(events))]
    assert kinds.count("summary") >= 2
    assert "graph_def" in kinds
    assert events.stat().st_mtime >= before - 1
