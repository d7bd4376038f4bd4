"""tf.keras.layers: borders, sizes and global pools of images and sequences, depthwise convolutions, activations."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.activation_functions import elu, get, relu, softmax
from thalweg.keras.backend_state import image_data_format
from thalweg.keras.initializer_classes import initializer_of
from thalweg.keras.layer_base import Layer
from thalweg.keras.public_names import tf
from thalweg.keras.regularizers_and_constraints import constraints, regularizer_of


class _Image(Layer):
    rank = 2

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = data_format or (image_data_format() if self.rank > 1 else "channels_last")

    @property
    def _axes(self) -> list[int]:
        first = 2 if self.data_format == "channels_first" else 1
        return list(range(first, first + self.rank))


def _pairs(value: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(value, int):
        return [(value, value)] * rank
    if rank == 1:
        return [(value[0], value[1])] if len(value) == 2 else [(value[0], value[0])]
    return [(each, each) if isinstance(each, int) else (each[0], each[1]) for each in value]


class _Border(_Image):
    def __init__(self, size: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        """Takes the size of each side."""
        argument = "cropping" if isinstance(self, _Cropping) else "padding"
        size = kwargs.pop(argument, size)
        super().__init__(data_format, **kwargs)
        self.__dict__[argument] = self.sides = _pairs(size, self.rank)


class _Padding(_Border):
    def call(self, inputs: Any) -> Any:
        """Adds zeros."""
        widths = [(0, 0)] * inputs.shape.ndims
        for axis, side in zip(self._axes, self.sides, strict=True):
            widths[axis] = side
        return tf.pad(inputs, widths)


class _Cropping(_Border):
    def call(self, inputs: Any) -> Any:
        """Leaves the sides out."""
        parts = [slice(None)] * inputs.shape.ndims
        for axis, (before, after) in zip(self._axes, self.sides, strict=True):
            parts[axis] = slice(before, -after if after else None)
        return inputs[tuple(parts)]


@export("keras.layers.ZeroPadding1D")
class ZeroPadding1D(_Padding):
    """Zeros around sequences."""

    rank = 1


@export("keras.layers.ZeroPadding2D")
class ZeroPadding2D(_Padding):
    """Zeros around images."""


@export("keras.layers.ZeroPadding3D")
class ZeroPadding3D(_Padding):
    """Zeros around volumes."""

    rank = 3


@export("keras.layers.Cropping1D")
class Cropping1D(_Cropping):
    """Sequences without their ends."""

    rank = 1


@export("keras.layers.Cropping2D")
class Cropping2D(_Cropping):
    """Images without their borders."""


@export("keras.layers.Cropping3D")
class Cropping3D(_Cropping):
    """Volumes without their borders."""

    rank = 3


class _UpSampling(_Image):
    def __init__(self, size: Any = 2, data_format: str | None = None, **kwargs: Any) -> None:
        """Takes the factor of each axis."""
        super().__init__(data_format, **kwargs)
        self.size = (size,) * self.rank if isinstance(size, int) else tuple(size)

    def call(self, inputs: Any) -> Any:
        """Repeats elements."""
        for axis, factor in zip(self._axes, self.size, strict=True):
            inputs = tf.repeat(inputs, factor, axis=axis)
        return inputs


@export("keras.layers.UpSampling1D")
class UpSampling1D(_UpSampling):
    """Every step several times."""

    rank = 1


@export("keras.layers.UpSampling2D")
class UpSampling2D(_UpSampling):
    """Larger images, by repetition or interpolation."""

    def __init__(self, size: Any = 2, data_format: str | None = None, interpolation: str = "nearest",
                 **kwargs: Any) -> None:  # fmt: skip
        """Takes the factors, and 'nearest' or 'bilinear'."""
        super().__init__(size, data_format, **kwargs)
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError('`interpolation` argument should be one of `"nearest"` or `"bilinear"`.')
        self.interpolation = interpolation

    def call(self, inputs: Any) -> Any:
        """Resizes."""
        if self.interpolation == "nearest":
            return super().call(inputs)
        first = self.data_format == "channels_first"
        images = tf.transpose(inputs, [0, 2, 3, 1]) if first else inputs
        images = tf.image.resize_bilinear(
            images, tf.shape(images)[1:3] * tf.constant(self.size), half_pixel_centers=True
        )
        return tf.transpose(images, [0, 3, 1, 2]) if first else images


@export("keras.layers.UpSampling3D")
class UpSampling3D(_UpSampling):
    """Larger volumes."""

    rank = 3


def _export_global_pools() -> None:
    for kind, function in (("Average", tf.reduce_mean), ("Max", tf.reduce_max)):
        for rank in (1, 2, 3):

            def call(self: Any, inputs: Any, function: Any = function) -> Any:
                return function(inputs, axis=self._axes)

            name = f"Global{kind}Pooling{rank}D"
            doc = f"The {'mean' if kind == 'Average' else 'maximum'} over all places."
            made = type(name, (_Image,), {"rank": rank, "call": call, "__doc__": doc, "__module__": __name__})
            short = f"Global{kind.replace('Average', 'Avg')}Pool{rank}D"
            export(f"keras.layers.{name}", f"keras.layers.{short}")(made)


_export_global_pools()


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


@export("keras.layers.DepthwiseConv2D")
class DepthwiseConv2D(_Image):
    """A convolution of every channel by itself."""

    def __init__(
        self, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", depth_multiplier: int = 1,
        data_format: str | None = None, activation: Any = None, use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
        depthwise_constraint: Any = None, bias_constraint: Any = None, dilation_rate: Any = (1, 1), **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the size of the kernel, and how many outputs each channel has."""
        super().__init__(data_format, activity_regularizer=regularizer_of(activity_regularizer), **kwargs)
        self.kernel_size, self.strides, self.dilation_rate = _pair(kernel_size), _pair(strides), _pair(dilation_rate)
        self.padding, self.depth_multiplier, self.use_bias = padding.lower(), depth_multiplier, use_bias
        self.activation = get(activation)
        self.depthwise_initializer = initializer_of(depthwise_initializer)
        self.bias_initializer = initializer_of(bias_initializer)
        self.depthwise_regularizer = regularizer_of(depthwise_regularizer)
        self.bias_regularizer = regularizer_of(bias_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)
        self.bias_constraint = constraints.get(bias_constraint)

    def build(self, input_shape: Any) -> None:
        """Creates the kernel and the bias."""
        channels = int(input_shape[1 if self.data_format == "channels_first" else 3])
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", (*self.kernel_size, channels, self.depth_multiplier),
            initializer=self.depthwise_initializer, regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )  # fmt: skip
        self.bias = self.add_weight(
            "bias", (channels * self.depth_multiplier,), initializer=self.bias_initializer,
            regularizer=self.bias_regularizer, constraint=self.bias_constraint,
        ) if self.use_bias else None  # fmt: skip
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """Convolves."""
        first = self.data_format == "channels_first"
        strides = (1, 1, *self.strides) if first else (1, *self.strides, 1)
        kind = "NCHW" if first else "NHWC"
        result = tf.nn.depthwise_conv2d(
            inputs, self.depthwise_kernel, strides, self.padding.upper(), rate=self.dilation_rate, data_format=kind
        )
        if self.bias is not None:
            result = tf.nn.bias_add(result, self.bias, data_format=kind)
        return self.activation(result)


@export("keras.layers.LeakyReLU")
class LeakyReLU(Layer):
    """alpha * x below zero."""

    def __init__(self, alpha: float = 0.3, **kwargs: Any) -> None:
        """Takes the slope."""
        super().__init__(**kwargs)
        self.alpha, self.supports_masking = alpha, True

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return tf.nn.leaky_relu(inputs, alpha=self.alpha)


@export("keras.layers.ELU")
class ELU(LeakyReLU):
    """alpha (exp(x) - 1) below zero."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        """Takes the factor."""
        super().__init__(alpha, **kwargs)

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return elu(inputs, self.alpha)


@export("keras.layers.ReLU")
class ReLU(Layer):
    """max(x, 0), with a slope below a threshold and a largest value."""

    def __init__(self, max_value: Any = None, negative_slope: float = 0, threshold: float = 0, **kwargs: Any) -> None:
        """Takes the largest value, the slope and the threshold."""
        super().__init__(**kwargs)
        if max_value is not None and max_value < 0:
            raise ValueError(f"max_value of Relu layer cannot be negative value: {max_value}")
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return relu(inputs, self.negative_slope, self.max_value, self.threshold)


@export("keras.layers.ThresholdedReLU")
class ThresholdedReLU(Layer):
    """x above a threshold, else zero."""

    def __init__(self, theta: float = 1.0, **kwargs: Any) -> None:
        """Takes the threshold."""
        super().__init__(**kwargs)
        self.theta, self.supports_masking = theta, True

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return inputs * tf.cast(inputs > self.theta, inputs.dtype)


@export("keras.layers.Softmax")
class Softmax(Layer):
    """Probabilities along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        """Takes the axis."""
        super().__init__(**kwargs)
        self.axis, self.supports_masking = axis, True

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return softmax(inputs, self.axis)


@export("keras.layers.PReLU")
class PReLU(Layer):
    """alpha * x below zero, with a learned alpha for each element."""

    def __init__(self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
                 shared_axes: Any = None, **kwargs: Any) -> None:  # fmt: skip
        """Takes the axes along which alpha is the same."""
        super().__init__(**kwargs)
        self.alpha_initializer = initializer_of(alpha_initializer)
        self.alpha_regularizer = regularizer_of(alpha_regularizer)
        self.alpha_constraint = constraints.get(alpha_constraint)
        self.shared_axes = [shared_axes] if isinstance(shared_axes, int) else list(shared_axes or ())
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Creates alpha."""
        shape = [1 if axis in self.shared_axes else size for axis, size in enumerate(input_shape.as_list())][1:]
        self.alpha = self.add_weight("alpha", shape, initializer=self.alpha_initializer,
                                     regularizer=self.alpha_regularizer, constraint=self.alpha_constraint)  # fmt: skip
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return tf.nn.relu(inputs) - self.alpha * tf.nn.relu(-inputs)
