"""Independent nodes of a step run on several threads: values, order, limits, errors, memory and traces."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core

_SECONDS = 20.0


@pytest.fixture
def teams() -> Iterator[None]:
    """Every step has a team of threads, whatever its nodes take."""
    core.force_teams(True)
    yield
    core.force_teams(False)


def _meeting(count: int = 2) -> Any:
    """A function that returns when it has been called so many times at once."""
    barrier = threading.Barrier(count)

    def meet(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        barrier.wait(_SECONDS)
        return x

    return meet


def test_python_functions_of_one_step_may_wait_for_each_other() -> None:
    meet = _meeting(3)
    x = tf.placeholder(tf.float32, [2])
    total = tf.add_n([tf.py_func(meet, [x * float(i)], tf.float32) for i in range(3)])
    with tf.Session() as session:
        for _ in range(10):
            np.testing.assert_array_equal(session.run(total, {x: [1.0, 2.0]}), [3.0, 6.0])


def test_a_python_function_waits_for_one_that_is_ready_only_later() -> None:
    meet = _meeting()
    x = tf.constant([3.0, 1.0, 2.0])
    first = tf.py_func(meet, [x], tf.float32)
    second = tf.py_func(meet, [tf.sort(tf.py_func(lambda v: v + 1, [x], tf.float32))], tf.float32)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(first + second), [5.0, 4.0, 6.0])


def test_a_python_function_that_waits_lets_the_rest_of_its_step_go_on() -> None:
    done = threading.Event()

    def wait(x: np.float32) -> np.float32:
        assert done.wait(_SECONDS)
        return x

    def tell(x: np.float32) -> np.float32:
        done.set()
        return x

    queue = tf.FIFOQueue(1, tf.float32, [[]])
    waits = tf.py_func(wait, [tf.constant(1.0)], tf.float32)
    other = tf.py_func(tell, [tf.exp(queue.dequeue())], tf.float32)
    with tf.Session() as session:
        session.run(queue.enqueue([0.0]))
        assert session.run(waits + other) == 2.0


def test_python_functions_in_functions_may_wait_for_each_other() -> None:
    meet = _meeting()

    @tf.experimental.Defun(tf.float32, noinline=True)  # type: ignore[untyped-decorator]
    def both(x: Any) -> Any:
        return tf.py_func(meet, [x], tf.float32) + tf.py_func(meet, [2.0 * x], tf.float32)

    with tf.Session() as session:
        assert session.run(both(tf.constant(1.0))) == 3.0


def test_traced_python_functions_may_wait_for_each_other() -> None:
    meet = _meeting()
    total = tf.py_func(meet, [1.0], tf.float32, name="a") + tf.py_func(meet, [2.0], tf.float32, name="b")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        assert session.run(total, options=options, run_metadata=metadata) == 3.0
    times = {
        node.node_name: (node.all_start_micros, node.all_start_micros + node.all_end_rel_micros)
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    }
    assert max(times["a"][0], times["b"][0]) <= min(times["a"][1], times["b"][1])


def test_one_inter_op_thread_runs_one_function_at_a_time() -> None:
    running, most = [0], [0]
    lock = threading.Lock()

    def count(x: np.float32) -> np.float32:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.01)
        with lock:
            running[0] -= 1
        return x

    total = tf.add_n([tf.py_func(count, [tf.constant(float(i))], tf.float32) for i in range(4)])
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=1)) as session:
        assert session.run(total) == 6.0
    assert most[0] == 1


def test_an_error_in_one_of_several_functions_ends_the_step() -> None:
    def fail(x: np.float32) -> np.float32:
        raise ValueError("no")

    good = [tf.py_func(lambda x: x, [tf.constant(float(i))], tf.float32) for i in range(3)]
    bad = tf.py_func(fail, [tf.constant(1.0)], tf.float32, name="bad")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="no"):
        session.run(tf.add_n([*good, bad]))


def _training_step() -> tuple[Any, Any]:
    """A network of branches with state that is read and changed without an order in the graph."""
    x = tf.placeholder(tf.float32, [8, 16])
    table = tf.get_variable("table", [32, 16], initializer=tf.random_normal_initializer(seed=1))
    branches = []
    for i in range(4):
        w = tf.get_variable(f"w{i}", [16, 16], initializer=tf.random_normal_initializer(stddev=0.3, seed=i))
        rows = tf.gather(table, tf.argmax(tf.matmul(x, w), 1))
        branches.append(tf.tanh(tf.matmul(x, w)) + tf.sort(rows, axis=1))
    loss = tf.reduce_mean(tf.square(tf.add_n(branches)))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    touch = tf.scatter_add(table, [0, 1], tf.ones([2, 16]) * 0.01)
    return x, [loss, train, touch]


def _trained(steps: int) -> list[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        x, fetches = _training_step()
        session.run(tf.global_variables_initializer())
        data = np.random.RandomState(3).randn(steps, 8, 16)
        losses = [session.run(fetches, {x: each})[0] for each in data]
        return [*losses, *session.run(tf.global_variables())]


def test_a_team_computes_the_bits_of_one_thread(teams: None) -> None:
    core.force_teams(False)
    expected = _trained(10)
    core.force_teams(True)
    for _ in range(3):
        for ours, theirs in zip(_trained(10), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_step_of_reads_and_writes_keeps_their_order(teams: None) -> None:
    v = tf.Variable(np.zeros(50_000, np.float32), use_resource=True)
    reads = [v.read_value() * 1.0 for _ in range(3)]
    add = v.assign_add(tf.ones([50_000]))
    with tf.Session() as session:
        session.run(v.initializer)
        for step in range(30):
            values = session.run([*reads, add])
            for value in values[:3]:
                assert value.min() == value.max() == step
            assert values[3].min() == values[3].max() == step + 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_steps_with_several_long_nodes_get_a_team_and_chains_do_not() -> None:
    x = tf.constant(np.random.RandomState(0).rand(4, 60_000).astype(np.float32)) + tf.random_uniform([])
    wide = [tf.nn.top_k(x[i], 60_000)[0] for i in range(4)]
    chain = x[0]
    for _ in range(4):
        chain = tf.nn.top_k(1.0 - chain, 60_000)[0]
    with tf.Session() as session:
        for fetches, expected in ((wide, True), (chain, False)):
            # Whether it pays is measured; on a busy machine one measurement may be wrong.
            seen = False
            for _ in range(30):
                session.run(fetches)
                seen = list(session._steps.values())[-1].compiled.has_team
                if seen:
                    break
            assert seen is expected


def test_threads_do_not_run_ahead_without_bound() -> None:
    """Branches that each need much memory for a short time."""
    x = tf.placeholder(tf.float32, [])
    branches = [tf.reduce_sum(tf.sort(tf.fill([1 << 21], x) + float(i))) for i in range(16)]
    total = tf.add_n(branches)
    peaks = []
    for threads in (1, 0):
        with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=threads)) as session:
            for _ in range(4):
                session.run(total, {x: 1.0})
            device = session.list_devices()[0].name
            session._engine._native.reset_peak(device) if hasattr(session._engine._native, "reset_peak") else None
            for _ in range(4):
                session.run(total, {x: 1.0})
            peaks.append(session._engine._native.memory_info(device)["peak"])
    assert peaks[1] <= 2 * peaks[0] + (64 << 20)
    assert peaks[1] < 16 * (8 << 20)


def test_many_callers_with_teams_share_the_threads(teams: None) -> None:
    x = tf.placeholder(tf.float32, [1000])
    sums = [tf.reduce_sum(tf.sort(x * float(i + 1))) for i in range(6)]
    value = np.random.RandomState(0).rand(1000).astype(np.float32)
    with tf.Session() as session:
        expected = session.run(sums, {x: value})
        results: list[Any] = []
        threads = [
            threading.Thread(target=lambda: results.extend(session.run(sums, {x: value}) for _ in range(20)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [expected] * 160


def test_python_functions_on_several_devices_may_wait_for_each_other() -> None:
    meet = _meeting(3)
    values = []
    for i, device in enumerate(["/cpu:0", "/cpu:0", "/cpu:1"]):
        with tf.device(device):
            values.append(tf.py_func(meet, [tf.constant(float(i))], tf.float32))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        for _ in range(10):
            assert session.run(values) == [0.0, 1.0, 2.0]


def test_a_step_over_devices_gives_the_same_bits_with_teams(teams: None) -> None:
    def towers() -> Any:
        outputs = []
        for device in range(2):
            with tf.device(f"/cpu:{device}"):
                x = tf.random_normal([64, 64], seed=device)
                branches = [tf.sort(tf.matmul(x, x) * float(i + 1), axis=1) for i in range(4)]
                outputs.append(tf.add_n([tf.cumsum(each, axis=0) for each in branches]))
        with tf.device("/cpu:0"):
            return tf.reduce_sum(outputs[0] @ outputs[1], 1)

    def results(forced: bool) -> Any:
        core.force_teams(forced)
        with tf.Graph().as_default():
            y = towers()
            with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
                return [session.run(y) for _ in range(5)]

    np.testing.assert_array_equal(results(True), results(False))
