"""Optimizers around optimizers: accumulated gradients, scaled losses, mixed precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

experimental = tf.train.experimental


class TestAccumulation:
    def test_four_micro_batches_train_as_one_batch(self, sess: Any) -> None:
        rng = np.random.default_rng(0)
        xs = rng.normal(size=(8, 3)).astype(np.float32)
        ys = rng.normal(size=(8, 1)).astype(np.float32)
        x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
        steps, weights, trains = [], [], []
        for i in range(2):
            w = tf.Variable(np.ones((3, 1), np.float32), name=f"w{i}")
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
            opt: Any = tf.train.AdamOptimizer(0.1)
            if i:
                opt = tf.train.GradientAccumulationOptimizer(opt, 4)
            step = tf.Variable(0, trainable=False)
            trains.append(opt.minimize(loss, step, var_list=[w]))
            steps.append(step)
            weights.append(w)
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run(trains[0], {x: xs, y: ys})
            for k in range(0, 8, 2):
                sess.run(trains[1], {x: xs[k : k + 2], y: ys[k : k + 2]})
        whole, parts = sess.run(weights)
        np.testing.assert_allclose(parts, whole, 1e-5)
        assert sess.run(steps) == [3, 3]

    def test_sparse_gradients_are_summed(self, sess: Any) -> None:
        e = tf.Variable(np.zeros((3, 2), np.float32), name="e")
        slices = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]), tf.constant([3, 2]))
        opt = tf.train.GradientAccumulationOptimizer(tf.train.GradientDescentOptimizer(1.0), 2)
        train = opt.apply_gradients([(slices, e)])
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        np.testing.assert_array_equal(sess.run(e), np.zeros((3, 2)))
        np.testing.assert_array_equal(sess.run(opt.get_slot(e, "gradient_sum"))[1], [2.0, 2.0])
        sess.run(train)
        np.testing.assert_array_equal(sess.run(e)[1], [-2.0, -2.0])
        np.testing.assert_array_equal(sess.run(opt.get_slot(e, "gradient_sum")), np.zeros((3, 2)))

    def test_a_nan_is_gone_after_the_update_that_it_spoils(self, sess: Any) -> None:
        w = tf.Variable(1.0, name="w")
        grad = tf.placeholder(tf.float32, [])
        inner = experimental.MixedPrecisionLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0), "dynamic")
        train = tf.train.GradientAccumulationOptimizer(inner, 2).apply_gradients([(grad, w)])
        sess.run(tf.global_variables_initializer())
        for value in (np.nan, 1.0, 0.5, 0.25):
            sess.run(train, {grad: value})
        assert sess.run(w) == 1.0 - 0.375

    def test_variables_are_those_of_the_wrapper_and_of_the_optimizer(self) -> None:
        w = tf.Variable([1.0], name="w")
        opt = tf.train.GradientAccumulationOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 2)
        opt.minimize(tf.reduce_sum(w))
        names = [v.op.name for v in opt.variables()]
        assert names == ["GradientAccumulation/runs", "w/GradientAccumulation", "w/Momentum"]
        assert opt.get_slot_names() == ["gradient_sum", "momentum"]
        assert opt.get_slot(w, "momentum").op.name == "w/Momentum"

    def test_one_step_is_the_optimizer_itself(self) -> None:
        w = tf.Variable([1.0], name="w")
        tf.train.GradientAccumulationOptimizer(tf.train.GradientDescentOptimizer(0.1), 1).minimize(tf.reduce_sum(w))
        assert len(tf.global_variables()) == 1

    @pytest.mark.parametrize("steps", [0, -1, 1.5, True, None])
    def test_a_wrong_number_is_refused(self, steps: Any) -> None:
        with pytest.raises(ValueError, match="positive integer"):
            tf.train.GradientAccumulationOptimizer(tf.train.GradientDescentOptimizer(0.1), steps)

    def test_something_else_than_an_optimizer_is_refused(self) -> None:
        with pytest.raises(TypeError, match="Optimizer"):
            tf.train.GradientAccumulationOptimizer(0.1, 2)


class TestLossScale:
    def test_a_fixed_scale_changes_no_gradient(self, sess: Any) -> None:
        w = tf.Variable(3.0)
        opt = experimental.MixedPrecisionLossScaleOptimizer(tf.train.GradientDescentOptimizer(0.5), 128)
        ((grad, _),) = opt.compute_gradients(w * w)
        train = opt.minimize(w * w)
        sess.run(tf.global_variables_initializer())
        assert sess.run(grad) == 6.0
        sess.run(train)
        assert sess.run(w) == 0.0

    def test_a_dynamic_scale_halves_and_skips_and_doubles(self, sess: Any) -> None:
        w = tf.Variable(3.0, name="w")
        grad = tf.placeholder(tf.float32, [])
        scale = experimental.DynamicLossScale(8.0, increment_period=2)
        opt = experimental.MixedPrecisionLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0), scale)
        step = tf.train.get_or_create_global_step()
        train = opt.apply_gradients([(grad, w)], step)
        current = scale()
        sess.run(tf.global_variables_initializer())
        seen = []
        for value in (1.0, np.inf, 0.5, 0.5, np.nan, -np.inf, np.nan, np.nan, np.nan, 0.25):
            sess.run(train, {grad: value})
            seen.append((float(sess.run(w)), float(sess.run(current))))
        assert seen == [
            (2.0, 8.0), (2.0, 4.0), (1.5, 4.0), (1.0, 8.0), (1.0, 4.0), (1.0, 2.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0),
            (0.75, 1.0),
        ]  # fmt: skip
        assert sess.run(step) == 4

    def test_one_bad_element_of_a_sparse_gradient_skips_all(self, sess: Any) -> None:
        w = tf.Variable([1.0])
        e = tf.Variable(np.ones((3, 1), np.float32))
        slices = tf.IndexedSlices(tf.constant([[1.0], [np.nan]]), tf.constant([0, 1]), tf.constant([3, 1]))
        opt = experimental.MixedPrecisionLossScaleOptimizer(tf.train.MomentumOptimizer(1.0, 0.9), "dynamic")
        train = opt.apply_gradients([(tf.constant([1.0]), w), (slices, e)])
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        np.testing.assert_array_equal(sess.run(w), [1.0])
        np.testing.assert_array_equal(sess.run(e), np.ones((3, 1)))

    def test_bad_arguments_are_refused(self) -> None:
        for value in (0.5, "8", True, None):
            with pytest.raises(ValueError):
                experimental.FixedLossScale(value)
        with pytest.raises(ValueError, match="identifier"):
            experimental.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), "static")
        with pytest.raises(ValueError, match="None"):
            experimental.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), None)
        with pytest.raises(ValueError, match="Optimizer"):
            experimental.enable_mixed_precision_graph_rewrite(0.1)
        opt = experimental.enable_mixed_precision_graph_rewrite(tf.train.AdamOptimizer())
        with pytest.raises(ValueError, match="already"):
            experimental.enable_mixed_precision_graph_rewrite(opt)
        with pytest.raises(ValueError, match="bfloat16 or float16"):
            experimental.enable_mixed_precision_graph_rewrite(tf.train.AdamOptimizer(), dtype="int8")

    def test_a_configuration_can_be_written_down(self) -> None:
        scale = experimental.DynamicLossScale(16, 10, 4)
        assert scale.get_config() == {"initial_loss_scale": 16.0, "increment_period": 10, "multiplier": 4.0}
        assert (scale.initial_loss_scale, scale.increment_period, scale.multiplier) == (16.0, 10, 4.0)
        assert experimental.FixedLossScale(2).get_config() == {"loss_scale_value": 2.0}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_one_line_trains_in_mixed_precision(dtype: str, sess: Any) -> None:
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(64, 4)).astype(np.float32)
    ys = xs @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    opt: Any = tf.train.GradientDescentOptimizer(0.2)
    opt = experimental.enable_mixed_precision_graph_rewrite(opt, dtype=dtype)
    train = opt.minimize(loss)
    sess.run(tf.global_variables_initializer())
    for _ in range(60):
        sess.run(train, {x: xs, y: ys})
    assert w.dtype is tf.float32
    assert sess.run(loss, {x: xs, y: ys}) < 1e-2
    experimental.disable_mixed_precision_graph_rewrite()
    assert "mixed_precision" not in tf.get_default_graph()._attachments
