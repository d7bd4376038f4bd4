"""Gradients through conditionals and loops, to second order, against finite differences and unrolled graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.ops.finite_differences import check_gradient

_F = tf.float64


def check(call: Callable[..., Any], *shapes: tuple[int, ...], order: int = 2, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.uniform(0.2, 1.2, shape) for shape in shapes]
    check_gradient(call, values, range(len(values)), order, 1e-4)


def repeat(n: Any, step: Callable[[Any, Any], Any], start: Any, **options: Any) -> Any:
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, step(i, y)), (0, start), **options)[1]


@pytest.mark.parametrize("limit", [-9.0, 9.0])
def test_conditional(limit: float) -> None:
    def branch(x: Any, w: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) < limit, lambda: tf.tanh(x * w), lambda: x * x * x)

    check(branch, (3,), (3,), order=3)


@pytest.mark.parametrize("limit", [-9.0, 0.7, 9.0])
def test_conditional_in_a_conditional(limit: float) -> None:
    def branch(x: Any) -> Any:
        return tf.cond(
            x < limit, lambda: tf.cond(x * 2.0 < limit, lambda: tf.tanh(x) * x, lambda: x * x * x), lambda: tf.exp(x)
        )

    check(branch, ())


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("parallel_iterations", [1, 10])
def test_loop(n: int, parallel_iterations: int) -> None:
    check(
        lambda x, w: repeat(
            tf.placeholder_with_default(n, []),
            lambda i, y: tf.tanh(y * w) + x,
            x,
            parallel_iterations=parallel_iterations,
        ),
        (2, 3), (3,),
    )  # fmt: skip


def test_loop_whose_length_depends_on_the_data() -> None:
    check(lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 50.0, lambda y: y * y + x, [x + 1.0]), (2,))


def test_third_derivative_of_a_loop() -> None:
    check(lambda x: repeat(3, lambda i, y: tf.tanh(y) * x, x), (), order=3)


@pytest.mark.parametrize("n", [0, 3])
def test_loop_in_a_loop(n: int) -> None:
    check(lambda x, w: repeat(n, lambda i, y: repeat(i, lambda j, z: tf.tanh(z * w) + y * x, y), x), (2,), (2,))


def test_conditional_in_a_loop() -> None:
    check(
        lambda x, w: repeat(
            4, lambda i, y: tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(y * w), lambda: y + x * tf.exp(-y)), x
        ),
        (2,), (2,),
    )  # fmt: skip


@pytest.mark.parametrize("limit", [-9.0, 9.0])
def test_loop_in_a_conditional(limit: float) -> None:
    check(
        lambda x, w: tf.cond(
            tf.reduce_sum(x) < limit,
            lambda: repeat(3, lambda i, y: tf.tanh(y * w), x),
            lambda: repeat(2, lambda i, y: y * x, w),
        ),
        (2,), (2,),
    )  # fmt: skip


def test_loop_in_a_conditional_in_a_loop() -> None:
    check(
        lambda x, w: repeat(
            3,
            lambda i, y: tf.cond(tf.equal(i, 1), lambda: repeat(2, lambda j, z: tf.tanh(z + y * w), y), lambda: y * x),
            x,
        ),
        (2,), (2,),
    )  # fmt: skip


def test_several_variables_that_feed_each_other() -> None:
    def fibonacci(x: Any, w: Any) -> Any:
        _, a, b, _ = tf.while_loop(
            lambda i, *_: i < 4, lambda i, a, b, unused: (i + 1, b, tf.tanh(a * w) + b, unused * 2.0), (0, x, w, x)
        )
        return a * b

    check(fibonacci, (2,), (2,))


def test_a_variable_whose_shape_changes() -> None:
    def growing(x: Any) -> Any:
        _, y = tf.while_loop(
            lambda i, y: i < 2,
            lambda i, y: (i + 1, tf.concat([y, tf.tanh(y * x[0])], 0)),
            (tf.constant(0), x),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )
        return y

    check(growing, (2,))


def test_map_scan_and_fold() -> None:
    check(lambda x, w: tf.map_fn(lambda r: tf.tanh(r * w) * r, x), (3, 2), (2,))
    check(lambda x, w: tf.map_fn(lambda r: (r[0] * w, r[1] * r[0]), (x, x * x), dtype=(_F, _F)), (3, 2), (2,))
    check(lambda x, w: tf.scan(lambda a, r: tf.tanh(a * w + r), x), (3, 2), (2,))
    check(lambda x, w: tf.scan(lambda a, r: tf.tanh(a * w + r), x, initializer=w, reverse=True), (3, 2), (2,))
    check(lambda x, w: tf.foldl(lambda a, r: tf.tanh(a * w + r), x), (3, 2), (2,))
    check(lambda x, w: tf.foldr(lambda a, r: tf.tanh(a * w + r), x, initializer=w), (3, 2), (2,))


def test_scan_in_map() -> None:
    check(lambda x, w: tf.map_fn(lambda r: tf.scan(lambda a, e: tf.tanh(a * e + w[0]), r), x), (2, 3), (2,))


def recurrent(x: Any, w: Any, u: Any, steps: int) -> Any:
    inputs = tf.TensorArray(_F, size=steps).unstack(x)

    def body(t: Any, h: Any, out: Any) -> Any:
        h = tf.tanh(tf.matmul(inputs.read(t), w) + tf.matmul(h, u))
        return t + 1, h, out.write(t, h)

    start = (0, tf.zeros([2, 3], _F), tf.TensorArray(_F, size=steps))
    return tf.while_loop(lambda t, *_: t < steps, body, start)[2].stack()


def test_a_recurrent_network_equals_its_unrolled_form() -> None:
    rng = np.random.default_rng(1)
    x, w, u = (tf.constant(rng.standard_normal(shape)) for shape in ((5, 2, 4), (4, 3), (3, 3)))
    looped = recurrent(x, w, u, 5)
    h, outputs = tf.zeros([2, 3], _F), []
    for t in range(5):
        h = tf.tanh(tf.matmul(x[t], w) + tf.matmul(h, u))
        outputs.append(h)
    unrolled = tf.stack(outputs)
    first = [tf.gradients(tf.reduce_sum(y * y), [x, w, u]) for y in (looped, unrolled)]
    second = [tf.gradients(tf.add_n([tf.reduce_sum(g * g) for g in grads]), [x, w, u]) for grads in first]
    with tf.Session() as s:
        for pairs in s.run([list(zip(*first, strict=True)), list(zip(*second, strict=True))]):
            for one, other in pairs:
                np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("kind", ["dense", "gathered", "branch"])
def test_variables_captured_by_loops(kind: str) -> None:
    v = tf.Variable(np.random.default_rng(2).uniform(0.2, 1.0, (3, 3)))

    def step(i: Any, y: Any) -> Any:
        if kind == "dense":
            return tf.tanh(tf.matmul(y, v.read_value()))
        if kind == "gathered":
            return tf.tanh(y * tf.gather(v, [i % 3, 1]))
        return tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(y * tf.gather(v, [i % 3, 1])), lambda: y * 1.5)

    def unrolled_step(i: int, y: Any) -> Any:
        return (
            step(tf.constant(i), y)
            if kind != "branch"
            else (tf.tanh(y * tf.gather(v, [i % 3, 1])) if i % 2 == 0 else y * 1.5)
        )

    for n in (0, 1, 4):
        start = tf.ones([2, 3], _F) * tf.reduce_sum(v)
        looped, unrolled = repeat(n, step, start), start
        for i in range(n):
            unrolled = unrolled_step(i, unrolled)
        grads = [tf.convert_to_tensor(tf.gradients(tf.reduce_sum(y), v)[0]) for y in (looped, unrolled)]
        seconds = [tf.convert_to_tensor(tf.gradients(tf.reduce_sum(g * g), v)[0]) for g in grads if n]
        with tf.Session() as s:
            s.run(v.initializer)
            np.testing.assert_allclose(*s.run(grads), rtol=1e-9)
            if n:
                np.testing.assert_allclose(*s.run(seconds), rtol=1e-9)


def test_rows_gathered_in_a_loop_stay_slices() -> None:
    v = tf.Variable(np.ones((5, 2)))
    y = repeat(3, lambda i, y: y + tf.reduce_sum(tf.gather(v, [i, 0])), tf.constant(0.0, _F))
    (grad,) = tf.gradients(y, v)
    assert isinstance(grad, tf.IndexedSlices)
    with tf.Session() as s:
        s.run(v.initializer)
        np.testing.assert_allclose(s.run(tf.convert_to_tensor(grad))[:, 0], [4.0, 1.0, 1.0, 0.0, 0.0])


def test_gradients_taken_inside_a_loop() -> None:
    def descent(x: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            dx, dy = tf.gradients(y * y * x + x * x, [x, y])
            return y - 0.1 * dy + 0.01 * dx

        return repeat(3, step, tf.constant(2.0, _F))

    check(descent, ())


def test_gradients_taken_inside_a_branch() -> None:
    check(lambda x: tf.cond(x < 9.0, lambda: tf.gradients(tf.tanh(x) * x, x)[0], lambda: x), ())


def test_gradients_inside_a_loop_of_a_loop_outside() -> None:
    def outer(x: Any) -> Any:
        y = repeat(3, lambda i, y: y * x + 1.0, x)
        return repeat(2, lambda i, z: z + tf.gradients(y, x)[0] * z, x)

    check(outer, (), order=1)


def test_a_gradient_inside_a_loop_does_not_reach_the_initial_value() -> None:
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="Cannot compute gradient inside while loop"):
        repeat(3, lambda i, y: tf.gradients(y * y, x)[0], x)


def test_back_prop_false_cuts_the_loop() -> None:
    x = tf.constant(1.0)
    assert tf.gradients(repeat(3, lambda i, y: y * 2.0, x, back_prop=False), x) == [None]


def test_hessian_of_a_loop() -> None:
    x = tf.constant([0.1, 0.2, 0.3], _F)
    looped = tf.foldl(lambda a, e: tf.tanh(a * e + x[0]), x)
    unrolled = tf.tanh(tf.tanh(x[0] * x[1] + x[0]) * x[2] + x[0])
    with tf.Session() as s:
        np.testing.assert_allclose(*s.run([tf.hessians(looped, x)[0], tf.hessians(unrolled, x)[0]]), rtol=1e-9)


def test_taking_gradients_leaves_the_loop_itself_as_it_was() -> None:
    n = tf.placeholder(tf.int32, [])
    x = tf.constant(2.0)
    y = repeat(n, lambda i, y: y * x, x)
    with tf.Session() as s:
        assert s.run(y, {n: 3}) == 16.0
        one, other = tf.gradients(y, x)[0], tf.gradients(y, x)[0]
        assert s.run([y, one, other], {n: 3}) == [16.0, 32.0, 32.0]


def test_a_stopped_tensor_in_a_loop() -> None:
    check(lambda x: repeat(3, lambda i, y: tf.stop_gradient(y) * 0.0 + y * x, x), (), order=1)
