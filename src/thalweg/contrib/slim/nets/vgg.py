"""The networks of Oxford's Visual Geometry Group (Simonyan and Zisserman, 2015): vgg_a, vgg_16, vgg_19."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import end_points_of, slim, squeezed
from thalweg.graph.definitions.op_registry import export


@export("contrib.slim.nets.vgg.vgg_arg_scope")
def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The arg_scope that the networks were trained with."""
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        activation_fn=tf.nn.relu,
        weights_regularizer=tf.contrib.layers.l2_regularizer(weight_decay),
        biases_initializer=tf.zeros_initializer(),
    ):
        with slim.arg_scope([slim.conv2d], padding="SAME") as scope:
            return scope


def _vgg(
    repetitions: tuple[int, ...], inputs: Any, num_classes: int, is_training: Any, dropout_keep_prob: float,
    spatial_squeeze: bool, scope: str, default: str, fc_conv_padding: str,
) -> Any:  # fmt: skip
    with tf.variable_scope(scope, default, [inputs]) as sc:
        collection = sc.original_name_scope + "_end_points"
        with slim.arg_scope([slim.conv2d, slim.fully_connected, slim.max_pool2d], outputs_collections=collection):
            net = inputs
            for i, (count, depth) in enumerate(zip(repetitions, (64, 128, 256, 512, 512), strict=True), 1):
                net = slim.repeat(net, count, slim.conv2d, depth, [3, 3], scope=f"conv{i}")
                net = slim.max_pool2d(net, [2, 2], scope=f"pool{i}")
            # Convolutions instead of fully connected layers, so that larger images give maps of logits.
            net = slim.conv2d(net, 4096, [7, 7], padding=fc_conv_padding, scope="fc6")
            net = slim.dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout6")
            net = slim.conv2d(net, 4096, [1, 1], scope="fc7")
            net = slim.dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout7")
            net = slim.conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8")
        return squeezed(net, end_points_of(collection), sc.name + "/fc8", spatial_squeeze)


@export("contrib.slim.nets.vgg.vgg_a")
def vgg_a(
    inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True, scope: str = "vgg_a", fc_conv_padding: str = "VALID",
) -> Any:  # fmt: skip
    """The network of 11 layers for images of 224x224: logits, and the outputs of the layers by name."""
    return _vgg((1, 1, 2, 2, 2), inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope, "vgg_a",
                fc_conv_padding)  # fmt: skip


@export("contrib.slim.nets.vgg.vgg_16", "contrib.slim.nets.vgg.vgg_d")
def vgg_16(
    inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True, scope: str = "vgg_16", fc_conv_padding: str = "VALID",
) -> Any:  # fmt: skip
    """The network of 16 layers for images of 224x224: logits, and the outputs of the layers by name."""
    return _vgg((2, 2, 3, 3, 3), inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope, "vgg_16",
                fc_conv_padding)  # fmt: skip


@export("contrib.slim.nets.vgg.vgg_19", "contrib.slim.nets.vgg.vgg_e")
def vgg_19(
    inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True, scope: str = "vgg_19", fc_conv_padding: str = "VALID",
) -> Any:  # fmt: skip
    """The network of 19 layers for images of 224x224: logits, and the outputs of the layers by name."""
    return _vgg((2, 2, 4, 4, 4), inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope, "vgg_19",
                fc_conv_padding)  # fmt: skip


for _net in (vgg_a, vgg_16, vgg_19):
    _net.default_image_size = 224  # type: ignore[attr-defined]
