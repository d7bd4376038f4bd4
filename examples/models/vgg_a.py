"""VGG-A: Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition" (2014), table 1.

132,863,336 parameters with 1,000 classes.
"""

from __future__ import annotations

import thalweg as tf

IMAGE_SIZE = 224
# The width and the number of the 3 x 3 convolutions before each pooling.
STAGES = ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))


def logits(images: tf.Tensor, num_classes: int = 1000, training: bool | tf.Tensor = False) -> tf.Tensor:
    """Scores of the classes: eight convolutions and three dense layers."""
    x = images
    for stage, (channels, convolutions) in enumerate(STAGES, 1):
        for i in range(1, convolutions + 1):
            name = f"conv{stage}_{i}"
            x = tf.layers.conv2d(x, channels, 3, padding="same", activation=tf.nn.relu, name=name)
        x = tf.layers.max_pooling2d(x, 2, 2, name=f"pool{stage}")
    x = tf.layers.flatten(x)
    for name in ("fc6", "fc7"):
        x = tf.layers.dense(x, 4096, activation=tf.nn.relu, name=name)
        x = tf.layers.dropout(x, 0.5, training=training)
    return tf.layers.dense(x, num_classes, name="fc8")
