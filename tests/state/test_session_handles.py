"""Values that stay in a session between steps."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_a_value_is_kept_and_read_back():
    x = tf.placeholder(tf.float32, [5000])
    keep = tf.get_session_handle(x * 2.0)
    array = np.arange(5000, dtype=np.float32)
    with tf.Session() as sess:
        handle = sess.run(keep, {x: array})
        again = sess.run([keep], {x: array + 1})[0]
        holder, value = tf.get_session_tensor(handle.handle, tf.float32)
        np.testing.assert_array_equal(sess.run(value, {holder: handle.handle}), array * 2)
        np.testing.assert_array_equal(sess.run(value + 1.0, {holder: again.handle}), (array + 1) * 2 + 1)
        np.testing.assert_array_equal(handle.eval(), array * 2)
        assert str(handle) == handle.handle != again.handle


def test_a_kept_value_does_not_follow_the_fed_array():
    x = tf.placeholder(tf.float32, [5000])
    keep = tf.get_session_handle(x)
    array = np.zeros(5000, np.float32)
    with tf.Session() as sess:
        handle = sess.run(keep, {x: array})
        array[:] = 1.0
        assert handle.eval().max() == 0.0


def test_deleted_unknown_and_foreign_handles_are_refused():
    keep = tf.get_session_handle(tf.constant(1.0))
    with tf.Session() as sess, tf.Session() as other:
        handle = sess.run(keep)
        holder, value = tf.get_session_tensor(handle.handle, tf.float32)
        wrong_holder, wrong = tf.get_session_tensor(handle.handle, tf.int32)
        for session, fetch, feed in (
            (other, value, {holder: handle.handle}),
            (sess, value, {holder: "nothing"}),
            (sess, wrong, {wrong_holder: handle.handle}),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match="handle"):
                session.run(fetch, feed)
        handle.delete()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
            handle.eval()


def test_values_stay_on_their_devices() -> None:
    handles = []
    for i in range(3):
        with tf.device(f"/cpu:{i}"):
            handles.append(tf.get_session_handle(tf.fill([2], float(i))))
    with tf.device("/cpu:2"):
        x = tf.placeholder(tf.float32, [2])
        y = x + 1.0
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as sess:
        kept = sess.run(handles)
        for i, handle in enumerate(kept):
            assert handle.handle.endswith(f"/device:CPU:{i}")
            with tf.device("/cpu:0"):
                holder, value = tf.get_session_tensor(handle.handle, tf.float32)
            assert value.device.endswith(f"/device:CPU:{i}")
            assert sess.run(value, {holder: handle.handle}).tolist() == [i, i]
            assert handle.eval().tolist() == [i, i]
            assert sess.run(y, {x: handle}).tolist() == [i + 1, i + 1]
            handle.delete()
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"not in the session store of .*CPU:{i}"):
                handle.eval()
