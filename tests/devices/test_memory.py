"""Accounts and limits of devices: the memory of a tensor is charged to the device that allocated it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import thalweg as tf

MB = 1 << 20


def config(count: int = 2, **limits: int) -> Any:
    made = tf.ConfigProto(device_count={"CPU": count})
    for device, limit in limits.items():
        tf.experimental.set_memory_limit(made, "/" + device.replace("_", ":"), limit)
    return made


def info(sess: Any, index: int) -> dict[str, int]:
    return tf.experimental.get_memory_info(sess, f"/cpu:{index}")


def filled(mb: int, value: Any) -> Any:
    """A tensor that cannot be known before the step runs."""
    return tf.fill([mb, MB // 4], value)


def test_variables_are_charged_to_their_device_and_memory_of_steps_is_released() -> None:
    with tf.device("/cpu:1"):
        v = tf.get_variable("v", [MB], initializer=tf.ones_initializer(), use_resource=True)
    with tf.Session(config=config()) as sess:
        assert info(sess, 1)["current"] == 0
        sess.run(v.initializer)
        assert 4 * MB <= info(sess, 1)["current"] < 5 * MB
        assert info(sess, 0)["current"] < MB
        assert info(sess, 1)["peak"] >= info(sess, 1)["current"]
        assert info(sess, 1)["allocations"] >= 1
        for _ in range(3):
            sess.run(v.assign_add(tf.ones([MB])))
        assert info(sess, 1)["current"] < 5 * MB


def test_a_sent_tensor_stays_with_the_account_that_allocated_it() -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device("/cpu:1"):
        made = filled(4, x)
    with tf.device("/cpu:0"):
        passed_on = tf.identity(made)
    with tf.Session(config=config()) as sess:
        value = sess.run(passed_on, {x: 2.0})
        assert value.shape == (4, MB // 4)
        assert info(sess, 1)["peak"] >= 4 * MB
        assert info(sess, 0)["peak"] < MB
        # The fetched array is the buffer itself: it is charged to the device until it is dropped.
        assert info(sess, 1)["current"] >= 4 * MB
        del value
        gc.collect()
        assert info(sess, 1)["current"] < MB


def test_a_limit_ends_the_step_and_names_device_node_and_sizes() -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device("/cpu:1"):
        large = tf.fill([8, MB // 4], x, name="large")
        small = tf.fill([1, MB // 4], x, name="small")
    with tf.device("/cpu:0"):
        elsewhere = tf.reduce_sum(filled(8, x))
    with tf.Session(config=config(cpu_1=4 * MB)) as sess:
        with pytest.raises(tf.errors.ResourceExhaustedError) as failure:
            sess.run([large, elsewhere], {x: 1.0})
        text = str(failure.value)
        for part in ("/device:CPU:1", "large", str(4 * MB), "in use", str(8 * MB)[:4]):
            assert part in text
        # The step ended cleanly: it holds no memory, and later steps run.
        assert info(sess, 1)["current"] < MB
        assert sess.run(elsewhere, {x: 1.0}) == 8 * MB // 4
        assert sess.run(small, {x: 1.0}).shape == (1, MB // 4)


def test_many_small_tensors_reach_the_limit_too() -> None:
    with tf.device("/cpu:0"):
        n = tf.placeholder(tf.int32, [])
        array = tf.TensorArray(tf.float32, size=n, element_shape=[1024])
        done = tf.while_loop(
            lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, tf.fill([1024], tf.to_float(i)))), [0, array]
        )[1].size()
    with tf.Session(config=config(1, cpu_0=2 * MB)) as sess:
        assert sess.run(done, {n: 100}) == 100
        with pytest.raises(tf.errors.ResourceExhaustedError, match="CPU:0"):
            sess.run(done, {n: 2000})
        assert sess.run(done, {n: 100}) == 100


def test_list_devices_gives_limits_and_incarnations() -> None:
    with tf.Session(config=config(3, cpu_2=MB)) as sess, tf.Session() as other:
        devices = sess.list_devices()
        assert [device.device_type for device in devices] == ["CPU"] * 3
        assert devices[2].memory_limit_bytes == MB
        assert devices[0].memory_limit_bytes == devices[1].memory_limit_bytes > MB
        assert len({device.incarnation for device in devices}) == 3
        assert all(device.incarnation > 0 for device in devices)
        assert other.list_devices()[0] == devices[0]


def test_a_limit_for_a_type_holds_for_each_device_and_yields_to_a_particular_one() -> None:
    made = config(2, cpu_1=3 * MB)
    tf.experimental.set_memory_limit(made, "/device:CPU:*", 2 * MB)
    with tf.Session(config=made) as sess:
        assert [device.memory_limit_bytes for device in sess.list_devices()] == [2 * MB, 3 * MB]


def test_limits_survive_serialization() -> None:
    made = tf.ConfigProto.FromString(config(2, cpu_1=MB).SerializeToString())
    with tf.Session(config=made) as sess:
        assert sess.list_devices()[1].memory_limit_bytes == MB


@pytest.mark.parametrize(("device", "limit"), [("/job:worker", 1), ("/cpu:0", -1)])
def test_a_senseless_limit_is_refused(device: str, limit: int) -> None:
    with pytest.raises(ValueError, match="memory limit"):
        tf.experimental.set_memory_limit(tf.ConfigProto(), device, limit)


def test_a_device_that_is_not_there_has_no_figures() -> None:
    with tf.Session() as sess, pytest.raises(tf.errors.NotFoundError, match="/cpu:7"):
        tf.experimental.get_memory_info(sess, "/cpu:7")


def test_allocations_of_helper_threads_and_functions_are_charged() -> None:
    data = tf.data.Dataset.range(4).map(lambda i: tf.fill([MB // 4], tf.to_float(i)), num_parallel_calls=2)
    batch = tf.data.make_one_shot_iterator(data.batch(4)).get_next()
    with tf.Session() as sess:
        value = sess.run(batch)
        np.testing.assert_array_equal(value[:, 0], [0, 1, 2, 3])
        assert info(sess, 0)["peak"] >= 4 * MB
