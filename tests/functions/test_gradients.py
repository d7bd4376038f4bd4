"""Gradients through functions: of calls, of a call's captured variables, of branches and loops, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.functions.calling import FLOAT, call, new_session, run
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply
from thalweg.python.framework import function


def test_the_gradient_of_a_call_is_that_of_its_body() -> None:
    x = tf.placeholder(tf.float32, [2])
    body = trace(lambda x, y: tf.sin(x) * y, [FLOAT, FLOAT])
    (z,) = call(body, x, 3.0)
    (direct,) = tf.gradients(tf.sin(x) * 3.0, x)
    ours, wanted = run([tf.gradients(z, x)[0], direct], {x: [0.5, 1.0]})
    np.testing.assert_allclose(ours, wanted, rtol=1e-6)


def test_a_function_by_name_has_a_symbolic_gradient() -> None:
    @function.Defun(tf.float32, tf.float32, func_name="Product")
    def product(x: Any, y: Any) -> Any:
        return x * y, tf.square(x)

    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    grads = tf.gradients(product(x, y), [x, y])
    assert all(grad.op.type == "SymbolicGradient" for grad in grads)
    assert run(grads, {x: 3.0, y: 5.0}) == [5.0 + 6.0, 3.0]


def test_second_and_third_derivatives() -> None:
    @function.Defun(tf.float64, func_name="Cube")
    def by_name(x: Any) -> Any:
        return x * x * x

    traced = trace(lambda x: x * x * x, [tf.TensorSpec([], tf.float64)])
    x = tf.placeholder(tf.float64, [])
    for y in (by_name(x), call(traced, x)[0]):
        first = tf.gradients(y, x)[0]
        second = tf.gradients(first, x)[0]
        third = tf.gradients(second, x)[0]
        np.testing.assert_allclose(run([first, second, third], {x: 2.0}), [12.0, 12.0, 6.0])


def test_captured_variables_and_tensors_get_their_gradients() -> None:
    v = tf.Variable([1.0, 2.0])
    c = tf.constant(3.0)
    (y,) = call(trace(lambda x: tf.reduce_sum(x * v * c), [FLOAT]), [10.0, 20.0])
    dv, dc = run(tf.gradients(y, [v, c]))
    np.testing.assert_allclose(dv, [30.0, 60.0])
    np.testing.assert_allclose(dc, 50.0)


def test_a_captured_table_of_embeddings_gets_slices() -> None:
    table = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    (rows,) = call(trace(lambda i: tf.nn.embedding_lookup(table, i), [tf.TensorSpec([2], tf.int32)]), [2, 0])
    grad = tf.gradients(rows * 2.0, table)[0]
    assert isinstance(grad, tf.IndexedSlices)
    np.testing.assert_allclose(run(tf.convert_to_tensor(grad)), [[2, 2], [0, 0], [2, 2]])


def test_an_optimizer_trains_through_a_function() -> None:
    w = tf.Variable([[0.0], [0.0]])

    @function.Defun(tf.float32, tf.float32)
    def loss(x: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.matmul(x, w) - y))

    x = np.random.RandomState(0).randn(50, 2).astype(np.float32)
    value = loss(x, x @ np.array([[2.0], [-1.0]], np.float32))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(value)
    with new_session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            session.run(train)
        np.testing.assert_allclose(session.run(w), [[2.0], [-1.0]], atol=1e-3)


def test_random_numbers_of_a_body_are_not_drawn_again_for_its_gradient() -> None:
    body = trace(lambda x: x * tf.random_uniform([], seed=3), [FLOAT])
    x = tf.placeholder(tf.float32, [])
    (y,) = call(body, x)
    y = tf.identity(y)
    with new_session() as session:
        session.run(y, {x: 2.0})
        dy = tf.gradients(y, x)[0]  # The call gets more results, after it was run.
        for _ in range(3):
            value, slope = session.run([y, dy], {x: 2.0})
            np.testing.assert_allclose(value, 2.0 * slope, rtol=1e-6)


def test_effects_of_a_body_happen_once_with_its_gradient() -> None:
    count = tf.Variable(0.0, trainable=False)

    def body(x: Any) -> Any:
        count.assign_add(1.0)
        return tf.square(x)

    x = tf.placeholder(tf.float32, [])
    (y,) = call(trace(body, [FLOAT]), x)
    dy = tf.gradients(y, x)[0]
    with new_session() as session:
        session.run(count.initializer)
        assert session.run([y, dy], {x: 3.0}) == [9.0, 6.0]
        assert session.run(count) == 1.0


def test_a_loop_in_a_body_is_differentiated() -> None:
    def body(x: Any, n: Any) -> Any:
        return tf.while_loop(lambda i, _: i < n, lambda i, p: (i + 1, p * x), (0, 1.0))[1]

    x, n = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    (y,) = call(trace(body, [tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.int32)]), x, n)
    assert run([y, tf.gradients(y, x)[0]], {x: 2.0, n: 4}) == [16.0, 32.0]


def test_a_call_in_a_loop_and_in_a_branch_is_differentiated() -> None:
    body = trace(lambda x: x * x + 1.0, [tf.TensorSpec([], tf.float32)])
    x = tf.placeholder(tf.float32, [])
    looped = tf.while_loop(lambda i, _: i < 2, lambda i, v: (i + 1, call(body, v)[0]), (0, x))[1]
    chosen = tf.cond(x > 0.0, lambda: call(body, x)[0], lambda: x)
    assert run([looped, tf.gradients(looped, x)[0]], {x: 2.0}) == [26.0, 40.0]
    assert run([chosen, tf.gradients(chosen, x)[0]], {x: 2.0}) == [5.0, 4.0]
    assert run([chosen, tf.gradients(chosen, x)[0]], {x: -2.0}) == [-2.0, 1.0]


def test_grad_func_is_honoured() -> None:
    @function.Defun(tf.float32, tf.float32, func_name="Odd")
    def odd(x: Any, dy: Any) -> Any:
        return dy * x * 1000.0

    @function.Defun(tf.float32, func_name="Squared", grad_func=odd)
    def square(x: Any) -> Any:
        return x * x

    x = tf.placeholder(tf.float32, [])
    y = square(x)
    assert run(tf.gradients(y, x), {x: 2.0}) == [2000.0]
    library = tf.get_default_graph().as_graph_def().library
    assert [(g.function_name, g.gradient_func) for g in library.gradient] == [("Squared", "Odd")]


def test_python_grad_func_is_honoured() -> None:
    def gradient(op: Any, dy: Any) -> Any:
        assert op.type == "Squared"
        return dy * 7.0

    @function.Defun(tf.float32, func_name="Squared", python_grad_func=gradient)
    def square(x: Any) -> Any:
        return x * x

    x = tf.placeholder(tf.float32, [])
    assert run(tf.gradients(square(x), x), {x: 2.0}) == [7.0]


def test_two_gradients_are_refused() -> None:
    with pytest.raises(ValueError, match="defined twice"):
        function.Defun(tf.float32, grad_func=object(), python_grad_func=print)(lambda x: x)


def branches() -> tuple[Any, Any]:
    one = trace(lambda x, y: (x * y, x), [FLOAT, FLOAT])
    two = trace(lambda x, y: (x + 2.0 * y, y), [FLOAT, FLOAT])
    return one, two


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
def test_if_is_differentiated(op: str) -> None:
    one, two = branches()
    p, x, y = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    z = apply(op, p, [x, y], then_branch=one, else_branch=two, Tout=one.output_dtypes)
    grads = tf.gradients(z, [x, y])
    again = tf.gradients(grads[0], y)
    assert run([*z, *grads, *again], {p: True, x: 3.0, y: 5.0}) == [15.0, 3.0, 6.0, 3.0, 1.0]
    assert run([*z, *grads, *again], {p: False, x: 3.0, y: 5.0}) == [13.0, 5.0, 1.0, 3.0, 0.0]


@pytest.mark.parametrize("op", ["Case", "StatelessCase"])
def test_case_is_differentiated(op: str) -> None:
    one, two = branches()
    i, x, y = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    z = apply(op, i, [x, y], branches=[one, two], Tout=one.output_dtypes)
    grads = tf.gradients(z, [x, y])
    assert run([*z, *grads], {i: 0, x: 3.0, y: 5.0}) == [15.0, 3.0, 6.0, 3.0]
    assert run([*z, *grads], {i: 17, x: 3.0, y: 5.0}) == [13.0, 5.0, 1.0, 3.0]


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_while_is_differentiated(op: str) -> None:
    scalars = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float64), tf.TensorSpec([], tf.float64)]
    cond = trace(lambda i, v, x: i < 3, scalars)
    body = trace(lambda i, v, x: (i + 1, v * v * x, x), scalars)
    v, x = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [])
    result = apply(op, [0, v, x], cond=cond, body=body)[1]  # v**8 * x**7
    grads = tf.gradients(result, [v, x])
    second = tf.gradients(grads[1], x)
    v0, x0 = 1.1, 0.9
    np.testing.assert_allclose(
        run([result, *grads, *second], {v: v0, x: x0}),
        [v0**8 * x0**7, 8 * v0**7 * x0**7, 7 * v0**8 * x0**6, 42 * v0**8 * x0**5],
    )


def test_a_variable_in_the_body_of_a_while_gets_its_gradient() -> None:
    w = tf.Variable(2.0)
    specs = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)]
    body = trace(lambda i, v: (i + 1, v * w), specs)
    handle = tf.TensorSpec([], tf.resource)
    cond = trace(lambda i, v, h: i < 3, [*specs, handle])
    full = trace(lambda i, v, h: (*call_with(body, i, v, h), h), [*specs, handle])
    y = apply("While", [0, 1.0, w.handle], cond=cond, body=full)[1]
    assert run([y, tf.gradients(y, w)[0]]) == [8.0, 12.0]


def call_with(body: Any, *args: Any) -> Any:
    return apply("StatefulPartitionedCall", list(args), f=body, Tout=body.output_dtypes)


def test_for_is_differentiated() -> None:
    body = trace(lambda i, v: v * tf.cast(i, tf.float32), [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)])
    v = tf.placeholder(tf.float32, [])
    (up,) = apply("For", 1, 5, 1, [v], body=body)
    (down,) = apply("For", 6, 2, -2, [v], body=body)
    assert run([up, tf.gradients(up, v)[0]], {v: 2.0}) == [48.0, 24.0]
    assert run([down, tf.gradients(down, v)[0]], {v: 2.0}) == [48.0, 24.0]


def test_an_unconnected_argument_has_no_gradient() -> None:
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    (z,) = call(trace(lambda x, y: x * 2.0, [FLOAT, FLOAT]), x, y)
    assert tf.gradients(z, y) == [None]


def test_a_body_differentiates_with_respect_to_what_it_captured() -> None:
    v = tf.Variable(3.0)
    c = tf.placeholder(tf.float32, [])
    unused = tf.constant(1.0)

    def body(x: Any) -> Any:
        grads = tf.gradients(x * v * v + c * c, [v, c, unused, x])
        assert grads[2] is None
        return grads[0], grads[1], grads[3]

    assert run(call(trace(body, [FLOAT]), 5.0), {c: 4.0}) == [30.0, 8.0, 9.0]


def test_a_training_step_is_a_function() -> None:
    w = tf.Variable(0.0)

    @tf.function
    def step(x: Any) -> Any:
        loss = tf.square(w - x)
        tf.train.MomentumOptimizer(0.1, 0.5).minimize(loss)
        return loss

    loss = step(tf.constant(2.0))
    assert len(tf.global_variables()) == 2
    with new_session() as session:
        session.run(tf.global_variables_initializer())
        losses = [float(session.run(loss)) for _ in range(30)]
        assert losses[0] == 4.0
        assert losses[-1] < 1e-3
