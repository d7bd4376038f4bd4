"""Sessions whose master is in another process: graphs that grow, and partial runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.dist.processes import Processes
from thalweg.python.framework import function

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with Processes(ps=1, worker=1) as found:
        yield found


@pytest.fixture
def sess(cluster: Processes, monkeypatch: pytest.MonkeyPatch) -> Iterator[tf.Session]:
    with tf.Session(cluster.target("worker")) as session:
        yield session


@pytest.fixture
def sent(sess: tf.Session, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The methods that the session calls, and the sizes of the graphs that it sends."""
    calls: list[tuple[str, int]] = []
    call = sess._engine._call

    def count(method: str, *args: Any, **fields: Any) -> Any:
        calls.append((method, len(fields.get("graph", b""))))
        return call(method, *args, **fields)

    monkeypatch.setattr(sess._engine, "_call", count)
    return calls


def test_only_what_was_added_to_a_graph_is_sent(sess: tf.Session, sent: list[tuple[str, int]]) -> None:
    big = tf.constant(np.arange(100_000, dtype=np.float32))
    total = tf.reduce_sum(big)
    sess.run(total)
    for i in range(3):
        with tf.device("/job:ps/task:0"):
            more = total * float(i)
        assert sess.run(more) == pytest.approx(float(i) * sess.run(total))
    sizes = [size for method, size in sent if method in ("create_session", "extend_session")]
    assert len(sizes) == 4 and sizes[0] > 400_000 and max(sizes[1:]) < 1000


def test_functions_and_loops_can_be_added(sess: tf.Session, sent: list[tuple[str, int]]) -> None:
    @function.Defun(tf.float32)
    def square(x: tf.Tensor) -> tf.Tensor:
        return x * x

    x = tf.constant(3.0)
    assert sess.run(square(x)) == 9.0
    assert sess.run(tf.gradients(square(x), x)[0]) == 6.0

    @function.Defun(tf.float32)
    def fourth(x: tf.Tensor) -> tf.Tensor:
        return square(square(x))

    assert sess.run(fourth(x)) == 81.0
    loop = tf.while_loop(lambda i: i < 10.0, lambda i: i * 2.0, [x])
    assert sess.run(loop) == 12.0
    assert sess.run(tf.cond(loop > 5.0, lambda: x, lambda: x * 0.0)) == 3.0


def test_a_node_that_changes_reaches_the_master(sess: tf.Session) -> None:
    x, y = tf.constant(1.0), tf.constant(2.0)
    z = x + 1.0
    assert sess.run(z) == 2.0
    z.op._update_input(0, y)
    assert sess.run(z) == 3.0
    assert sess.run(z * 2.0) == 6.0


def test_a_remote_session_runs_a_step_in_pieces(sess: tf.Session) -> None:
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.string, [])
    with tf.device("/job:ps/task:0"):
        doubled = x * 2.0
        text = tf.string_join([y, "!"])
        joined = tf.concat([doubled, x], 0)
    done = tf.group(joined)
    run = sess.partial_run_setup([doubled, text, joined, done], [x, y])
    np.testing.assert_array_equal(sess.partial_run(run, doubled, {x: [1.0, 2.0]}), [2.0, 4.0])
    assert sess.partial_run(run, text, {y: "a"}) == b"a!"
    np.testing.assert_array_equal(sess.partial_run(run, [joined, done])[0], [2.0, 4.0, 1.0, 2.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup'"):
        sess.partial_run(run, joined)


def test_an_error_in_a_piece_has_its_class_and_operation(sess: tf.Session) -> None:
    x = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps/task:0"):
        found = tf.gather([1, 2, 3], x, name="look_up")
    run = sess.partial_run_setup([found], [x])
    with pytest.raises(tf.errors.InvalidArgumentError, match="look_up") as caught:
        sess.partial_run(run, found, {x: 7})
    assert caught.value.op is found.op
    run = sess.partial_run_setup([found], [x])
    assert sess.partial_run(run, found, {x: 1}) == 2


def test_closing_the_session_ends_a_partial_run_that_waits(cluster: Processes) -> None:
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    session = tf.Session(cluster.target("worker"))
    run = session.partial_run_setup([y], [x])
    failures: list[tf.errors.OpError] = []

    def wait() -> None:
        try:
            session.partial_run(run, y)
        except tf.errors.OpError as e:
            failures.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    threading.Event().wait(0.2)
    session.close()
    waiting.join(20.0)
    assert len(failures) == 1


def test_many_partial_runs_do_not_stay_with_the_master(sess: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    for i in range(1100):  # A session may have 1000 at a time.
        run = sess.partial_run_setup([y], [x])
        assert sess.partial_run(run, y, {x: float(i)}) == 2.0 * i


def test_the_graphs_that_the_tasks_run_are_sent_to_the_client(sess: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [], name="fed")
    with tf.device("/job:ps/task:0"):
        y = tf.square(x, name="squared")
    z = tf.subtract(y, x, name="difference")
    for _ in range(2):
        metadata = tf.RunMetadata()
        assert sess.run(z, {x: 3.0}, tf.RunOptions(output_partition_graphs=True), metadata) == 6.0
        graphs = {graph.node[0].device: {node.op for node in graph.node} for graph in metadata.partition_graphs}
        assert set(graphs) == {"/job:worker/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"}
        assert "Sub" in graphs["/job:worker/replica:0/task:0/device:CPU:0"]
        assert "Square" in graphs["/job:ps/replica:0/task:0/device:CPU:0"]
    traced = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True, trace_level=tf.RunOptions.FULL_TRACE)
    assert sess.run(z, {x: 3.0}, options, traced) == 6.0
    assert len(traced.partition_graphs) == 2 and len(traced.step_stats.dev_stats) >= 2


def test_more_waiting_fetches_than_call_threads_do_not_keep_a_client_from_feeding(cluster: Processes) -> None:
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    with tf.Session(cluster.target("worker")) as session:
        runs = [session.partial_run_setup([y], [x]) for _ in range(80)]  # A client's calls have 64 threads.
        found: list[float] = []

        def fetch(run: str) -> None:
            found.append(session.partial_run(run, y))

        waiting = [threading.Thread(target=fetch, args=[run]) for run in runs]
        for thread in waiting:
            thread.start()
        threading.Event().wait(0.5)
        for i, run in enumerate(runs):
            session.partial_run(run, [], {x: float(i)})
        for thread in waiting:
            thread.join(30.0)
        assert sorted(found) == [i + 1.0 for i in range(80)]
