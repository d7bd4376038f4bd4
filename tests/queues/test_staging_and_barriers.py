"""Staging areas, in order and by key, and barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.queues.waiting import InThread, assert_waits


def test_a_staging_area_is_first_in_first_out() -> None:
    area = tf.contrib.staging.StagingArea([tf.float32, tf.int32], shapes=[[], [2]], names=["a", "b"], capacity=2)
    x = tf.placeholder(tf.float32, [])
    put, get = area.put({"a": x, "b": [1, 2]}), area.get()
    assert put.name == "StagingArea_put"
    assert get["b"].shape.as_list() == [2]
    with tf.Session() as session:
        session.run(put, {x: 1.0})
        session.run(put, {x: 2.0})
        assert_waits(session, put, {x: 3.0})
        assert session.run(area.size()) == 2
        assert session.run(area.peek(1))["a"] == 2.0
        assert session.run(get)["a"] == 1.0
        assert session.run(get)["a"] == 2.0
        waiting = InThread(session.run, get)
        peeking = InThread(session.run, area.peek(1))
        assert waiting.is_waiting()
        session.run(put, {x: 4.0})
        assert waiting.result()["a"] == 4.0
        assert peeking.is_waiting()
        session.run(put, {x: 5.0})
        session.run(put, {x: 6.0})
        assert peeking.result()["a"] == 6.0
        session.run(area.clear())
        assert session.run(area.size()) == 0


def test_a_staging_area_limits_its_memory() -> None:
    area = tf.contrib.staging.StagingArea([tf.float32], memory_limit=8)
    one, two = area.put([tf.constant(1.0)]), area.put([tf.constant([1.0, 2.0])])
    with tf.Session() as session:
        session.run(one)
        assert_waits(session, two)
        session.run(area.get())
        session.run(two)
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"'12' bytes .* limit of '8'"):
            session.run(area.put([tf.constant([1.0, 2.0, 3.0])]))


def test_bad_puts_are_refused() -> None:
    area = tf.contrib.staging.StagingArea([tf.float32, tf.int32], shapes=[[], [2]], names=["a", "b"])
    with pytest.raises(ValueError, match="must enqueue a dictionary"):
        area.put([1.0, [1, 2]])
    with pytest.raises(ValueError, match="all components"):
        area.put({"a": 1.0})
    with pytest.raises(ValueError, match="do not match names"):
        area.put({"a": 1.0, "c": 1})
    with pytest.raises(ValueError, match="incompatible"):
        area.put({"a": 1.0, "b": [1]})
    with pytest.raises(ValueError, match="negative"):
        tf.contrib.staging.StagingArea([tf.float32], capacity=-1)
    other = tf.contrib.staging.StagingArea([tf.int32], shared_name="same")
    wrong = tf.contrib.staging.StagingArea([tf.float32], shared_name="same")
    with tf.Session() as session:
        session.run(other.put([1]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="has type int32, this op expects float32"):
            session.run(wrong.get())
        with pytest.raises(tf.errors.InvalidArgumentError, match="negative"):
            session.run(other.peek(-1))


def test_elements_by_key_come_and_leave_in_parts() -> None:
    area = tf.contrib.staging.MapStagingArea([tf.float32, tf.int32], shapes=[[], []], names=["a", "b"])
    with tf.Session() as session:
        session.run(area.put(7, {"a": 1.0}))
        assert session.run([area.size(), area.incomplete_size()]) == [0, 1]
        getting = InThread(session.run, area.peek(7))
        assert getting.is_waiting()
        session.run(area.put(7, {"b": 2}))
        assert getting.result() == {"a": 1.0, "b": 2}
        assert session.run([area.size(), area.incomplete_size()]) == [1, 0]
        assert session.run(area.get(7, ["a"])) == {"a": 1.0}
        with pytest.raises(tf.errors.InvalidArgumentError, match="index '0' for key '7' has already been removed"):
            session.run(area.get(7, ["a"]))
        assert session.run(area.get(7, ["b"])) == {"b": 2}
        assert session.run(area.size()) == 0
        session.run(area.put(3, {"a": 5.0, "b": 6}))
        key, values = session.run(area.get())
        assert (key, values) == (3, {"a": 5.0, "b": 6})
        session.run(area.put(4, {"a": 5.0}))
        with pytest.raises(tf.errors.InvalidArgumentError, match="already initialized"):
            session.run(area.put(4, {"a": 5.0}))
        session.run(area.clear())
        assert session.run(area.incomplete_size()) == 0


def test_an_ordered_area_gives_the_smallest_key_first() -> None:
    area = tf.contrib.staging.MapStagingArea([tf.float32], shapes=[[]], ordered=True, capacity=3)
    key = tf.placeholder(tf.int64, [])
    put, get = area.put(key, [tf.cast(key, tf.float32)]), area.get()
    with tf.Session() as session:
        for k in (5, 1, 3):
            session.run(put, {key: k})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Key '3' is already"):
            session.run(put, {key: 3})
        assert_waits(session, put, {key: 8})
        assert [session.run(get)[0] for _ in range(3)] == [1, 3, 5]
        with pytest.raises(ValueError, match="out of bounds"):
            area.get(1, [4])


def test_a_barrier_gives_complete_elements_in_the_order_of_their_keys() -> None:
    barrier = tf.queue.Barrier((tf.float32, tf.string), shapes=((), ()), name="b")
    first = -(2**63)
    with tf.Session() as session:
        session.run(barrier.insert_many(0, ["a", "b"], [1.0, 2.0]))
        assert session.run([barrier.ready_size(), barrier.incomplete_size()]) == [0, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Key a already has a value for component 0"):
            session.run(barrier.insert_many(0, ["a"], [1.0]))
        session.run(barrier.insert_many(1, ["b"], ["B"]))
        session.run(barrier.insert_many(0, ["c"], [3.0]))
        session.run(barrier.insert_many(1, ["c", "a"], ["C", "A"]))
        taken = session.run(barrier.take_many(2))
        assert taken.indices.tolist() == [first, first]
        assert taken.keys.tolist() == [b"b", b"a"]
        assert [v.tolist() for v in taken.values] == [[2.0, 1.0], [b"B", b"A"]]
        assert session.run(barrier.take_many(1)).indices.tolist() == [first + 1]
        waiting = InThread(session.run, barrier.take_many(1))
        assert waiting.is_waiting()
        session.run(barrier.insert_many(0, ["d"], [4.0]))
        assert waiting.is_waiting()
        session.run(barrier.insert_many(1, ["d"], ["D"]))
        assert waiting.result().keys.tolist() == [b"d"]


def test_a_closed_barrier_completes_what_is_under_way() -> None:
    barrier = tf.queue.Barrier((tf.float32, tf.string), shapes=((), ()))
    with tf.Session() as session:
        session.run(barrier.insert_many(0, ["d"], [4.0]))
        session.run(barrier.close())
        with pytest.raises(tf.errors.CancelledError, match="already closed"):
            session.run(barrier.close())
        with pytest.raises(tf.errors.CancelledError, match="brand new key: e"):
            session.run(barrier.insert_many(0, ["e"], [4.0]))
        session.run(barrier.insert_many(1, ["d"], ["D"]))
        with pytest.raises(tf.errors.OutOfRangeError, match=r"requested 2, total size 1"):
            session.run(barrier.take_many(2))
        assert session.run(barrier.take_many(2, allow_small_batch=True)).keys.tolist() == [b"d"]
        with pytest.raises(tf.errors.OutOfRangeError, match="total size 0"):
            session.run(barrier.take_many(2, allow_small_batch=True))
        with pytest.raises(tf.errors.CancelledError, match="is closed"):
            session.run(barrier.insert_many(1, ["d"], ["D"]))


def test_cancelling_a_barrier_forgets_what_is_under_way() -> None:
    barrier = tf.queue.Barrier((tf.float32, tf.string), shapes=((), ()))
    with tf.Session() as session:
        session.run(barrier.insert_many(0, ["x"], [1.0]))
        waiting = InThread(session.run, barrier.take_many(1))
        assert waiting.is_waiting()
        session.run(barrier.close(cancel_pending_enqueues=True))
        with pytest.raises(tf.errors.OutOfRangeError, match="requested 1, total size 0"):
            waiting.result()
        assert session.run(barrier.incomplete_size()) == 0


def _take(barrier: Any, count: int, dtype: tf.DType) -> Any:
    return tf.raw_ops.BarrierTakeMany(handle=barrier.barrier_ref, num_elements=count, component_types=[dtype]).keys


@pytest.mark.parametrize(
    ("insert", "match"),
    [
        (lambda b, k, v: b.insert_many(5, k, v), "component ID is out of range 5"),
        (lambda b, k, v: b.insert_many(0, k, v), "as many rows"),
        (lambda b, k, v: b.insert_many(0, ["a"], np.ones((1, 3), np.float32)), r"Expected \[2\], got \[3\]"),
        (lambda b, k, v: b.insert_many(0, ["a"], tf.fill([1], k)), "type float32.*string"),
        (lambda b, k, v: _take(b, -1, tf.float32), "negative"),
        (lambda b, k, v: _take(b, 1, tf.int32), "component types"),
    ],
)
def test_bad_insertions_are_refused(insert: Any, match: str) -> None:
    barrier = tf.queue.Barrier((tf.float32,), shapes=((2,),))
    keys, values = tf.placeholder(tf.string), tf.placeholder(tf.float32)
    try:
        fetch = insert(barrier, keys, values)
    except (TypeError, ValueError) as e:
        assert "string" in str(e)
        return
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=match):
        session.run(fetch, {keys: ["a", "b"], values: [[1.0, 2.0]]})
