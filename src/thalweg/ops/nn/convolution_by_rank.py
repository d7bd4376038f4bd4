"""Convolution in one, two or three dimensions by one function; dilated ("atrous") convolution; space as batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import constant
from thalweg.ops.array.shapes_of_tensors import expand_dims, shape_tensor, squeeze
from thalweg.ops.array.space_and_batch import batch_to_space_nd, required_space_to_batch_paddings, space_to_batch_nd
from thalweg.ops.nn.convolution import attributes, conv2d, conv2d_transpose
from thalweg.ops.nn.convolution_3d import conv3d, conv3d_transpose
from thalweg.ops.nn.convolution_arguments import one_of, required, steps, unmixed


@export("nn.conv1d")
def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Convolves sequences with a filter.

    Args:
        value: Sequences, [batch, width, in_channels] (or as `data_format` says).
        filters: [width, in_channels, out_channels].
        stride: The step of the window.
        padding: 'SAME' or 'VALID'.
        use_cudnn_on_gpu: Accepted; means nothing here.
        data_format: 'NWC' (the default) or 'NCW'.
        name: The name scope.
        input: Another name of `value`.
        dilations: The distance of the filter's elements.

    Returns:
        A Tensor like `value` in type and layout.

    Example:
        >>> tf.nn.conv1d(tf.zeros([1, 10, 3]), tf.zeros([5, 3, 8]), stride=2, padding="SAME").shape.as_list()
        [1, 5, 8]
    """
    value = one_of("input", input, "value", value)
    required(filters=filters, stride=stride)
    with name_scope(name, "conv1d", [value, filters]) as scope:
        first, axis = _format_1d(data_format)
        image = expand_dims(convert_to_tensor(value, name="value"), axis)
        result = conv2d(
            image, expand_dims(convert_to_tensor(filters, name="filters"), 0), _steps_1d(stride, first, "stride"),
            padding, data_format="NCHW" if first else "NHWC", dilations=_steps_1d(dilations, first, "dilations"),
            name=scope,
        )  # fmt: skip
        return squeeze(result, [axis])


@export("nn.conv1d_transpose")
def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Spreads values over a longer sequence: the transpose of `conv1d`, with the same strides and padding.

    Args:
        input: Sequences, [batch, width, in_channels] (or as `data_format` says).
        filters: [width, out_channels, in_channels].
        output_shape: The shape of the result.
        strides: As in `conv1d`, whose output `input` could be.
        padding: 'SAME' or 'VALID'.
        data_format: 'NWC' or 'NCW'.
        dilations: The distance of the filter's elements.
        name: The name scope.

    Returns:
        A Tensor of shape `output_shape`.
    """
    with name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        first, axis = _format_1d(data_format)
        sizes = convert_to_tensor(output_shape, name="output_shape")
        known = constant_value(sizes)
        if known is not None:
            if known.shape != (3,):
                raise ValueError(f"output_shape must have 3 elements, got {known.tolist()}")
            sizes = constant(np.insert(known, axis, 1), sizes.dtype)
        else:
            one = constant([1], sizes.dtype)
            sizes = apply_one("ConcatV2", [sizes[:axis], one, sizes[axis:]], 0)
        result = conv2d_transpose(
            expand_dims(convert_to_tensor(input, name="input"), axis),
            expand_dims(convert_to_tensor(filters, name="filters"), 0), sizes, _steps_1d(strides, first, "strides"),
            padding, "NCHW" if first else "NHWC", dilations=_steps_1d(dilations, first, "dilations"), name=scope,
        )  # fmt: skip
        return squeeze(result, [axis])


def _format_1d(data_format: str | None) -> tuple[bool, int]:
    """Whether channels come first, and where a dimension of 1 makes images of sequences."""
    if data_format in (None, "NWC", "NHWC"):
        return False, 1
    if data_format in ("NCW", "NCHW"):
        return True, 2
    raise ValueError(f"data_format must be 'NWC' or 'NCW', got {data_format!r}")


def _steps_1d(value: Any, channels_first: bool, name: str) -> list[int]:
    values = steps(value, 1, channels_first, name)
    return [*values[:2], 1, values[2]] if channels_first else [values[0], 1, *values[1:]]


@export("nn.convolution")
def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Convolves sequences, images or volumes with a filter, depending on their rank.

    Args:
        input: [batch, ..., in_channels], with one to three spatial dimensions.
        filter: [..., in_channels, out_channels].
        padding: 'SAME' or 'VALID'.
        strides: One per spatial dimension, or one for all; 1 if None.
        dilation_rate: The distances of the filter's elements, in the form of `strides`.
        name: The node's name.
        data_format: None, 'NWC', 'NHWC' or 'NDHWC' for channels last; 'NCW', 'NCHW' or 'NCDHW' for channels first.
        filters: Another name of `filter`.
        dilations: Another name of `dilation_rate`.

    Returns:
        A Tensor like `input` in type and layout.

    Raises:
        ValueError: If the number of spatial dimensions is unknown or not one to three, or if both strides and
            dilations are greater than 1.
    """
    filter = one_of("filters", filters, "filter", filter)
    rate = unmixed(strides, dilation_rate, dilations)
    required(padding=padding)
    with name_scope(name, "convolution", [input, filter]) as scope:
        input, filter = convert_to_tensor(input, name="input"), convert_to_tensor(filter, name="filter")
        spatial = _spatial(filter, input)
        strides, rate = _per_dimension(strides, spatial, "strides"), _per_dimension(rate, spatial, "dilation_rate")
        first = data_format is not None and data_format.startswith("NC")
        if spatial == 1:
            return conv1d(input, filter, strides, padding, data_format=data_format, dilations=rate, name=scope)
        if spatial == 2:
            layout = "NCHW" if first else "NHWC"
            return conv2d(input, filter, strides, padding, data_format=layout, dilations=rate, name=scope)
        return conv3d(input, filter, strides, padding, "NCDHW" if first else "NDHWC", rate, name=scope)


@export("nn.conv_transpose")
def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Transposes `convolution`, in one to three spatial dimensions: see `conv2d_transpose`."""
    with name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        filters = convert_to_tensor(filters, name="filters")
        input = convert_to_tensor(input, name="input")
        function, layouts = {
            1: (conv1d_transpose, ("NWC", "NCW")),
            2: (conv2d_transpose, ("NHWC", "NCHW")),
            3: (conv3d_transpose, ("NDHWC", "NCDHW")),
        }[_spatial(filters, input)]
        layout = layouts[data_format is not None and data_format.startswith("NC")]
        return function(  # type: ignore[operator, no-any-return]
            input, filters, output_shape, strides, padding, data_format=layout, dilations=dilations, name=scope
        )


def _spatial(filter: Tensor, input: Tensor) -> int:
    rank = filter.shape.ndims if filter.shape.ndims is not None else input.shape.ndims
    if rank is None:
        raise ValueError("rank of input or filter must be known")
    if not 3 <= rank <= 5:
        raise ValueError(f"input and filter must have one to three spatial dimensions, got rank {rank}")
    return rank - 2


def _per_dimension(value: Any, spatial: int, name: str) -> list[int]:
    if value is None:
        return [1] * spatial
    values = [int(v) for v in np.ravel(value)]
    values = values * spatial if len(values) == 1 else values
    if len(values) != spatial:
        raise ValueError(f"{name} must have {spatial} elements, one per spatial dimension, got {values}")
    if min(values) < 1:
        raise ValueError(f"{name} must be positive, got {values}")
    return values


@export("nn.atrous_conv2d")
def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any, name: str | None = None) -> Tensor:
    """Convolves images with a filter whose elements are `rate` pixels apart."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


@export("nn.atrous_conv2d_transpose")
def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """Transposes `atrous_conv2d`.

    Args:
        value: Images, [batch, height, width, in_channels].
        filters: [height, width, out_channels, in_channels].
        output_shape: The shape of the result.
        rate: The distance of the filter's elements.
        padding: 'SAME' or 'VALID'.
        name: The node's name.

    Returns:
        A Tensor of shape `output_shape`.

    Raises:
        ValueError: If `rate` is less than 1, or the padding is neither.
    """
    if rate < 1:
        raise ValueError(f"rate {rate} cannot be less than one")
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be either SAME or VALID, got {padding!r}")
    with name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as scope:
        value, filters = convert_to_tensor(value, name="value"), convert_to_tensor(filters, name="filters")
        return apply_one(
            "Conv2DBackpropInput", output_shape, filters, value, name=scope, **attributes(1, padding, "NHWC", rate)
        )


@export("nn.with_space_to_batch")
def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Callable[..., Any],
    filter_shape: Any = None,
    spatial_dims: Any = None,
    data_format: str | None = None,
) -> Any:
    """Calls `op` on images in which pixels `dilation_rate` apart are neighbours: dilation for ops that have none.

    Args:
        input: A Tensor whose first dimension is the batch.
        dilation_rate: One positive number per spatial dimension.
        padding: 'SAME' or 'VALID', of the dilated op.
        op: A function `op(images, num_spatial_dims, padding)`.
        filter_shape: The sizes of the window, needed for 'SAME'.
        spatial_dims: Which dimensions are spatial; the first ones after the batch if None.
        data_format: Starting with 'NC' if the channels come before the spatial dimensions.

    Returns:
        The result of `op`, back in the original layout.

    Raises:
        ValueError: If arguments do not fit each other.
    """
    input = convert_to_tensor(input, name="input")
    rates = [int(r) for r in np.ravel(constant_value(convert_to_tensor(dilation_rate, name="dilation_rate")))]
    count = len(rates)
    if min(rates, default=1) < 1:
        raise ValueError(f"dilation_rate must be positive, got {rates}")
    start = 2 if data_format is not None and data_format.startswith("NC") else 1
    dims = sorted({int(d) for d in spatial_dims}) if spatial_dims is not None else list(range(start, start + count))
    if len(dims) != count or min(dims, default=1) < 1:
        raise ValueError(f"spatial_dims must be {count} different positive numbers, got {spatial_dims}")
    if input.shape.ndims is not None and dims and input.shape.ndims < dims[-1] + 1:
        raise ValueError(f"input must have rank at least {dims[-1] + 1}, got shape {input.shape}")
    if all(rate == 1 for rate in rates):
        return op(input, count, padding)
    base = None
    if padding == "SAME":
        if filter_shape is None:
            raise ValueError("filter_shape must be specified for SAME padding")
        window = constant_value(convert_to_tensor(filter_shape, name="filter_shape"))
        if window is None:
            raise ValueError("filter_shape must be known while the graph is built")
        extra = [(int(w) - 1) * rate for w, rate in zip(np.ravel(window)[:count], rates, strict=True)]
        base = np.array([[e // 2, e - e // 2] for e in extra], np.int32)
    elif padding != "VALID":
        raise ValueError(f"Invalid padding method {padding!r}")
    sizes = input.shape.dims_tuple
    known = None if sizes is None else [sizes[d] for d in dims]
    if known is None or None in known:
        whole = shape_tensor(input)
        spatial_sizes: Any = apply_one("Pack", [whole[d] for d in dims])
    else:
        spatial_sizes = np.array(known, np.int32)
    paddings, crops = required_space_to_batch_paddings(spatial_sizes, rates, base)
    # Dimensions between the batch and the last spatial one that are not spatial are blocks of 1.
    every = range(1, dims[-1] + 1)
    blocks = [rates[dims.index(d)] if d in dims else 1 for d in every]
    whole_paddings, whole_crops = (_edges_of_all_dims(edges, dims, every) for edges in (paddings, crops))
    result = op(space_to_batch_nd(input, blocks, whole_paddings), count, "VALID")
    return batch_to_space_nd(result, blocks, whole_crops)


def _edges_of_all_dims(edges: Tensor, dims: list[int], every: range) -> Tensor:
    """The edges of every dimension; zeros for those that are not spatial."""
    if len(dims) == len(every):
        return edges
    rows = [edges[dims.index(d)] if d in dims else constant([0, 0]) for d in every]
    return apply_one("Pack", rows)
