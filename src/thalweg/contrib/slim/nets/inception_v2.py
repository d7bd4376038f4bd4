"""Inception v2, with batch normalization (Ioffe and Szegedy, 2015)."""

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
    "contrib.slim.nets.inception_v2.inception_v2_arg_scope",
    "contrib.slim.nets.inception.inception_v2_arg_scope",
)

# Channels of the branches: 1x1; 1x1 and 3x3; 1x1 and two of 3x3; after pooling. Two halve the size.
_BLOCKS: dict[str, tuple[int, ...]] = {
    "Mixed_3b": (64, 64, 64, 64, 96, 32),
    "Mixed_3c": (64, 64, 96, 64, 96, 64),
    "Mixed_4a": (128, 160, 64, 96),
    "Mixed_4b": (224, 64, 96, 96, 128, 128),
    "Mixed_4c": (192, 96, 128, 96, 128, 128),
    "Mixed_4d": (160, 128, 160, 128, 160, 96),
    "Mixed_4e": (96, 128, 192, 160, 192, 96),
    "Mixed_5a": (128, 192, 192, 256),
    "Mixed_5b": (352, 192, 320, 160, 224, 128),
    "Mixed_5c": (352, 192, 320, 192, 224, 128),
}


@export("contrib.slim.nets.inception_v2.inception_v2_base", "contrib.slim.nets.inception.inception_v2_base")
def inception_v2_base(
    inputs: Any, final_endpoint: str = "Mixed_5c", min_depth: int = 16, depth_multiplier: float = 1.0,
    scope: Any = None,
) -> Any:  # fmt: skip
    """The network up to a layer: its output, and the outputs of the layers by name.

    Raises:
        ValueError: If there is no layer of that name, or the multiplier is not positive.
    """
    depth = scaled_depth(min_depth, depth_multiplier)
    with tf.variable_scope(scope, "InceptionV2", [inputs]):
        with slim.arg_scope(
            [slim.conv2d, slim.max_pool2d, slim.avg_pool2d, slim.separable_conv2d], stride=1, padding="SAME"
        ):
            builder = Builder(inputs, final_endpoint, depth)
            first = slim.separable_conv2d(
                inputs, depth(64), [7, 7], depth_multiplier=min(int(depth(64) / 3), 8), stride=2,
                weights_initializer=truncated_normal(1.0), scope="Conv2d_1a_7x7",
            )  # fmt: skip
            builder.add("Conv2d_1a_7x7", first)
            builder.layer("max 3x3 2a /2")
            builder.layer("64 1x1 2b ~0.1")
            builder.layer("192 3x3 2c")
            builder.layer("max 3x3 3a /2")
            for name, sizes in _BLOCKS.items():
                if len(sizes) == 4:
                    a, b, c, d = sizes
                    builder.mixed(
                        name, f"{a} 1x1 0a ~0.09, {b} 3x3 1a /2", f"{c} 1x1 0a ~0.09, {d} 3x3 0b, {d} 3x3 1a /2",
                        "max 3x3 1a /2",
                    )  # fmt: skip
                    continue
                a, b, c, d, e, f = sizes
                pool = "max" if name == "Mixed_5c" else "avg"
                builder.mixed(
                    name, f"{a} 1x1 0a", f"{b} 1x1 0a ~0.09, {c} 3x3 0b", f"{d} 1x1 0a ~0.09, {e} 3x3 0b, {e} 3x3 0c",
                    f"{pool} 3x3 0a, {f} 1x1 0b ~0.1",
                )  # fmt: skip
    if not builder.done:
        raise ValueError(f"Unknown final endpoint {final_endpoint}")
    return builder.net, builder.end_points


@export("contrib.slim.nets.inception_v2.inception_v2", "contrib.slim.nets.inception.inception_v2")
def inception_v2(
    inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: float = 0.8, min_depth: int = 16,
    depth_multiplier: float = 1.0, prediction_fn: Any = tf.contrib.layers.softmax, spatial_squeeze: bool = True,
    reuse: Any = None, scope: str = "InceptionV2",
) -> Any:  # fmt: skip
    """The logits for images of 224x224, and the outputs of the layers by name."""
    with tf.variable_scope(scope, "InceptionV2", [inputs, num_classes], reuse=reuse) as sc:
        with slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training):
            net, end_points = inception_v2_base(
                inputs, scope=sc, min_depth=min_depth, depth_multiplier=depth_multiplier
            )
            kernel = reduced_kernel(net, [7, 7])
            logits = logits_of(
                net, end_points, num_classes, dropout_keep_prob, spatial_squeeze,
                (f"AvgPool_1a_{kernel[0]}x{kernel[1]}", "Dropout_1b", "Conv2d_1c_1x1"), kernel, prediction_fn,
            )  # fmt: skip
    return logits, end_points


inception_v2.default_image_size = 224  # type: ignore[attr-defined]
