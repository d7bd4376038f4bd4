"""Steps that succeed, fail, are fed, fetched, looped and dropped leave no memory behind."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core

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
    assert in_use() <= before  # less, if a thread of an earlier test has only now let go of something


def test_a_failed_step_gives_its_tensors_back(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None])
    bad = tf.reshape(tf.tanh(x) * 2.0, [7])
    _, loop = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.reshape(t + x, [7])), (0, x))
    value = np.ones(_LARGE, np.float32)
    before = in_use()
    for fetch in [bad, loop] * 10:
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(fetch, {x: value})
    assert in_use() <= before  # less, if a thread of an earlier test has only now let go of something


def test_a_closed_session_gives_its_variables_back() -> None:
    before = in_use()
    for _ in range(3):
        with tf.Graph().as_default(), tf.Session() as session:
            v = tf.Variable(tf.ones([_LARGE]))
            session.run(v.initializer)
            assert in_use() > before
            del v
        del session
    assert in_use() <= before  # less, if a thread of an earlier test has only now let go of something
