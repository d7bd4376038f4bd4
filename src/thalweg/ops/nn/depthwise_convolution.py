"""Depthwise convolution, in which every channel has filters of its own, and the separable convolution made of it."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, work
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.element_types import FLOATS
from thalweg.ops.nn import convolution_shapes as window_shapes
from thalweg.ops.nn.convolution import attributes, conv2d, register_gradients
from thalweg.ops.nn.convolution_arguments import unmixed

_ATTRS = (
    f"T: {FLOATS}, strides: list(int), padding: {{'SAME', 'VALID', 'EXPLICIT'}}, explicit_paddings: list(int) = [], "
    "data_format: {'NHWC', 'NCHW'} = 'NHWC', dilations: list(int) = [1, 1, 1, 1]"
)

define(
    "DepthwiseConv2dNative",
    "input: T, filter: T -> output: T",
    _ATTRS,
    shape=window_shapes.convolution(2, depthwise=True),
)
define(
    "DepthwiseConv2dNativeBackpropInput",
    "input_sizes: int32, filter: T, out_backprop: T -> output: T",
    _ATTRS,
    shape=window_shapes.input_gradient(2, depthwise=True),
)
define(
    "DepthwiseConv2dNativeBackpropFilter",
    "input: T, filter_sizes: int32, out_backprop: T -> output: T",
    _ATTRS,
    shape=window_shapes.filter_gradient(2),
)
work(works.depthwise(works.output_shape(), works.input_shape(1)), "DepthwiseConv2dNative")
work(works.depthwise(works.input_shape(2), works.input_shape(1)), "DepthwiseConv2dNativeBackpropInput")
work(works.depthwise(works.input_shape(2), works.output_shape()), "DepthwiseConv2dNativeBackpropFilter")
register_gradients("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")


@export("nn.depthwise_conv2d_native")
def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Convolves each channel of images with its own filters, [height, width, channels, multiplier].

    Channel k of the images gives channels k * multiplier to (k + 1) * multiplier - 1 of the result.
    """
    return apply_one(
        "DepthwiseConv2dNative", input, filter, name=name, **attributes(strides, padding, data_format, dilations)
    )


@export("nn.depthwise_conv2d_native_backprop_input", "nn.depthwise_conv2d_backprop_input")
def depthwise_conv2d_native_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Returns the gradient of a depthwise convolution with respect to its input."""
    return apply_one(
        "DepthwiseConv2dNativeBackpropInput", input_sizes, filter, out_backprop, name=name,
        **attributes(strides, padding, data_format, dilations),
    )  # fmt: skip


@export("nn.depthwise_conv2d_native_backprop_filter", "nn.depthwise_conv2d_backprop_filter")
def depthwise_conv2d_native_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Returns the gradient of a depthwise convolution with respect to its filter."""
    return apply_one(
        "DepthwiseConv2dNativeBackpropFilter", input, filter_sizes, out_backprop, name=name,
        **attributes(strides, padding, data_format, dilations),
    )  # fmt: skip


@export("nn.depthwise_conv2d")
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Convolves each channel of images with its own filters.

    Args:
        input: Images, [batch, height, width, channels] (or as `data_format` says).
        filter: [height, width, channels, multiplier].
        strides: One per dimension of `input`.
        padding: 'SAME', 'VALID', or [before, after] for each dimension of `input`.
        rate: The distances of the filter's elements, [rows, columns]; only with strides of 1.
        name: The node's name.
        data_format: 'NHWC' (the default) or 'NCHW'.
        dilations: Another name of `rate`.

    Returns:
        A Tensor with channels * multiplier channels.

    Raises:
        ValueError: If both strides and rate are greater than 1.
    """
    rate = unmixed(strides, rate, dilations)
    with name_scope(name, "depthwise", [input, filter]) as scope:
        input, filter = convert_to_tensor(input, name="tensor_in"), convert_to_tensor(filter, name="filter_in")
        return apply_one(
            "DepthwiseConv2dNative", input, filter, name=scope, **attributes(strides, padding, data_format, rate)
        )


@export("nn.separable_conv2d")
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Filters each channel of images in space, and then mixes the channels at each position.

    Args:
        input: Images, [batch, height, width, channels] (or as `data_format` says).
        depthwise_filter: [height, width, channels, multiplier].
        pointwise_filter: [1, 1, channels * multiplier, out_channels].
        strides: Of the depthwise convolution, one per dimension of `input`.
        padding: 'SAME', 'VALID', or [before, after] for each dimension of `input`.
        rate: The distances of the depthwise filter's elements; only with strides of 1.
        name: The name scope.
        data_format: 'NHWC' (the default) or 'NCHW'.
        dilations: Another name of `rate`.

    Returns:
        A Tensor with `out_channels` channels.

    Raises:
        ValueError: If the pointwise filter is not one, or does not fit the depthwise one.
    """
    rate = unmixed(strides, rate, dilations)
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        input = convert_to_tensor(input, name="tensor_in")
        depthwise_filter = convert_to_tensor(depthwise_filter, name="depthwise_filter")
        pointwise_filter = convert_to_tensor(pointwise_filter, name="pointwise_filter")
        mixing = pointwise_filter.shape.with_rank(4)
        for size in mixing.dims_tuple[:2]:
            if size not in (None, 1):
                raise ValueError(f"pointwise_filter must be 1 x 1, got shape {mixing}")
        filtered = apply_one(
            "DepthwiseConv2dNative", input, depthwise_filter, name="depthwise",
            **attributes(strides, padding, data_format, rate),
        )  # fmt: skip
        return conv2d(filtered, pointwise_filter, [1, 1, 1, 1], "VALID", data_format=data_format or "NHWC", name=scope)
