"""Morphology of grey-scale images: dilation (a maximum of sums in a sliding window) and erosion."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.element_types import REALS
from thalweg.ops.nn.convolution_arguments import one_of, required
from thalweg.ops.nn.convolution_shapes import WindowAttributes
from thalweg.platform.deprecation import deprecated_argument_lookup


def _dilation_shape(c: ShapeContext) -> TensorShape:
    window = WindowAttributes(c, 2, dilations="rates")
    image = shapes.with_rank(c.input(0), 4).dims_tuple
    kernel = shapes.with_rank(c.input(1), 3).dims_tuple
    assert image is not None and kernel is not None
    if 0 in kernel:
        raise ValueError(f"filter must not have zero elements, got {list(kernel)}")
    space = [window.out_size(i, image[i + 1], kernel[i]) for i in range(2)]
    return window.image(image[0], space, shapes.merge_dims(image[3], kernel[2]))


def _backprop_shape(index: int) -> Any:
    def shape(c: ShapeContext) -> TensorShape:
        out = _dilation_shape(c)
        shapes.merge(out, shapes.with_rank(c.input(2), 4))
        return shapes.with_rank(c.input(index), 4 - index)

    return shape


_ATTRS = f"T: {REALS}, strides: list(int) >= 4, rates: list(int) >= 4, padding: {{'SAME', 'VALID'}}"
define("Dilation2D", "input: T, filter: T -> output: T", _ATTRS, shape=_dilation_shape)
define(
    "Dilation2DBackpropInput",
    "input: T, filter: T, out_backprop: T -> in_backprop: T",
    _ATTRS,
    shape=_backprop_shape(0),
)
define(
    "Dilation2DBackpropFilter",
    "input: T, filter: T, out_backprop: T -> filter_backprop: T",
    _ATTRS,
    shape=_backprop_shape(1),
)


@export("nn.dilation2d")
def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: str | None = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Returns, in each channel, the largest sum of image and filter in a window that slides over the image.

    Args:
        input: Images, [batch, height, width, channels].
        filter: [height, width, channels].
        strides: The step of the window, [1, rows, columns, 1].
        rates: The distances of the filter's elements, [1, rows, columns, 1].
        padding: 'SAME' or 'VALID'.
        name: The node's name.
        filters: Another name of `filter`.
        dilations: Another name of `rates`.

    Returns:
        A Tensor like `input` in type.
    """
    filter = one_of("filters", filters, "filter", filter)
    rates = deprecated_argument_lookup("dilations", dilations, "rates", rates)
    required(strides=strides, rates=rates, padding=padding)
    return apply_one("Dilation2D", input, filter, strides=strides, rates=rates, padding=padding, name=name)


@export("nn.erosion2d")
def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """Returns, in each channel, the smallest difference of image and kernel in a window that slides over the image.

    It is the dual of `dilation2d`: the negative dilation of the negative image by the reflected kernel.
    """
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        image = apply_one("Neg", convert_to_tensor(value, name="value"))
        reflected = apply_one("ReverseV2", kernel, [0, 1])
        spread = dilation2d(image, reflected, strides, rates, padding, name=scope)
        return apply_one("Neg", spread)


def _attrs(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("strides", "rates", "padding")}


@gradient("Dilation2D")
def _dilation_grad(op: Operation, grad: Tensor) -> Any:
    image, kernel = op.inputs
    return (
        apply_one("Dilation2DBackpropInput", image, kernel, grad, **_attrs(op)),
        apply_one("Dilation2DBackpropFilter", image, kernel, grad, **_attrs(op)),
    )


@gradient("Dilation2DBackpropInput", "Dilation2DBackpropFilter")
def _no_second_gradient(op: Operation, grad: Tensor) -> Any:
    raise LookupError(f"Dilation2D has no gradients of second order (asked for at '{op.name}')")
