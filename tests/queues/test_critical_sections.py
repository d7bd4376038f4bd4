"""tf.CriticalSection: functions exclude each other, within a step, between steps, and after failures."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _slow_increment(v: Any) -> Any:
    """Reads, waits and writes: two of these at once lose an increment."""
    value = v.read_value()
    waited = tf.py_func(lambda x: (threading.Event().wait(0.002), x)[1], [value], tf.int32)
    with tf.control_dependencies([waited]):
        return v.assign(tf.reshape(waited, []) + 1)


def test_executions_of_one_step_exclude_each_other() -> None:
    v = tf.Variable(0)
    section = tf.CriticalSection()
    done = [section.execute(lambda: _slow_increment(v)) for _ in range(20)]
    with tf.Session() as session:
        session.run(v.initializer)
        values = session.run(done)
        assert session.run(v) == 20 and sorted(values) == list(range(1, 21))


def test_steps_of_several_threads_exclude_each_other() -> None:
    v = tf.Variable(0)
    done = tf.CriticalSection().execute(lambda: _slow_increment(v))
    with tf.Session() as session:
        session.run(v.initializer)
        threads = [threading.Thread(target=lambda: [session.run(done) for _ in range(10)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(v) == 40


def test_a_failure_inside_frees_the_section() -> None:
    x = tf.placeholder(tf.int32, [])
    v = tf.Variable(0)

    def checked() -> Any:
        with tf.control_dependencies([tf.assert_positive(x)]):
            return v.assign_add(1)

    done = tf.CriticalSection().execute(checked)
    with tf.Session() as session:
        session.run(v.initializer)
        for _ in range(5):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(done, {x: -1})
        assert session.run(done, {x: 1}) == 1


def test_waiting_can_be_cancelled() -> None:
    gate = tf.FIFOQueue(1, tf.int32)
    section = tf.CriticalSection()
    blocked = section.execute(lambda: gate.dequeue())
    other = section.execute(lambda: tf.constant(1))
    options = tf.RunOptions(timeout_in_ms=200)
    with tf.Session() as session:
        holder = threading.Thread(target=lambda: session.run(blocked))
        holder.start()
        with pytest.raises(tf.errors.DeadlineExceededError):
            while True:  # The holder may not have begun.
                session.run(other, options=options)
        session.run(gate.enqueue(3))
        holder.join()
        assert session.run(other) == 1


def test_arguments_are_computed_before_the_lock_is_taken() -> None:
    argument = tf.constant(2.0) * 3.0
    tf.CriticalSection().execute(lambda: argument + 1.0)
    lock = next(op for op in tf.get_default_graph().get_operations() if op.type == "MutexLock")
    assert argument.op in lock.control_inputs


def test_structures_operations_and_several_outputs() -> None:
    v = tf.Variable([1.0, 2.0])
    section = tf.CriticalSection(name="one")
    outputs = section.execute(lambda: {"a": v * 2.0, "b": (v + 1.0, tf.no_op())})
    assert section.name == "one"
    with tf.Session() as session:
        session.run(v.initializer)
        values = session.run(outputs)
    np.testing.assert_array_equal(values["a"], [2.0, 4.0])
    np.testing.assert_array_equal(values["b"][0], [2.0, 3.0])
    assert values["b"][1] is None


def test_entering_twice_and_sharing_resources_are_refused() -> None:
    v = tf.Variable(0)
    first, second = tf.CriticalSection(), tf.CriticalSection()
    with pytest.raises(ValueError, match="enters this section again"):
        first.execute(lambda: first.execute(lambda: tf.constant(1)) + 1)
    first.execute(lambda: v.assign_add(1))
    with pytest.raises(ValueError, match="exclusive_resource_access=False"):
        second.execute(lambda: v.assign_add(1))
    first = tf.CriticalSection()
    w = tf.Variable(0)
    first.execute(lambda: w.assign_add(1), exclusive_resource_access=False)
    second.execute(lambda: w.assign_add(1), exclusive_resource_access=False)
