"""A program as a user writes it, for type checkers: `make lint` runs mypy on it; names that do not exist are errors.

Each `type: ignore` names the error that must be found: mypy reports those that are not needed.
"""

from __future__ import annotations

import numpy as np

import thalweg as tf


def network(images: tf.Tensor) -> tf.Tensor:
    """A network of two layers."""
    hidden = tf.layers.dense(images, 64, tf.nn.relu)
    scores: tf.Tensor = tf.layers.dense(hidden, 10)
    return scores


def train(steps: int) -> float:
    """Trains it on noise."""
    images = tf.placeholder(tf.float32, [None, 784], name="images")
    labels = tf.placeholder(tf.int64, [None])
    loss = tf.losses.sparse_softmax_cross_entropy(labels, network(images))
    update = tf.train.AdamOptimizer(1e-3).minimize(loss, tf.train.get_or_create_global_step())
    saver = tf.train.Saver(max_to_keep=2)
    value = 0.0
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=1)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            feeds = {images: np.zeros([8, 784], np.float32), labels: np.zeros([8], np.int64)}
            _, value = session.run([update, loss], feeds)
        saver.save(session, "/tmp/model")
    return value


def inputs() -> tf.data.Dataset:
    """A pipeline."""
    return tf.data.Dataset.range(10).map(lambda i: i * 2).batch(2).prefetch(tf.data.experimental.AUTOTUNE)


def layers_of_libraries(images: tf.Tensor) -> tf.Tensor:
    """Names that are aliases of others, and libraries that load when they are used."""
    with tf.variable_scope("head", reuse=tf.AUTO_REUSE):
        scale = tf.get_variable("scale", [784], initializer=tf.zeros_initializer())
    hidden = tf.contrib.layers.fully_connected(images * scale, 8, weights_regularizer=tf.nn.l2_loss)
    hidden = tf.contrib.slim.dropout(hidden, 0.5)
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(8,)), tf.keras.layers.Activation("relu")])
    model.compile(optimizer=tf.keras.optimizers.Adam(), loss="mse")
    scores: tf.Tensor = model(hidden)
    return scores


def errors_are_classes() -> type[Exception]:
    """An error class, a dtype, a version and a module of functions."""
    version: str = tf.VERSION
    kind: tf.DType = tf.float32
    assert version
    assert kind
    assert tf.gfile.Exists("/")
    assert tf.compat.v1.float32 is kind
    return tf.errors.NotFoundError


def mistakes() -> None:
    """What a type checker must find."""
    tf.matmull  # type: ignore[attr-defined]  # noqa: B018
    tf.nn.reluu  # type: ignore[attr-defined]  # noqa: B018
    tf.train.AdamOptimiser(0.1)  # type: ignore[attr-defined]
    tf.autograf  # type: ignore[attr-defined]  # noqa: B018
    tf.layers.dense(tf.zeros([2, 2]), 3, nam="x")  # type: ignore[call-arg]
    tf.train.Saver(max_to_keep="two")  # type: ignore[arg-type]
