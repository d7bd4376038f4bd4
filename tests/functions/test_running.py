"""Running functions: recursion, bodies that wait, cancellation, and the ops that choose and repeat calls."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.functions.calling import FLOAT, Mode, call, new_session, run
from tests.queues.waiting import Begun
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply
from thalweg.python.framework import function

ROOT = Path(__file__).resolve().parents[2]
INT = tf.TensorSpec([], tf.int32)


def recursive(name: str, step: Any, end: Any) -> Any:
    """A function of one integer that calls itself while it is positive."""
    itself = function.Declare(name, [("n", tf.int32)], [("r", tf.int32)])
    on = trace(lambda n: step(n, itself), [INT], name=f"{name}On")
    off = trace(end, [INT], name=f"{name}Off")

    @function.Defun(tf.int32, func_name=name)
    def defined(n: Any) -> Any:
        return apply("If", n > 0, [n], then_branch=on, else_branch=off, Tout=[tf.int32])[0]

    return defined


def test_a_function_may_call_itself() -> None:
    factorial = recursive("Factorial", lambda n, f: n * f(n - 1), lambda n: tf.constant(1))
    n = tf.placeholder(tf.int32, [])
    with new_session() as session:
        result = factorial(n)
        assert [session.run(result, {n: k}) for k in (0, 1, 5, 10)] == [1, 1, 120, 3628800]


def test_functions_may_call_each_other() -> None:
    odd = function.Declare("Odd", [("n", tf.int32)], [("r", tf.int32)])
    even = recursive("Even", lambda n, _: odd(n - 1), lambda n: tf.constant(1))
    other = function.Declare("Even", [("n", tf.int32)], [("r", tf.int32)])
    on = trace(lambda n: other(n - 1), [INT])
    off = trace(lambda n: tf.constant(0), [INT])

    @function.Defun(tf.int32, func_name="Odd")
    def defined(n: Any) -> Any:
        return apply("If", n > 0, [n], then_branch=on, else_branch=off, Tout=[tf.int32])[0]

    even.add_to_graph(tf.get_default_graph())
    n = tf.placeholder(tf.int32, [])
    result = defined(n)
    assert [run(result, {n: k}) for k in (0, 1, 6, 7)] == [0, 1, 0, 1]


def test_recursion_without_end_is_an_error() -> None:
    forever = recursive("Forever", lambda n, f: f(n + 1), lambda n: n)
    n = tf.placeholder(tf.int32, [])
    result = forever(n)
    with new_session() as session:
        with pytest.raises(tf.errors.ResourceExhaustedError, match="too deep"):
            session.run(result, {n: 1})
        assert session.run(result, {n: 0}) == 0

        def in_thread() -> None:
            with pytest.raises(tf.errors.ResourceExhaustedError):
                session.run(result, {n: 1})

        threads = [threading.Thread(target=in_thread) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


_ENDLESS = """
import resource
import thalweg as tf
from tests.functions.test_running import recursive

forever = recursive("Forever", lambda n, f: f(n + 1), lambda n: n)
result = forever(tf.constant(1))
with tf.Session() as session:
    try:
        session.run(result)
    except tf.errors.ResourceExhaustedError as e:
        assert "too deep" in e.message
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_recursion_without_end_is_an_error_where_the_stack_has_no_limit() -> None:
    """As under `ulimit -s unlimited`; the stack of the main thread then ends where the memory does."""
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if Mode.inline or hard != resource.RLIM_INFINITY:
        return  # One process is enough.
    done = subprocess.run(
        [sys.executable, "-c", _ENDLESS], capture_output=True, text=True, timeout=60, cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (hard, hard)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # A sanitizer keeps several bytes beside each byte of the stack.
    is_sanitized = "san.so" in os.environ.get("LD_PRELOAD", "")
    assert int(done.stdout) < 1 << (23 if is_sanitized else 21), "kilobytes"


def test_recursion_without_end_through_a_body_that_waits_is_an_error() -> None:
    queue = tf.FIFOQueue(1, [tf.int32], shapes=[[]], name="q")
    forever = recursive_with_handle("Waiting", queue)
    n = tf.placeholder(tf.int32, [])
    with new_session() as session, pytest.raises(tf.errors.ResourceExhaustedError, match="deep"):
        session.run(forever(n), {n: 1})


def recursive_with_handle(name: str, queue: Any) -> Any:
    handle = tf.TensorSpec([], tf.resource)
    itself = function.Declare(name, [("n", tf.int32), ("h", tf.resource)], [("r", tf.int32)])

    def on(n: Any, h: Any) -> Any:
        size = apply("QueueSizeV2", h)
        item = apply("QueueEnqueueV2", h, [n])
        with tf.control_dependencies([item]):
            (taken,) = apply("QueueDequeueV2", h, component_types=[tf.int32])
        return itself(taken + 0 * size + 1, h)

    then = trace(on, [INT, handle])
    otherwise = trace(lambda n, h: n, [INT, handle])

    @function.Defun(tf.int32, func_name=name + "Start")
    def start(n: Any) -> Any:
        return itself(n, queue.queue_ref)

    @function.Defun(tf.int32, tf.resource, func_name=name)
    def defined(n: Any, h: Any) -> Any:
        return apply("If", n > 0, [n, h], then_branch=then, else_branch=otherwise, Tout=[tf.int32])[0]

    defined.add_to_graph(tf.get_default_graph())
    return start


def test_a_body_that_waits_goes_on_when_something_comes() -> None:
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    x = tf.placeholder(tf.float32, [])
    put = queue.enqueue([x])
    taken = call(trace(lambda y: queue.dequeue() * y, [FLOAT]), 2.0)
    with new_session() as session:
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(session.run(taken)[0])) for _ in range(3)]
        for thread in threads:
            thread.start()
        for value in (1.0, 2.0, 3.0):
            session.run(put, {x: value})
        for thread in threads:
            thread.join()
        assert sorted(results) == [2.0, 4.0, 6.0]


def waiting_call() -> Any:
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    inner = trace(lambda y: queue.dequeue() * y, [FLOAT])
    return call(trace(lambda y: call(inner, y)[0] + 1.0, [FLOAT]), 2.0)


def test_a_timeout_ends_a_body_that_waits() -> None:
    result = waiting_call()
    with new_session() as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(result, options=tf.RunOptions(timeout_in_ms=50))


def test_closing_the_session_ends_a_body_that_waits() -> None:
    result = waiting_call()
    begun = Begun()
    session = new_session()
    errors: list[Any] = []

    def step() -> None:
        try:
            session.run([result, begun.zero])
        except tf.errors.OpError as e:
            errors.append(e)

    thread = threading.Thread(target=step)
    thread.start()
    begun.wait()
    session.close()
    thread.join(60.0)
    assert not thread.is_alive()
    assert isinstance(errors[0], tf.errors.CancelledError)


def test_an_error_elsewhere_in_the_step_ends_a_body_that_waits() -> None:
    result = waiting_call()
    x = tf.placeholder(tf.float32, [])
    fails = tf.check_numerics(x, "not a number")
    with new_session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
        session.run([result, fails], {x: np.nan})


def test_a_timeout_ends_a_loop_of_calls_without_end() -> None:
    always = trace(lambda x: tf.constant(True), [FLOAT])
    same = trace(lambda x: x, [FLOAT])
    result = apply("While", [1.0], cond=always, body=same)
    with new_session() as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(result, options=tf.RunOptions(timeout_in_ms=50))


def test_loops_and_branches_may_wait() -> None:
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    handle = tf.TensorSpec([], tf.resource)

    def take(h: Any) -> Any:
        return apply("QueueDequeueV2", h, component_types=[tf.float32])[0]

    cond = trace(lambda i, v, h: i < 3, [INT, FLOAT, handle])
    body = trace(lambda i, v, h: (i + 1, v + take(h), h), [INT, FLOAT, handle])
    total = apply("While", [0, 0.0, queue.queue_ref], cond=cond, body=body)[1]
    one = trace(lambda h: take(h), [handle])
    two = trace(lambda h: take(h) * 10.0, [handle])
    p = tf.placeholder(tf.bool, [])
    chosen = apply("If", p, [queue.queue_ref], then_branch=one, else_branch=two, Tout=[tf.float32])
    put = queue.enqueue_many([[1.0, 2.0, 3.0, 4.0]])
    with new_session() as session:
        session.run(put)
        assert session.run(total) == 6.0
        assert session.run(chosen, {p: False}) == [40.0]


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        (True, 1),
        (False, 2),
        (0, 2),
        (7, 1),
        (0.0, 2),
        (0.5, 1),
        (b"", 2),
        (b"x", 1),
        ([], 2),
        ([0], 1),
        (np.int8(0), 2),
    ],
)
def test_conditions_are_read_as_tensorflow_reads_them(condition: Any, taken: int) -> None:
    one, two = trace(lambda: tf.constant(1)), trace(lambda: tf.constant(2))
    value = tf.constant(condition, tf.float32 if isinstance(condition, list) else None)
    assert run(apply("If", value, [], then_branch=one, else_branch=two, Tout=[tf.int32])) == [taken]


@pytest.mark.parametrize(("index", "taken"), [(0, 10), (1, 20), (2, 30), (3, 30), (-1, 30)])
def test_case_takes_the_last_branch_for_any_other_index(index: int, taken: int) -> None:
    branches = [trace(lambda k=k: tf.constant(k)) for k in (10, 20, 30)]
    assert run(apply("StatelessCase", index, [], branches=branches, Tout=[tf.int32])) == [taken]


def test_for_counts_and_refuses_to_count_without_end() -> None:
    body = trace(lambda i, v: v + tf.cast(i, tf.float32), [INT, FLOAT])
    start, limit, delta = (tf.placeholder(tf.int32, []) for _ in range(3))
    (result,) = apply("For", start, limit, delta, [0.0], body=body)
    for numbers, total in (((0, 5, 1), 10.0), ((5, 0, -2), 9.0), ((3, 3, 0), 0.0)):
        assert run(result, dict(zip((start, limit, delta), numbers, strict=True))) == total
    for numbers in ((0, 5, 0), (0, 5, -1), (5, 0, 1)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="delta"):
            run(result, dict(zip((start, limit, delta), numbers, strict=True)))


def test_remote_call_runs_here() -> None:
    double = trace(lambda x: x * 2.0, [FLOAT])
    assert run(apply("RemoteCall", "/cpu:0", [4.0], f=double, Tout=[tf.float32])) == [8.0]


def test_functions_of_other_types_than_the_node_s_are_refused() -> None:
    double = trace(lambda x: x * 2.0, [FLOAT])
    with pytest.raises(ValueError, match="takes 1 arguments, 2 are passed"):
        apply("PartitionedCall", [1.0, 2.0], f=double, Tout=[tf.float32])
    with pytest.raises(ValueError, match="has 1 results, not 2"):
        apply("PartitionedCall", [1.0], f=double, Tout=[tf.float32, tf.float32])
    wrong = apply("PartitionedCall", [1.0], f=double, Tout=[tf.int32])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"float32|float, the node expects"):
        run(wrong)
    other = apply("PartitionedCall", [1], f=double, Tout=[tf.float32])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"argument 0 of function"):
        run(other)


def test_a_call_in_the_branch_that_is_not_taken_has_no_effect() -> None:
    v = tf.Variable(0.0)

    def body(x: Any) -> Any:
        v.assign_add(1.0)
        return x + tf.constant(1.0)

    effect = trace(body, [FLOAT])
    p = tf.placeholder(tf.bool, [])
    result = tf.cond(p, lambda: call(effect, 1.0)[0], lambda: tf.constant(0.0))
    with new_session() as session:
        session.run(v.initializer)
        assert [session.run(result, {p: value}) for value in (True, False, True)] == [2.0, 0.0, 2.0]
        assert session.run(v) == 2.0


def test_a_call_waits_for_its_control_dependencies_and_others_for_it() -> None:
    v = tf.Variable(1.0)
    body = trace(lambda: v.assign(v.read_value() * 3.0).op)
    with tf.control_dependencies([v.assign(5.0)]):
        apply("StatefulPartitionedCall", body.captures, f=body, Tout=[], name="call")
    with tf.control_dependencies([tf.get_default_graph().get_operation_by_name("call")]):
        after = v.read_value()
    with new_session() as session:
        session.run(v.initializer)
        assert session.run(after) == 15.0


def test_a_function_in_a_loop_of_the_graph_keeps_its_constants_inside() -> None:
    body = trace(lambda x: x * tf.constant(2.0) + tf.random_uniform([]) * 0.0, [tf.TensorSpec([], tf.float32)])
    result = tf.while_loop(lambda i, _: i < 5, lambda i, x: (i + 1, call(body, x)[0]), (0, 1.0))[1]
    assert run(result) == 32.0


def test_two_calls_of_a_body_with_a_loop_have_loops_of_their_own() -> None:
    def body(n: Any) -> Any:
        return tf.while_loop(lambda i, _: i < n, lambda i, s: (i + 1, s + i), (0, 0))[1]

    summed = trace(body, [INT])
    assert run([call(summed, 4)[0], call(summed, 5)[0]]) == [6, 10]


def test_a_session_that_is_gone_takes_its_functions_along() -> None:
    body = trace(lambda x: tf.py_func(lambda v: v * 2.0, [x], tf.float32), [FLOAT])
    result = call(body, 2.0)
    for _ in range(3):
        assert run(result) == [4.0]
    gc.collect()


def test_a_function_s_arguments_are_not_written_over() -> None:
    body = trace(lambda x: tf.negative(x) + 1.0, [tf.TensorSpec([1000], tf.float32)])
    x = tf.constant(np.ones(1000, np.float32)) * tf.placeholder(tf.float32, [])
    (once,) = call(body, x)
    (twice,) = call(body, once)
    values = run([x, once, twice], {x.op.inputs[1]: 2.0})
    assert [value[0] for value in values] == [2.0, -1.0, 2.0]


def test_a_body_runs_on_the_device_of_its_call_and_its_state_stays_where_it_is() -> None:
    with tf.device("/cpu:0"):
        v = tf.Variable(2.0)
        add = tf.constant(1.0)  # Of the same name as a node of the body.

    @tf.function
    def body(x: Any) -> Any:
        return tf.add(x * v, tf.train.GradientDescentOptimizer(0.5).minimize(v * x) and 1.0, name="Const")

    with tf.device("/cpu:1"):
        y = body(tf.constant(3.0)) + add
    with new_session(device_count={"CPU": 2}) as session:
        session.run(v.initializer)
        assert session.run(y) == 8.0
        assert session.run(v) == 0.5
