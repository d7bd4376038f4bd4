"""What the networks share: the layers of slim, and the end of a classifier."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.layers.collections_of_outputs import convert_collection_to_dict
from thalweg.contrib.public_names import tf


class _Slim:
    """The names of `tf.contrib.layers` and `tf.contrib.framework` that the networks are written in."""

    def __getattr__(self, name: str) -> Any:
        for space in (tf.contrib.layers, tf.contrib.framework):
            value = getattr(space, name, None)
            if value is not None:
                return value
        raise AttributeError(name)


slim: Any = _Slim()


def end_points_of(collection: str) -> dict[str, Any]:
    """The outputs of layers in a collection, by name."""
    return convert_collection_to_dict(collection)


def squeezed(net: Any, end_points: dict[str, Any], name: str, spatial_squeeze: bool) -> tuple[Any, dict[str, Any]]:
    """The logits without their spatial axes, if asked for, and the end points with them."""
    if spatial_squeeze:
        net = tf.squeeze(net, [1, 2], name=name.rpartition("/")[2] + "/squeezed")
        end_points[name] = net
    return net, end_points


def padded_scope(weight_decay: float, biases_initializer: Any) -> Any:
    """An arg_scope of networks whose convolutions are padded and whose pooling is not."""
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        activation_fn=tf.nn.relu,
        biases_initializer=biases_initializer,
        weights_regularizer=tf.contrib.layers.l2_regularizer(weight_decay),
    ):
        with slim.arg_scope([slim.conv2d], padding="SAME"):
            with slim.arg_scope([slim.max_pool2d], padding="VALID") as scope:
                return scope


def dense_layers(net: Any, width: int, kernel: int, num_classes: int, is_training: Any, keep_prob: float) -> Any:
    """The dense layers fc6 to fc8 as convolutions, with dropout between them."""
    with slim.arg_scope(
        [slim.conv2d],
        weights_initializer=tf.truncated_normal_initializer(0.0, 0.005),
        biases_initializer=tf.constant_initializer(0.1),
    ):
        net = slim.conv2d(net, width, [kernel, kernel], padding="VALID", scope="fc6")
        net = slim.dropout(net, keep_prob, is_training=is_training, scope="dropout6")
        net = slim.conv2d(net, 4096, [1, 1], scope="fc7")
        net = slim.dropout(net, keep_prob, is_training=is_training, scope="dropout7")
        return slim.conv2d(
            net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
            biases_initializer=tf.zeros_initializer(), scope="fc8",
        )  # fmt: skip


def reduced_kernel(net: Any, size: list[int]) -> list[int]:
    """A kernel no larger than the image, where that is known."""
    height, width = net.shape.as_list()[1:3]
    return size if height is None or width is None else [min(height, size[0]), min(width, size[1])]
