"""Gradient tapes: eagerly, in graphs, in functions."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def test_gradient_of_a_watched_tensor() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x * x)
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 12.0]


def test_an_unwatched_tensor_has_none_or_zeros() -> None:
    x, z = tf.constant(1.0), tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2.0
    assert tape.gradient(y, z) is None
    zeros = tape.gradient(y, z, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zeros.numpy().tolist() == [0.0, 0.0]


def test_variables_are_watched_unless_told_otherwise() -> None:
    v: Any = tf.Variable(3.0)
    fixed: Any = tf.Variable(2.0, trainable=False)
    with tf.GradientTape() as tape:
        y = v * v * fixed
    assert tape.watched_variables() == (v,)
    grads = tape.gradient(y, {"v": v, "fixed": fixed})
    assert grads["v"].numpy() == 12.0
    assert grads["fixed"] is None
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(fixed)
        y = v * v * fixed
    assert [g if g is None else g.numpy() for g in tape.gradient(y, [v, fixed])] == [None, 9.0]


def test_a_tape_can_be_used_once_unless_it_is_persistent() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="only be called once on non-persistent tapes"):
        tape.gradient(y, x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(y, x).numpy() == tape.gradient(y, x).numpy() == 6.0


def test_nested_tapes_give_higher_orders() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as middle:
            middle.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = x**4.0
            first = inner.gradient(y, x)
        second = middle.gradient(first, x)
    third = outer.gradient(second, x)
    assert [float(first), float(second), float(third)] == pytest.approx([32.0, 48.0, 48.0])


def test_stop_recording_and_reset() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = x * x
    assert tape.gradient(y, x).numpy() == 6.0
    assert tape.gradient(z, x) is None
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.reset()
        tape.watch(x)
        z = x * 2.0
    assert tape.gradient([y, z], x).numpy() == 2.0
    with tf.GradientTape() as tape:
        pass
    with pytest.raises(RuntimeError, match="not recording"), tape.stop_recording():
        pass


def test_output_gradients_and_several_targets() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = x * x, 3.0 * x
    assert tape.gradient(y, x, output_gradients=tf.constant([1.0, 10.0])).numpy().tolist() == [2.0, 40.0]
    assert tape.gradient([y, z], x).numpy().tolist() == [5.0, 7.0]
    with pytest.raises(ValueError, match="output_gradients"):
        tape.gradient(y, x, output_gradients=[x, x])


def test_sparse_gradients_stay_slices() -> None:
    table = tf.Variable(tf.ones([5, 2]))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 1, 3]))
    grad = tape.gradient(y, table)
    assert isinstance(grad, tf.IndexedSlices)
    assert tf.convert_to_tensor(grad).numpy()[:, 0].tolist() == [0.0, 2.0, 0.0, 1.0, 0.0]


def test_jacobians() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    whole = tape.jacobian(y, x).numpy()
    assert whole.shape == (2, 2, 2, 2)
    np.testing.assert_array_equal(whole.reshape(4, 4), np.diag([2.0, 4.0, 6.0, 8.0]))
    each = tape.batch_jacobian(y, x).numpy()
    np.testing.assert_array_equal(each, [np.diag([2.0, 4.0]), np.diag([6.0, 8.0])])
    with pytest.raises(ValueError, match="first dimension"):
        tape.batch_jacobian(tf.ones([3, 1]), x)


def test_custom_gradients() -> None:
    @tf.custom_gradient
    def clipped(x: Any) -> Any:
        return x * 10.0, lambda dy: tf.clip_by_value(dy, -1.0, 1.0)

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = clipped(x) * 5.0
    assert y.numpy() == 100.0
    assert tape.gradient(y, x).numpy() == 1.0


def test_custom_gradients_with_variables() -> None:
    v: Any = tf.Variable(3.0)

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        def grad(dy: Any, variables: Any) -> Any:
            assert variables == [v]
            return dy * 2.0, [dy * 7.0]

        return x * v, grad

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = scaled(x)
    assert [g.numpy() for g in tape.gradient(y, [x, v])] == [2.0, 7.0]


def test_memory_is_given_back_while_the_tape_plays_and_when_it_goes() -> None:
    x = tf.ones([10])
    with tf.GradientTape() as tape:
        tape.watch(x)
        between = x * 2.0
        y = tf.reduce_sum(tf.exp(between))
    seen = weakref.ref(between)
    del between
    assert seen() is not None
    tape.gradient(y, x)
    del y
    gc.collect()
    assert seen() is None


def test_gradients_through_python_control_flow() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        while y < 100.0:
            y = y * x
    assert y.numpy() == 128.0
    assert tape.gradient(y, x).numpy() == 7 * 2.0**6


def test_gradients_of_integers_are_none() -> None:
    x = tf.constant(3)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(y, x) is None


def test_tf_gradients_says_to_use_a_tape() -> None:
    x = tf.constant(1.0)
    with pytest.raises(RuntimeError, match=r"tf\.gradients is not supported when eager execution is enabled"):
        tf.gradients(x * x, x)


def test_tapes_in_a_graph() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, other = tf.constant(3.0), tf.constant(1.0)
        v = tf.Variable(2.0)
        before = x * 5.0
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x * v * other
            with tape.stop_recording():
                hidden = x * x
        session.run(v.initializer)
        assert session.run(tape.gradient(y, x)) == 12.0
        assert session.run(tape.gradient(y, v)) == 9.0
        assert tape.gradient(y, other) is None
        assert tape.gradient(hidden, x) is None
        assert tape.gradient(before, x) is None
        assert tape.watched_variables() == (v,)


def test_tapes_in_a_function() -> None:
    v: Any = tf.Variable(2.0)

    @tf.function
    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * v
        return tape.gradient(y, [x, v])

    by_x, by_v = slope(tf.constant(3.0))
    assert (by_x.numpy(), by_v.numpy()) == (12.0, 9.0)


def test_implicit_gradients() -> None:
    tfe = tf.contrib.eager
    w: Any = tf.Variable(2.0)
    value, pairs = tfe.implicit_value_and_gradients(lambda x: x * w)(3.0)
    assert value.numpy() == 6.0
    assert [(g.numpy(), var) for g, var in pairs] == [(3.0, w)]
    assert tfe.gradients_function(lambda x, y: x * x * y, params=[0])(3.0, 4.0)[0].numpy() == 24.0
    assert tfe.gradients_function(lambda x, y: x * x * y, params=["y"])(3.0, 4.0)[0].numpy() == 9.0
    with pytest.raises(ValueError, match="No trainable variables"):
        tfe.implicit_gradients(lambda: tf.constant(1.0))()
    with pytest.raises(ValueError, match="returns None"):
        tfe.implicit_gradients(lambda: None)()


def test_a_variable_is_a_target() -> None:
    v, n = tf.Variable([2.0, 3.0]), tf.Variable(1)
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
    assert tape.gradient(v, v).numpy().tolist() == [1.0, 1.0]
    assert tape.gradient([v, y], v).numpy().tolist() == [5.0, 7.0]
    assert tape.gradient(v, v, output_gradients=tf.constant([5.0, 6.0])).numpy().tolist() == [5.0, 6.0]
    assert tape.gradient(n, n) is None


def test_jacobians_without_elements_and_without_a_path() -> None:
    x, z = tf.zeros([0]), tf.ones([3, 2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, z])
        y, w = x * x, z * 2.0
    assert tape.jacobian(y, x).shape == [0, 0]
    assert tape.jacobian(y, z) is None
    assert tape.batch_jacobian(w, tf.ones([3, 4])).numpy().tolist() == np.zeros([3, 2, 4]).tolist()
    with pytest.raises(ValueError, match="first dimension"):
        tape.batch_jacobian(w, tf.ones([2, 4]))


def test_gradients_through_recomputed_functions() -> None:
    v, calls = tf.Variable(2.0), []

    @tf.recompute_grad
    def f(x: Any, factor: float = 1.0) -> Any:
        calls.append(x)
        return tf.sin(x) * v * factor

    x = tf.constant(1.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, factor=3.0)
        by_x, by_v = tape.gradient(y, [x, v])
    assert len(calls) == 2
    assert by_x.numpy() == pytest.approx(6.0 * np.cos(1.0))
    assert by_v.numpy() == pytest.approx(3.0 * np.sin(1.0))
    assert outer.gradient(by_x, x).numpy() == pytest.approx(-6.0 * np.sin(1.0))

    noisy = tf.recompute_grad(lambda x: x * tf.random_uniform([]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = noisy(x)
    with pytest.raises(ValueError, match="RandomUniform"):
        tape.gradient(y, x)


def test_a_python_function_is_differentiated_with_what_it_reads() -> None:
    x, v = tf.constant([1.0, -2.0]), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.py_function(lambda a: a * a * v, [x], tf.float32)
    by_x, by_v = tape.gradient(y, [x, v])
    assert (by_x.numpy().tolist(), by_v.numpy()) == ([6.0, -12.0], 5.0)


def test_elements_of_an_array_can_be_read_after_they_were_stacked() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        array = tf.TensorArray(tf.float32, size=2).unstack(x)
        y = array.stack() * array.read(1)
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 5.0]
