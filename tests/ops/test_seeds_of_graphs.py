"""Seeds that random ops derive from the graph's: TensorFlow 1.15's, which count the operations before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        yield


def variables(x: Any) -> None:
    tf.Variable(tf.random_normal([3]))
    tf.Variable(tf.truncated_normal([3]))


def embedded(x: Any) -> None:
    table = tf.get_variable("table", [5, 4], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    rows = tf.nn.embedding_lookup(table, tf.constant([1, 2]))
    first, second = tf.split(rows, 2, 1)
    tf.layers.dense(tf.gather(table, [0]) + tf.concat([first, second], 1), 2)


def convolutional(x: Any) -> None:
    image = tf.reshape(x, [-1, 2, 3, 1])
    weights, biases = tf.Variable(tf.truncated_normal([1, 1, 1, 4])), tf.Variable(tf.constant(0.1, shape=[4]))
    hidden = tf.nn.relu(tf.nn.conv2d(image, weights, [1, 1, 1, 1], "SAME") + biases)
    pooled = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    flat = tf.reshape(pooled, [-1, 8])
    weights, biases = tf.Variable(tf.truncated_normal([8, 3])), tf.Variable(tf.zeros([3]))
    tf.nn.dropout(tf.matmul(flat, weights) + biases, tf.placeholder(tf.float32))
    tf.Variable(tf.random_uniform([3, 3], -1.0, 1.0))


def of_layers(x: Any) -> None:
    image = tf.reshape(x, [-1, 2, 3, 1])
    net = tf.layers.max_pooling2d(tf.layers.conv2d(image, 4, 1, activation=tf.nn.relu), 2, 2)
    net = tf.layers.dense(tf.layers.flatten(net), 5)
    tf.layers.dense(tf.layers.dropout(net, 0.4, training=True), 3)


def of_slim(x: Any) -> None:
    slim: Any = tf.contrib.slim
    net = slim.max_pool2d(slim.conv2d(tf.reshape(x, [-1, 2, 3, 1]), 4, 1), 1, 1)
    slim.fully_connected(slim.dropout(slim.fully_connected(slim.flatten(net), 5), 0.5), 3)


@pytest.mark.parametrize(
    ("program", "seeds"),
    [
        (lambda x: tf.nn.dropout(x, 0.5), [5]),
        (lambda x: tf.nn.dropout(x, tf.placeholder(tf.float32)), [7]),
        (lambda x: [tf.random_uniform([3]), tf.random_normal([2])], [4, 11]),
        (lambda x: tf.layers.dense(tf.layers.dense(x, 4, tf.nn.relu), 5), [4, 21]),
        (lambda x: [tf.get_variable(name, [2, 2]) for name in "abc"], [4, 14, 24]),
        (lambda x: tf.layers.dense(tf.layers.dropout(x, training=True), 3), [5, 20]),
        (lambda x: tf.nn.static_rnn(tf.nn.rnn_cell.BasicLSTMCell(4), [x, x], dtype=tf.float32), [29]),
        (embedded, [4, 27]),
        (variables, [4, 13]),
        (convolutional, [6, 25, 43, 58]),
        (of_layers, [6, 33, 50, 65]),
        (of_slim, [6, 33, 51, 66]),
    ],
)
def test_programs_get_tensorflows_seeds(program: Callable[[Any], Any], seeds: list[int]) -> None:
    program(tf.placeholder(tf.float32, [None, 6]))
    random = ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
    found = [op.get_attr("seed2") for op in tf.get_default_graph().get_operations() if op.type in random]
    assert found == seeds


def test_a_dense_layer_starts_with_tensorflows_weights() -> None:
    net = tf.layers.dense(tf.layers.dense(tf.ones([1, 3]), 4), 5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        output = session.run(net)[0]
    np.testing.assert_allclose(output, [-0.398001, -0.786961, 0.100215, -1.163232, 0.350078], rtol=1e-4)
