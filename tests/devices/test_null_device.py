"""The null device: everything is scheduled, nothing is computed, and steps end all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

NULL = "/device:NULL:0"


def session(**options: Any) -> Any:
    return tf.Session(config=tf.ConfigProto(device_count={"NULL": 1}, **options))


def test_the_null_device_exists_on_request_only() -> None:
    with session() as sess:
        assert [device.device_type for device in sess.list_devices()] == ["CPU", "NULL"]
        x = tf.constant([1.0, 2.0]) * tf.placeholder_with_default(2.0, [])
        np.testing.assert_array_equal(sess.run(x), [2, 4])
    with tf.Session() as sess:
        assert len(sess.list_devices()) == 1


def test_results_are_zeros_of_the_right_type_and_shape() -> None:
    x = tf.placeholder(tf.float32, [None, 8])
    with tf.device(NULL):
        y = tf.layers.dense(x, 3, name="dense")
        z = tf.nn.softmax(y)
        index = tf.argmax(z, 1)
        parts = tf.split(tf.concat([y, z], 1), 2, axis=1)
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch in (2, 5):
            got = sess.run([y, z, index, *parts], {x: np.ones([batch, 8])})
            assert [value.shape for value in got] == [(batch, 3), (batch, 3), (batch,), (batch, 3), (batch, 3)]
            assert [value.dtype for value in got] == [np.float32, np.float32, np.int64, np.float32, np.float32]
            assert all(not value.any() for value in got)


def test_fetched_zeros_are_the_callers_own() -> None:
    with tf.device(NULL):
        x = tf.exp(tf.placeholder_with_default(tf.zeros([1000]), [1000]))
    with session() as sess:
        first = sess.run(x)
        first += 1.0
        assert not sess.run(x).any()


def test_tensors_take_no_memory() -> None:
    with tf.device(NULL):
        x = tf.random_normal([1 << 20, 1 << 14])  # 64 GB
        v = tf.get_variable("v", [1 << 16, 1 << 14], initializer=tf.ones_initializer(), use_resource=True)
        total = tf.reduce_sum(tf.square(x) + 1.0) + tf.reduce_sum(v * 2.0)
    with session() as sess:
        sess.run(v.initializer)
        assert sess.run(total) == 0.0
        assert tf.experimental.get_memory_info(sess, NULL)["peak"] < 1 << 20


def test_loops_and_conditionals_decide_as_they_should() -> None:
    n, flag = tf.placeholder(tf.int32, []), tf.placeholder(tf.bool, [])
    with tf.device(NULL):
        x = tf.ones([4, 4]) * tf.placeholder_with_default(1.0, [])
        count, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.matmul(y, x)), [0, x])
        _, real = tf.while_loop(lambda i, t: t < 10.0, lambda i, t: (i + 1, t + 1.5), [0, 0.0])
        chosen = tf.cond(flag, lambda: tf.zeros([2, 2]) + x[:2, :2], lambda: tf.zeros([3]) + x[0, :3])
    with session() as sess:
        got = sess.run([count, y, real], {n: 7})
        assert got[0] == 7
        assert got[1].shape == (4, 4)
        assert not got[1].any()
        assert got[2] == 10.5
        assert sess.run(chosen, {flag: True}).shape == (2, 2)
        assert sess.run(chosen, {flag: False}).shape == (3,)


def test_integers_shapes_and_scalars_are_computed() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    with tf.device(NULL):
        rows = tf.shape(x)[0] * 2 + 1
        made = tf.fill([rows, 2], 1.0)
        scaled = tf.constant(3.0) * tf.placeholder_with_default(2.0, [])
        flat = tf.reshape(tf.exp(x), [-1])
    with session() as sess:
        got = sess.run([rows, made, scaled, flat], {x: np.ones([4, 3])})
        assert got[0] == 9
        assert got[1].shape == (9, 2)
        assert got[2] == 6.0
        assert got[3].shape == (12,)


def test_a_whole_training_step_is_scheduled() -> None:
    x, labels = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int32, [None])
    with tf.device(NULL):
        h = tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu)
        h = tf.layers.max_pooling2d(h, 2, 2)
        logits = tf.layers.dense(tf.layers.flatten(h), 10)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer().minimize(loss, global_step=step)
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch in (3, 5):
            _, value = sess.run([train, loss], {x: np.ones([batch, 8, 8, 1]), labels: np.zeros(batch)})
            assert value == 0.0
        assert sess.run(step) == 2
        assert sess.run(logits, {x: np.ones([6, 8, 8, 1])}).shape == (6, 10)


def test_every_node_is_there() -> None:
    with tf.device(NULL):
        x = tf.placeholder(tf.float32, [4])
        y = x
        for _ in range(50):
            y = tf.tanh(y * 2.0)
    with session() as sess:
        compiled = sess._resolve(y, {x: np.zeros(4)})[3].compiled
        assert compiled.num_nodes >= 100
        assert not sess.run(y, {x: np.ones(4)}).any()


def test_assertions_and_prints_say_nothing_about_values_that_are_not_computed(capfd: Any) -> None:
    x = tf.placeholder(tf.float32, [2])
    with tf.device(NULL):
        y = tf.Print(tf.exp(x), [x], "value ")
        with tf.control_dependencies([tf.assert_positive(y)]):
            z = tf.check_numerics(1.0 / y, "division")
    with session() as sess:
        assert not sess.run(z, {x: [1.0, 2.0]}).any()
    assert capfd.readouterr().err == ""


def test_outputs_whose_size_depends_on_values_are_empty() -> None:
    x = tf.placeholder(tf.float32, [None])
    with tf.device(NULL):
        found = tf.boolean_mask(tf.exp(x), x > 0.0)
    with session() as sess:
        assert sess.run(found, {x: [1.0, -1.0]}).shape == (0,)


def test_the_host_goes_on_with_zeros() -> None:
    x = tf.placeholder(tf.float32, [3])
    with tf.device(NULL):
        y = tf.exp(x)
    with tf.device("/cpu:0"):
        z = y + 1.0
        v = tf.get_variable("v", [3], use_resource=True, initializer=tf.zeros_initializer())
        updated = v.assign(y).assign_add(tf.ones([3]))
    with session() as sess:
        np.testing.assert_array_equal(sess.run(z, {x: np.ones(3)}), [1, 1, 1])
        np.testing.assert_array_equal(sess.run(updated, {x: np.ones(3)}), [1, 1, 1])
        np.testing.assert_array_equal(sess.run(z, {x: np.ones(3)}), [1, 1, 1])


def test_a_shape_that_cannot_be_inferred_is_an_error() -> None:
    with tf.device(NULL):
        value = tf.py_func(lambda x: x, [tf.ones([2])], tf.float32)
    with session() as sess, pytest.raises(tf.errors.UnimplementedError, match="null device cannot know the shape"):
        sess.run(value)
