"""Asynchronous mode: calls return before their ops have run; errors come with the next use; the order stays."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf

tfe = tf.contrib.eager


@pytest.fixture(autouse=True)
def asynchronously() -> Iterator[None]:
    """Each test is in asynchronous mode, and leaves it without an error."""
    with tfe.execution_mode(tfe.ASYNC):
        yield
        tfe.async_clear_error()


def held(gate: threading.Event, value: Any = 1.0) -> Any:
    """A tensor whose op waits for the gate."""

    def wait(x: Any) -> Any:
        assert gate.wait(60)
        return x

    return tf.py_func(wait, [tf.constant(value)], tf.float32)


def test_calls_return_before_their_ops_have_run() -> None:
    gate, ran = threading.Event(), []
    x = held(gate)
    y = tf.py_func(lambda a: (ran.append(1), a)[1], [x + 1.0], tf.float32)
    z = y * 2.0
    assert not ran
    assert z.dtype is tf.float32
    gate.set()
    assert z.numpy() == 4.0
    assert ran == [1]


def test_what_looks_at_a_value_waits_for_it() -> None:
    x = tf.random_normal([300, 300])
    for _ in range(5):
        x = tf.matmul(x, x) / 300.0
    assert x.shape == [300, 300]
    assert float(tf.reduce_sum(x * 0.0)) == 0.0
    assert [int(n) for n in tf.range(3) + 1] == [1, 2, 3]
    assert np.asarray(tf.ones([2]) + 1.0).tolist() == [2.0, 2.0]
    a, b = tf.unstack(tf.constant([1.0, 2.0]) * 3.0)
    assert (a.numpy(), b.numpy()) == (3.0, 6.0)


def test_updates_happen_in_the_order_of_the_program() -> None:
    v = tf.Variable(0.0)
    for i in range(50):
        v.assign(v * 0.5 + float(i))
    expected = 0.0
    for i in range(50):
        expected = expected * 0.5 + i
    assert v.numpy() == pytest.approx(expected)


def test_an_error_comes_with_the_next_use_and_stays_until_it_is_cleared() -> None:
    v = tf.Variable(1.0)
    gate = threading.Event()
    x = held(gate)
    wrong = tf.gather([1.0, 2.0], tf.cast(x, tf.int32) + 6)
    v.assign(7.0)  # Behind the error: a program that ran at once would not get here.
    gate.set()
    with pytest.raises(tf.errors.InvalidArgumentError):
        wrong.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.constant(1.0) + 1.0
    with pytest.raises(tf.errors.InvalidArgumentError):
        tfe.async_wait()
    tfe.async_clear_error()
    assert v.numpy() == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError):
        wrong.numpy()
    tfe.async_wait()


def test_leaving_the_mode_raises_what_was_not_looked_at() -> None:
    tf.gather([1.0, 2.0], 9)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tfe.set_execution_mode(tfe.SYNC)
    assert (tf.constant(1.0) + 1.0).numpy() == 2.0
    tfe.set_execution_mode(tfe.ASYNC)


def test_tapes_functions_and_training() -> None:
    v = tf.Variable([1.0, 2.0])
    optimizer = tf.train.AdamOptimizer(0.1)

    @tf.function
    def loss() -> Any:
        return tf.reduce_sum(v * v)

    before = loss().numpy()
    for _ in range(5):
        with tf.GradientTape() as tape:
            value = loss() + tf.reduce_sum(v)
        optimizer.apply_gradients([(tape.gradient(value, v), v)])
    assert loss().numpy() < before


def test_datasets_end() -> None:
    assert [int(x) for x in tf.data.Dataset.range(3).map(lambda x: x * 2)] == [0, 2, 4]


def test_another_thread_waits_for_the_values_of_this_one() -> None:
    gate, found = threading.Event(), []
    x = held(gate) + 1.0

    def other() -> None:
        with tf.eager():
            found.append((x * 2.0).numpy())

    thread = threading.Thread(target=other)
    thread.start()
    gate.set()
    thread.join(60)
    assert found == [4.0]


def test_the_thread_ends_when_there_is_nothing_to_run() -> None:
    before = threading.active_count()
    for _ in range(3):
        y = tf.ones([10]) + 1.0
        tfe.async_wait()
        assert threading.active_count() == before
    assert y.numpy().sum() == 20.0


def test_a_forked_process_does_not_wait_for_what_is_not_there() -> None:
    gate = threading.Event()
    x = held(gate)
    child = os.fork()
    if child == 0:
        try:
            x.numpy()
        except tf.errors.AbortedError:
            os._exit(0)
        os._exit(1)
    gate.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert x.numpy() == 1.0


def test_an_error_before_an_element_of_a_dataset_does_not_end_the_mode() -> None:
    elements, gate = iter(tf.data.Dataset.range(2)), threading.Event()
    tf.gather([1.0, 2.0], tf.constant(6))
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(elements)
    tfe.async_clear_error()
    x = held(gate)  # Where ops run at once, this would not return.
    gate.set()
    assert x.numpy() == 1.0
    assert int(next(elements)) == 0
