"""Pooling of tf.contrib.layers."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.layers.variable_names import check_data_format, finished, keras_format
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _pooled(
    layer: Any, default: str, inputs: Any, kernel_size: Any, stride: Any, padding: str, data_format: str,
    outputs_collections: Any, scope: Any,
) -> Any:  # fmt: skip
    with tf.name_scope(scope, default, [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        made = layer(
            pool_size=kernel_size, strides=stride, padding=padding, data_format=keras_format(data_format), name=sc
        )
        return finished(outputs_collections, sc.rstrip("/"), made.apply(inputs))


@export("contrib.layers.max_pool2d", "contrib.slim.max_pool2d")
@add_arg_scope
def max_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """The largest value of each window of images."""
    check_data_format(data_format, ("NHWC", "NCHW"))
    return _pooled(
        tf.layers.MaxPooling2D,
        "MaxPool2D",
        inputs,
        kernel_size,
        stride,
        padding,
        data_format,
        outputs_collections,
        scope,
    )


@export("contrib.layers.avg_pool2d", "contrib.slim.avg_pool2d")
@add_arg_scope
def avg_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """The mean of each window of images."""
    check_data_format(data_format, ("NHWC", "NCHW"))
    return _pooled(
        tf.layers.AveragePooling2D, "AvgPool2D", inputs, kernel_size, stride, padding, data_format, outputs_collections,
        scope,
    )  # fmt: skip


@export("contrib.layers.max_pool3d", "contrib.slim.max_pool3d")
@add_arg_scope
def max_pool3d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NDHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """The largest value of each window of volumes."""
    check_data_format(data_format, ("NDHWC", "NCDHW"))
    return _pooled(
        tf.layers.MaxPooling3D,
        "MaxPool3D",
        inputs,
        kernel_size,
        stride,
        padding,
        data_format,
        outputs_collections,
        scope,
    )


@export("contrib.layers.avg_pool3d", "contrib.slim.avg_pool3d")
@add_arg_scope
def avg_pool3d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NDHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """The mean of each window of volumes."""
    check_data_format(data_format, ("NDHWC", "NCDHW"))
    return _pooled(
        tf.layers.AveragePooling3D, "AvgPool3D", inputs, kernel_size, stride, padding, data_format, outputs_collections,
        scope,
    )  # fmt: skip


@export("contrib.layers.pool", "contrib.slim.pool")
@add_arg_scope
def pool(
    inputs: Any, kernel_size: Any, pooling_type: str, padding: str = "VALID", data_format: Any = None,
    dilation_rate: Any = 1, stride: Any = 1, outputs_collections: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """Pooling of any number of spatial axes: 'AVG' or 'MAX'."""
    with tf.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None or rank < 3:
            raise ValueError("Rank of input must be known and at least 3.")
        axes = rank - 2

        def sizes(value: Any) -> list[int]:
            return [value] * axes if isinstance(value, int) else list(value)

        outputs = tf.nn.pool(
            inputs, sizes(kernel_size), pooling_type, padding, sizes(dilation_rate), sizes(stride),
            data_format=data_format,
        )  # fmt: skip
        return finished(outputs_collections, sc.rstrip("/"), outputs)
