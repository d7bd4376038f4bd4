"""Inception v3 (Szegedy et al., 2015)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import reduced_kernel, slim
from thalweg.contrib.slim.nets.inception_blocks import (
    Builder,
    inception_arg_scope,
    logits_of,
    scaled_depth,
    truncated_normal,
)
from thalweg.graph.definitions.op_registry import export, export_value

export_value(
    inception_arg_scope,
    "contrib.slim.nets.inception_v3.inception_v3_arg_scope",
    "contrib.slim.nets.inception.inception_v3_arg_scope",
)


def _add_blocks(builder: Builder) -> None:
    for name, first, second, pooled in (
        ("Mixed_5b", "0a", "0b", 32), ("Mixed_5c", "0b", "=Conv_1_0c_5x5", 64), ("Mixed_5d", "0a", "0b", 64),
    ):  # fmt: skip
        builder.mixed(
            name, "64 1x1 0a", f"48 1x1 {first}, 64 5x5 {second}", "64 1x1 0a, 96 3x3 0b, 96 3x3 0c",
            f"avg 3x3 0a, {pooled} 1x1 0b",
        )  # fmt: skip
    builder.mixed(
        "Mixed_6a", "384 3x3 =Conv2d_1a_1x1 /2 valid", "64 1x1 0a, 96 3x3 0b, 96 3x3 =Conv2d_1a_1x1 /2 valid",
        "max 3x3 1a /2 valid",
    )  # fmt: skip
    for name, n in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        builder.mixed(
            name, "192 1x1 0a", f"{n} 1x1 0a, {n} 1x7 0b, 192 7x1 0c",
            f"{n} 1x1 0a, {n} 7x1 0b, {n} 1x7 0c, {n} 7x1 0d, 192 1x7 0e", "avg 3x3 0a, 192 1x1 0b",
        )  # fmt: skip
    builder.mixed(
        "Mixed_7a", "192 1x1 0a, 320 3x3 1a /2 valid", "192 1x1 0a, 192 1x7 0b, 192 7x1 0c, 192 3x3 1a /2 valid",
        "max 3x3 1a /2 valid",
    )  # fmt: skip
    for name, letter in (("Mixed_7b", "0b"), ("Mixed_7c", "0c")):
        builder.mixed(
            name, "320 1x1 0a", f"384 1x1 0a, 384 1x3 0b | 384 3x1 {letter}",
            "448 1x1 0a, 384 3x3 0b, 384 1x3 0c | 384 3x1 0d", "avg 3x3 0a, 192 1x1 0b",
        )  # fmt: skip


@export("contrib.slim.nets.inception_v3.inception_v3_base", "contrib.slim.nets.inception.inception_v3_base")
def inception_v3_base(
    inputs: Any, final_endpoint: str = "Mixed_7c", min_depth: int = 16, depth_multiplier: float = 1.0,
    scope: Any = None,
) -> Any:  # fmt: skip
    """The network up to a layer: its output, and the outputs of the layers by name.

    Raises:
        ValueError: If there is no layer of that name, or the multiplier is not positive.
    """
    depth = scaled_depth(min_depth, depth_multiplier)
    pools = [slim.conv2d, slim.max_pool2d, slim.avg_pool2d]
    with tf.variable_scope(scope, "InceptionV3", [inputs]):
        builder = Builder(inputs, final_endpoint, depth)
        with slim.arg_scope(pools, stride=1, padding="VALID"):
            for text in (
                "32 3x3 1a /2", "32 3x3 2a", "64 3x3 2b same", "max 3x3 3a /2", "80 1x1 3b", "192 3x3 4a",
                "max 3x3 5a /2",
            ):  # fmt: skip
                builder.layer(text)
        with slim.arg_scope(pools, stride=1, padding="SAME"):
            _add_blocks(builder)
    if not builder.done:
        raise ValueError(f"Unknown final endpoint {final_endpoint}")
    return builder.net, builder.end_points


def _auxiliary_logits(net: Any, num_classes: int, depth: Any, spatial_squeeze: bool) -> Any:
    with tf.variable_scope("AuxLogits"):
        with slim.arg_scope([slim.conv2d, slim.max_pool2d, slim.avg_pool2d], stride=1, padding="SAME"):
            net = slim.avg_pool2d(net, [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
            net = slim.conv2d(net, depth(128), [1, 1], scope="Conv2d_1b_1x1")
            kernel = reduced_kernel(net, [5, 5])
            net = slim.conv2d(
                net, depth(768), kernel, weights_initializer=truncated_normal(0.01), padding="VALID",
                scope=f"Conv2d_2a_{kernel[0]}x{kernel[1]}",
            )  # fmt: skip
            net = slim.conv2d(
                net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                weights_initializer=truncated_normal(0.001), scope="Conv2d_2b_1x1",
            )  # fmt: skip
        return tf.squeeze(net, [1, 2], name="SpatialSqueeze") if spatial_squeeze else net


@export("contrib.slim.nets.inception_v3.inception_v3", "contrib.slim.nets.inception.inception_v3")
def inception_v3(
    inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.8, min_depth: int = 16,
    depth_multiplier: float = 1.0, prediction_fn: Any = tf.contrib.layers.softmax, spatial_squeeze: bool = True,
    reuse: Any = None, create_aux_logits: bool = True, scope: str = "InceptionV3",
) -> Any:  # fmt: skip
    """The logits for images of 299x299, and the outputs of the layers by name, with the auxiliary logits."""
    depth = scaled_depth(min_depth, depth_multiplier)
    with tf.variable_scope(scope, "InceptionV3", [inputs, num_classes], reuse=reuse) as sc:
        with slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training):
            net, end_points = inception_v3_base(
                inputs, scope=sc, min_depth=min_depth, depth_multiplier=depth_multiplier
            )
            if create_aux_logits:
                end_points["AuxLogits"] = _auxiliary_logits(end_points["Mixed_6e"], num_classes, depth, spatial_squeeze)
            kernel = reduced_kernel(net, [8, 8])
            logits = logits_of(
                net, end_points, num_classes, dropout_keep_prob, spatial_squeeze,
                (f"AvgPool_1a_{kernel[0]}x{kernel[1]}", "Dropout_1b", "Conv2d_1c_1x1"), kernel, prediction_fn,
            )  # fmt: skip
    return logits, end_points


inception_v3.default_image_size = 299  # type: ignore[attr-defined]
