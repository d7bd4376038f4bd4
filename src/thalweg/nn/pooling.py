"""The functions that pool: `tf.nn.max_pool`, `avg_pool`, their variants in one and three dimensions, and `pool`."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.space_and_batch import batch_to_space_nd, required_space_to_batch_paddings, space_to_batch_nd
from thalweg.ops.nn.convolution_arguments import paddings
from thalweg.ops.nn.convolution_arguments import steps as per_dimension
from thalweg.platform.deprecation import deprecated_argument_lookup


def _pool(
    op_type: str, value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str | None,
    spatial: int = 2,
) -> Tensor:  # fmt: skip
    """Adds a pooling node; `name` is that of the node, with a default for the function."""
    channels_first = data_format is not None and data_format.startswith("NC")
    sizes = per_dimension(ksize, spatial, channels_first, "ksize")
    if 0 in sizes:
        raise ValueError(f"`ksize` cannot be zero. Received: ksize={ksize}")
    attrs: dict[str, Any] = {"ksize": sizes, "strides": per_dimension(strides, spatial, channels_first, "strides")}
    attrs["padding"], explicit = paddings(padding, spatial)
    if explicit:
        if op_type != "MaxPool":
            raise ValueError(f"Explicit padding is not supported by {op_type}, got {padding!r}.")
        attrs["explicit_paddings"] = explicit
    return apply_one(op_type, value, data_format=data_format, name=name, **attrs)


@export("nn.max_pool")
def max_pool(
    value: Any = None, ksize: Any = None, strides: Any = None, padding: Any = None, data_format: str = "NHWC",
    name: str | None = None, input: Any = None,
) -> Tensor:  # fmt: skip
    """Returns the largest element of each window.

    Args:
        value: A Tensor of rank 4, laid out as `data_format` says.
        ksize: The size of a window: one number, one per spatial dimension, or one per dimension.
        strides: The distance between windows, in the same forms.
        padding: 'SAME', 'VALID', or a list of `[before, after]` per dimension.
        data_format: 'NHWC' or 'NCHW'.
        name: The node's name.
        input: Another name of `value`.

    Returns:
        A Tensor.

    Example:
        >>> tf.nn.max_pool(tf.ones([1, 4, 4, 3]), ksize=2, strides=2, padding="VALID").shape.as_list()
        [1, 2, 2, 3]
    """
    value = deprecated_argument_lookup("input", input, "value", value)
    with name_scope(name, "MaxPool", [value]) as scope:
        return _pool("MaxPool", value, ksize, strides, padding, data_format, scope)


@export("nn.avg_pool", "nn.avg_pool2d")
def avg_pool(
    value: Any = None, ksize: Any = None, strides: Any = None, padding: Any = None, data_format: str = "NHWC",
    name: str | None = None, input: Any = None,
) -> Tensor:  # fmt: skip
    """Returns the average of the elements of each window; padding does not count.

    Args:
        value: A Tensor of rank 4, laid out as `data_format` says.
        ksize: The size of a window: one number, one per spatial dimension, or one per dimension.
        strides: The distance between windows, in the same forms.
        padding: 'SAME' or 'VALID'.
        data_format: 'NHWC' or 'NCHW'.
        name: The node's name.
        input: Another name of `value`.

    Returns:
        A Tensor.
    """
    value = deprecated_argument_lookup("input", input, "value", value)
    with name_scope(name, "AvgPool", [value]) as scope:
        return _pool("AvgPool", value, ksize, strides, padding, data_format, scope)


@export("nn.max_pool2d")
def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Returns the largest element of each window over two dimensions: the same as `max_pool`."""
    with name_scope(name, "MaxPool2d", [input]) as scope:
        return _pool("MaxPool", input, ksize, strides, padding, data_format, scope)


@export("nn.max_pool3d")
def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Returns the largest element of each window over three dimensions."""
    with name_scope(name, "MaxPool3D", [input]) as scope:
        return _pool("MaxPool3D", input, ksize, strides, padding, data_format, scope, spatial=3)


@export("nn.avg_pool3d")
def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Returns the average of the elements of each window over three dimensions."""
    with name_scope(name, "AvgPool3D", [input]) as scope:
        return _pool("AvgPool3D", input, ksize, strides, padding, data_format, scope, spatial=3)


def _pool_1d(
    op_type: str, value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str
) -> Tensor:
    """Pools over one dimension, as over images with a single row."""
    data_format = data_format or "NWC"
    channels_first = data_format == "NCW"
    if not channels_first and data_format != "NWC":
        raise ValueError(f"data_format must be 'NWC' or 'NCW', got {data_format!r}.")
    row = 2 if channels_first else 1
    sizes, steps = (
        [*v[:row], 1, *v[row:]]
        for v in (
            per_dimension(ksize, 1, channels_first, "ksize"),
            per_dimension(strides, 1, channels_first, "strides"),
        )
    )
    if isinstance(padding, (list, tuple)):
        padding = [*padding[:row], [0, 0], *padding[row:]]
    value = apply_one("ExpandDims", value, row)
    result = _pool(op_type, value, sizes, steps, padding, "NCHW" if channels_first else "NHWC", name)
    return apply_one("Squeeze", result, squeeze_dims=[row])


@export("nn.max_pool1d")
def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """Returns the largest element of each window over one dimension."""
    with name_scope(name, "MaxPool1d", [input]) as scope:
        return _pool_1d("MaxPool", input, ksize, strides, padding, data_format, scope)


@export("nn.avg_pool1d")
def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """Returns the average of the elements of each window over one dimension."""
    with name_scope(name, "AvgPool1D", [input]) as scope:
        return _pool_1d("AvgPool", input, ksize, strides, padding, data_format, scope)


@export("nn.max_pool_v2")
def max_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Returns the largest element of each window over one, two or three dimensions, as many as `input` has."""
    return _pool_by_rank("MaxPool", input, ksize, strides, padding, data_format, name)


@export("nn.avg_pool_v2")
def avg_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Returns the average of each window over one, two or three dimensions, as many as `input` has."""
    return _pool_by_rank("AvgPool", input, ksize, strides, padding, data_format, name)


def _pool_by_rank(
    op_type: str, value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str | None
) -> Tensor:
    value = convert_to_tensor(value, name="input")
    rank = len(data_format) if data_format is not None else value.shape.ndims
    if rank not in (3, 4, 5):
        raise ValueError(f"Pooling needs a data_format, or an input of rank 3, 4 or 5, got shape {value.shape}.")
    with name_scope(name, op_type + {3: "1d", 4: "2d", 5: "3D"}[rank], [value]) as scope:
        return _pool_spatial(op_type, value, ksize, strides, padding, data_format, scope, rank - 2)


def _pool_spatial(
    op_type: str, value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str, spatial: int
) -> Tensor:
    if spatial == 1:
        return _pool_1d(op_type, value, ksize, strides, padding, data_format, name)
    if spatial == 3:
        return _pool(f"{op_type}3D", value, ksize, strides, padding, data_format, name, spatial=3)
    return _pool(op_type, value, ksize, strides, padding, data_format, name)


@export("nn.max_pool_with_argmax")
def max_pool_with_argmax(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC", Targmax: Any = None,
    name: str | None = None, output_dtype: Any = None, include_batch_in_index: bool = False,
) -> Any:  # fmt: skip
    """Returns the largest element of each window, and where it stands.

    Args:
        input: A Tensor `[batch, rows, columns, channels]`.
        ksize: The size of a window: one number, one per spatial dimension, or one per dimension.
        strides: The distance between windows, in the same forms.
        padding: 'SAME' or 'VALID'.
        data_format: Only 'NHWC'.
        Targmax: The type of the places, int32 or int64; int64 if None.
        name: The node's name.
        output_dtype: Another name of `Targmax`.
        include_batch_in_index: Whether places count from the first image, instead of from the element's own.

    Returns:
        A tuple `(output, argmax)`; a place is `(row * columns + column) * channels + channel`.

    Raises:
        ValueError: For another `data_format`.
    """
    if data_format != "NHWC":
        raise ValueError(f"Data formats other than 'NHWC' are not yet supported, got {data_format!r}.")
    places = deprecated_argument_lookup("output_dtype", output_dtype, "Targmax", Targmax)
    return apply(
        "MaxPoolWithArgmax", input, ksize=per_dimension(ksize, 2, False, "ksize"),
        strides=per_dimension(strides, 2, False, "strides"), padding=padding, name=name,
        Targmax="int64" if places is None else places, include_batch_in_index=include_batch_in_index,
    )  # fmt: skip


@export("nn.pool")
def pool(
    input: Any, window_shape: Any, pooling_type: str, padding: str, dilation_rate: Any = None, strides: Any = None,
    name: str | None = None, data_format: str | None = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """Pools over one, two or three dimensions, with gaps inside the windows if asked to.

    Args:
        input: A Tensor of rank 3, 4 or 5.
        window_shape: The size of a window, one number per spatial dimension.
        pooling_type: 'MAX' or 'AVG'.
        padding: 'SAME' or 'VALID'.
        dilation_rate: The distance between the elements of a window, one number per spatial dimension; 1 if None.
        strides: The distance between windows; 1 if None. Either this or `dilation_rate` must be 1.
        name: A name scope.
        data_format: 'NWC', 'NHWC', 'NDHWC' (or None) for channels last, 'NCW', 'NCHW', 'NCDHW' for channels first.
        dilations: Another name of `dilation_rate`.

    Returns:
        A Tensor.

    Raises:
        ValueError: If the arguments do not fit each other.
    """
    rates = deprecated_argument_lookup("dilations", dilations, "dilation_rate", dilation_rate)
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        value = convert_to_tensor(input, name="input")
        window = [int(n) for n in window_shape]
        spatial = len(window)
        if pooling_type not in ("MAX", "AVG") or spatial not in (1, 2, 3):
            raise ValueError(f"{spatial}-D {pooling_type} pooling is not supported.")
        if value.shape.ndims not in (None, spatial + 2):
            raise ValueError(f"{spatial}-D pooling needs an input of rank {spatial + 2}, got shape {value.shape}.")
        steps, gaps = ([1] * spatial if v is None else [int(n) for n in v] for v in (strides, rates))
        for what, values in (("strides", steps), ("dilation_rate", gaps)):
            if len(values) != spatial or min(values) < 1:
                raise ValueError(f"{what} must be {spatial} positive numbers, got {values}.")
        if max(steps) > 1 and max(gaps) > 1:
            raise ValueError(f"strides > 1 are not supported together with dilation_rate > 1: {steps} and {gaps}.")
        op_type = {"MAX": "MaxPool", "AVG": "AvgPool"}[pooling_type]
        if max(gaps) == 1:
            return _pool_spatial(op_type, value, window, steps, padding, data_format, scope, spatial)
        return _pool_dilated(op_type, value, window, gaps, padding, data_format, scope)


def _pool_dilated(
    op_type: str, value: Tensor, window: list[int], gaps: list[int], padding: str, data_format: str | None, name: str
) -> Tensor:
    """Pools pixels that are `gaps` apart: the pixels in between become further images of the batch."""
    if padding != "VALID":
        raise ValueError(f"Only padding 'VALID' goes with dilation_rate > 1, got {padding!r} and {gaps}.")
    spatial = len(window)
    channels_first = data_format is not None and data_format.startswith("NC")
    if channels_first:
        value = _move_channels(value, spatial, last=True)
    sizes = value.shape.dims_tuple
    space = list(sizes[1:-1]) if sizes is not None else [None]
    shape: Any = space if None not in space else apply_one("Shape", value)[1 : spatial + 1]
    edges, crops = required_space_to_batch_paddings(shape, gaps)
    split = space_to_batch_nd(value, gaps, edges)
    pooled = _pool_spatial(op_type, split, window, [1] * spatial, "VALID", None, name, spatial)
    result = batch_to_space_nd(pooled, gaps, crops)
    return _move_channels(result, spatial, last=False) if channels_first else result


def _move_channels(value: Tensor, spatial: int, last: bool) -> Tensor:
    order = [0, *range(2, spatial + 2), 1] if last else [0, spatial + 1, *range(1, spatial + 1)]
    return apply_one("Transpose", value, order)
