"""GoogLeNet: Szegedy et al., "Going deeper with convolutions" (2014), table 1; without the two auxiliary classifiers.

6,998,552 parameters with 1,000 classes.
"""

from __future__ import annotations

import thalweg as tf

IMAGE_SIZE = 224


def conv(x: tf.Tensor, channels: int, size: int, name: str, strides: int = 1) -> tf.Tensor:
    """A convolution that keeps the size, or divides it by its stride."""
    return tf.layers.conv2d(x, channels, size, strides, padding="same", activation=tf.nn.relu, name=name)


def pool(x: tf.Tensor, name: str) -> tf.Tensor:
    """Halves height and width."""
    return tf.layers.max_pooling2d(x, 3, 2, padding="same", name=name)


def inception(x: tf.Tensor, name: str, one: int, three: tuple[int, int], five: tuple[int, int], proj: int) -> tf.Tensor:
    """Convolutions of three sizes and a pooling, side by side; `three` and `five` begin with a reduction."""
    with tf.variable_scope(f"inception_{name}"):
        branches = [
            conv(x, one, 1, "1x1"),
            conv(conv(x, three[0], 1, "3x3_reduce"), three[1], 3, "3x3"),
            conv(conv(x, five[0], 1, "5x5_reduce"), five[1], 5, "5x5"),
            conv(tf.layers.max_pooling2d(x, 3, 1, padding="same"), proj, 1, "pool_proj"),
        ]
        return tf.concat(branches, axis=-1)


def logits(images: tf.Tensor, num_classes: int = 1000, training: bool | tf.Tensor = False) -> tf.Tensor:
    """Scores of the classes: three convolutions, nine inception modules, the mean over the image, one dense layer."""
    x = pool(conv(images, 64, 7, "conv1", strides=2), "pool1")
    x = tf.nn.local_response_normalization(x, depth_radius=2, bias=1.0, alpha=2e-5, beta=0.75)
    x = conv(conv(x, 64, 1, "conv2_reduce"), 192, 3, "conv2")
    x = tf.nn.local_response_normalization(x, depth_radius=2, bias=1.0, alpha=2e-5, beta=0.75)
    x = pool(x, "pool2")
    x = inception(x, "3a", 64, (96, 128), (16, 32), 32)
    x = inception(x, "3b", 128, (128, 192), (32, 96), 64)
    x = pool(x, "pool3")
    x = inception(x, "4a", 192, (96, 208), (16, 48), 64)
    x = inception(x, "4b", 160, (112, 224), (24, 64), 64)
    x = inception(x, "4c", 128, (128, 256), (24, 64), 64)
    x = inception(x, "4d", 112, (144, 288), (32, 64), 64)
    x = inception(x, "4e", 256, (160, 320), (32, 128), 128)
    x = pool(x, "pool4")
    x = inception(x, "5a", 256, (160, 320), (32, 128), 128)
    x = inception(x, "5b", 384, (192, 384), (48, 128), 128)
    x = tf.layers.dropout(tf.reduce_mean(x, [1, 2]), 0.4, training=training)
    return tf.layers.dense(x, num_classes, name="linear")
