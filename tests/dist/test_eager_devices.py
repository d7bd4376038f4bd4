"""Eager programs on a cluster: ops and functions run on the task that tf.device names, and values stay there."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.runtime.eager_remote import remote_value

FIRST, SECOND = "/job:worker/task:0", "/job:worker/task:1"
connect = tf.contrib.eager.connect_to_remote_host


@pytest.fixture
def workers() -> Iterator[list[Any]]:
    servers, _ = tf.test.create_local_cluster(num_workers=2, num_ps=0)
    with tf.eager():
        connect(servers[0].target)
        yield servers
        connect(None)
    for server in servers:
        server.stop()


def place(tensor: Any) -> str | None:
    found = remote_value(tensor)
    return None if found is None else found.device


def is_here(tensor: Any) -> bool:
    try:
        object.__getattribute__(tensor, "_native")
    except AttributeError:
        return False
    return True


def test_values_stay_on_their_task_until_they_are_looked_at(workers: Any) -> None:
    with tf.device(SECOND):
        x = tf.add([1.0, 2.0], 1.0)
        y = x * x
    with tf.device(FIRST):
        z = y + 1.0
    assert place(y) == "/job:worker/replica:0/task:1/device:CPU:0"
    assert place(z) == "/job:worker/replica:0/task:0/device:CPU:0"
    assert not any(map(is_here, (x, y, z)))
    assert z.numpy().tolist() == [5, 10]
    assert is_here(z)
    assert not is_here(y)
    assert (y - x).numpy().tolist() == [2, 6]  # Runs here, which looks at both.


def test_functions_run_there(workers: Any) -> None:
    @tf.function
    def grow(a: Any) -> Any:
        n = 0
        while tf.reduce_sum(a) < 100.0:
            a, n = a * 2.0, n + 1
        return a, n

    with tf.device(SECOND):
        a, n = grow(tf.constant([2.0, 3.0]))
    assert place(a) == place(n) != None  # noqa: E711
    assert a.numpy().tolist() == [64, 96]
    assert n.numpy() == 5


def test_tapes_see_through_tasks_and_variables_stay_here(workers: Any) -> None:
    with tf.device(SECOND):
        v = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(v * 2.0))
    assert place(loss) is not None
    assert tape.gradient(loss, v).numpy().tolist() == [8, 16]
    v.assign_add(loss * tf.ones([2]))
    assert v.numpy().tolist() == [21, 22]


def test_text_several_results_and_streams_of_random_numbers(workers: Any) -> None:
    with tf.device(SECOND):
        texts, ids = tf.unique(["a", "b", "a"])
        first, second = (tf.random_normal([2], seed=1) for _ in range(2))
    assert texts.numpy().tolist() == [b"a", b"b"]
    assert ids.numpy().tolist() == [0, 1, 0]
    assert not np.array_equal(first.numpy(), second.numpy())


def test_a_task_forgets_values_of_tensors_that_are_gone(workers: Any) -> None:
    with tf.device(SECOND):
        x = tf.add(1.0, 2.0)
        handle = remote_value(x).handle  # type: ignore[union-attr]
        assert handle.eval() == 3.0
        del x
        gc.collect()
        tf.add(2.0, 2.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
        handle.eval()


def test_errors_name_the_task(workers: Any) -> None:
    with tf.device(SECOND), pytest.raises(tf.errors.InvalidArgumentError, match=r"NaN.*on task /job:worker.*task:1"):
        tf.check_numerics([float("nan")], "bad")
    with tf.device("/job:worker/task:7"), pytest.raises(tf.errors.InvalidArgumentError, match=r"task:7.*there are"):
        tf.add(1, 2)
    v = tf.Variable(1.0)
    reads = tf.function(lambda: v + 1.0)
    with tf.device(SECOND), pytest.raises(tf.errors.UnimplementedError, match="variable's value as an argument"):
        reads()


def test_a_task_that_ends_is_named(workers: Any) -> None:
    with tf.device(SECOND):
        lost, seen = tf.add(1, 2), tf.add(1, 3)
    assert int(seen) == 4
    workers[1].stop()
    with pytest.raises(tf.errors.OpError, match="task:1"):
        lost.numpy()
    with tf.device(SECOND), pytest.raises(tf.errors.OpError, match="task:1"):
        tf.add(1, 2)
    assert int(seen + 1) == 5  # What was looked at is here.


def test_without_a_cluster_the_error_says_what_there_is() -> None:
    with tf.eager(), tf.device(SECOND), pytest.raises(tf.errors.InvalidArgumentError, match="job:localhost"):
        tf.add(1, 2)
