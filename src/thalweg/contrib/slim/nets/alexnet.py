"""AlexNet, the version of "One weird trick for parallelizing convolutional neural networks" (Krizhevsky, 2014)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import dense_layers, end_points_of, padded_scope, slim, squeezed
from thalweg.graph.definitions.op_registry import export


@export("contrib.slim.nets.alexnet.alexnet_v2_arg_scope")
def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The arg_scope that the network was trained with."""
    return padded_scope(weight_decay, tf.constant_initializer(0.1))


@export("contrib.slim.nets.alexnet.alexnet_v2")
def alexnet_v2(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "alexnet_v2",
) -> Any:
    """The logits for images of 224x224, and the outputs of the layers by name."""
    with tf.variable_scope(scope, "alexnet_v2", [inputs]) as sc:
        collection = sc.original_name_scope + "_end_points"
        with slim.arg_scope([slim.conv2d, slim.fully_connected, slim.max_pool2d], outputs_collections=[collection]):
            net = slim.conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            net = slim.max_pool2d(net, [3, 3], 2, scope="pool1")
            net = slim.conv2d(net, 192, [5, 5], scope="conv2")
            net = slim.max_pool2d(net, [3, 3], 2, scope="pool2")
            net = slim.conv2d(net, 384, [3, 3], scope="conv3")
            net = slim.conv2d(net, 384, [3, 3], scope="conv4")
            net = slim.conv2d(net, 256, [3, 3], scope="conv5")
            net = slim.max_pool2d(net, [3, 3], 2, scope="pool5")
            net = dense_layers(net, 4096, 5, num_classes, is_training, dropout_keep_prob)
        return squeezed(net, end_points_of(collection), sc.name + "/fc8", spatial_squeeze)


alexnet_v2.default_image_size = 224  # type: ignore[attr-defined]
