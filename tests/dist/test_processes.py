"""Clusters of real processes: clients elsewhere, bits of one process, tasks that come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.devices.random_graphs import GraphMaker, results
from tests.dist.processes import Processes

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with Processes(ps=2, worker=2) as found:
        yield found


class _Spread(GraphMaker):
    """A random graph whose devices are those of several tasks."""

    def __init__(self, seed: int, tasks: list[str]) -> None:
        self._tasks = tasks
        super().__init__(seed, len(tasks))

    def _device(self) -> Any:
        wanted = int(self._random.integers(0, 24))
        return tf.device(self._tasks[wanted % self._count] if wanted < 16 else None)


TASKS = ["/job:worker/task:0", "/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:1"]


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_graphs_give_the_bits_of_one_process(cluster: Processes, first: int) -> None:
    for seed in range(first, first + 10):
        expected = results(seed, 1)
        with tf.Graph().as_default():
            spread = _Spread(seed, TASKS[: (1, 2, 4)[seed % 3]])
            with tf.Session(cluster.target("worker")) as sess:
                tf.Session.reset(cluster.target("worker"))
                sess.run(tf.global_variables_initializer())
                got = [value for _ in range(2) for value in sess.run(spread.fetches)]
        for i, (value, want) in enumerate(zip(got, expected, strict=True)):
            assert np.asarray(value).tobytes() == np.asarray(want).tobytes(), f"seed {seed}, result {i}"


def test_large_tensors_and_strings_arrive(cluster: Processes) -> None:
    x = tf.placeholder(tf.float32, [None, 1000])
    words = tf.placeholder(tf.string, [None])
    with tf.device("/job:ps/task:0"):
        doubled = x * 2.0
        joined = tf.string_join([words, words])
    with tf.device("/job:ps/task:1"):
        total = tf.reduce_sum(doubled, 1)
        lengths = tf.strings.length(joined)
    value = np.random.default_rng(0).standard_normal((3000, 1000)).astype(np.float32)
    texts = [b"", b"a\0b", b"x" * 100000]
    with tf.Session(cluster.target("worker")) as sess:
        for _ in range(3):
            got, summed, sizes, joins = sess.run([doubled, total, lengths, joined], {x: value, words: texts})
            np.testing.assert_array_equal(got, value * 2.0)
            np.testing.assert_allclose(summed, (value * 2.0).sum(1), rtol=1e-4, atol=1e-3)
            assert list(sizes) == [0, 6, 200000]
            assert joins[1] == b"a\0ba\0b"


def test_the_graph_can_grow_between_steps(cluster: Processes) -> None:
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("grows", [], initializer=tf.constant_initializer(1.0))
    with tf.Session(cluster.target("worker", 1)) as sess:
        sess.run(v.initializer)
        for i in range(3):
            with tf.device(f"/job:worker/task:{i % 2}"):
                more = v + float(i)
            assert sess.run(more) == 1.0 + i


def test_an_error_crosses_processes_with_class_node_and_task(cluster: Processes) -> None:
    x = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps/task:1"):
        y = tf.gather([1, 2, 3], x, name="look_up")
    with tf.Session(cluster.target("worker")) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)/job:ps/replica:0/task:1.*look_up") as caught:
            sess.run(y, {x: 7})
        assert caught.value.op is y.op
        assert sess.run(y, {x: 1}) == 2


def test_many_threads_of_one_client_run_steps_at_once(cluster: Processes) -> None:
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("counter", [], tf.int64, initializer=tf.zeros_initializer(), use_resource=True)
        add = v.assign_add(1, read_value=False)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        threads = [threading.Thread(target=lambda: [sess.run(add) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sess.run(v) == 200


def test_a_killed_task_ends_the_steps_that_need_it_and_no_others() -> None:
    with Processes(ps=2, worker=1) as cluster:
        with tf.device("/job:ps/task:0"):
            queue = tf.FIFOQueue(1, [tf.int32], shapes=[[]])
            taken = queue.dequeue()
        with tf.device("/job:ps/task:1"):
            other = tf.constant(2) * tf.placeholder_with_default(3, [])
        with tf.Session(cluster.target("worker")) as sess:
            assert sess.run(other) == 6
            failures: list[Any] = []

            def wait() -> None:
                try:
                    sess.run(taken)
                except tf.errors.OpError as e:
                    failures.append((e, time.monotonic()))

            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.3)
            cluster.kill("ps", 0)
            thread.join(30)
            assert isinstance(failures[0][0], tf.errors.UnavailableError)
            assert "/job:ps/replica:0/task:0" in failures[0][0].message
            assert sess.run(other) == 6
            with pytest.raises(tf.errors.UnavailableError):
                sess.run(taken)
            cluster.restart("ps", 0)
        with tf.Session(cluster.target("worker")) as sess:
            sess.run(queue.enqueue(5))
            assert sess.run(taken) == 5


def test_a_stopped_task_is_noticed() -> None:
    with Processes(ps=1, worker=1) as cluster:
        with tf.device("/job:ps/task:0"):
            x = tf.placeholder_with_default(3.0, []) * 2.0
        with tf.Session(cluster.target("worker")) as sess:
            assert sess.run(x) == 6.0
            cluster.stop("ps")
            with pytest.raises(tf.errors.UnavailableError, match="has sent nothing"):
                sess.run(x)
            cluster.go_on("ps")
        with tf.Session(cluster.target("worker")) as sess:
            assert sess.run(x) == 6.0


def test_a_session_waits_for_tasks_that_are_not_there_yet() -> None:
    with Processes(ps=1, worker=1) as cluster:
        cluster.kill("ps")
        with tf.device("/job:ps/task:0"):
            x = tf.placeholder_with_default(3.0, []) * 2.0
        with tf.Session(cluster.target("worker")) as sess:
            assert sess.run(tf.constant(1)) == 1  # which needs no other task
            threading.Timer(0.5, lambda: cluster.restart("ps")).start()
            assert sess.run(x) == 6.0


def test_a_trace_has_the_operations_of_all_tasks(cluster: Processes) -> None:
    x = tf.placeholder_with_default(tf.ones([50, 50]), [50, 50])
    with tf.device("/job:ps/task:0"):
        first = tf.matmul(x, x, name="first")
    with tf.device("/job:worker/task:1"):
        second = tf.tanh(tf.matmul(first, x, name="second"))
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(second)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        sess.run(second, options=options, run_metadata=metadata)
    ran = {
        node.node_name: (device.device, node.all_start_micros)
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    }
    assert ran["first"][0] == "/job:ps/replica:0/task:0/device:CPU:0"
    assert ran["second"][0] == "/job:worker/replica:0/task:1/device:CPU:0"
    assert ran["first"][1] <= ran["second"][1]


def test_a_trace_names_feeds_of_which_each_task_uses_some(cluster: Processes) -> None:
    fed = [tf.placeholder(tf.float32, [2], name=f"fed_{i}") for i in range(3)]
    with tf.device("/job:ps/task:0"):
        first = tf.tanh(fed[0])
    with tf.device("/job:ps/task:1"):
        second = tf.tanh(fed[2])
    with tf.device("/job:worker/task:0"):
        total = first + second + tf.tanh(fed[1])
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target("worker")) as sess:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        sess.run(total, {x: [0.0, 0.0] for x in fed}, options=options, run_metadata=metadata)
    ran = {node.node_name: device.device for device in metadata.step_stats.dev_stats for node in device.node_stats}
    for name, task in (("fed_0", "ps/replica:0/task:0"), ("fed_1", "worker/replica:0/task:0")):
        assert ran[name] == f"/job:{task}/device:CPU:0"
    assert ran["fed_2"] == "/job:ps/replica:0/task:1/device:CPU:0"


def test_a_checked_step_names_the_operation_of_another_task_that_made_a_nan(cluster: Processes) -> None:
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps/task:1"):
        y = tf.log(x, name="logarithm")
    from thalweg.runtime import numerics

    with tf.Session(cluster.target("worker")) as sess:
        assert np.isfinite(sess.run(y + 1.0, {x: [1.0, 2.0]}, options=numerics.check_options())).all()
        with pytest.raises(tf.errors.InvalidArgumentError, match="logarithm"):
            sess.run(y + 1.0, {x: [1.0, -2.0]}, options=numerics.check_options())
