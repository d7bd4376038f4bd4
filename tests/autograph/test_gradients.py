"""Gradients flow through converted branches, loops, lists and items, in graphs and in functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.autograph.running import run


def branch(x: Any) -> Any:
    if x > 1.0:
        return x * x
    return -x


def powers(x: Any) -> Any:
    y = tf.ones_like(x)
    for i in tf.range(4):
        if i == 2:
            continue
        y *= x
    return y


def until(x: Any) -> Any:
    y = x
    while y < 100.0:
        y = y * x
        if y > 50.0:
            break
    return y


def early(x: Any) -> Any:
    for i in tf.range(5):
        if i == 3:
            return x * x * x
        x = x * 1.5
    return x


def listed(x: Any) -> Any:
    values = []
    for i in tf.range(3):
        values.append(x * tf.cast(i, tf.float64))
    return tf.reduce_sum(tf.stack(values) ** 2)


def item(x: Any) -> Any:
    a = tf.zeros([4], tf.float64)
    for i in tf.range(4):
        a[i] = x * tf.cast(i, tf.float64)
    return a[2] * a[3]


def elements(x: Any) -> Any:
    total = tf.constant(0.0, tf.float64)
    for each in tf.stack([x, 2.0 * x, x * x]):
        if each > 2.5:
            total += each * each
    return total


def dataset(x: Any) -> Any:
    y = x
    for each in tf.data.Dataset.range(1, 4):
        y *= tf.cast(each, tf.float64) * x
    return y


ALL = [branch, powers, until, early, listed, item, elements, dataset]


@pytest.mark.parametrize("kind", [tf.autograph.to_graph, tf.function], ids=["graph", "function"])
@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_a_gradient_is_that_of_finite_differences(function: Any, kind: Any) -> None:
    x = tf.placeholder(tf.float64, [])
    y = kind(function)(x)
    (slope,) = tf.gradients(y, x)
    step = 1e-3
    with tf.Session() as session:
        for value in (1.2, 2.3):
            high, low = (session.run(y, {x: value + d}) for d in (step, -step))
            np.testing.assert_allclose(session.run(slope, {x: value}), (high - low) / (2 * step), rtol=1e-4)


def test_a_second_derivative() -> None:
    x = tf.constant(2.0)
    (first,) = tf.gradients(tf.autograph.to_graph(powers)(x), x)
    (second,) = tf.gradients(first, x)
    assert run(second) == 12.0


def test_training_in_a_function() -> None:
    w = tf.get_variable("w", initializer=5.0, use_resource=True)

    @tf.function
    def loss(n: Any) -> Any:
        total = 0.0
        for i in tf.range(n):
            error = w - tf.cast(i, tf.float32)
            if error > 0.0:
                total += error * error
            else:
                total -= error
        return total

    step = tf.train.GradientDescentOptimizer(0.05).minimize(loss(tf.constant(3)))
    with tf.Session() as session:
        session.run(w.initializer)
        for _ in range(30):
            session.run(step)
        assert session.run(w) < 1.6
