"""ResNet-50: He et al., "Deep residual learning for image recognition" (2015), table 1.

25,557,032 parameters with 1,000 classes. As in most implementations since, a block that halves the image does so in its
3 x 3 convolution; in the paper it does so in its first 1 x 1 convolution.
"""

from __future__ import annotations

import thalweg as tf

IMAGE_SIZE = 224
BLOCKS = (3, 4, 6, 3)


def conv(
    x: tf.Tensor, channels: int, size: int, name: str, training: bool | tf.Tensor, strides: int = 1, relu: bool = True
) -> tf.Tensor:
    """A convolution with batch normalization instead of a bias; pads alike on all sides, for any stride."""
    with tf.variable_scope(name):
        pad = [size // 2, size // 2]
        x = tf.pad(x, [[0, 0], pad, pad, [0, 0]]) if size > 1 else x
        x = tf.layers.conv2d(x, channels, size, strides, use_bias=False, name="conv")
        x = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, name="bn")
        return tf.nn.relu(x) if relu else x


def bottleneck(x: tf.Tensor, channels: int, name: str, training: bool | tf.Tensor, strides: int) -> tf.Tensor:
    """A residual block: 1 x 1, 3 x 3 and 1 x 1 convolutions, added to its input."""
    with tf.variable_scope(name):
        shortcut = x
        if x.shape.as_list()[-1] != 4 * channels:
            shortcut = conv(x, 4 * channels, 1, "shortcut", training, strides, relu=False)
        y = conv(x, channels, 1, "conv_a", training)
        y = conv(y, channels, 3, "conv_b", training, strides)
        y = conv(y, 4 * channels, 1, "conv_c", training, relu=False)
        return tf.nn.relu(y + shortcut)


def logits(images: tf.Tensor, num_classes: int = 1000, training: bool | tf.Tensor = False) -> tf.Tensor:
    """Scores of the classes: one convolution, sixteen blocks, the mean over the image, one dense layer."""
    x = conv(images, 64, 7, "conv1", training, strides=2)
    x = tf.layers.max_pooling2d(x, 3, 2, padding="same", name="pool1")
    for stage, blocks in enumerate(BLOCKS, 2):
        for block in range(1, blocks + 1):
            strides = 2 if stage > 2 and block == 1 else 1
            x = bottleneck(x, 64 << (stage - 2), f"conv{stage}_{block}", training, strides)
    return tf.layers.dense(tf.reduce_mean(x, [1, 2]), num_classes, name="fc")
