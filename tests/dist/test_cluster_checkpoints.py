"""Checkpoints of clusters: one part for each task, and no earlier checkpoint lost when a task is killed in a save."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.dist.processes import Processes

pytestmark = pytest.mark.processes


def build(sharded: bool) -> tuple[list[Any], Any]:
    """A variable on each of two parameter servers, and a saver of both."""
    variables = []
    for task in range(2):
        with tf.device(f"/job:ps/task:{task}"):
            variables.append(tf.get_variable(f"v{task}", [1000], initializer=tf.constant_initializer(task + 1.0)))
    return variables, tf.train.Saver(sharded=sharded, max_to_keep=2)


def save_devices() -> list[str]:
    return [op.device for op in tf.get_default_graph().get_operations() if op.type == "SaveV2"]


@pytest.mark.parametrize("sharded", [True, False])
def test_a_lost_parameter_server_is_restored(tmp_path: Path, sharded: bool) -> None:
    with Processes(ps=2, worker=1) as cluster:
        variables, saver = build(sharded)
        add = [tf.assign_add(variable, tf.ones([1000])) for variable in variables]
        if sharded:
            assert save_devices() == ["/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0"]
        with tf.Session(cluster.target("worker")) as session:
            session.run(tf.global_variables_initializer())
            session.run(add)
            path = saver.save(session, str(tmp_path / "model"), global_step=1)
            session.run(add)
            cluster.restart("ps", 1)
        with tf.Session(cluster.target("worker")) as session:
            saver.restore(session, path)
            for value, expected in zip(session.run(variables), (2.0, 3.0), strict=True):
                np.testing.assert_array_equal(value, np.full(1000, expected))
    assert not [path for path in tmp_path.iterdir() if "temp" in path.name]


def test_a_task_that_is_killed_in_a_save_costs_no_earlier_checkpoint(tmp_path: Path) -> None:
    with Processes(ps=2, worker=1) as cluster:
        variables, saver = build(True)
        with tf.Session(cluster.target("worker")) as session:
            session.run(tf.global_variables_initializer())
            kill = threading.Timer(0.3, lambda: cluster.kill("ps", 1))
            kill.start()
            last = None
            with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)):
                for step in range(10000):
                    last = saver.save(session, str(tmp_path / "model"), global_step=step, write_meta_graph=False)
            kill.join()
        assert last is not None
        assert tf.train.latest_checkpoint(str(tmp_path)) == last
        cluster.restart("ps", 1)
        with tf.Session(cluster.target("worker")) as session:
            saver.restore(session, last)
            assert [value[0] for value in session.run(variables)] == [1.0, 2.0]
            saver.save(session, str(tmp_path / "model"), global_step=20000, write_meta_graph=False)
    assert not [path for path in tmp_path.iterdir() if "temp" in path.name or "writing" in path.name]
