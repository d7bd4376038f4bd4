"""Optimizers outside of the graph: SciPy's, with bounds and constraints, and a user's own."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def test_rosenbrock_is_minimized_over_variables_of_different_shapes(sess: Any) -> None:
    x = tf.get_variable("x", initializer=np.float32(-1.2))
    y = tf.get_variable("y", initializer=np.array([[1.0]], np.float64))
    unused = tf.get_variable("unused", initializer=np.ones(2, np.float32))
    loss = tf.square(1.0 - x) + 100.0 * tf.square(tf.cast(tf.reduce_sum(y), tf.float32) - tf.square(x))
    optimizer = tf.contrib.opt.ScipyOptimizerInterface(loss, options={"maxiter": 200})
    sess.run(tf.global_variables_initializer())
    optimizer.minimize(sess)
    np.testing.assert_allclose(sess.run(x), 1.0, atol=1e-2)
    np.testing.assert_allclose(sess.run(y), [[1.0]], atol=1e-2)
    np.testing.assert_array_equal(sess.run(unused), [1.0, 1.0])


def test_bounds_hold(sess: Any) -> None:
    x = tf.get_variable("x", initializer=np.array([5.0, 5.0]))
    optimizer = tf.train.ScipyOptimizerInterface(tf.reduce_sum(x * x), var_to_bounds={x: ([1.0, -np.inf], 10.0)})
    sess.run(tf.global_variables_initializer())
    optimizer.minimize()
    np.testing.assert_allclose(sess.run(x), [1.0, 0.0], atol=1e-6)


def test_constraints_hold(sess: Any) -> None:
    x = tf.get_variable("x", initializer=np.array([7.0, 7.0]))
    optimizer = tf.train.ScipyOptimizerInterface(
        tf.reduce_sum(tf.square(x)), equalities=[x[1] - 1.0], inequalities=[x[0] - 1.0], method="SLSQP"
    )
    sess.run(tf.global_variables_initializer())
    optimizer.minimize(sess)
    np.testing.assert_allclose(sess.run(x), [1.0, 1.0], atol=1e-5)


def test_feeds_fetches_and_callbacks(sess: Any) -> None:
    x = tf.get_variable("x", initializer=np.array([3.0]))
    target = tf.placeholder(tf.float64, [])
    loss = tf.reduce_sum(tf.square(x - target))
    steps: list[Any] = []
    losses: list[float] = []
    optimizer = tf.train.ScipyOptimizerInterface(loss)
    sess.run(tf.global_variables_initializer())
    optimizer.minimize(
        sess, {target: 2.0}, fetches=[loss], step_callback=lambda v: steps.append(v.copy()), loss_callback=losses.append
    )
    np.testing.assert_allclose(sess.run(x), [2.0], atol=1e-5)
    assert losses[0] == 1.0 and losses[-1] < 1e-8
    assert len(steps) >= 1 and steps[0].shape == (1,)


def test_a_user_brings_an_optimizer(sess: Any) -> None:
    class Bisecting(tf.train.ExternalOptimizerInterface):
        def _minimize(self, initial_val: Any, loss_grad_func: Any, **_: Any) -> Any:
            x = initial_val
            for _step in range(self.optimizer_kwargs["steps"]):
                x = x - 0.25 * loss_grad_func(x)[1]
            return x

    x = tf.get_variable("x", initializer=8.0)
    sess.run(tf.global_variables_initializer())
    Bisecting(x * x, steps=3).minimize(sess)
    assert sess.run(x) == 1.0


def test_without_scipy_the_error_says_what_to_install(sess: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tf.get_variable("x", initializer=8.0)
    optimizer = tf.train.ScipyOptimizerInterface(x * x)
    sess.run(tf.global_variables_initializer())
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ImportError, match=r"thalweg\[scipy\]"):
        optimizer.minimize(sess)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="No variables"):
        tf.train.ScipyOptimizerInterface(tf.constant(1.0))
    x = tf.get_variable("x", initializer=8.0)
    with pytest.raises(ValueError, match="session"):
        tf.train.ScipyOptimizerInterface(x * x).minimize()
    with tf.Session() as sess, pytest.raises(NotImplementedError):
        sess.run(x.initializer)
        tf.train.ExternalOptimizerInterface(x * x).minimize(sess)
    with pytest.raises(ValueError, match="broadcast"):
        tf.train.ScipyOptimizerInterface(x * x, var_to_bounds={x: ([1.0, 2.0], 3.0)})
