"""Collective operations: over devices, over the tasks of a session, and over processes with sessions of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.dist.all_reduce_process import values
from tests.dist.processes import ROOT, ended_at_last
from thalweg.dist.ports import free_ports

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@contextlib.contextmanager
def started_group(size: int, what: str, ps: int = 0) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts the members of a group, and PS tasks after them, and leaves none behind."""
    ports = free_ports(size + ps)
    jobs = {"worker": [f"localhost:{port}" for port in ports[:size]]}
    if ps:
        jobs["ps"] = [f"localhost:{port}" for port in ports[size:]]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    members = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.dist.all_reduce_process", what], text=True, cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**environment, "TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": "worker", "index": index}})},
        )
        for index in range(size)
    ]  # fmt: skip
    for index in range(ps):
        given = json.dumps({"cluster": jobs, "job": "ps", "index": index, "devices": 1})
        command = [sys.executable, "-m", "tests.dist.task_process", given]
        members.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment))
    with ended_at_last(members):
        yield members


def run_group(size: int, what: str, ps: int = 0) -> list[dict[str, Any]]:
    """Starts the members of a group: what each of them tells, in the order of ranks."""
    with started_group(size, what, ps) as members:
        found = [json.loads(member.communicate(timeout=200)[0]) for member in members[:size]]
    assert [each["rank"] for each in found] == list(range(size))
    assert all(each["size"] == size for each in found)
    return found


@pytest.mark.parametrize("size", [1, 2, 3])
def test_processes_get_the_bits_of_a_sum_in_the_order_of_ranks(size: int) -> None:
    found = run_group(size, "sums")
    for count in (0, 1, 7, 300001):
        given = [values(rank, count) for rank in range(size)]
        total = given[0].copy()
        for each in given[1:]:
            total = total + each
        want = [total, total / np.float32(size), np.concatenate(given), given[0]]
        for member in found:
            assert member[str(count)] == [each.tobytes().hex() for each in want], (size, count, member["rank"])


def test_members_train_as_one() -> None:
    found = run_group(2, "training")
    assert found[0]["first"] == found[1]["first"]  # rank 0's values
    assert found[0]["last"] == found[1]["last"]
    data = np.random.default_rng(7).standard_normal((16, 3)).astype(np.float32)
    with tf.Graph().as_default():
        weights = tf.get_variable("w", initializer=np.array(found[0]["first"], np.float32))
        losses = [tf.reduce_mean(tf.square(tf.matmul(tf.constant(part), weights) - 1.0)) for part in np.split(data, 2)]
        gradient = (tf.gradients(losses[0], weights)[0] + tf.gradients(losses[1], weights)[0]) / 2.0
        train = tf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, weights)])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(10):
                sess.run(train)
            assert sess.run(weights).tobytes().hex() == found[0]["last"]


def test_gradients_of_every_kind_are_averaged() -> None:
    found = run_group(2, "gradients")
    assert {key: found[0][key] for key in found[0] if key != "rank"} == {
        key: found[1][key] for key in found[1] if key != "rank"
    }
    table = [[-1.5, -1.5], [-0.5, -0.5], [-1.0, -1.0], [0.0, 0.0]]
    small = [[-1.5 * (i + 1)] * (i + 1) for i in range(5)]
    zeros = [[0.0] * (i + 1) for i in range(5)]
    assert found[0]["rows"] == [table, *zeros]
    assert found[0]["dense_rows"] == [table, *zeros]
    for kind in ("buckets", "compressed"):
        assert found[0][kind][1:] == small
    assert found[0]["summed"][1:] == [[2 * value for value in each] for each in small]


def test_gradients_of_variables_on_ps_tasks_are_applied_there_and_others_are_reduced() -> None:
    for member in run_group(2, "mixed", ps=1):
        assert member["gathers"] == 0
        for step in range(2):
            table, weights, shared = member[f"step_{step}"]
            rows = [[-1.5] * 2, [-0.5] * 2, [-1.0] * 2, [0.0] * 2]
            assert table == [[(step + 1) * value for value in row] for row in rows]
            assert weights == [1.0 - 1.5 * (step + 1)] * 3
            assert shared == -1.5 * (step + 1)


def test_a_monitored_session_begins_with_the_values_of_rank_0() -> None:
    found = run_group(2, "monitored")
    assert found[0]["last"] == found[1]["last"]
    assert found[0]["last"] is not None


def test_an_estimator_trains_by_all_reduce() -> None:
    found = run_group(2, "estimator")
    assert found[0]["w"] == found[1]["w"]
    assert [(each["is_chief"], each["master"]) for each in found] == [(True, "")] * 2


def test_members_that_are_late_get_what_a_member_sent_before_it_ended() -> None:
    with started_group(2, "first_to_end") as members:
        first = json.loads(members[0].communicate(timeout=200)[0])
        assert members[0].returncode == 0
        second = json.loads(members[1].communicate("go on\n", timeout=200)[0])
    assert first["last"] == second["last"] == 3.0
    assert "task:0' has left collective group" in second["message"]


def test_a_member_that_wants_more_steps_than_the_others_gets_an_error() -> None:
    found = run_group(2, "unequal_steps")
    assert [each["steps"] for each in found] == [3, 3]
    assert found[0]["message"] == ""
    assert "task:0' has left collective group" in found[1]["message"]


@pytest.mark.parametrize(("lost", "how"), [(0, signal.SIGKILL), (2, signal.SIGKILL), (1, signal.SIGSTOP)])
def test_a_group_goes_on_without_a_lost_member(lost: int, how: signal.Signals) -> None:
    with started_group(3, "survivors") as members:
        for member in members:
            assert member.stdout is not None
            assert member.stdout.readline() == "ready\n"
        members[lost].send_signal(how)
        left = [member for rank, member in enumerate(members) if rank != lost]
        found = [json.loads(member.communicate(timeout=200)[0]) for member in left]
    assert [each["former"] for each in found] == [rank for rank in range(3) if rank != lost]
    assert [each["rank"] for each in found] == [0, 1]
    assert found[0]["before"] == found[1]["before"] >= 9
    for each in found:
        assert each["size"] == 2
        assert each["added"] == 6.0
        assert f"rank {lost}" in each["message"]
        assert f"/job:worker/replica:0/task:{lost}" in each["message"]


def test_members_on_the_tasks_of_one_session() -> None:
    workers, _ = tf.test.create_local_cluster(3, 0)
    sums = []
    for index in range(3):
        with tf.device(f"/job:worker/task:{index}"):
            mine = tf.constant(np.arange(50000, dtype=np.float32) * (index + 1))
            sums.append(tf.collective.all_reduce(mine, 3, 1, 1))
    with tf.Session(workers[0].target) as sess:
        for _ in range(2):
            for each in sess.run(sums):
                np.testing.assert_array_equal(each, np.arange(50000, dtype=np.float32) * 6)
    for server in workers:
        server.stop()


def on_two_devices(build: Any) -> list[Any]:
    """What two devices of one session compute together; `build` makes one member's tensor or operation."""
    members = []
    for index in range(2):
        with tf.device(f"/cpu:{index}"):
            members.append(build(index))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        return sess.run(members)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8])
@pytest.mark.parametrize(("merge", "function"), [("Add", np.add), ("Mul", np.multiply), ("Max", np.maximum)])
def test_reductions_of_every_type_over_devices(dtype: Any, merge: str, function: Any) -> None:
    given = [np.array([[1, 2, 3], [4, 5, 6]]).astype(dtype.as_numpy_dtype), np.full([2, 3], 3, dtype.as_numpy_dtype)]
    results = on_two_devices(lambda i: tf.collective.all_reduce(tf.constant(given[i]), 2, 1, 1, merge_op=merge))
    for result in results:
        assert result.dtype == given[0].dtype
        np.testing.assert_array_equal(result, function(*given))


def test_reduce_scatter_gather_and_broadcast_over_devices() -> None:
    given = [np.arange(8, dtype=np.float32).reshape(4, 2) * (i + 1) for i in range(2)]
    scattered = on_two_devices(lambda i: tf.collective.reduce_scatter(tf.constant(given[i]), 2, 1, 1))
    np.testing.assert_array_equal(np.concatenate(scattered), given[0] + given[1])
    for gathered in on_two_devices(lambda i: tf.collective.all_gather(tf.constant(given[i]), 2, 1, 2)):
        np.testing.assert_array_equal(gathered, np.concatenate(given))
    for sent in on_two_devices(lambda i: tf.collective.broadcast(tf.constant(given[i]), 1, 2, 1, 3)):
        np.testing.assert_array_equal(sent, given[1])

    def send_or_receive(index: int) -> Any:
        if index == 0:
            return tf.collective.broadcast_send(tf.constant(given[0]), [4, 2], tf.float32, 2, 1, 4)
        return tf.collective.broadcast_recv([4, 2], tf.float32, 2, 1, 4)

    for sent in on_two_devices(send_or_receive):
        np.testing.assert_array_equal(sent, given[0])
    assert on_two_devices(lambda i: tf.collective.barrier(2, 1, 5)) == [None, None]


def test_members_that_disagree_get_an_error_and_do_not_wait() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        on_two_devices(lambda i: tf.collective.all_reduce(tf.zeros([2 + i]), 2, 1, 1))
