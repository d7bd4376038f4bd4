"""Residual networks, version 2: activations before the convolutions (He et al., 2016)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.layers.collections_of_outputs import collect_named_outputs
from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets import resnet_utils
from thalweg.contrib.slim.nets.classifiers import slim
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
            resnet_utils.subsample(inputs, stride, "shortcut")
            if depth == depth_in
            else slim.conv2d(preactivated, depth, [1, 1], scope="shortcut", **plain)
        )
        residual = slim.conv2d(preactivated, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = slim.conv2d(residual, depth, [1, 1], scope="conv3", **dict(plain, stride=1))
        output = shortcut + residual
        return collect_named_outputs(outputs_collections, sc.name, output)


@export("contrib.slim.nets.resnet_v2.resnet_v2")
def resnet_v2(
    inputs: Any, blocks: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, include_root_block: bool = True, reuse: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """A residual network of given blocks: the output, and the outputs of the layers by name.

    Args:
        inputs: Images.
        blocks: What `resnet_v2_block` makes.
        num_classes: The number of classes; None for features only.
        is_training: Whether batches are normalized by themselves.
        global_pool: Whether the mean over the image is taken.
        output_stride: How much smaller than the image the output is; beyond, dilation takes the place of strides.
        include_root_block: Whether the first convolution and pooling are there.
        reuse: Whether variables are found instead of created.
        scope: The variable scope.

    Raises:
        ValueError: If the output stride cannot be reached.
    """
    return resnet_utils.build_resnet(
        inputs, blocks, num_classes, is_training, global_pool, output_stride, include_root_block, reuse, scope,
        "resnet_v2", bottleneck, preactivation=True,
    )  # fmt: skip


@export("contrib.slim.nets.resnet_v2.resnet_v2_block")
def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> Any:
    """A block of units, the last of which has the stride."""
    unit = {"depth": base_depth * 4, "depth_bottleneck": base_depth, "stride": 1}
    return resnet_utils.Block(scope, bottleneck, [unit] * (num_units - 1) + [dict(unit, stride=stride)])


def _blocks(counts: tuple[int, int, int, int]) -> list[Any]:
    depths, strides = (64, 128, 256, 512), (2, 2, 2, 1)
    described = enumerate(zip(depths, counts, strides, strict=True), 1)
    return [resnet_v2_block(f"block{i}", depth, count, stride) for i, (depth, count, stride) in described]


@export("contrib.slim.nets.resnet_v2.resnet_v2_50")
def resnet_v2_50(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: str = "resnet_v2_50",
) -> Any:  # fmt: skip
    """The network of 50 layers; see `resnet_v2`."""
    return resnet_v2(
        inputs, _blocks((3, 4, 6, 3)), num_classes, is_training, global_pool, output_stride, True, reuse, scope
    )


@export("contrib.slim.nets.resnet_v2.resnet_v2_101")
def resnet_v2_101(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: str = "resnet_v2_101",
) -> Any:  # fmt: skip
    """The network of 101 layers; see `resnet_v2`."""
    return resnet_v2(
        inputs, _blocks((3, 4, 23, 3)), num_classes, is_training, global_pool, output_stride, True, reuse, scope
    )


@export("contrib.slim.nets.resnet_v2.resnet_v2_152")
def resnet_v2_152(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: str = "resnet_v2_152",
) -> Any:  # fmt: skip
    """The network of 152 layers; see `resnet_v2`."""
    return resnet_v2(
        inputs, _blocks((3, 8, 36, 3)), num_classes, is_training, global_pool, output_stride, True, reuse, scope
    )


@export("contrib.slim.nets.resnet_v2.resnet_v2_200")
def resnet_v2_200(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: str = "resnet_v2_200",
) -> Any:  # fmt: skip
    """The network of 200 layers; see `resnet_v2`."""
    return resnet_v2(
        inputs, _blocks((3, 24, 36, 3)), num_classes, is_training, global_pool, output_stride, True, reuse, scope
    )


for _net in (resnet_v2_50, resnet_v2_101, resnet_v2_152, resnet_v2_200):
    _net.default_image_size = 224  # type: ignore[attr-defined]
