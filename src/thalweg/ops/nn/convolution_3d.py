"""Three-dimensional convolution: Conv3D, the gradients of its input and filter, and the transposed convolution."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, gradient, work
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.shapes_of_tensors import sizes_of
from thalweg.ops.math.element_types import FLOATS
from thalweg.ops.nn import convolution_shapes as window_shapes
from thalweg.ops.nn.convolution import register_gradients
from thalweg.ops.nn.convolution_arguments import one_of, required, steps

_OLD_ATTRS = (
    f"T: {FLOATS}, strides: list(int) >= 5, padding: {{'SAME', 'VALID'}}, dilations: list(int) = [1, 1, 1, 1, 1]"
)
_ATTRS = f"{_OLD_ATTRS}, data_format: {{'NDHWC', 'NCDHW'}} = 'NDHWC'"

define("Conv3D", "input: T, filter: T -> output: T", _ATTRS, shape=window_shapes.convolution(3))
define(
    "Conv3DBackpropInputV2",
    "input_sizes: Tshape, filter: T, out_backprop: T -> output: T",
    f"{_ATTRS}, Tshape: {{int32, int64}} = int32",
    shape=window_shapes.input_gradient(3),
)
define(
    "Conv3DBackpropFilterV2",
    "input: T, filter_sizes: int32, out_backprop: T -> output: T",
    _ATTRS,
    shape=window_shapes.filter_gradient(3),
)
work(works.convolution(works.output_shape(), works.input_shape(1)), "Conv3D")
work(works.convolution(works.input_shape(2), works.input_shape(1)), "Conv3DBackpropInputV2")
work(works.convolution(works.input_shape(2), works.output_shape()), "Conv3DBackpropFilterV2")
register_gradients("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")

# The first versions, which take a tensor where the later ones take its shape. Old graphs have them.
define(
    "Conv3DBackpropInput",
    "input: T, filter: T, out_backprop: T -> output: T",
    _OLD_ATTRS,
    shape=window_shapes.gradient_like(0, 3),
)
define(
    "Conv3DBackpropFilter",
    "input: T, filter: T, out_backprop: T -> output: T",
    _OLD_ATTRS,
    shape=window_shapes.gradient_like(1, 3),
)


def _old_attrs(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("strides", "padding", "dilations")}


@gradient("Conv3DBackpropInput")
def _old_backprop_input_grad(op: Operation, grad: Tensor) -> Any:
    _, kernel, out = op.inputs
    attrs = _old_attrs(op)
    return (
        None,
        apply_one("Conv3DBackpropFilterV2", grad, sizes_of(kernel), out, **attrs),
        apply_one("Conv3D", grad, kernel, **attrs),
    )


@gradient("Conv3DBackpropFilter")
def _old_backprop_filter_grad(op: Operation, grad: Tensor) -> Any:
    x, _, out = op.inputs
    attrs = _old_attrs(op)
    return (
        apply_one("Conv3DBackpropInputV2", sizes_of(x), grad, out, **attrs),
        None,
        apply_one("Conv3D", x, grad, **attrs),
    )


def _attributes(strides: Any, padding: Any, data_format: str | None, dilations: Any) -> dict[str, Any]:
    data_format = data_format or "NDHWC"
    first = data_format == "NCDHW"
    return {
        "strides": steps(strides, 3, first, "strides"),
        "padding": padding,
        "data_format": data_format,
        "dilations": steps(dilations, 3, first, "dilations"),
    }


@export("nn.conv3d")
def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Convolves volumes with a filter.

    Args:
        input: Volumes, [batch, depth, height, width, in_channels] (or as `data_format` says).
        filter: [depth, height, width, in_channels, out_channels].
        strides: The step of the window: a number, three, or one per dimension of `input`.
        padding: 'SAME' or 'VALID'.
        data_format: 'NDHWC' or 'NCDHW'.
        dilations: The distance of the filter's elements, in the form of `strides`.
        name: The node's name.
        filters: Another name of `filter`.

    Returns:
        A Tensor like `input` in type and layout.
    """
    filter = one_of("filters", filters, "filter", filter)
    required(strides=strides, padding=padding)
    return apply_one("Conv3D", input, filter, name=name, **_attributes(strides, padding, data_format, dilations))


@export("nn.conv3d_backprop_filter_v2", "nn.conv3d_backprop_filter")
def conv3d_backprop_filter_v2(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Returns the gradient of a 3-D convolution with respect to its filter, which had the shape `filter_sizes`."""
    return apply_one(
        "Conv3DBackpropFilterV2", input, filter_sizes, out_backprop, name=name,
        **_attributes(strides, padding, data_format, dilations),
    )  # fmt: skip


@export("nn.conv3d_transpose")
def conv3d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Spreads values over a larger volume: the transpose of `conv3d`, with the same strides and padding.

    Args:
        value: Volumes, [batch, depth, height, width, in_channels] (or as `data_format` says).
        filter: [depth, height, width, out_channels, in_channels].
        output_shape: The shape of the result.
        strides: As in `conv3d`, whose output `value` could be.
        padding: 'SAME' or 'VALID'.
        data_format: 'NDHWC' or 'NCDHW'.
        name: The node's name.
        input: Another name of `value`.
        filters: Another name of `filter`.
        dilations: As in `conv3d`.

    Returns:
        A Tensor of shape `output_shape`.
    """
    value = one_of("input", input, "value", value)
    filter = one_of("filters", filters, "filter", filter)
    required(output_shape=output_shape, strides=strides)
    with name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as scope:
        value, filter = convert_to_tensor(value, name="value"), convert_to_tensor(filter, name="filter")
        return apply_one(
            "Conv3DBackpropInputV2", output_shape, filter, value, name=scope,
            **_attributes(strides, padding, data_format, dilations),
        )  # fmt: skip
