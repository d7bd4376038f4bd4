"""Sessions on clusters whose tasks are all in this process: placement, state, errors, clients."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.train.checkpoints.end_mark import RUN, write_end_mark

Servers = tuple[list[tf.train.Server], list[tf.train.Server]]


@pytest.fixture
def cluster() -> Iterator[Servers]:
    workers, ps = tf.test.create_local_cluster(2, 2)
    yield workers, ps
    for server in (*workers, *ps):
        server.stop()


def test_operations_run_on_the_tasks_that_they_ask_for(cluster: Servers) -> None:
    workers, _ = cluster
    with tf.device("/job:ps/task:1"):
        a = tf.constant([1.0, 2.0]) * 3.0
    with tf.device("/job:worker/task:1"):
        b = tf.reduce_sum(a)
    c = b + 1.0
    with tf.Session(workers[0].target) as sess:
        values = sess.run([a, b, c])
        np.testing.assert_array_equal(values[0], [3.0, 6.0])
        assert values[1:] == [9.0, 10.0]
        assert sess.run(b) == 9.0


@pytest.mark.parametrize("device", ["/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"])
def test_feeds_reach_their_inputs_in_whatever_order_they_are_given(cluster: Servers, device: str) -> None:
    workers, _ = cluster
    fed = [tf.placeholder(tf.float32, []) for _ in range(3)]
    with tf.device(device):
        number = fed[0] * 100.0 + fed[1] * 10.0 + fed[2]
        others = [tf.negative(each) for each in fed]
    values = dict(zip(fed, (1.0, 2.0, 3.0), strict=True))
    with tf.Session(workers[0].target) as sess:
        for order in itertools.permutations(fed):
            feeds = {each: values[each] for each in order}
            assert sess.run(number, feeds) == 123.0
            fetches = [tf.negative(number), *others] if order[0] is fed[2] else [*reversed(others), number, order[1]]
            found = sess.run(fetches, feeds)
            assert found == [123.0 * -1.0, -1.0, -2.0, -3.0] or found == [-3.0, -2.0, -1.0, 123.0, values[order[1]]]
            call = sess.make_callable([number, others[1]], list(order))
            assert call(*(values[each] for each in order)) == [123.0, -2.0]


def test_all_devices_are_listed_the_master_first(cluster: Servers) -> None:
    workers, _ = cluster
    tf.constant(0)
    with tf.Session(workers[1].target) as sess:
        names = [device.name for device in sess.list_devices()]
    assert names[0] == "/job:worker/replica:0/task:1/device:CPU:0"
    assert sorted(names) == sorted(
        f"/job:{job}/replica:0/task:{task}/device:CPU:0" for job in ("ps", "worker") for task in (0, 1)
    )


def test_partition_graphs_show_the_parts_of_all_tasks(cluster: Servers) -> None:
    workers, _ = cluster
    with tf.device("/job:ps/task:1"):
        a = tf.random_uniform([2], name="drawn")
    total = tf.reduce_sum(a, name="total")
    metadata = tf.RunMetadata()
    with tf.Session(workers[0].target) as sess:
        sess.run(total, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    where = {node.name: node.device for graph in metadata.partition_graphs for node in graph.node}
    assert where["drawn"] == "/job:ps/replica:0/task:1/device:CPU:0"
    assert where["total"] == "/job:worker/replica:0/task:0/device:CPU:0"


def test_feeds_reach_every_task(cluster: Servers) -> None:
    workers, _ = cluster
    x = tf.placeholder(tf.float32, [None])
    parts = []
    for task in (0, 1):
        with tf.device(f"/job:ps/task:{task}"):
            parts.append(x * float(task + 1))
    total = tf.add_n(parts)
    with tf.Session(workers[0].target) as sess:
        np.testing.assert_allclose(sess.run(total, {x: [1.0, 2.0]}), [3.0, 6.0])
        np.testing.assert_allclose(sess.run(total, {x: [1.0]}), [3.0])
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            sess.run(total, {x: [[1.0]]})


def test_variables_are_shared_by_name_and_outlive_sessions(cluster: Servers) -> None:
    workers, _ = cluster

    def build() -> Any:
        with tf.device("/job:ps/task:0"):
            return tf.get_variable("v", [], initializer=tf.constant_initializer(5.0))

    for i, worker in enumerate(workers):
        with tf.Graph().as_default():
            v = build()
            step = tf.assign_add(v, 1.0)
            with tf.Session(worker.target) as sess:
                if i == 0:
                    sess.run(v.initializer)
                assert sess.run(step) == 6.0 + i


def test_uninitialized_state_is_an_error_with_its_node(cluster: Servers) -> None:
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("missing", [2])
    with tf.Session(workers[0].target) as sess, pytest.raises(tf.errors.FailedPreconditionError, match="missing"):
        sess.run(v + 1.0)


def test_an_error_of_another_task_names_the_operation_and_the_task(cluster: Servers) -> None:
    workers, _ = cluster
    x = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps/task:1"):
        y = tf.gather([1, 2, 3], x, name="look_up")
    with tf.Session(workers[0].target) as sess:
        assert sess.run(y, {x: 2}) == 3
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)task:1.*look_up") as caught:
            sess.run(y, {x: 7})
        assert caught.value.op is y.op
        assert sess.run(y, {x: 1}) == 2


def test_a_queue_joins_sessions_of_two_tasks(cluster: Servers) -> None:
    workers, _ = cluster
    results: list[Any] = []

    def consume() -> None:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                queue = tf.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name="q")
            taken = queue.dequeue()
            with tf.Session(workers[1].target) as sess:
                results.extend(sess.run(taken) for _ in range(3))

    thread = threading.Thread(target=consume)
    thread.start()
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name="q")
    put = queue.enqueue_many([[1, 2, 3]])
    with tf.Session(workers[0].target) as sess:
        sess.run(put)
    thread.join()
    assert results == [1, 2, 3]


def test_closing_a_session_ends_its_waiting_steps(cluster: Servers) -> None:
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, [tf.int32])
    taken = queue.dequeue()
    sess = tf.Session(workers[0].target)
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            sess.run(taken)
        except tf.errors.OpError as e:
            failures.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    while workers[0]._task.network.num_steps == 0:
        thread.join(0.01)
    sess.close()
    thread.join()
    assert isinstance(failures[0], tf.errors.CancelledError)


def test_a_timeout_ends_the_step_on_all_tasks(cluster: Servers) -> None:
    workers, ps = cluster
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, [tf.int32])
        taken = queue.dequeue()
    with tf.Session(workers[0].target) as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(taken, options=tf.RunOptions(timeout_in_ms=100))
        assert ps[0]._task.network.num_steps == 0
        sess.run(queue.enqueue(4))
        assert sess.run(taken) == 4


def test_containers_are_reset_on_every_task(cluster: Servers) -> None:
    workers, _ = cluster
    with tf.container("box"):
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(1.0)
    with tf.device("/job:ps/task:1"):
        w = tf.Variable(2.0)
    with tf.Session(workers[0].target) as sess:
        sess.run([v.initializer, w.initializer])
    tf.Session.reset(workers[1].target, ["box"])
    with tf.Session(workers[0].target) as sess:
        assert sess.run(w) == 2.0
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(v)


def test_loops_and_conditions_span_tasks(cluster: Servers) -> None:
    workers, _ = cluster

    def body(i: Any, total: Any) -> Any:
        with tf.device("/job:ps/task:1"):
            doubled = total * 2.0
        with tf.device("/job:worker/task:1"):
            return i + 1, tf.cond(i < 2, lambda: doubled + 1.0, lambda: doubled)

    _, result = tf.while_loop(lambda i, _: i < 4, body, (0, 1.0))
    with tf.Session() as sess:
        graph = tf.get_default_graph().as_graph_def()
    for node in graph.node:
        node.device = ""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(graph, name="")
        expected = sess.run(result.name)
    with tf.Session(workers[0].target) as sess:
        assert sess.run(result) == expected
        assert sess.run(result) == expected


def test_partial_runs_span_tasks(cluster: Servers) -> None:
    workers, _ = cluster
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with tf.device("/job:ps/task:0"):
        first = a + 1.0
    with tf.device("/job:ps/task:1"):
        second = first * b
    with tf.Session(workers[0].target) as sess:
        handle = sess.partial_run_setup([first, second], [a, b])
        got = sess.partial_run(handle, first, {a: 2.0})
        assert got == 3.0
        assert sess.partial_run(handle, second, {b: got * 2.0}) == 18.0


def test_a_target_that_is_none_is_refused() -> None:
    with pytest.raises(tf.errors.NotFoundError, match="No session factory"):
        tf.Session("carrier-pigeon://roof:1")


@pytest.mark.parametrize("noticed_in", ["run", "should_stop"])
def test_a_worker_ends_when_the_model_is_lost_after_the_chief_has_ended(
    cluster: Servers, tmp_path: Path, noticed_in: str
) -> None:
    """A parameter server that comes back empty, and no chief that would restore its variables."""
    (server, _), (ps, _) = cluster
    lost = tf.errors.AbortedError(None, None, "the parameter server was restarted")

    class Loss(tf.train.SessionRunHook):
        ran = 0

        def after_create_session(self, session: Any, coord: Any) -> None:
            self.coord = coord

        def before_run(self, run_context: Any) -> None:
            if self.ran:
                raise lost

        def end(self, session: Any) -> None:
            raise AssertionError("There is no session to end with.")

    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        train = step.assign_add(1)
        with tf.Session(server.target) as chief:
            chief.run(step.initializer)
        write_end_mark(tmp_path)  # of an earlier run: means nothing
        loss = Loss()
        with tf.train.MonitoredTrainingSession(server.target, False, str(tmp_path), hooks=[loss]) as session:
            while not session.should_stop():
                loss.ran += int(session.run(train))
                write_end_mark(tmp_path)
                tf.Session.reset(ps.target)
                if noticed_in == "should_stop":
                    loss.coord.request_stop(lost)
            assert noticed_in == "should_stop" and session.should_stop()
    assert loss.ran == 1


@pytest.mark.parametrize("chief_of", ["this run", "another run"])
def test_a_worker_that_is_started_again_after_the_chief_has_ended_ends_if_a_parameter_server_is_lost(
    cluster: Servers, tmp_path: Path, chief_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server, _), _ = cluster
    monkeypatch.setenv(RUN, chief_of)
    write_end_mark(tmp_path)
    monkeypatch.setenv(RUN, "this run")
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        train = tf.train.get_or_create_global_step().assign_add(1)  # never initialized

        def train_as_worker() -> int:
            steps = 0
            with tf.train.MonitoredTrainingSession(server.target, False, str(tmp_path), max_wait_secs=0.5) as session:
                while not session.should_stop():
                    session.run(train)
                    steps += 1
            return steps

        if chief_of == "this run":
            assert train_as_worker() == 0
        # A chief may come that begins another session of the same program, or another run.
        with pytest.raises(tf.errors.DeadlineExceededError, match="not ready"):
            train_as_worker()


def test_an_error_in_the_labels_of_a_trace_fails_the_step(cluster: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_label(compiled: Any, step: Any) -> None:
        raise IndexError("no such label")

    monkeypatch.setattr("thalweg.dist.master_engine.label", broken_label)
    workers, _ = cluster
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps/task:0"):
        doubled = x * 2.0
    with tf.device("/job:worker/task:0"):
        result = doubled + 1.0
    with tf.Session(workers[0].target) as sess:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with pytest.raises(Exception, match="no such label"):
            sess.run(result, {x: 1.0}, options=options, run_metadata=tf.RunMetadata())
        assert sess.run(result, {x: 1.0}) == 3.0
