"""Convolution layers: Conv1D, Conv2D, Conv3D."""

from __future__ import annotations

from typing import Any

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.layers.functional import export_function
from thalweg.layers.image_arguments import is_channels_first, op_format, padding_of, window, with_batch_and_channels
from thalweg.layers.input_spec import InputSpec
from thalweg.layers.layer import Layer
from thalweg.ops.nn.bias import bias_add
from thalweg.ops.nn.convolution import conv2d as nn_conv2d
from thalweg.ops.nn.convolution_3d import conv3d as nn_conv3d
from thalweg.ops.nn.convolution_by_rank import conv1d as nn_conv1d
from thalweg.state.initializers import Zeros


class Convolution(Layer):
    """The base class of convolution layers: the window, the bias, the activation."""

    rank: int

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
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
        """Describes the layer.

        Args:
            filters: The number of channels of the output.
            kernel_size: The size of the window: a number, or one per spatial axis.
            strides: Its step.
            padding: 'valid' or 'same'.
            data_format: 'channels_last' or 'channels_first'.
            dilation_rate: The distance of the window's elements.
            activation: A function of the result; None leaves it as it is.
            use_bias: Whether a bias is added.
            kernel_initializer: First value of the kernel; that of the variable scope if None.
            bias_initializer: First value of the bias.
            kernel_regularizer: A function of the kernel that gives a loss.
            bias_regularizer: A function of the bias that gives a loss.
            activity_regularizer: A function of the output that gives a loss.
            kernel_constraint: Applied to the kernel after an optimizer changed it.
            bias_constraint: Applied to the bias after an optimizer changed it.
            trainable: Whether optimizers change the variables.
            name: The layer's name.
            **kwargs: `dtype`, `_scope`, `_reuse`.
        """
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.filters = int(filters)
        if self.filters <= 0:
            raise ValueError(f"A convolution needs a positive number of filters, got {filters}.")
        self.kernel_size = window(kernel_size, self.rank, "kernel_size")
        self.strides = window(strides, self.rank, "strides")
        self.padding = padding_of(padding).lower()
        self._channels_first = is_channels_first(data_format)
        self.data_format = data_format
        self.dilation_rate = window(dilation_rate, self.rank, "dilation_rate")
        self.activation = activation
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.kernel: Any = None
        self.bias: Any = None
        self.input_spec = InputSpec(ndim=self.rank + 2)

    @property
    def _channel_axis(self) -> int:
        return 1 if self._channels_first else -1

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, channels, self.filters]

    def _input_channels(self, input_shape: Any) -> int:
        shape = TensorShape(input_shape)
        if shape.ndims != self.rank + 2:
            raise ValueError(f"Inputs should have rank {self.rank + 2}. Received input shape: {shape}")
        channels = shape.as_list()[self._channel_axis]
        if channels is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self._channel_axis: channels})
        return channels

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        self.kernel = self.add_weight(
            "kernel", self._kernel_shape(self._input_channels(input_shape)), initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, trainable=True,
        )  # fmt: skip
        self._build_bias()
        self.built = True

    def _build_bias(self) -> None:
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", [self.filters], initializer=self.bias_initializer, regularizer=self.bias_regularizer,
                constraint=self.bias_constraint, trainable=True,
            )  # fmt: skip

    def call(self, inputs: Any) -> Any:
        """Convolves, adds the bias, applies the activation."""
        return self._add_bias_and_activate(self._convolve(inputs))

    def _convolve(self, inputs: Any) -> Tensor:
        first = self._channels_first
        layout = op_format(self.rank, first)
        padding = self.padding.upper()
        if self.rank == 1:
            return nn_conv1d(
                inputs, self.kernel, self.strides[0], padding, data_format=layout, dilations=self.dilation_rate[0]
            )
        function: Any = nn_conv2d if self.rank == 2 else nn_conv3d
        strides = with_batch_and_channels(self.strides, first)
        dilations = with_batch_and_channels(self.dilation_rate, first)
        get_default_graph()._shift_seeds(1)  # TensorFlow's constant with the dilation
        result: Tensor = function(inputs, self.kernel, strides, padding, data_format=layout, dilations=dilations)
        return result

    def _add_bias_and_activate(self, outputs: Tensor) -> Any:
        if self.use_bias:
            outputs = bias_add(outputs, self.bias, data_format="NC" if self._channels_first else None)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of the output for an input of this shape."""
        sizes = TensorShape(input_shape).as_list()
        at = 2 if self._channels_first else 1
        spatial = [self._output_size(size, i) for i, size in enumerate(sizes[at : at + self.rank])]
        batch = sizes[0]
        return TensorShape([batch, self.filters, *spatial] if self._channels_first else [batch, *spatial, self.filters])

    def _output_size(self, size: int | None, axis: int) -> int | None:
        if size is None:
            return None
        reach = 1 if self.padding == "same" else (self.kernel_size[axis] - 1) * self.dilation_rate[axis] + 1
        return -(-(size - reach + 1) // self.strides[axis])


@export("layers.Conv1D", "layers.Convolution1D")
class Conv1D(Convolution):
    """A convolution along one axis: inputs are [batch, width, channels]."""

    rank = 1


@export("layers.Conv2D", "layers.Convolution2D")
class Conv2D(Convolution):
    """A convolution of images: inputs are [batch, height, width, channels].

    Example:
        >>> tf.layers.Conv2D(8, 3, padding="same")(tf.zeros([1, 5, 5, 2])).shape.as_list()
        [1, 5, 5, 8]
    """

    rank = 2


@export("layers.Conv3D", "layers.Convolution3D")
class Conv3D(Convolution):
    """A convolution of volumes: inputs are [batch, depth, height, width, channels]."""

    rank = 3


conv1d = export_function("conv1d", Conv1D)
conv2d = export_function("conv2d", Conv2D)
conv3d = export_function("conv3d", Conv3D)
