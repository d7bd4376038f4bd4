"""Steps: caching, callables, partial runs, concurrency, timeouts, closing, traces."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from tests.queues.waiting import Begun

import thalweg as tf


@pytest.fixture
def session() -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_step_is_compiled_once_per_signature(session: Any) -> None:
    x = tf.placeholder(tf.float32)
    y = x + 1.0
    for i in range(5):
        assert session.run(y, {x: float(i)}) == i + 1
        assert session.run([y], {x: float(i)}) == [i + 1]
    assert len(session._steps) == 1


def test_a_graph_that_grows_keeps_its_compiled_steps(session: Any) -> None:
    x = tf.constant(1.0)
    assert session.run(x) == 1.0
    y = x + 1.0
    assert session.run([x, y]) == [1.0, 2.0]
    assert session.run(x) == 1.0
    assert len(session._steps) == 2


def test_a_changed_node_recompiles_the_step(session: Any) -> None:
    log: list[int] = []
    watched = tf.py_func(lambda: log.append(1) or np.int64(0), [], tf.int64)
    y = tf.constant(1.0) + 1.0
    assert session.run(y) == 2.0
    y.op._add_control_input(watched.op)
    assert session.run(y) == 2.0
    assert log == [1]


def test_a_callable_takes_its_feeds_in_order(session: Any) -> None:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    subtract = session.make_callable(x - y, [x, y])
    assert subtract(5.0, 3.0) == 2.0
    with pytest.raises(TypeError, match="2 values"):
        subtract(1.0)
    with pytest.raises(TypeError):
        session.make_callable(x - y, x)


def test_a_callable_follows_changes_of_the_graph_and_fails_as_run_does(session: Any) -> None:
    x = tf.placeholder(tf.int32, [None], name="x")
    log: list[int] = []
    watched = tf.py_func(lambda: log.append(1) or np.int64(0), [], tf.int64)
    y = tf.floordiv(tf.constant([12, 12]), x, name="quotient")
    calls = [session.make_callable(fetches, [x]) for fetches in (y, [y, y.op], {"y": y})] + [
        session.make_callable(y, ["x:0"])
    ]
    for _ in range(3):
        np.testing.assert_array_equal(calls[0]([2, 3]), [6, 4])
        values = calls[1]([4, 6])
        np.testing.assert_array_equal(values[0], [3, 2])
        assert values[1] is None
        np.testing.assert_array_equal(calls[2]([1, 12])["y"], [12, 1])
        np.testing.assert_array_equal(calls[3]([1, 12]), [12, 1])
        with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero") as error:
            calls[0]([2, 0])
        assert error.value.op is y.op
        with pytest.raises(ValueError, match="shape"):
            calls[0](3)
        with pytest.raises(TypeError, match="1 values"):
            calls[0]()
    y.op._add_control_input(watched.op)
    np.testing.assert_array_equal(calls[0]([2, 3]), [6, 4])
    assert log == [1]
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        calls[0]([2, 3])


def test_a_partial_run_is_fed_and_fetched_piece_by_piece(session: Any) -> None:
    a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
    r1 = a + b
    r2 = r1 * c
    handle = session.partial_run_setup([r1, r2], [a, b, c])
    assert session.partial_run(handle, r1, {a: 1.0, b: 2.0}) == 3.0
    assert session.partial_run(handle, r2, {c: 17.0}) == 51.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="setup"):
        session.partial_run(handle, r2, {c: 1.0})


def test_a_partial_run_keeps_its_state_between_the_pieces(session: Any) -> None:
    calls: list[float] = []
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    noted = tf.py_func(lambda v: calls.append(float(v)) or v, [a], tf.float32)
    total = noted + b
    handle = session.partial_run_setup([noted, total], [a, b])
    first = session.partial_run(handle, noted, {a: 5.0})
    assert session.partial_run(handle, total, {b: float(first) * 2}) == 15.0
    assert calls == [5.0]


def test_a_partial_run_refuses_what_was_not_announced(session: Any) -> None:
    a, b = tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="b")
    handle = session.partial_run_setup([a + 1.0], [a])
    with pytest.raises(tf.errors.InvalidArgumentError, match="b:0"):
        session.partial_run(handle, [], {b: 1.0})
    session.partial_run(handle, [], {a: 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match="already"):
        session.partial_run(handle, [], {a: 1.0})


def test_an_abandoned_partial_run_holds_nothing_up() -> None:
    with tf.Graph().as_default():
        a = tf.placeholder(tf.float32, [])
        session = tf.Session()
        session.partial_run_setup([a + 1.0], [a])
        session.close()


def test_many_threads_run_one_graph_while_it_grows(session: Any) -> None:
    graph = tf.get_default_graph()
    x = tf.placeholder(tf.float32, [])
    outputs = [x + float(i) for i in range(20)]
    failures: list[BaseException] = []

    def work(offset: int) -> None:
        try:
            for i in range(100):
                k = (offset + i) % len(outputs)
                assert session.run(outputs[k], {x: 1.0}) == 1.0 + k
        except BaseException as e:
            failures.append(e)

    def grow() -> None:
        with graph.as_default():
            for _ in range(100):
                outputs.append(x + float(len(outputs)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)] + [threading.Thread(target=grow)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def test_an_error_in_one_step_leaves_the_others_alone(session: Any) -> None:
    good = tf.constant(1.0) + 1.0
    bad = tf.reshape(tf.placeholder(tf.float32, None, "v"), [3])
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(bad, {"v:0": [1.0]})
        assert session.run(good) == 2.0


def _endless(start: Any = 0) -> Any:
    return tf.while_loop(lambda i: i >= 0, lambda i: i * 1, [tf.convert_to_tensor(start)])


def test_an_endless_loop_ends_at_its_timeout(session: Any) -> None:
    loop = _endless()
    with pytest.raises(tf.errors.DeadlineExceededError, match="100 ms"):
        session.run(loop, options=tf.RunOptions(timeout_in_ms=100))


def test_a_timeout_of_the_session_counts_for_every_step() -> None:
    with tf.Graph().as_default():
        loop = _endless()
        with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=100)) as session:
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(loop)
            assert session.run(tf.constant(1.0)) == 1.0


def test_closing_a_session_ends_a_step_that_is_running() -> None:
    with tf.Graph().as_default():
        begun = Begun()
        loop = _endless(begun.zero)
        session = tf.Session()
        caught: list[BaseException] = []

        def run() -> None:
            try:
                session.run(loop)
            except BaseException as e:
                caught.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        session.close()
        thread.join(60)
        assert not thread.is_alive()
        assert isinstance(caught[0], tf.errors.CancelledError)
        with pytest.raises(RuntimeError, match="closed"):
            session.run(loop)


@pytest.mark.processes
@pytest.mark.parametrize("lowered", [True, False])
def test_an_interrupt_ends_an_endless_step(lowered: bool) -> None:
    program = (
        "import signal\n"
        "import thalweg as tf\n"
        # A test that was itself started in the background inherits that interrupts are ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "config = tf.ConfigProto()\n"
        f"config.graph_options.optimizer_options.opt_level = {0 if lowered else -1}\n"
        "loop = tf.while_loop(lambda i: i >= 0, lambda i: i * 1, [tf.constant(0)])\n"
        "session = tf.Session(config=config)\n"
        "print('running', flush=True)\n"
        "try:\n"
        "    session.run(loop)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', session.run(tf.constant(1)))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        threading.Event().wait(0.3)
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "interrupted 1\n"
        assert child.wait(20) == 0


def test_a_session_without_a_graph_says_so() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(RuntimeError, match="empty"):
            session.run([])


def test_a_trace_names_every_node_with_times_and_shapes(session: Any) -> None:
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    y = tf.add(x, x, name="twice")
    metadata = tf.RunMetadata()
    session.run(y, {x: np.ones((2, 3))}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    device = metadata.step_stats.dev_stats[0]
    assert device.device.endswith("CPU:0")
    nodes = {stats.node_name: stats for stats in device.node_stats}
    assert [d.size for d in nodes["twice"].output[0].tensor_description.shape.dim] == [2, 3]
    assert nodes["twice"].all_start_micros > 0


def test_default_sessions_nest_per_thread() -> None:
    with tf.Graph().as_default():
        c = tf.constant(3.0)
        assert tf.get_default_session() is None
        with tf.Session() as outer:
            assert tf.get_default_session() is outer
            with tf.Session() as inner:
                assert tf.get_default_session() is inner
                assert c.eval() == 3.0
            assert tf.get_default_session() is outer
        with pytest.raises(ValueError, match="No default session"):
            c.eval()


def test_an_interactive_session_is_the_default_until_closed() -> None:
    with tf.Graph().as_default():
        session = tf.InteractiveSession()
        assert tf.constant(2.0).eval() == 2.0
        session.close()
        assert tf.get_default_session() is None


@pytest.mark.parametrize(("arguments", "error"), [
    ({"graph": 3}, TypeError), ({"config": 3}, TypeError),
    ({"target": "grpc://nowhere"}, tf.errors.InvalidArgumentError),
])  # fmt: skip
def test_wrong_arguments_of_a_session_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        tf.Session(**arguments)


def test_memory_of_a_long_chain_stays_at_the_few_tensors_that_are_alive(session: Any) -> None:
    from thalweg._native import core

    x = tf.placeholder(tf.float32, [1_000_000])
    y = x
    for _ in range(50):
        y = tf.tanh(y + x)
    total = y * 2.0
    before = core.allocator_stats()["bytes_in_use"]
    core.reset_peak_bytes()
    session.run(total, {x: np.ones(1_000_000, np.float32)})
    peak = core.allocator_stats()["peak_bytes"] - before
    assert peak < 4 * 4_700_000  # Three tensors of 4 MB, with the allocator's rounding.


def test_threads_with_the_same_new_step_compile_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.runtime import engine as module

    install, compiled = module.install, []
    monkeypatch.setattr(module, "install", lambda *args: compiled.append(install(*args)) or compiled[-1])
    y = tf.tanh(tf.constant([1.0, 2.0]))
    barrier = threading.Barrier(4)

    def run(session: Any) -> None:
        barrier.wait()
        session.run(y)

    with tf.Session() as session:
        threads = [threading.Thread(target=run, args=(session,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(compiled) == 1
