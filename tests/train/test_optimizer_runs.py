"""Every optimizer computes what TensorFlow computes, step for step, dense and sparse, under the same names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data.optimizer_runs import DTYPES, FILE, OPTIMIZERS, RULES, run_optimizer, run_rule

# TensorFlow takes reciprocal square roots of float32 from an approximation.
_TOLERANCE = {"float32": 2e-5, "float64": 1e-11}


@functools.cache
def _recorded() -> dict[str, dict[str, np.ndarray]]:
    runs: dict[str, dict[str, np.ndarray]] = {}
    with np.load(FILE) as arrays:
        for key in arrays.files:
            name, dtype, variable = key.split(":")
            runs.setdefault(f"{name}:{dtype}", {})[variable] = arrays[key]
    return runs


def _assert_equal(actual: dict[str, np.ndarray], name: str, dtype: str) -> None:
    expected = _recorded().get(f"{name}:{dtype}")
    if expected is None:
        # TensorFlow cannot run the optimizer in this type: compare with its results in float32.
        expected, dtype = _recorded()[f"{name}:float32"], "float32"
    assert sorted(actual) == sorted(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(actual[key], values, _TOLERANCE[dtype], _TOLERANCE[dtype], err_msg=key)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_steps_as_tensorflow_does(name: str, dtype: str) -> None:
    _assert_equal(run_optimizer(tf, name, dtype), name, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RULES)
def test_a_rule_steps_as_tensorflow_does(name: str, dtype: str) -> None:
    _assert_equal(run_rule(tf, name, dtype), name, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "adam"])
def test_an_optimizer_steps_in_sixteen_bits(name: str, dtype: str) -> None:
    actual: dict[str, Any] = run_optimizer(tf, name, tf.as_dtype(dtype).as_numpy_dtype)
    expected = _recorded()[f"{name}:float32"]
    for key in ("w", "scope/e"):
        np.testing.assert_allclose(actual[key].astype(np.float32), expected[key], 0.1, 0.1, err_msg=key)


@pytest.mark.parametrize(
    ("dtype", "beta2", "steps"),
    [
        ("float16", 0.999, [[0.8999, 1.9004], [0.8003, 1.8008], [0.7012, 1.7012]]),
        ("float16", 0.99, [[0.8999, 1.9004], [0.7988, 1.7988], [0.6987, 1.6973]]),
        ("bfloat16", 0.99, [[0.8984, 1.8984], [0.8047, 1.8047], [0.7109, 1.7109]]),
        # Where beta2 is 1, the second moment stays 0, and epsilon divides: this is what TensorFlow computes, too.
        ("bfloat16", 0.999, [[1.0, 2.0], [-1261568.0, -2523136.0]]),
    ],
)
def test_adam_steps_in_sixteen_bits_as_in_tensorflow(dtype: str, beta2: float, steps: list[list[float]]) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        weights = tf.Variable(tf.cast([1.0, 2.0], dtype), use_resource=True)
        step = tf.train.AdamOptimizer(0.1, beta2=beta2).minimize(tf.reduce_sum(weights * weights))
        sess.run(tf.global_variables_initializer())
        for expected in steps:
            sess.run(step)
            np.testing.assert_allclose(sess.run(tf.cast(weights, tf.float32)), expected, 6e-3)


def test_methods_of_an_optimizer_may_be_overridden_with_fewer_arguments() -> None:
    class Clipped(tf.train.GradientDescentOptimizer):
        def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
            pairs = super().compute_gradients(loss, var_list=var_list, **kwargs)
            return [(tf.clip_by_value(gradient, -1.0, 1.0), variable) for gradient, variable in pairs]

        def apply_gradients(self, grads_and_vars: Any, **kwargs: Any) -> Any:
            return super().apply_gradients(grads_and_vars, **kwargs)

    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(5.0)
        step = Clipped(1.0).minimize(v * 100.0)
        sess.run(tf.global_variables_initializer())
        sess.run(step)
        assert sess.run(v) == 4.0
