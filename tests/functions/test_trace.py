"""Traced functions: what they capture, what they return, in which order their effects happen, and how they fail."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.functions.calling import FLOAT, Mode, call, new_session, run
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply


def test_a_function_computes_its_results_from_its_arguments() -> None:
    function = trace(lambda x, y: (x + y, x * y), [FLOAT, FLOAT])
    assert run(call(function, 3.0, 4.0)) == [7.0, 12.0]


def test_arguments_and_results_keep_their_structure() -> None:
    function = trace(lambda d: {"sum": d["a"] + d["b"][0], "none": None}, [{"a": FLOAT, "b": (FLOAT,)}])
    assert set(function.structured_outputs) == {"none", "sum"}
    assert function.structured_outputs["sum"] is function.outputs[0]
    assert run(call(function, 1.0, 2.0)) == [3.0]


def test_a_sparse_tensor_is_a_result_of_three_tensors() -> None:
    function = trace(lambda x: tf.SparseTensor([[0]], [x], [3]), [tf.TensorSpec([], tf.float32)])
    assert [dtype.name for dtype in function.output_dtypes] == ["int64", "float32", "int64"]


def test_outer_tensors_are_captured_once_each() -> None:
    a, b = tf.constant(2.0), tf.placeholder(tf.float32)
    function = trace(lambda x: x * a + b * a, [FLOAT])
    assert function.captures == [a, b]
    assert run(call(function, 5.0), {b: 10.0}) == [30.0]


def test_an_op_on_outer_tensors_alone_belongs_to_the_function() -> None:
    a = tf.constant(2.0)
    before = len(tf.get_default_graph().get_operations())
    function = trace(lambda: tf.add(a, a), [])
    assert len(tf.get_default_graph().get_operations()) == before
    assert run(call(function)) == [4.0]


def test_captures_of_nested_functions_come_from_the_outermost_graph() -> None:
    a = tf.placeholder(tf.float32)

    def outer(x: tf.Tensor) -> tf.Tensor:
        inner = trace(lambda y: y * a + x, [FLOAT])
        assert inner.captures == [a, x]
        return call(inner, x)[0] + a

    function = trace(outer, [FLOAT])
    assert function.captures == [a]
    assert run(call(function, 3.0), {a: 2.0}) == [11.0]


def test_a_tensor_of_another_graph_is_refused() -> None:
    with tf.Graph().as_default():
        stranger = tf.constant(1.0)
    with pytest.raises(ValueError, match="another graph"):
        trace(lambda x: x + stranger, [FLOAT])


def test_a_tensor_that_leaks_out_of_a_function_is_refused_elsewhere() -> None:
    leaked = []
    trace(lambda x: leaked.append(x * 2.0), [FLOAT])
    with pytest.raises(ValueError, match="Values leave a function as its results"):
        trace(lambda x: x + leaked[0], [FLOAT])


def test_variables_are_captured_by_their_handles() -> None:
    v = tf.Variable(3.0)
    function = trace(lambda x: x * v, [FLOAT])
    assert function.captures == [v.handle]
    result = call(function, 2.0)
    with new_session() as session:
        session.run(v.initializer)
        assert session.run(result) == [6.0]
        session.run(v.assign(5.0))
        assert session.run(result) == [10.0]


def test_variables_made_inside_belong_to_the_outer_graph() -> None:
    function = trace(lambda x: x + tf.get_variable("w", [2], initializer=tf.ones_initializer()), [FLOAT])
    (w,) = tf.global_variables()
    assert w.graph is tf.get_default_graph()
    with tf.variable_scope("", reuse=True):
        assert tf.get_variable("w", [2]) is w
    np.testing.assert_array_equal(run(call(function, [1.0, 2.0]))[0], [2.0, 3.0])


def test_reads_and_updates_happen_in_the_order_of_the_program() -> None:
    v = tf.Variable(1.0)

    def body() -> Any:
        before = v.read_value()
        v.assign_add(1.0)
        between = v.read_value()
        v.assign(between * 10.0)
        return before, between, v.read_value()

    assert run(call(trace(body))) == [1.0, 2.0, 20.0]


def test_effects_run_although_no_result_needs_them() -> None:
    v = tf.Variable(1.0)

    def body(x: tf.Tensor) -> tf.Tensor:
        v.assign_add(x)
        return x

    result = call(trace(body, [FLOAT]), 5.0)
    with new_session() as session:
        session.run(v.initializer)
        session.run(result)
        session.run(result)
        assert session.run(v) == 11.0


def test_control_flow_inside_of_a_function() -> None:
    def body(n: tf.Tensor) -> Any:
        looped = tf.while_loop(lambda i, _: i < n, lambda i, s: (i + 1, s + i), (0, 0))[1]
        return looped, tf.cond(n > 3, lambda: n * 10, lambda: -n)

    n = tf.placeholder(tf.int32, [])
    result = call(trace(body, [tf.TensorSpec([], tf.int32)]), n)
    assert run(result, {n: 5}) == [10, 50]
    assert run(result, {n: 2}) == [1, -2]


def test_random_numbers_differ_from_call_to_call_and_repeat_with_the_seed() -> None:
    function = trace(lambda: tf.random_uniform([], seed=7))
    (number,) = call(function)
    with new_session() as session:
        first = [session.run(number) for _ in range(2)]
    with new_session() as session:
        second = [session.run(number) for _ in range(2)]
    assert first[0] != first[1]
    assert first == second


def test_random_nodes_of_equal_names_in_two_functions_are_two_nodes() -> None:
    one = trace(lambda: tf.random_uniform([], seed=7, name="u"))
    two = trace(lambda: tf.random_uniform([], seed=8, name="u"))
    a, b = run([call(one)[0], call(two)[0]])
    assert a != b


def test_an_error_names_the_node_inside_and_the_function_and_the_call() -> None:
    function = trace(lambda x: tf.identity(tf.check_numerics(x, "bad", name="guard")), [FLOAT], name="checked")
    result = apply("PartitionedCall", [float("nan")], f=function, Tout=[tf.float32], name="outside")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"guard.*of function 'checked'") as info:
        run(result)
    assert info.value.op.name == "outside"


def test_an_error_in_a_nested_call_names_both_functions() -> None:
    def outer(x: tf.Tensor) -> tf.Tensor:
        return call(trace(lambda y: tf.reshape(y, [7]), [FLOAT], name="inner"), x)[0]

    x = tf.placeholder(tf.float32)
    result = call(trace(outer, [FLOAT], name="outer"), x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="7") as info:
        run(result, {x: [1.0, 2.0]})
    if not Mode.inline:
        assert re.search("function 'inner'.*function 'outer'", info.value.message)


def test_an_argument_of_another_shape_than_the_body_was_made_for_is_refused() -> None:
    function = trace(lambda x: tf.shape(x)[0], [tf.TensorSpec([2], tf.float32)])
    x = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"has shape \[2\].*got \[3\]"):
        run(call(function, x), {x: [1.0, 2.0, 3.0]})


def test_an_op_without_a_kernel_names_the_function() -> None:
    function = trace(lambda x: tf.placeholder(tf.float32, name="unfed") + x, [FLOAT], name="f")
    with pytest.raises(tf.errors.InvalidArgumentError, match="unfed"):
        run(call(function, 1.0))


def test_init_scope_leaves_functions_and_control_dependencies() -> None:
    outer = tf.get_default_graph()

    def body(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([x]), tf.init_scope():
            assert tf.get_default_graph() is outer
            assert tf.constant(1.0).op.control_inputs == []
        return x

    trace(body, [FLOAT])


def test_a_building_function_says_so() -> None:
    seen = []
    trace(lambda: seen.append(tf.get_default_graph().building_function))
    assert seen == [True]
    assert not tf.get_default_graph().building_function


def test_a_loop_and_a_branch_inside_capture_what_is_outside() -> None:
    a, b = tf.placeholder(tf.float32, []), tf.Variable(2.0)

    def body(x: tf.Tensor) -> Any:
        looped = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * b + a), (0, x))[1]
        return looped, tf.cond(a > 1.0, lambda: a * b, lambda: x)

    result = call(trace(body, [tf.TensorSpec([], tf.float32)]), 1.0)
    assert run(result, {a: 3.0}) == [29.0, 6.0]
    assert run(result, {a: 1.0}) == [15.0, 1.0]


def test_a_partial_run_calls_functions() -> None:
    @tf.experimental.Defun(tf.float32, func_name="Doubled", noinline=True)
    def doubled(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    first = doubled(x)
    second = doubled(first + y)
    with new_session() as session:
        handle = session.partial_run_setup([first, second], [x, y])
        assert session.partial_run(handle, first, {x: 1.0}) == 2.0
        assert session.partial_run(handle, second, {y: 3.0}) == 10.0


def test_many_threads_call_a_function_at_once() -> None:
    v = tf.Variable(0.0)

    def body(x: tf.Tensor) -> tf.Tensor:
        v.assign_add(1.0)
        return tf.reduce_sum(tf.tanh(x) * 0.0 + x)

    x = tf.placeholder(tf.float32, [4])
    result = call(trace(body, [FLOAT]), x)
    wrong = []
    with new_session() as session:
        session.run(v.initializer)

        def run_many(value: float) -> None:
            for _ in range(100):
                got = session.run(result, {x: [value] * 4})[0]
                if got != 4 * value:
                    wrong.append((got, value))

        threads = [threading.Thread(target=run_many, args=(float(k),)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(v) == 400.0
    assert wrong == []
