"""Partial runs of steps that span devices: variables where they are, values piece by piece, errors and ends."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def session(**options: Any) -> Any:
    return tf.Session(config=tf.ConfigProto(device_count={"CPU": 3}, **options))


def test_variables_of_other_devices_are_read_and_changed() -> None:
    a = tf.placeholder(tf.float32, [], name="a")
    b = tf.placeholder(tf.float32, [], name="b")
    with tf.device("/cpu:1"):
        v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        x = a + v
    with tf.device("/cpu:2"):
        y = x * b
    change = v.assign_add(y)
    with session() as sess:
        sess.run(v.initializer)
        for _ in range(2):
            handle = sess.partial_run_setup([x, y, change.op], [a, b])
            before = sess.run(v)
            assert sess.partial_run(handle, x, {a: 2.0}) == 2.0 + before
            assert sess.partial_run(handle, y, {b: 3.0}) == 3.0 * (2.0 + before)
            sess.partial_run(handle, change.op)
            assert sess.run(v) == before + 3.0 * (2.0 + before)


@pytest.mark.parametrize("device", ["/cpu:2", "/device:NULL:0"])
def test_a_value_does_not_wait_for_feeds_that_it_does_not_need(device: str) -> None:
    feeds = [tf.placeholder(tf.float32, [4, 4], name=f"feed{i}") for i in range(3)]
    with tf.device("/cpu:1"):
        left = [tf.matmul(feed, tf.eye(4)) for feed in feeds]
    with tf.device(device):
        right = [each + tf.ones([4, 4]) for each in left]
    config = tf.ConfigProto(device_count={"CPU": 3, "NULL": 1})
    with tf.Session(config=config) as sess:
        handle = sess.partial_run_setup([*left, *right], feeds)
        for i in (2, 0, 1):
            value = np.full([4, 4], i, np.float32)
            got = sess.partial_run(handle, [left[i], right[i]], {feeds[i]: value})
            np.testing.assert_array_equal(got[0], value)
            np.testing.assert_array_equal(got[1], value + 1 if "cpu" in device else np.zeros([4, 4]))


def test_loops_that_span_devices_run_in_them() -> None:
    limit = tf.placeholder(tf.int32, [])
    start = tf.placeholder(tf.float32, [])

    def body(i: Any, value: Any) -> Any:
        with tf.device("/cpu:1"):
            value = value * 2.0
        with tf.device("/cpu:2"):
            return i + 1, value + 1.0

    with tf.device("/cpu:1"):
        end = tf.while_loop(lambda i, _: i < limit, body, [0, start])[1]
    with tf.device("/cpu:2"):
        after = end * 10.0
    with session() as sess:
        handle = sess.partial_run_setup([end, after], [limit, start])
        assert sess.partial_run(handle, end, {limit: 3, start: 1.0}) == 15.0
        assert sess.partial_run(handle, after) == 150.0


def test_an_error_on_one_device_ends_the_run_and_names_its_node() -> None:
    a = tf.placeholder(tf.float32, [])
    b = tf.placeholder(tf.float32, [])
    with tf.device("/cpu:1"):
        checked = tf.check_numerics(tf.log(a), "logged", name="checked")
    with tf.device("/cpu:2"):
        total = checked + b
    with session() as sess:
        handle = sess.partial_run_setup([checked, total], [a, b])
        with pytest.raises(tf.errors.InvalidArgumentError, match="logged") as raised:
            sess.partial_run(handle, checked, {a: -1.0})
        assert raised.value.op is checked.op
        with pytest.raises(tf.errors.InvalidArgumentError, match="logged"):
            sess.partial_run(handle, total, {b: 1.0})


def test_a_device_that_is_not_there_is_refused_when_it_is_set_up() -> None:
    a = tf.placeholder(tf.float32, [])
    with tf.device("/gpu:0"):
        b = tf.exp(a, name="b")
    with session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="'b'") as raised:
        sess.partial_run_setup([b], [a])
    assert raised.value.op is b.op
    with session(allow_soft_placement=True) as sess:
        assert sess.partial_run(sess.partial_run_setup([b], [a]), b, {a: 0.0}) == 1.0


def test_closing_the_session_ends_a_partial_run_that_waits() -> None:
    a = tf.placeholder(tf.float32, [])
    with tf.device("/cpu:1"):
        b = a * 2.0
    with tf.device("/cpu:2"):
        c = b + tf.FIFOQueue(1, tf.float32).dequeue()
    sess = session()
    handle = sess.partial_run_setup([b, c], [a])
    assert sess.partial_run(handle, b, {a: 1.0}) == 2.0
    raised: list[BaseException] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            sess.partial_run(handle, c)
        except (tf.errors.CancelledError, RuntimeError) as e:
            raised.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    sess.close()
    thread.join(20)
    assert not thread.is_alive()
    assert len(raised) == 1
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.partial_run(handle, c)
