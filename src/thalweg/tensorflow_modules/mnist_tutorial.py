"""`tensorflow.examples.tutorials.mnist.mnist`: the network of the tutorial on the mechanics of TensorFlow."""

from __future__ import annotations

import math
from typing import Any

from thalweg.contrib.public_names import tf

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _affine(scope: str, x: Any, rows: int, columns: int) -> Any:
    with tf.name_scope(scope):
        start = tf.truncated_normal([rows, columns], stddev=1.0 / math.sqrt(float(rows)))
        weights = tf.Variable(start, name="weights")
        biases = tf.Variable(tf.zeros([columns]), name="biases")
        return tf.matmul(x, weights) + biases


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """The logits of two hidden layers of rectified linear units and a linear one."""
    hidden1 = tf.nn.relu(_affine("hidden1", images, IMAGE_PIXELS, hidden1_units))
    hidden2 = tf.nn.relu(_affine("hidden2", hidden1, hidden1_units, hidden2_units))
    return _affine("softmax_linear", hidden2, hidden2_units, NUM_CLASSES)


def loss(logits: Any, labels: Any) -> Any:
    """The mean cross entropy."""
    return tf.losses.sparse_softmax_cross_entropy(labels=tf.to_int64(labels), logits=logits)


def training(loss: Any, learning_rate: float) -> Any:
    """One step of gradient descent, with a summary of the loss."""
    tf.summary.scalar("loss", loss)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    return tf.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=global_step)


def evaluation(logits: Any, labels: Any) -> Any:
    """How many examples of the batch are classified right."""
    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
