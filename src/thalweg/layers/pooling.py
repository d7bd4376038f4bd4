"""Pooling layers: the maximum or average of windows along one, two or three axes."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor_shape import TensorShape
from thalweg.layers.functional import export_function
from thalweg.layers.image_arguments import is_channels_first, op_format, padding_of, window, with_batch_and_channels
from thalweg.layers.input_spec import InputSpec
from thalweg.layers.layer import Layer
from thalweg.nn.pooling import avg_pool, avg_pool1d, avg_pool3d, max_pool, max_pool1d, max_pool3d


class Pooling(Layer):
    """The base class of pooling layers."""

    rank: int
    _function: Any

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Takes the size of the window, its step, 'valid' or 'same', and the layout."""
        super().__init__(name=name, **kwargs)
        self.pool_size = window(pool_size, self.rank, "pool_size")
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        self.strides = window(strides, self.rank, "strides")
        self.padding = padding_of(padding).lower()
        self._channels_first = is_channels_first(data_format)
        self.data_format = data_format
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        """Pools."""
        first = self._channels_first
        sizes, strides = (with_batch_and_channels(value, first) for value in (self.pool_size, self.strides))
        return type(self)._function(inputs, sizes, strides, self.padding.upper(), op_format(self.rank, first))

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of the output for an input of this shape."""
        sizes = TensorShape(input_shape).as_list()
        at = 2 if self._channels_first else 1
        for i in range(self.rank):
            size = sizes[at + i]
            if size is not None:
                reach = 1 if self.padding == "same" else self.pool_size[i]
                sizes[at + i] = -(-(size - reach + 1) // self.strides[i])
        return TensorShape(sizes)


@export("layers.MaxPooling1D")
class MaxPooling1D(Pooling):
    """The maximum of windows along one axis."""

    rank = 1
    _function = staticmethod(max_pool1d)


@export("layers.MaxPooling2D")
class MaxPooling2D(Pooling):
    """The maximum of windows of images."""

    rank = 2
    _function = staticmethod(max_pool)


@export("layers.MaxPooling3D")
class MaxPooling3D(Pooling):
    """The maximum of windows of volumes."""

    rank = 3
    _function = staticmethod(max_pool3d)


@export("layers.AveragePooling1D")
class AveragePooling1D(Pooling):
    """The average of windows along one axis."""

    rank = 1
    _function = staticmethod(avg_pool1d)


@export("layers.AveragePooling2D")
class AveragePooling2D(Pooling):
    """The average of windows of images."""

    rank = 2
    _function = staticmethod(avg_pool)


@export("layers.AveragePooling3D")
class AveragePooling3D(Pooling):
    """The average of windows of volumes."""

    rank = 3
    _function = staticmethod(avg_pool3d)


max_pooling1d = export_function("max_pooling1d", MaxPooling1D, reusable=False)
max_pooling2d = export_function("max_pooling2d", MaxPooling2D, reusable=False)
max_pooling3d = export_function("max_pooling3d", MaxPooling3D, reusable=False)
average_pooling1d = export_function("average_pooling1d", AveragePooling1D, reusable=False)
average_pooling2d = export_function("average_pooling2d", AveragePooling2D, reusable=False)
average_pooling3d = export_function("average_pooling3d", AveragePooling3D, reusable=False)
