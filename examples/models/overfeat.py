"""OverFeat, the fast model: Sermanet et al., "OverFeat: Integrated recognition, localization and detection" (2013).

145,920,872 parameters with 1,000 classes.
"""

from __future__ import annotations

import thalweg as tf

IMAGE_SIZE = 231


def logits(images: tf.Tensor, num_classes: int = 1000, training: bool | tf.Tensor = False) -> tf.Tensor:
    """Scores of the classes: five convolutions and three dense layers; the first two convolutions pad nothing."""
    relu = tf.nn.relu
    x = tf.layers.conv2d(images, 96, 11, strides=4, activation=relu, name="conv1")
    x = tf.layers.max_pooling2d(x, 2, 2, name="pool1")
    x = tf.layers.conv2d(x, 256, 5, activation=relu, name="conv2")
    x = tf.layers.max_pooling2d(x, 2, 2, name="pool2")
    x = tf.layers.conv2d(x, 512, 3, padding="same", activation=relu, name="conv3")
    x = tf.layers.conv2d(x, 1024, 3, padding="same", activation=relu, name="conv4")
    x = tf.layers.conv2d(x, 1024, 3, padding="same", activation=relu, name="conv5")
    x = tf.layers.max_pooling2d(x, 2, 2, name="pool5")
    x = tf.layers.dropout(tf.layers.flatten(x), 0.5, training=training)
    x = tf.layers.dense(x, 3072, activation=relu, name="fc6")
    x = tf.layers.dropout(x, 0.5, training=training)
    x = tf.layers.dense(x, 4096, activation=relu, name="fc7")
    return tf.layers.dense(x, num_classes, name="fc8")
