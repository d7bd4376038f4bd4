"""Networks give the same bits on one device and on several, whether the program asks for devices or not.

Random graphs (random_graphs.py) are small. Here sizes are such that passes and kernels cut, pack, join and fuse.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg import _core as core

Model = Callable[[bool], tuple[list[Any], dict[Any, np.ndarray], list[Any]]]


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def language_model(training: bool) -> tuple[list[Any], dict[Any, np.ndarray], list[Any]]:
    """Products with inner dimensions of several blocks, weights that many products share, and sums of products."""
    steps, batch, units, words = 5, 6, 130, 420
    x = tf.placeholder(tf.int32, [steps, batch])
    with tf.variable_scope("lm", use_resource=True):
        table = tf.get_variable("table", [words, units])
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(units) for _ in range(2)])
        outputs, _ = tf.nn.static_rnn(cell, tf.unstack(tf.nn.embedding_lookup(table, x)), dtype=tf.float32)
        weights = tf.get_variable("weights", [units, words])
    losses = [tf.nn.sparse_softmax_cross_entropy_with_logits(labels=x[i], logits=tf.matmul(output, weights))
              for i, output in enumerate(outputs)]  # fmt: skip
    loss = tf.reduce_mean(tf.stack(losses))
    feeds = {x: np.random.default_rng(1).integers(0, words, [steps, batch]).astype(np.int32)}
    return _step(loss, training), feeds, [tf.trainable_variables()]


def convolutional(training: bool) -> tuple[list[Any], dict[Any, np.ndarray], list[Any]]:
    """Convolutions with biases, batch normalization, sums of branches and a product over a long inner dimension."""
    x, y = tf.placeholder(tf.float32, [3, 16, 16, 3]), tf.placeholder(tf.int32, [3])
    with tf.variable_scope("net", use_resource=True):
        first = tf.layers.conv2d(x, 16, 5, 2, padding="same", activation=tf.nn.relu)
        left = tf.layers.batch_normalization(tf.layers.conv2d(first, 16, 3, padding="same"), training=training)
        right = tf.layers.conv2d(first, 16, 1, activation=tf.nn.relu)
        joined = tf.nn.relu(left + right)
        more = tf.layers.conv2d(joined, 24, 3, padding="same", use_bias=False) + tf.layers.conv2d(joined, 24, 1)
        pooled = tf.layers.max_pooling2d(tf.concat([more, joined], 3), 2, 2)
        logits = tf.layers.dense(tf.layers.dense(tf.layers.flatten(pooled), 48, activation=tf.nn.relu), 10)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    feeds = {x: array(3, 16, 16, 3, seed=2), y: np.array([1, 7, 3], np.int32)}
    return _step(loss, training), feeds, [tf.trainable_variables()]


def _step(loss: Any, training: bool) -> list[Any]:
    if not training:
        return [loss]
    return [loss, tf.train.GradientDescentOptimizer(0.5).minimize(loss)]


def by_name(count: int, share: int = 100) -> Callable[[Any], str]:
    """A device function that sends a share of the operations anywhere."""

    def choose(op: Any) -> str:
        number = zlib.crc32(op.name.encode())
        return f"/cpu:{number % count if number // 7 % 100 < share else 0}"

    return choose


def results(model: Model, training: bool, function: Any, config: tf.ConfigProto) -> list[np.ndarray]:
    config.allow_soft_placement = True
    core.set_intra_op_threads(config.intra_op_parallelism_threads)  # A test before may have chosen another number.
    with tf.Graph().as_default(), tf.device(function):
        tf.set_random_seed(5)
        fetches, feeds, variables = model(training)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            losses = [sess.run(fetches, feeds)[0] for _ in range(3)]
            return [np.array(losses), *sess.run(variables)[0]]


@pytest.mark.parametrize("model", [language_model, convolutional])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("count", "share"), [(2, 100), (2, 10), (4, 50)])
def test_devices_that_the_program_asks_for(model: Model, training: bool, count: int, share: int) -> None:
    function = by_name(count, share)
    one = results(model, training, function, tf.ConfigProto())
    many = results(model, training, function, tf.ConfigProto(device_count={"CPU": count}))
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("model", [language_model, convolutional])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("strategy", ["heft", "greedy", "hash"])
def test_devices_that_a_strategy_chooses(model: Model, training: bool, strategy: str) -> None:
    one = results(model, training, None, tf.ConfigProto())
    config = tf.ConfigProto(device_count={"CPU": 2})
    tf.placement.configure(config, strategy=strategy)
    for a, b in zip(one, results(model, training, None, config), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("model", [language_model, convolutional])
@pytest.mark.parametrize("threads", [2, 4, 8])
def test_devices_that_share_threads(model: Model, threads: int) -> None:
    """For any number of threads of the kernels, and for any share of them that a device has at the moment."""
    function = by_name(2)
    one, *many = (
        results(
            model, True, function, tf.ConfigProto(intra_op_parallelism_threads=threads, device_count={"CPU": count})
        )
        for count in (1, 2, 2, 2)
    )
    for others in many:
        for a, b in zip(one, others, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("model", [language_model, convolutional])
def test_the_number_of_threads(model: Model) -> None:
    one, two = (results(model, True, None, tf.ConfigProto(intra_op_parallelism_threads=n)) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
