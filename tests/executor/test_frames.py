"""The executor's frames: small graphs of raw control-flow ops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import thalweg as tf
from tests.executor.raw_loops import number, raw_loop, session
from tests.queues.waiting import Begun
from thalweg.graph.apply import apply

pytestmark = pytest.mark.parametrize("optimized", [False, True])


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def below(limit: int) -> Any:
    return lambda i, *_: tf.less(i, number(limit, i))


@pytest.mark.parametrize("parallel_iterations", [1, 2, 10, 1000])
def test_a_loop_runs_as_often_as_its_condition_says(optimized: bool, parallel_iterations: int) -> None:
    n = tf.placeholder(tf.int32, [])
    i, total = raw_loop(
        [0, 0], lambda i, t, n: tf.less(i, n), lambda i, t, n: [i + number(1, i), t + i], "f", parallel_iterations, [n]
    )
    with session(optimized) as s:
        for limit in (0, 1, 7, 50):
            assert s.run([i, total], {n: limit}) == [limit, sum(range(limit))]


def test_several_threads_run_one_loop(optimized: bool) -> None:
    n = tf.placeholder(tf.int32, [])
    (i,) = raw_loop([0], lambda i, n: tf.less(i, n), lambda i, n: [i + number(1, i)], invariants=[n])
    results: dict[int, list[int]] = {}
    with session(optimized) as s:

        def run(k: int) -> None:
            results[k] = [int(s.run(i, {n: k})) for _ in range(10)]

        threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {k: [k] * 10 for k in range(4)}


@pytest.mark.parametrize("parallel_iterations", [1, 3, 10])
def test_a_loop_in_a_loop_runs_in_each_iteration(optimized: bool, parallel_iterations: int) -> None:
    n = tf.placeholder(tf.int32, [])

    def outer(i: Any, total: Any, n: Any) -> list[Any]:
        _, inner = raw_loop(
            [i - i, i - i], lambda j, t, i: tf.less(j, i), lambda j, t, i: [j + number(1, j), t + j], "inner",
            parallel_iterations, [i],
        )  # fmt: skip
        return [i + number(1, i), total + inner]

    _, total = raw_loop([0, 0], lambda i, t, n: tf.less(i, n), outer, "outer", parallel_iterations, [n])
    with session(optimized) as s:
        for k in (0, 1, 6):
            assert s.run(total, {n: k}) == sum(sum(range(i)) for i in range(k))


def test_a_loop_in_a_branch_that_is_not_taken_is_dead(optimized: bool) -> None:
    pred = tf.placeholder(tf.bool, [])
    at_false, at_true = apply("Switch", tf.constant(3), pred)
    (looped,) = raw_loop([at_true], below(100), lambda i: [i + number(1, i)], "dead")
    result, which = apply("Merge", [at_false, looped])
    with session(optimized) as s:
        assert s.run([result, which], {pred: False}) == [3, 0]
        assert s.run([result, which], {pred: True}) == [100, 1]


def test_nested_loops_in_a_dead_branch_are_dead(optimized: bool) -> None:
    pred = tf.placeholder(tf.bool, [])
    at_false, at_true = apply("Switch", tf.constant(3), pred)

    def outer(i: Any) -> list[Any]:
        (inner,) = raw_loop([i], lambda j, i: tf.less(j, i + i), lambda j, i: [j + number(1, j)], "inner", 10, [i])
        return [inner]

    (looped,) = raw_loop([at_true], below(100), outer, "dead")
    result = apply("Merge", [at_false, looped])[0]
    with session(optimized) as s:
        assert s.run(result, {pred: False}) == 3
        assert s.run(result, {pred: True}) == 192


def test_a_loop_in_a_branch_that_some_iterations_take(optimized: bool) -> None:
    def body(i: Any, total: Any) -> list[Any]:
        even = tf.equal(tf.floormod(i, number(2, i)), number(0, i))
        at_false, at_true = apply("Switch", total, even)
        (inner,) = raw_loop([at_true], below(1000), lambda t: [t * number(10, t)], "inner")
        merged = apply("Merge", [at_false, inner])[0]
        return [i + number(1, i), tf.floormod(merged, number(997, i)) + i]

    _, total = raw_loop([0, 1], below(6), body, "outer")
    expected = 1
    for i in range(6):
        while i % 2 == 0 and expected < 1000:
            expected *= 10
        expected = expected % 997 + i
    with session(optimized) as s:
        assert s.run(total) == expected


def test_a_dead_node_is_dead_for_its_control_edges(optimized: bool) -> None:
    pred = tf.placeholder(tf.bool, [])
    counter = tf.Variable(0)
    at_false, at_true = apply("Switch", tf.constant(1), pred)
    with tf.control_dependencies([tf.identity(at_true)]):
        bump = apply("AssignAddVariableOp", counter.handle, tf.constant(5))
    with tf.control_dependencies([bump]):
        passed = tf.constant(7)
    result = apply("Merge", [at_false, passed])[0]
    with session(optimized) as s:
        s.run(counter.initializer)
        assert s.run(result, {pred: False}) == 1
        assert s.run(counter) == 0
        assert s.run(result, {pred: True}) == 7
        assert s.run(counter) == 5


@pytest.mark.parametrize("parallel_iterations", [1, 10])
def test_control_edges_order_an_iteration(optimized: bool, parallel_iterations: int) -> None:
    counter = tf.Variable(0)

    def body(i: Any, handle: Any) -> list[Any]:
        bump = apply("AssignAddVariableOp", handle, i)
        with tf.control_dependencies([bump]):
            return [i + number(1, i)]

    (i,) = raw_loop([0], below(5), body, "f", parallel_iterations, [counter.handle])
    with session(optimized) as s:
        s.run(counter.initializer)
        assert s.run(i) == 5
        assert s.run(counter) == sum(range(5))


@pytest.mark.parametrize("parallel_iterations", [1, 10])
def test_an_error_in_an_iteration_ends_the_step(optimized: bool, parallel_iterations: int) -> None:
    n = tf.placeholder(tf.int32, [])
    _, x = raw_loop(
        [0, 8],
        lambda i, x, n: tf.less(i, n),
        lambda i, x, n: [i + number(1, i), tf.floordiv(x, number(3, i) - i)],
        "failing",
        parallel_iterations,
        [n],
    )
    with session(optimized) as s:
        with pytest.raises(tf.errors.InvalidArgumentError, match="zero"):
            s.run(x, {n: 5})
        assert s.run(x, {n: 2}) == 8 // 3 // 2


def endless(start: Any = 1) -> Any:
    (i,) = raw_loop(
        [start],
        lambda i: tf.greater_equal(i, number(0, i)),
        lambda i: [i * number(1, i)],
        "endless",
        parallel_iterations=3,
    )
    return i


def test_an_endless_loop_ends_with_the_timeout(optimized: bool) -> None:
    i = endless()
    with session(optimized) as s:
        with pytest.raises(tf.errors.DeadlineExceededError):
            s.run(i, options=tf.RunOptions(timeout_in_ms=200))


def test_closing_the_session_ends_an_endless_loop(optimized: bool) -> None:
    begun = Begun()
    i = endless(begun.zero)
    s = session(optimized)
    errors: list[Exception] = []

    def run() -> None:
        try:
            s.run(i)
        except tf.errors.OpError as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    s.close()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert [type(e) for e in errors] == [tf.errors.CancelledError]


def test_a_value_that_another_iteration_still_reads_is_not_overwritten(optimized: bool) -> None:
    x = tf.placeholder(tf.float32, [1000])
    _, y, kept = raw_loop([0, x, x], below(5), lambda i, y, kept, x: [i + number(1, i), y + x, y], invariants=[x])
    with session(optimized) as s:
        got_y, got_kept, got_x = s.run([y, kept, x + 0.0], {x: [1.0] * 1000})
    assert (got_y == 6.0).all()
    assert (got_kept == 5.0).all()
    assert (got_x == 1.0).all()


def test_abort_fails_the_step_with_its_message(optimized: bool) -> None:
    abort = apply("Abort", error_msg="enough")
    with session(optimized) as s, pytest.raises(tf.errors.AbortedError, match="enough"):
        s.run(abort)


def test_a_dead_fetch_is_refused(optimized: bool) -> None:
    at_false, _ = apply("Switch", tf.constant(1), tf.placeholder_with_default(True, []))
    with session(optimized) as s, pytest.raises(tf.errors.InvalidArgumentError, match="dead"):
        s.run(at_false)


def test_a_tensor_inside_a_frame_cannot_be_fetched(optimized: bool) -> None:
    inside: list[Any] = []

    def body(i: Any) -> list[Any]:
        inside.append(i + number(1, i))
        return inside

    raw_loop([0], below(5), body)
    with session(optimized) as s, pytest.raises(tf.errors.InvalidArgumentError, match="loop frame"):
        s.run(inside[0])
