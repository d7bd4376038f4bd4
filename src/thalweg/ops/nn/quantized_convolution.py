"""Convolution of quantized images, each with the range of real numbers that its integers stand for."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.nn import convolution_shapes as window_shapes

_images = window_shapes.convolution(2)


def _quantized_shape(c: ShapeContext) -> list[TensorShape]:
    for i in range(2, 6):
        shapes.with_rank(c.input(i), 0)
    return [_images(c), shapes.SCALAR, shapes.SCALAR]


define(
    "QuantizedConv2D",
    "input: Tinput, filter: Tfilter, min_input: float, max_input: float, min_filter: float, max_filter: float -> "
    "output: out_type, min_output: float, max_output: float",
    "Tinput: quantizedtype, Tfilter: quantizedtype, out_type: quantizedtype = qint32, strides: list(int), "
    "padding: {'SAME', 'VALID'}, dilations: list(int) = [1, 1, 1, 1]",
    shape=_quantized_shape,
)
not_differentiable("QuantizedConv2D")


@export("nn.quantized_conv2d")
def quantized_conv2d(
    input: Any,
    filter: Any,
    min_input: Any,
    max_input: Any,
    min_filter: Any,
    max_filter: Any,
    strides: Any,
    padding: str,
    out_type: Any = dtypes.qint32,
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """Convolves quantized images with a quantized filter.

    Args:
        input: Images of type quint8 or qint8, [batch, height, width, in_channels].
        filter: [height, width, in_channels, out_channels], of type quint8 or qint8.
        min_input: The number that the least integer of `input` stands for.
        max_input: The number that the largest integer of `input` stands for.
        min_filter: The same for `filter`.
        max_filter: The same for `filter`.
        strides: One per dimension of `input`.
        padding: 'SAME' or 'VALID'.
        out_type: The type of the result: qint32.
        dilations: The distances of the filter's elements, one per dimension of `input`.
        name: The node's name.

    Returns:
        (output, min_output, max_output).
    """
    return apply(
        "QuantizedConv2D", input, filter, min_input, max_input, min_filter, max_filter, strides=strides,
        padding=padding, out_type=out_type, dilations=list(dilations), name=name,
    )  # fmt: skip
