"""Steps that succeed, fail, are fed, fetched, looped and dropped leave no memory behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply

_LARGE = 100_000  # elements: blocks of this size are in the allocator's accounts


def in_use() -> int:
    gc.collect()
    return int(core.allocator_stats()["bytes_in_use"])


@pytest.fixture
def session() -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_steps_give_their_tensors_back(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None])
    v = tf.Variable(tf.zeros([_LARGE]))
    y = tf.tanh(x) * 2.0 + v
    update = v.assign_add(x)
    _, loop = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + x), (0, x))
    branch = tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * 2.0, lambda: x * 3.0)
    gradient = tf.gradients(loop, x)[0]
    value = np.ones(_LARGE, np.float32)
    session.run(v.initializer)
    session.run([y, update, loop, branch, gradient], {x: value})
    before = in_use()
    for _ in range(20):
        session.run([y, update, loop, branch, gradient], {x: value})
    assert in_use() <= before  # less, if a thread of an earlier test has only now released a tensor


def test_a_failed_step_gives_its_tensors_back(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None])
    bad = tf.reshape(tf.tanh(x) * 2.0, [7])
    _, loop = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.reshape(t + x, [7])), (0, x))
    value = np.ones(_LARGE, np.float32)
    before = in_use()
    for fetch in [bad, loop] * 10:
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(fetch, {x: value})
    assert in_use() <= before  # less, if a thread of an earlier test has only now released a tensor


def test_a_closed_session_gives_its_variables_back() -> None:
    before = in_use()
    for _ in range(3):
        with tf.Graph().as_default(), tf.Session() as session:
            v = tf.Variable(tf.ones([_LARGE]))
            session.run(v.initializer)
            assert in_use() > before
            del v
        del session
    assert in_use() <= before  # less, if a thread of an earlier test has only now released a tensor


def _loop(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y)), [0, x])[1]


def _called(x: Any) -> Any:
    function = trace(tf.tanh, [tf.TensorSpec([2], tf.float32)])
    return apply("PartitionedCall", [x], f=function, Tout=[tf.float32])[0]


def _mapped(x: Any) -> Any:
    numbers = tf.data.Dataset.range(3).map(tf.to_float, num_parallel_calls=2).prefetch(1)
    return x * numbers.make_one_shot_iterator().get_next()


@pytest.mark.parametrize(
    "build",
    [
        lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * 2.0, lambda: x * 3.0),
        _loop,
        _called,
        _mapped,
        lambda x: tf.custom_gradient(lambda y: (y * 2.0, lambda dy: dy * y))(x),
        lambda x: tf.recompute_grad(lambda h: tf.tanh(h) * 2.0)(x),
        lambda x: tf.py_func(lambda value: value, [x], tf.float32) * x,
    ],
    ids=["cond", "loop", "call", "dataset", "custom gradient", "recomputed", "py_func"],
)
def test_a_graph_without_references_is_freed(build: Callable[[Any], Any]) -> None:
    def use() -> weakref.ref[tf.Graph]:
        with tf.Graph().as_default() as graph:
            v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
            y = build(v + 1.0)
            with tf.Session() as session:
                session.run(v.initializer)
                session.run([y, tf.gradients(y, v)])
            return weakref.ref(graph)

    left = use()
    gc.collect()
    assert left() is None
