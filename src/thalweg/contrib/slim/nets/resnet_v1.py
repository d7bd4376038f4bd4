"""Residual networks, version 1: activations after the sum (He et al., 2015)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.layers.collections_of_outputs import collect_named_outputs
from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import slim
from thalweg.contrib.slim.nets.resnet_utils import conv2d_same, networks, subsample
from thalweg.contrib.slim.nets.resnet_utils import resnet_arg_scope as resnet_arg_scope
from thalweg.graph.definitions.op_registry import export


@export("contrib.slim.nets.resnet_v1.bottleneck")
@add_arg_scope
def bottleneck(
    inputs: Any, depth: int, depth_bottleneck: int, stride: int, rate: int = 1, outputs_collections: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """A residual unit of three convolutions: 1x1 to fewer channels, 3x3, 1x1 back."""
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as sc:
        depth_in = inputs.shape.as_list()[-1]
        shortcut = (
            subsample(inputs, stride, "shortcut")
            if depth == depth_in
            else slim.conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
        )
        residual = slim.conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = slim.conv2d(residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3")
        output = tf.nn.relu(shortcut + residual)
        return collect_named_outputs(outputs_collections, sc.name, output)


resnet_v1, resnet_v1_block, (resnet_v1_50, resnet_v1_101, resnet_v1_152, resnet_v1_200) = networks(
    "resnet_v1", bottleneck, preactivation=False
)
