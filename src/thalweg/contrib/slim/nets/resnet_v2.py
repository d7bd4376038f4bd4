"""Residual networks, version 2: activations before the convolutions (He et al., 2016)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.layers.collections_of_outputs import collect_named_outputs
from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import slim
from thalweg.contrib.slim.nets.resnet_utils import conv2d_same, networks, subsample
from thalweg.contrib.slim.nets.resnet_utils import resnet_arg_scope as resnet_arg_scope
from thalweg.graph.definitions.op_registry import export


@export("contrib.slim.nets.resnet_v2.bottleneck")
@add_arg_scope
def bottleneck(
    inputs: Any, depth: int, depth_bottleneck: int, stride: int, rate: int = 1, outputs_collections: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """A residual unit of three convolutions: 1x1 to fewer channels, 3x3, 1x1 back."""
    with tf.variable_scope(scope, "bottleneck_v2", [inputs]) as sc:
        depth_in = inputs.shape.as_list()[-1]
        preactivated = slim.batch_norm(inputs, activation_fn=tf.nn.relu, scope="preact")
        plain = {"stride": stride, "normalizer_fn": None, "activation_fn": None}
        shortcut = (
            subsample(inputs, stride, "shortcut")
            if depth == depth_in
            else slim.conv2d(preactivated, depth, [1, 1], scope="shortcut", **plain)
        )
        residual = slim.conv2d(preactivated, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = slim.conv2d(residual, depth, [1, 1], scope="conv3", **dict(plain, stride=1))
        output = shortcut + residual
        return collect_named_outputs(outputs_collections, sc.name, output)


resnet_v2, resnet_v2_block, (resnet_v2_50, resnet_v2_101, resnet_v2_152, resnet_v2_200) = networks(
    "resnet_v2", bottleneck, preactivation=True
)
