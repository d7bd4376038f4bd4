"""Learning-rate schedules and moving averages come out as TensorFlow's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.data.schedule_runs import AVERAGES, FILE, SCHEDULES, run_average, run_schedule

_RECORDED: dict[str, dict[str, Any]] = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_gives_the_rates_of_tensorflow(name: str) -> None:
    np.testing.assert_allclose(run_schedule(tf, name), _RECORDED["schedules"][name], 1e-5, 1e-7)


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_have_the_names_and_values_of_tensorflow(name: str) -> None:
    actual, expected = run_average(tf, name), _RECORDED["averages"][name]
    assert sorted(actual) == sorted(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(actual[key], values, 1e-5, 1e-6, err_msg=key)


def test_noise_changes_the_rate_from_run_to_run() -> None:
    rate = tf.train.noisy_linear_cosine_decay(1.0, tf.constant(3), 10, initial_variance=1.0)
    with tf.Session() as sess:
        assert len({float(sess.run(rate)) for _ in range(5)}) > 1


@pytest.mark.parametrize("name", [n for n, (f, _) in SCHEDULES.items() if f != "piecewise_constant"])
def test_a_schedule_needs_a_step(name: str) -> None:
    function, arguments = SCHEDULES[name]
    with pytest.raises(ValueError, match="global_step is required"):
        getattr(tf.train, function)(global_step=None, **arguments)


def test_piecewise_constant_refuses_what_does_not_go_together() -> None:
    with pytest.raises(ValueError, match="1 less"):
        tf.train.piecewise_constant(tf.constant(1), [1, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="same dtype"):
        tf.train.piecewise_constant(tf.constant(1), [1], [tf.constant(1.0), tf.constant(1)])
    with pytest.raises(ValueError, match="Boundaries"):
        tf.train.piecewise_constant(tf.constant(1), [tf.constant(1.0)], [0.1, 0.2])


def test_a_schedule_drives_an_optimizer() -> None:
    step = tf.train.get_or_create_global_step()
    w = tf.Variable(1.0)
    rate = tf.train.exponential_decay(0.5, step, 1, 0.5)
    train = tf.train.GradientDescentOptimizer(rate).apply_gradients([(tf.constant(1.0), w)], step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run(train)
        assert sess.run([w, step]) == [1.0 - 0.5 - 0.25 - 0.125, 3]


class TestMovingAverage:
    def test_names_are_known_before_and_after(self) -> None:
        w = tf.get_variable("w", [2])
        ema = tf.train.ExponentialMovingAverage(0.9)
        assert ema.average(w) is None
        assert ema.average_name(w) == "w/ExponentialMovingAverage"
        ema.apply()
        assert ema.average(w).op.name == ema.average_name(w) == "w/ExponentialMovingAverage"
        assert tf.moving_average_variables() == [w]
        assert not ema.average(w).trainable

    def test_variables_to_restore_maps_shadows_to_variables(self) -> None:
        w = tf.get_variable("w", [2])
        other = tf.get_variable("other", [], trainable=False)
        ema = tf.train.ExponentialMovingAverage(0.9)
        assert ema.variables_to_restore() == {"w/ExponentialMovingAverage": w, "other": other}
        ema.apply()
        restored = ema.variables_to_restore()
        assert restored["w/ExponentialMovingAverage"] is w
        assert restored["other"] is other

    def test_an_integer_has_no_average(self) -> None:
        with pytest.raises(TypeError, match="half, float, or double"):
            tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable(1)])

    def test_apply_again_adds_no_shadow(self) -> None:
        w = tf.get_variable("w", [2])
        ema = tf.train.ExponentialMovingAverage(0.9)
        ema.apply([w])
        before = len(tf.global_variables())
        ema.apply([w])
        assert len(tf.global_variables()) == before
