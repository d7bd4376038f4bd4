"""Inception v1, GoogLeNet (Szegedy et al., 2014)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.slim.nets.classifiers import slim
from thalweg.contrib.slim.nets.inception_blocks import Builder, inception_arg_scope, logits_of, truncated_normal
from thalweg.graph.definitions.op_registry import export, export_value

export_value(
    inception_arg_scope,
    "contrib.slim.nets.inception_v1.inception_v1_arg_scope",
    "contrib.slim.nets.inception.inception_v1_arg_scope",
)

# Channels of the branches: 1x1; 1x1 and 3x3; 1x1 and 3x3; after pooling.
_BLOCKS = {
    "Mixed_3b": (64, 96, 128, 16, 32, 32),
    "Mixed_3c": (128, 128, 192, 32, 96, 64),
    "Mixed_4b": (192, 96, 208, 16, 48, 64),
    "Mixed_4c": (160, 112, 224, 24, 64, 64),
    "Mixed_4d": (128, 128, 256, 24, 64, 64),
    "Mixed_4e": (112, 144, 288, 32, 64, 64),
    "Mixed_4f": (256, 160, 320, 32, 128, 128),
    "Mixed_5b": (256, 160, 320, 32, 128, 128),
    "Mixed_5c": (384, 192, 384, 48, 128, 128),
}


@export("contrib.slim.nets.inception_v1.inception_v1_base", "contrib.slim.nets.inception.inception_v1_base")
def inception_v1_base(inputs: Any, final_endpoint: str = "Mixed_5c", scope: Any = "InceptionV1") -> Any:
    """The network up to a layer: its output, and the outputs of the layers by name.

    Raises:
        ValueError: If there is no layer of that name.
    """
    with tf.variable_scope(scope, "InceptionV1", [inputs]):
        with slim.arg_scope([slim.conv2d, slim.fully_connected], weights_initializer=truncated_normal(0.01)):
            with slim.arg_scope([slim.conv2d, slim.max_pool2d], stride=1, padding="SAME"):
                builder = Builder(inputs, final_endpoint, lambda depth: depth)
                builder.layer("64 7x7 1a /2")
                builder.layer("max 3x3 2a /2")
                builder.layer("64 1x1 2b")
                builder.layer("192 3x3 2c")
                builder.layer("max 3x3 3a /2")
                for name, (a, b, c, d, e, f) in _BLOCKS.items():
                    if name == "Mixed_4b":
                        builder.layer("max 3x3 4a /2")
                    if name == "Mixed_5b":
                        builder.layer("max 2x2 5a /2")
                    # The published checkpoints have this name.
                    second = "=Conv2d_0a_3x3" if name == "Mixed_5b" else "0b"
                    builder.mixed(
                        name, f"{a} 1x1 0a", f"{b} 1x1 0a, {c} 3x3 0b", f"{d} 1x1 0a, {e} 3x3 {second}",
                        f"max 3x3 0a, {f} 1x1 0b",
                    )  # fmt: skip
    if not builder.done:
        raise ValueError(f"Unknown final endpoint {final_endpoint}")
    return builder.net, builder.end_points


@export("contrib.slim.nets.inception_v1.inception_v1", "contrib.slim.nets.inception.inception_v1")
def inception_v1(
    inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.8,
    prediction_fn: Any = tf.contrib.layers.softmax, spatial_squeeze: bool = True, reuse: Any = None,
    scope: str = "InceptionV1",
) -> Any:  # fmt: skip
    """The logits for images of 224x224, and the outputs of the layers by name."""
    with tf.variable_scope(scope, "InceptionV1", [inputs, num_classes], reuse=reuse) as sc:
        with slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training):
            net, end_points = inception_v1_base(inputs, scope=sc)
            logits = logits_of(
                net, end_points, num_classes, dropout_keep_prob, spatial_squeeze,
                ("MaxPool_0a_7x7", "Dropout_0b", "Conv2d_0c_1x1"), [7, 7], prediction_fn,
            )  # fmt: skip
    return logits, end_points


inception_v1.default_image_size = 224  # type: ignore[attr-defined]
