"""Transposed convolutions: Conv2DTranspose and Conv3DTranspose."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.layers.convolution import Convolution
from thalweg.layers.functional import export_function
from thalweg.layers.image_arguments import op_format, with_batch_and_channels
from thalweg.ops.array.shapes_of_tensors import size_of_axis
from thalweg.ops.nn.convolution import conv2d_transpose as nn_conv2d_transpose
from thalweg.ops.nn.convolution_3d import conv3d_transpose as nn_conv3d_transpose
from thalweg.state.initializers import Zeros


class TransposedConvolution(Convolution):
    """The base class of transposed convolutions."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = Zeros(),  # noqa: B008
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Describes the layer; the arguments are those of Convolution."""
        super().__init__(
            filters, kernel_size, strides, padding, data_format, 1, activation, use_bias, kernel_initializer,
            bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
            bias_constraint, trainable, name, **kwargs,
        )  # fmt: skip

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, self.filters, channels]

    def _output_size(self, size: Any, axis: int) -> Any:
        """The input size of a convolution with an output of this size; `size` may be a tensor."""
        if size is None:
            return None
        stride = self.strides[axis]
        margin = 0 if self.padding == "same" else max(self.kernel_size[axis] - stride, 0)
        return size * stride + margin

    def _convolve(self, inputs: Any) -> Tensor:
        known = self.compute_output_shape(inputs.shape)
        sizes: Any = known.as_list()
        if None in sizes:
            at = 2 if self._channels_first else 1
            for i, size in enumerate(sizes):
                if size is None:
                    own = size_of_axis(inputs, i)
                    sizes[i] = own if i == 0 else self._output_size(own, i - at)
            sizes = apply_one("Pack", sizes, axis=0, name="stack")
        function: Any = nn_conv2d_transpose if self.rank == 2 else nn_conv3d_transpose
        outputs: Tensor = function(
            inputs, self.kernel, sizes, with_batch_and_channels(self.strides, self._channels_first),
            self.padding.upper(), op_format(self.rank, self._channels_first),
        )  # fmt: skip
        outputs.set_shape(TensorShape(known))
        return outputs


@export("layers.Conv2DTranspose", "layers.Deconvolution2D", "layers.Deconv2D")
class Conv2DTranspose(TransposedConvolution):
    """The transpose of a convolution of images: makes them larger by the strides."""

    rank = 2


@export("layers.Conv3DTranspose", "layers.Deconvolution3D", "layers.Deconv3D")
class Conv3DTranspose(TransposedConvolution):
    """The transpose of a convolution of volumes: makes them larger by the strides."""

    rank = 3


conv2d_transpose = export_function("conv2d_transpose", Conv2DTranspose)
conv3d_transpose = export_function("conv3d_transpose", Conv3DTranspose)
