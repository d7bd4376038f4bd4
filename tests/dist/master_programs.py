"""Programs for a cluster with tasks /job:worker/task:0, the master, and /job:ps/task:0.

They run with `thalweg` and with `tensorflow.compat.v1` as `tf`, each against servers of both. Nothing of Thalweg is
imported here: TensorFlow's environment does not have it.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any, str], None]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Adds a program to the list."""
    PROGRAMS[function.__name__] = function
    return function


def fails(kind: Any, run: Callable[[], Any]) -> Any:
    """Runs a function, which must fail with an error of a class: the error."""
    try:
        run()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


@program
def feeds_fetches_and_new_operations(tf: Any, target: str) -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.reduce_sum(x * 2.0)
    with tf.Session(target) as sess:
        assert sess.run(y, {x: [1.0, 2.0, 3.0]}) == 12.0
        z = y + 1.0  # The session's graph grows.
        first, second = sess.run([y, z], {x: [1.0]})
        assert (first, second) == (2.0, 3.0)
        assert sess.run(z, {y: 5.0}) == 6.0
        names = [device.name for device in sess.list_devices()]
    assert "/job:worker/replica:0/task:0/device:CPU:0" in names and "/job:ps/replica:0/task:0/device:CPU:0" in names


@program
def kinds_of_values(tf: Any, target: str) -> None:
    words = tf.placeholder(tf.string, [None])
    large = tf.placeholder(tf.float32, [None])
    with tf.device("/job:ps/task:0"):
        joined = tf.strings.join([words, words])
    values = np.arange(3_000_000, dtype=np.float32)
    with tf.Session(target) as sess:
        assert sess.run(joined, {words: ["a", "bc"]}).tolist() == [b"aa", b"bcbc"]
        assert sess.run(tf.constant("text")) == b"text"
        np.testing.assert_array_equal(sess.run(large + 1.0, {large: values}), values + 1.0)
        for dtype in (tf.bool, tf.uint8, tf.int64, tf.float16, tf.bfloat16, tf.complex64):
            assert sess.run(tf.cast([0, 1], dtype)).tolist() == [0, 1]


def _count(tf: Any, target: str, use_resource: bool) -> None:
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable(f"v_{use_resource}", initializer=1.0, use_resource=use_resource)
        add = tf.assign_add(v, 2.0)
    with tf.Session(target) as sess:
        sess.run(v.initializer)
        sess.run(add)
        assert sess.run(v) == 3.0
    with tf.Session(target) as sess:  # Variables belong to their task, not to the session.
        assert sess.run(v + 1.0) == 4.0


@program
def reference_variables(tf: Any, target: str) -> None:
    _count(tf, target, use_resource=False)


@program
def resource_variables(tf: Any, target: str) -> None:
    _count(tf, target, use_resource=True)


@program
def training(tf: Any, target: str) -> None:
    random = np.random.RandomState(0)
    data = random.randn(32, 3).astype(np.float32)
    labels = data @ np.array([[1.0], [2.0], [3.0]], np.float32)
    x, t = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    for i, optimizer in enumerate((tf.train.GradientDescentOptimizer(0.1), tf.train.AdamOptimizer(0.2))):
        for use_resource in (False, True):
            with tf.variable_scope(f"net_{i}_{use_resource}", use_resource=use_resource):
                w = tf.get_variable("w", [3, 1])
                b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - t))
            step = optimizer.minimize(loss)
            with tf.Session(target) as sess:
                sess.run(tf.global_variables_initializer())
                before = sess.run(loss, {x: data, t: labels})
                for _ in range(60):
                    sess.run(step, {x: data, t: labels})
                assert sess.run(loss, {x: data, t: labels}) < 0.2 * before


@program
def queues(tf: Any, target: str) -> None:
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="program_queue")
    put, taken, close = queue.enqueue_many([[1, 2, 3]]), queue.dequeue(), queue.close()
    with tf.Session(target) as sess:
        sess.run(put)
        assert [sess.run(taken) for _ in range(3)] == [1, 2, 3]
        sess.run(close)
        assert fails(tf.errors.OutOfRangeError, lambda: sess.run(taken)).op is taken.op


@program
def queue_runners(tf: Any, target: str) -> None:
    numbers = tf.train.batch([tf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()], 2)
    got: list[int] = []
    with tf.Session(target) as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        fails(tf.errors.OutOfRangeError, lambda: [got.extend(sess.run(numbers).tolist()) for _ in range(9)])
        coordinator.request_stop()
        coordinator.join(threads)
    assert got == [0, 1, 2, 3]


@program
def loops_conditions_and_their_gradients(tf: Any, target: str) -> None:
    x = tf.placeholder(tf.float32, [])

    def body(i: Any, total: Any) -> Any:
        with tf.device("/job:ps/task:0"):
            return i + 1, tf.cond(i > 1, lambda: total * x, lambda: total + x)

    _, y = tf.while_loop(lambda i, _: i < 4, body, (0, 0.0))
    (gradient,) = tf.gradients(y, x)
    with tf.Session(target) as sess:
        assert sess.run([y, gradient], {x: 3.0}) == [54.0, 54.0]  # 2 x³, 6 x²


@program
def errors_name_their_operation(tf: Any, target: str) -> None:
    x = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps/task:0"):
        y = tf.gather([1, 2, 3], x, name="look_up")
    missing = tf.get_variable("never_initialized", [2], use_resource=True)
    with tf.Session(target) as sess:
        error = fails(tf.errors.InvalidArgumentError, lambda: sess.run(y, {x: 7}))
        assert error.op is y.op and error.error_code == 3, error
        assert sess.run(y, {x: 1}) == 2
        error = fails(tf.errors.FailedPreconditionError, lambda: sess.run(missing + 1.0))
        assert "never_initialized" in str(error)
        fails(ValueError, lambda: sess.run(y, {x: [1]}))


@program
def partial_runs(tf: Any, target: str) -> None:
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    first = a + 1.0
    second = first * b
    with tf.Session(target) as sess:
        handle = sess.partial_run_setup([first, second], [a, b])
        got = sess.partial_run(handle, first, {a: 2.0})
        assert sess.partial_run(handle, second, {b: got * 2.0}) == 18.0


@program
def callables_and_traces(tf: Any, target: str) -> None:
    x = tf.placeholder(tf.float32, [])
    metadata = tf.RunMetadata()
    with tf.Session(target) as sess:
        assert sess.make_callable(x * 3.0, [x])(2.0) == 6.0
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        sess.run(x * 4.0, {x: 1.0}, options=options, run_metadata=metadata)
    assert any(node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats)


@program
def timeouts_and_closing_end_steps(tf: Any, target: str) -> None:
    queue = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="empty")
    taken = queue.dequeue()
    sess = tf.Session(target)
    fails(tf.errors.DeadlineExceededError, lambda: sess.run(taken, options=tf.RunOptions(timeout_in_ms=100)))
    waiting = threading.Event()
    failures: list[BaseException] = []

    def wait() -> None:
        waiting.set()
        failures.append(fails(tf.errors.OpError, lambda: sess.run(taken)))

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    thread.join(0.5)  # The step is under way, or will find the session closed.
    sess.close()
    thread.join()
    assert isinstance(failures[0], tf.errors.CancelledError), failures
    with tf.Session(target) as sess:  # Neither step has taken anything.
        sess.run(queue.enqueue(5))
        assert sess.run(taken) == 5


@program
def datasets(tf: Any, target: str) -> None:
    dataset = tf.data.Dataset.range(6).map(lambda x: x * 2).batch(2)
    iterator = tf.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()
    with tf.Session(target) as sess:
        sess.run(iterator.initializer)
        assert [sess.run(batch).tolist() for _ in range(3)] == [[0, 2], [4, 6], [8, 10]]
        fails(tf.errors.OutOfRangeError, lambda: sess.run(batch))


@program
def containers(tf: Any, target: str) -> None:
    with tf.container("box"):
        v = tf.get_variable("in_a_box", initializer=1.0, use_resource=True)
    with tf.Session(target) as sess:
        sess.run(v.initializer)
        assert sess.run(v) == 1.0
    tf.Session.reset(target, ["box"])
    with tf.Session(target) as sess:
        fails(tf.errors.FailedPreconditionError, lambda: sess.run(v))


@program
def checkpoints_and_monitored_sessions(tf: Any, target: str) -> None:
    step = tf.train.get_or_create_global_step()
    increment = tf.assign_add(step, 1)
    with tempfile.TemporaryDirectory() as folder:
        for last in (3, 5):
            hooks = [tf.train.StopAtStepHook(last_step=last)]
            values: list[int] = []
            with tf.train.MonitoredTrainingSession(target, checkpoint_dir=folder, hooks=hooks) as sess:
                while not sess.should_stop():
                    values.append(int(sess.run(increment)))
            tf.Session.reset(target)
            assert values == ([1, 2, 3] if last == 3 else [4, 5]), values
        tf.summary.FileWriterCache.clear()
