"""Adam on sparse gradients: all rows as TensorFlow does it, or only those of the batch (LazyAdam)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

ROWS, WIDTH = 1000, 6


def _start(dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(dtype)


@pytest.fixture
def sess() -> Any:
    with tf.Session() as session:
        yield session


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_sparse_step_of_adam_has_the_bits_of_a_dense_one(sess: Any, dtype: Any) -> None:
    random = np.random.default_rng(1)
    sparse, dense = (tf.get_variable(name, initializer=_start(dtype)) for name in ("sparse", "dense"))
    indices, values = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.as_dtype(dtype), [None, WIDTH])
    full = tf.scatter_nd(indices[:, None], values, [ROWS, WIDTH])
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.apply_gradients([(tf.IndexedSlices(values, indices), sparse), (full, dense)])
    sess.run(tf.global_variables_initializer())
    for count in (0, 1, 17, 400, ROWS):
        rows = random.permutation(ROWS)[:count]
        sess.run(train, {indices: rows, values: random.standard_normal((count, WIDTH)).astype(dtype)})
        for slot in ("m", "v"):
            a, b = sess.run([optimizer.get_slot(sparse, slot), optimizer.get_slot(dense, slot)])
            assert a.tobytes() == b.tobytes()
        a, b = sess.run([sparse, dense])
        assert a.tobytes() == b.tobytes()


def test_lazy_adam_changes_only_rows_with_a_gradient(sess: Any) -> None:
    w = tf.get_variable("w", initializer=_start())
    indices = tf.placeholder(tf.int64, [None])
    optimizer = tf.contrib.opt.LazyAdamOptimizer(0.1, 0.9, 0.99, 1e-3)
    train = optimizer.minimize(tf.reduce_sum(tf.square(tf.gather(w, indices))))
    sess.run(tf.global_variables_initializer())
    value, m, v = _start().astype(np.float64), np.zeros((ROWS, WIDTH)), np.zeros((ROWS, WIDTH))
    for step, rows in enumerate(([3, 5, 5, 999], [5], [0, 3]), 1):
        sess.run(train, {indices: rows})
        for row in set(rows):
            gradient = 2.0 * value[row] * rows.count(row)
            m[row] += (gradient - m[row]) * 0.1
            v[row] += (gradient**2 - v[row]) * 0.01
            rate = 0.1 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
            value[row] -= rate * m[row] / (np.sqrt(v[row]) + 1e-3)
    got, got_m, got_v = sess.run([w, optimizer.get_slot(w, "m"), optimizer.get_slot(w, "v")])
    np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got_m, m, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got_v, v, rtol=1e-4, atol=1e-6)
    untouched = np.setdiff1d(np.arange(ROWS), [0, 3, 5, 999])
    np.testing.assert_array_equal(got[untouched], _start()[untouched])


def test_a_dense_step_of_lazy_adam_is_one_of_adam(sess: Any) -> None:
    a, b = (tf.get_variable(name, initializer=_start()) for name in "ab")
    optimizers = tf.train.AdamOptimizer(0.1), tf.contrib.opt.LazyAdamOptimizer(0.1)
    train = [o.minimize(tf.reduce_sum(tf.sin(w)), var_list=[w]) for o, w in zip(optimizers, (a, b), strict=True)]
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    first, second = sess.run([a, b])
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("indices", "shape", "message"),
    [
        ([1, 2, 1], (3, WIDTH), "row 1 is named twice"),
        ([1, ROWS], (2, WIDTH), "1000"),
        ([-1, 2], (2, WIDTH), "-1"),
        ([1, 2], (3, WIDTH), "same size as indices"),
        ([1, 2], (2, WIDTH + 1), "must match from dimension 1 on"),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(sess: Any, indices: Any, shape: Any, message: str) -> None:
    variables = [tf.get_variable(name, initializer=_start()) for name in ("var", "m", "v")]
    given, rows = tf.placeholder(tf.float32, None), tf.placeholder(tf.int32, None)
    rates = {"beta1_power": 0.9, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3}
    step = tf.raw_ops.ResourceSparseApplyAdamOfEveryRow(
        **{v.op.name: v.handle for v in variables}, **rates, grad=given, indices=rows
    )
    sess.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        sess.run(step, {given: np.ones(shape, np.float32), rows: indices})
    for value in sess.run(variables):
        np.testing.assert_array_equal(value, _start())
