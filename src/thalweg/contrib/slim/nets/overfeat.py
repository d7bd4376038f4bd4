"""OverFeat, the fast model (Sermanet et al., 2014)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import dense_layers, end_points_of, padded_scope, slim, squeezed
from thalweg.graph.definitions.op_registry import export


@export("contrib.slim.nets.overfeat.overfeat_arg_scope")
def overfeat_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The arg_scope that the network was trained with."""
    return padded_scope(weight_decay, tf.zeros_initializer())


@export("contrib.slim.nets.overfeat.overfeat")
def overfeat(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "overfeat",
) -> Any:
    """The logits for images of 231x231, and the outputs of the layers by name."""
    with tf.variable_scope(scope, "overfeat", [inputs]) as sc:
        collection = sc.name + "_end_points"
        with slim.arg_scope([slim.conv2d, slim.fully_connected, slim.max_pool2d], outputs_collections=collection):
            net = slim.conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            net = slim.max_pool2d(net, [2, 2], scope="pool1")
            net = slim.conv2d(net, 256, [5, 5], padding="VALID", scope="conv2")
            net = slim.max_pool2d(net, [2, 2], scope="pool2")
            net = slim.conv2d(net, 512, [3, 3], scope="conv3")
            net = slim.conv2d(net, 1024, [3, 3], scope="conv4")
            net = slim.conv2d(net, 1024, [3, 3], scope="conv5")
            net = slim.max_pool2d(net, [2, 2], scope="pool5")
            net = dense_layers(net, 3072, 6, num_classes, is_training, dropout_keep_prob)
        return squeezed(net, end_points_of(collection), sc.name + "/fc8", spatial_squeeze)


overfeat.default_image_size = 231  # type: ignore[attr-defined]
