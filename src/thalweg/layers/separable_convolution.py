"""Convolutions in two steps, first in space and then across channels: SeparableConv1D and SeparableConv2D."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.layers.convolution import Convolution
from thalweg.layers.functional import export_function
from thalweg.layers.image_arguments import op_format, with_batch_and_channels
from thalweg.ops.array.shapes_of_tensors import expand_dims, squeeze
from thalweg.ops.nn.depthwise_convolution import separable_conv2d as nn_separable_conv2d
from thalweg.state.initializers import Zeros


class SeparableConvolution(Convolution):
    """The base class of separable convolutions."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = Zeros(),  # noqa: B008
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Describes the layer.

        The arguments are those of Convolution, with one initializer, regularizer and constraint for the spatial
        ("depthwise") and one for the channel ("pointwise") filter; the first makes `depth_multiplier` channels of each.
        """
        super().__init__(
            filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
            bias_initializer=bias_initializer, bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer, bias_constraint=bias_constraint, trainable=trainable, name=name,
            **kwargs,
        )  # fmt: skip
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = depthwise_initializer
        self.pointwise_initializer = pointwise_initializer
        self.depthwise_regularizer = depthwise_regularizer
        self.pointwise_regularizer = pointwise_regularizer
        self.depthwise_constraint = depthwise_constraint
        self.pointwise_constraint = pointwise_constraint

    def build(self, input_shape: Any) -> None:
        """Creates both kernels and the bias."""
        channels = self._input_channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", [*self.kernel_size, channels, self.depth_multiplier],
            initializer=self.depthwise_initializer, regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint, trainable=True,
        )  # fmt: skip
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel", [*[1] * self.rank, channels * self.depth_multiplier, self.filters],
            initializer=self.pointwise_initializer, regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint, trainable=True,
        )  # fmt: skip
        self._build_bias()
        self.built = True


@export("layers.SeparableConv1D", "layers.SeparableConvolution1D")
class SeparableConv1D(SeparableConvolution):
    """A separable convolution along one axis: inputs are [batch, width, channels]."""

    rank = 1

    def _convolve(self, inputs: Any) -> Tensor:
        first = self._channels_first
        axis = 2 if first else 1
        # The op requires equal strides on both axes; on an axis of size 1 the stride has no effect.
        result = nn_separable_conv2d(
            expand_dims(inputs, axis), expand_dims(self.depthwise_kernel, 0), expand_dims(self.pointwise_kernel, 0),
            with_batch_and_channels(self.strides * 2, first), self.padding.upper(), (1, *self.dilation_rate),
            data_format=op_format(2, first),
        )  # fmt: skip
        return squeeze(result, [axis])


@export("layers.SeparableConv2D", "layers.SeparableConvolution2D")
class SeparableConv2D(SeparableConvolution):
    """A separable convolution of images: inputs are [batch, height, width, channels]."""

    rank = 2

    def _convolve(self, inputs: Any) -> Tensor:
        return nn_separable_conv2d(
            inputs, self.depthwise_kernel, self.pointwise_kernel,
            with_batch_and_channels(self.strides, self._channels_first), self.padding.upper(), self.dilation_rate,
            data_format=op_format(2, self._channels_first),
        )  # fmt: skip


separable_conv1d = export_function("separable_conv1d", SeparableConv1D)
separable_conv2d = export_function("separable_conv2d", SeparableConv2D)
