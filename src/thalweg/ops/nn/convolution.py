"""Two-dimensional convolution: Conv2D, the gradients of its input and filter, and the transposed convolution."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, work
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.shapes_of_tensors import sizes_of
from thalweg.ops.math.element_types import FLOATS
from thalweg.ops.nn import convolution_shapes as window_shapes
from thalweg.ops.nn.convolution_arguments import one_of, paddings, required, steps

_ATTRS = (
    "strides: list(int), use_cudnn_on_gpu: bool = true, padding: {'SAME', 'VALID', 'EXPLICIT'}, "
    "explicit_paddings: list(int) = [], data_format: {'NHWC', 'NCHW'} = 'NHWC', dilations: list(int) = [1, 1, 1, 1]"
)
_WITH_INT = "T: {half, bfloat16, float, double, int32}"

define("Conv2D", "input: T, filter: T -> output: T", f"{_WITH_INT}, {_ATTRS}", shape=window_shapes.convolution(2))
define(
    "Conv2DBackpropInput",
    "input_sizes: int32, filter: T, out_backprop: T -> output: T",
    f"{_WITH_INT}, {_ATTRS}",
    shape=window_shapes.input_gradient(2),
)
define(
    "Conv2DBackpropFilter",
    "input: T, filter_sizes: int32, out_backprop: T -> output: T",
    f"T: {FLOATS}, {_ATTRS}",
    shape=window_shapes.filter_gradient(2),
)
work(works.convolution(works.output_shape(), works.input_shape(1)), "Conv2D")
work(works.convolution(works.input_shape(2), works.input_shape(1)), "Conv2DBackpropInput")
work(works.convolution(works.input_shape(2), works.output_shape()), "Conv2DBackpropFilter")


define(
    "_FusedConv2D",
    "input: T, filter: T, args: num_args * T -> output: T",
    f"T: {FLOATS}, num_args: int >= 0, {_ATTRS}, fused_ops: list(string) = [], epsilon: float = 0.0001, "
    "leakyrelu_alpha: float = 0.2",
    shape=window_shapes.convolution(2),
    doc="A convolution followed by BiasAdd or FusedBatchNorm and element-wise ops, as passes make it.",
)
not_differentiable("_FusedConv2D")


def register_gradients(forward: str, backprop_input: str, backprop_filter: str) -> None:
    """Registers the gradients of a convolution and of its own two gradients: each is made of the other two."""

    def attrs_of(op: Operation) -> dict[str, Any]:
        return {name: value for name, value in op.attrs.items() if name not in ("T", "Tshape")}

    @gradient(forward)
    def _forward_grad(op: Operation, grad: Tensor) -> Any:
        x, kernel = op.inputs
        return (
            apply_one(backprop_input, sizes_of(x), kernel, grad, **attrs_of(op)),
            apply_one(backprop_filter, x, sizes_of(kernel), grad, **attrs_of(op)),
        )

    @gradient(backprop_input)
    def _backprop_input_grad(op: Operation, grad: Tensor) -> Any:
        _, kernel, out = op.inputs
        return (
            None,
            apply_one(backprop_filter, grad, sizes_of(kernel), out, **attrs_of(op)),
            apply_one(forward, grad, kernel, **attrs_of(op)),
        )

    @gradient(backprop_filter)
    def _backprop_filter_grad(op: Operation, grad: Tensor) -> Any:
        x, _, out = op.inputs
        return (
            apply_one(backprop_input, sizes_of(x), grad, out, **attrs_of(op)),
            None,
            apply_one(forward, x, grad, **attrs_of(op)),
        )


register_gradients("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")


def attributes(strides: Any, padding: Any, data_format: str | None, dilations: Any) -> dict[str, Any]:
    """The attributes that the 2-D ops share, from what their functions accept."""
    data_format = data_format or "NHWC"
    first = data_format == "NCHW"
    name, pads = paddings(padding)
    return {
        "strides": steps(strides, 2, first, "strides"),
        "padding": name,
        "explicit_paddings": pads,
        "data_format": data_format,
        "dilations": steps(dilations, 2, first, "dilations"),
    }


@export("nn.conv2d")
def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Convolves images with a filter (in the sense of signal processing: a cross-correlation).

    Args:
        input: Images, [batch, height, width, in_channels] (or as `data_format` says).
        filter: [height, width, in_channels, out_channels]. With fewer in_channels than `input` has, which must be a
            multiple, the convolution is grouped.
        strides: The step of the window: a number, two, or one per dimension of `input`.
        padding: 'SAME' (as many outputs as inputs, over the stride), 'VALID' (none), or [before, after] for each
            dimension of `input`.
        use_cudnn_on_gpu: Accepted; means nothing here.
        data_format: 'NHWC' or 'NCHW'.
        dilations: The distance of the filter's elements, in the form of `strides`.
        name: The node's name.
        filters: Another name of `filter`.

    Returns:
        A Tensor like `input` in type and layout.

    Example:
        >>> tf.nn.conv2d(tf.zeros([1, 28, 28, 3]), tf.zeros([5, 5, 3, 8]), strides=2, padding="SAME").shape.as_list()
        [1, 14, 14, 8]
    """
    filter = one_of("filters", filters, "filter", filter)
    required(strides=strides)
    return apply_one(
        "Conv2D", input, filter, use_cudnn_on_gpu=use_cudnn_on_gpu, name=name,
        **attributes(strides, padding, data_format, dilations),
    )  # fmt: skip


@export("nn.conv2d_backprop_input")
def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Returns the gradient of a convolution with respect to its input, which had the shape `input_sizes`."""
    filter = one_of("filters", filters, "filter", filter)
    required(out_backprop=out_backprop, strides=strides)
    return apply_one(
        "Conv2DBackpropInput", input_sizes, filter, out_backprop, use_cudnn_on_gpu=use_cudnn_on_gpu, name=name,
        **attributes(strides, padding, data_format, dilations),
    )  # fmt: skip


@export("nn.conv2d_backprop_filter")
def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Returns the gradient of a convolution with respect to its filter, which had the shape `filter_sizes`."""
    return apply_one(
        "Conv2DBackpropFilter", input, filter_sizes, out_backprop, use_cudnn_on_gpu=use_cudnn_on_gpu, name=name,
        **attributes(strides, padding, data_format, dilations),
    )  # fmt: skip


@export("nn.conv2d_transpose")
def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Spreads values over a larger image: the transpose of `conv2d`, with the same strides and padding.

    Args:
        value: Images, [batch, height, width, in_channels] (or as `data_format` says).
        filter: [height, width, out_channels, in_channels].
        output_shape: The shape of the result.
        strides: As in `conv2d`, whose output `value` could be.
        padding: As in `conv2d`.
        data_format: 'NHWC' or 'NCHW'.
        name: The node's name.
        input: Another name of `value`.
        filters: Another name of `filter`.
        dilations: As in `conv2d`.

    Returns:
        A Tensor of shape `output_shape`.
    """
    value = one_of("input", input, "value", value)
    filter = one_of("filters", filters, "filter", filter)
    required(output_shape=output_shape, strides=strides)
    with name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as scope:
        value, filter = convert_to_tensor(value, name="value"), convert_to_tensor(filter, name="filter")
        return apply_one(
            "Conv2DBackpropInput", output_shape, filter, value, name=scope,
            **attributes(strides, padding, data_format, dilations),
        )  # fmt: skip
