"""Pooling of tf.contrib.layers."""

from __future__ import annotations

from typing import Any, Final

from thalweg.contrib.framework.arg_scope import add_arg_scope
from thalweg.contrib.layers.variable_names import check_data_format, finished, keras_format
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _pooling(layer: Any, name: str, formats: tuple[str, str], summary: str) -> Any:
    """Makes and exports the function of one layer of `tf.layers`."""

    def function(
        inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = formats[0],
        outputs_collections: Any = None, scope: Any = None,
    ) -> Any:  # fmt: skip
        check_data_format(data_format, formats)
        with tf.name_scope(scope, default, [inputs]) as sc:
            inputs = tf.convert_to_tensor(inputs)
            made = layer(
                pool_size=kernel_size, strides=stride, padding=padding, data_format=keras_format(data_format), name=sc
            )
            return finished(outputs_collections, sc.rstrip("/"), made.apply(inputs))

    default = name.title().replace("_", "").replace("d", "D")  # 'MaxPool2D'
    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    return export(f"contrib.layers.{name}", f"contrib.slim.{name}")(add_arg_scope(function))


_IMAGES: Final = ("NHWC", "NCHW")
_VOLUMES: Final = ("NDHWC", "NCDHW")
max_pool2d = _pooling(tf.layers.MaxPooling2D, "max_pool2d", _IMAGES, "The largest value of each window of images.")
avg_pool2d = _pooling(tf.layers.AveragePooling2D, "avg_pool2d", _IMAGES, "The mean of each window of images.")
max_pool3d = _pooling(tf.layers.MaxPooling3D, "max_pool3d", _VOLUMES, "The largest value of each window of volumes.")
avg_pool3d = _pooling(tf.layers.AveragePooling3D, "avg_pool3d", _VOLUMES, "The mean of each window of volumes.")


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
            data_format=data_format, name=sc,
        )  # fmt: skip
        return finished(outputs_collections, sc.rstrip("/"), outputs)
