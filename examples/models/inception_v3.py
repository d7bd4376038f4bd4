"""Inception-v3: Szegedy et al., "Rethinking the Inception architecture for computer vision" (2015); no auxiliary head.

23,834,568 parameters with 1,000 classes. Modules are named as in the checkpoints that its authors published.
"""

from __future__ import annotations

import thalweg as tf

IMAGE_SIZE = 299


class Inception:
    """Builds layers, for training or inference."""

    def __init__(self, training: bool | tf.Tensor) -> None:
        self.training = training

    def conv(
        self, x: tf.Tensor, channels: int, size: int | tuple[int, int], strides: int = 1, padding: str = "same"
    ) -> tf.Tensor:
        """A convolution with batch normalization instead of a bias."""
        x = tf.layers.conv2d(x, channels, size, strides, padding, use_bias=False)
        return tf.nn.relu(tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-3, training=self.training))

    def reduce(self, x: tf.Tensor, channels: int) -> tf.Tensor:
        """A convolution that halves height and width."""
        return self.conv(x, channels, 3, strides=2, padding="valid")

    def stem(self, x: tf.Tensor) -> tf.Tensor:
        """From images of 299 x 299 x 3 to 35 x 35 x 192."""
        x = self.conv(self.reduce(x, 32), 32, 3, padding="valid")
        x = tf.layers.max_pooling2d(self.conv(x, 64, 3), 3, 2)
        x = self.conv(self.conv(x, 80, 1), 192, 3, padding="valid")
        return tf.layers.max_pooling2d(x, 3, 2)

    def figure_5(self, x: tf.Tensor, pool: int) -> list[tf.Tensor]:
        """The 5 x 5 convolution of GoogLeNet, and two of 3 x 3."""
        double = self.conv(self.conv(x, 64, 1), 96, 3)
        return [
            self.conv(x, 64, 1),
            self.conv(self.conv(x, 48, 1), 64, 5),
            self.conv(double, 96, 3),
            self.conv(mean(x), pool, 1),
        ]

    def figure_6(self, x: tf.Tensor, narrow: int) -> list[tf.Tensor]:
        """Convolutions of 7 x 7, each as a row and a column."""
        single = self.conv(self.conv(x, narrow, 1), narrow, (1, 7))
        double = self.conv(self.conv(self.conv(x, narrow, 1), narrow, (7, 1)), narrow, (1, 7))
        return [
            self.conv(x, 192, 1),
            self.conv(single, 192, (7, 1)),
            self.conv(self.conv(double, narrow, (7, 1)), 192, (1, 7)),
            self.conv(mean(x), 192, 1),
        ]

    def figure_7(self, x: tf.Tensor) -> list[tf.Tensor]:
        """Rows and columns side by side: many features of the coarsest grid."""
        single = self.conv(x, 384, 1)
        double = self.conv(self.conv(x, 448, 1), 384, 3)
        sides = [self.conv(branch, 384, size) for branch in (single, double) for size in ((1, 3), (3, 1))]
        return [self.conv(x, 320, 1), *sides, self.conv(mean(x), 192, 1)]

    def to_17(self, x: tf.Tensor) -> list[tf.Tensor]:
        """From 35 x 35 to 17 x 17."""
        double = self.reduce(self.conv(self.conv(x, 64, 1), 96, 3), 96)
        return [self.reduce(x, 384), double, tf.layers.max_pooling2d(x, 3, 2)]

    def to_8(self, x: tf.Tensor) -> list[tf.Tensor]:
        """From 17 x 17 to 8 x 8."""
        seven = self.conv(self.conv(self.conv(x, 192, 1), 192, (1, 7)), 192, (7, 1))
        return [self.reduce(self.conv(x, 192, 1), 320), self.reduce(seven, 192), tf.layers.max_pooling2d(x, 3, 2)]


def mean(x: tf.Tensor) -> tf.Tensor:
    """The mean around each position."""
    return tf.layers.average_pooling2d(x, 3, 1, padding="same")


def logits(images: tf.Tensor, num_classes: int = 1000, training: bool | tf.Tensor = False) -> tf.Tensor:
    """Scores of the classes: a stem, eleven modules, the mean over the image, one dense layer."""
    net = Inception(training)
    modules = {
        "Mixed_5b": lambda x: net.figure_5(x, 32),
        "Mixed_5c": lambda x: net.figure_5(x, 64),
        "Mixed_5d": lambda x: net.figure_5(x, 64),
        "Mixed_6a": net.to_17,
        "Mixed_6b": lambda x: net.figure_6(x, 128),
        "Mixed_6c": lambda x: net.figure_6(x, 160),
        "Mixed_6d": lambda x: net.figure_6(x, 160),
        "Mixed_6e": lambda x: net.figure_6(x, 192),
        "Mixed_7a": net.to_8,
        "Mixed_7b": net.figure_7,
        "Mixed_7c": net.figure_7,
    }
    with tf.variable_scope("stem"):
        x = net.stem(images)
    for name, module in modules.items():
        with tf.variable_scope(name):
            x = tf.concat(module(x), axis=-1)
    x = tf.layers.dropout(tf.reduce_mean(x, [1, 2]), 0.2, training=training)
    return tf.layers.dense(x, num_classes, name="logits")
