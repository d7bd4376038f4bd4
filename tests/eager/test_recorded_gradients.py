"""Gradients of ops that have been differentiated before are computed by recorded programs, with the same results."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

TIMES = 6  # A gradient function runs as it is first; then it is recorded, then its program runs.


def gradients(function: Callable[..., Any], *xs: Any) -> list[Any]:
    """The gradients of a function's sum, as arrays or None."""
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = function(*xs)
    return [None if g is None else tf.convert_to_tensor(g).numpy() for g in tape.gradient(y, list(xs))]


def values(*shape: int) -> Any:
    return tf.constant(np.linspace(0.2, 1.7, int(np.prod(shape)), dtype=np.float32).reshape(shape))


# With the shapes of the arguments.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "broadcast": (lambda x, y: x * y + y / x - y, ((3, 4), (4,))),
    "matmul": (lambda x, y: tf.nn.relu(tf.matmul(x, y)), ((3, 4), (4, 2))),
    "means": (lambda x: tf.reduce_mean(tf.reduce_sum(x * x, 1)), ((3, 4),)),
    "extremes": (lambda x: tf.reduce_max(x, 0) + tf.reduce_min(x, 0), ((3, 4),)),
    "product": (lambda x: tf.reduce_prod(x, 1), ((3, 4),)),
    "softmax": (lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 0, 2], logits=x), ((3, 4),)),
    "indices": (lambda x: x[1:, ::2] * x[0, 1], ((3, 4),)),
    "lists": (lambda x, y: tf.split(tf.concat([x, y, x], 1), 2, 1)[1] * 2.0, ((3, 4), (3, 2))),
    "rows": (lambda x: tf.gather(x * 2.0, [1, 1, 0]), ((3, 4),)),
    "where": (lambda x, y: tf.where(x > y, x, y * y), ((3, 4), (3, 4))),
    "shapes": (lambda x: tf.transpose(tf.reshape(x, [4, 3]), [1, 0]) * tf.expand_dims(x[:, 0], 1), ((3, 4),)),
    "image": (lambda x, y: tf.nn.conv2d(x, y, 1, "SAME"), ((1, 5, 5, 2), (3, 3, 2, 2))),
    "normal": (lambda x: tf.nn.moments(x, [0])[1], ((3, 4),)),
    "cast": (lambda x: tf.cast(tf.cast(x, tf.float64) * 2.0, tf.float32), ((3,),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_times_give_the_bits_of_the_first(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    xs = [values(*shape) for shape in shapes]
    first = gradients(function, *xs)
    for _ in range(TIMES):
        for found, expected in zip(gradients(function, *xs), first, strict=True):
            np.testing.assert_array_equal(found, expected)
    with tf.Graph().as_default():
        inputs = [tf.placeholder(tf.float32, x.shape) for x in xs]
        built = tf.gradients(function(*inputs), inputs)
        with tf.Session() as session:
            fed = {placeholder: x.numpy() for placeholder, x in zip(inputs, xs, strict=True)}
            in_graph = session.run([tf.convert_to_tensor(g) for g in built], fed)
    for found, expected in zip(first, in_graph, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_other_values_of_the_same_shapes() -> None:
    for i in range(TIMES):
        x = tf.constant([[1.0 + i, 2.0], [3.0, 4.0]])
        found = gradients(lambda x: tf.reduce_sum(tf.exp(-x) * x), x)[0]
        np.testing.assert_allclose(found, np.exp(-x.numpy()) * (1 - x.numpy()), rtol=1e-5)


def test_an_axis_that_is_a_tensor_may_change() -> None:
    x = values(3, 3)
    for i in range(TIMES):
        axis = tf.constant([i % 2])
        found = gradients(lambda x, a=axis: tf.reduce_prod(x, a)[0], x)[0]
        array = x.numpy()
        expected = np.zeros_like(array)
        line = (slice(None), 0) if i % 2 == 0 else (0, slice(None))
        expected[line] = np.prod(array[line]) / array[line]
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_operands_that_are_one_tensor_and_those_that_are_not() -> None:
    x, y = values(3), values(3) + 1.0
    for _ in range(TIMES):
        np.testing.assert_array_equal(gradients(lambda x: x * x, x)[0], 2 * x.numpy())
    for _ in range(TIMES):
        found = gradients(lambda x, y: x * y, x, y)
        np.testing.assert_array_equal(found[0], y)
        np.testing.assert_array_equal(found[1], x)


def test_other_shapes_have_other_gradients() -> None:
    for size in [*range(1, 300), 1, 2, 3]:
        np.testing.assert_array_equal(gradients(lambda x: x * tf.ones([2, 1]), tf.ones([size]))[0], np.full(size, 2.0))


def test_second_derivatives() -> None:
    x = values(4)

    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.tanh(x) * x
        return tape.gradient(y, x)

    t = np.tanh(x.numpy().astype(np.float64))
    expected = 2 * (1 - t**2) - 2 * x.numpy() * t * (1 - t**2)
    for _ in range(TIMES):
        np.testing.assert_allclose(gradients(slope, x)[0], expected, rtol=1e-4, atol=1e-6)


def test_a_tape_that_is_opened_after_another_sees_through_its_gradient() -> None:
    x = tf.constant(3.0)
    for _ in range(TIMES):
        with tf.GradientTape() as first:
            first.watch(x)
            y = x * x
        with tf.GradientTape() as second:
            second.watch(x)
            slope = first.gradient(y, x)
        assert second.gradient(slope, x).numpy() == 2.0


def test_rows_that_reach_an_op_whose_gradient_is_recorded() -> None:
    x = values(4, 2)
    for _ in range(TIMES):
        gradients(lambda x: tf.exp(x) * 2.0, x)
    for _ in range(TIMES):
        expected = np.zeros((4, 2), np.float32)
        expected[1] = 2 * np.exp(x.numpy()[1])
        np.testing.assert_allclose(gradients(lambda x: tf.gather(tf.exp(x) * 2.0, [1]), x)[0], expected, rtol=1e-6)


def test_gradients_of_embeddings_stay_slices() -> None:
    table = tf.Variable(np.ones((5, 2), np.float32))
    for _ in range(TIMES):
        with tf.GradientTape() as tape:
            y = tf.gather(table, [1, 3])
        assert isinstance(tape.gradient(y, table), tf.IndexedSlices)


def test_a_gradient_function_of_the_program_is_called_each_time() -> None:
    calls: list[int] = []

    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        def backward(grad: Any) -> Any:
            calls.append(1)
            return grad * float(len(calls))

        return x * 2.0, backward

    x = values(2)
    for i in range(TIMES):
        np.testing.assert_array_equal(gradients(doubled, x)[0], [i + 1.0] * 2)


def test_errors_of_gradients_stay() -> None:
    x = values(2)
    texts = set()
    for _ in range(TIMES):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            tape.gradient(y, x, output_gradients=tf.ones([3]))
        texts.add(str(raised.value))
    assert len(texts) == 1


@pytest.mark.parametrize("size", [4, 1 << 19])
def test_a_tape_gives_back_what_no_gradient_needs(size: int) -> None:
    x = tf.fill([size], 0.5)
    for time in range(TIMES):
        with tf.GradientTape() as tape:
            tape.watch(x)
            inner = x + x
            y = tf.tanh(inner)
            gone, kept = weakref.ref(inner), weakref.ref(y)
            loss = tf.reduce_sum(y)
            del inner, y
        # A large value is not kept the first time its call is known; a small one once its gradient is recorded.
        if time == TIMES - 1 or (size > 4 and time > 0):
            assert gone() is None
        assert kept() is not None
        np.testing.assert_allclose(tape.gradient(loss, x)[:2], [2 * (1 - np.tanh(1.0) ** 2)] * 2, rtol=1e-5)
        assert kept() is None


def test_a_tape_in_a_circle_is_collected() -> None:
    x = values(2)

    def circle() -> weakref.ref[Any]:
        tape = tf.GradientTape()

        @tf.custom_gradient
        def through(x: Any) -> Any:
            return x * 2.0, lambda grad: (tape, grad)[1]

        with tape:
            tape.watch(x)
            through(x)
        return weakref.ref(tape)

    gone = circle()
    gc.collect()
    assert gone() is None


def test_threads_share_a_variable_and_the_programs() -> None:
    v = tf.Variable([1.0, 2.0])
    count, turns = 4, 50
    results: list[Any] = [None] * count

    def work(i: int) -> None:
        with tf.eager(), tf.GradientTape() as tape:
            total = v * 0.0
            for _ in range(turns):
                total = tf.tanh(total + v * float(i + 1))
        results[i] = tape.gradient(total, v).numpy()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, found in enumerate(list(results)):
        work(i)
        np.testing.assert_array_equal(results[i], found)


def test_threads_ask_one_tape_for_gradients() -> None:
    x = values(3)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x
        for _ in range(30):
            y = tf.sin(y) * x
    expected = tape.gradient(y, x).numpy()
    results: list[Any] = []

    def work() -> None:
        with tf.eager():
            results.append(tape.gradient(y, x).numpy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for found in results:
        np.testing.assert_array_equal(found, expected)
