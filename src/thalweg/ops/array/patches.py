"""Tensors made from indices or by copying parts: one_hot, sequence_mask, meshgrid, repeat, extract_image_patches."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.gather import boolean_mask, gather
from thalweg.ops.array.shapes_of_tensors import reshape, shape_tensor, sizes_of


def _one_hot_shape(c: ShapeContext) -> TensorShape:
    for i in (1, 2, 3):
        shapes.with_rank(c.input(i), 0)
    dims, depth, axis = c.dims(0), c.constant(1), c.attr("axis")
    if axis < -1:
        raise ValueError(f"axis must be >= -1, got {axis}")
    if depth is not None and int(depth) < 0:
        raise ValueError(f"depth must be non-negative, got {int(depth)}")
    if dims is None:
        return shapes.UNKNOWN
    if axis > len(dims):
        raise ValueError(f"axis must be at most the rank {len(dims)} of indices, got {axis}")
    at = len(dims) if axis == -1 else axis
    return TensorShape._of((*dims[:at], None if depth is None else int(depth), *dims[at:]))


define(
    "OneHot",
    "indices: TI, depth: int32, on_value: T, off_value: T -> output: T",
    "axis: int = -1, T: type, TI: {uint8, int8, int32, int64} = int64",
    shape=_one_hot_shape,
)


@export("one_hot")
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Returns vectors with `on_value` at the place that each index names and `off_value` elsewhere.

    Args:
        indices: A tensor of integers; one outside [0, depth) gives a vector without `on_value`.
        depth: The length of the vectors, a scalar.
        on_value: A scalar; 1 if None.
        off_value: A scalar; 0 if None.
        axis: The dimension of the vectors in the result; the last if None.
        dtype: The type of the result; that of the values, or float32.
        name: The node's name.

    Returns:
        A Tensor.

    Raises:
        TypeError: If `dtype` and the types of the values differ.

    Example:
        >>> tf.one_hot([0, 2], depth=3).shape.as_list()
        [2, 3]
    """
    if type(indices) is EagerTensor and on_value is None and off_value is None and executing_eagerly():
        ends = _one_and_zero(dtypes.float32 if dtype is None else as_dtype(dtype).base_dtype)
        return apply_one("OneHot", indices, depth, *ends, axis=-1 if axis is None else axis, name=name)
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        wanted = None if dtype is None else as_dtype(dtype).base_dtype
        given = {}
        for what, value in (("on_value", on_value), ("off_value", off_value)):
            if value is not None:
                given[what] = convert_to_tensor(value, preferred_dtype=wanted, name=what)
                if wanted is not None and given[what].dtype.base_dtype is not wanted:
                    raise TypeError(
                        f"dtype {given[what].dtype.name} of {what} does not match dtype parameter {wanted.name}"
                    )
        if len(given) == 2 and given["on_value"].dtype != given["off_value"].dtype:
            raise TypeError(
                f"dtype {given['on_value'].dtype.name} of on_value does not match dtype "
                f"{given['off_value'].dtype.name} of off_value"
            )
        element = wanted or next((t.dtype.base_dtype for t in given.values()), dtypes.float32)
        values = [
            given[what] if what in given else convert_to_tensor(default, dtype=element, name=what)
            for what, default in (("on_value", 1), ("off_value", 0))
        ]
        return apply_one("OneHot", indices, depth, *values, axis=-1 if axis is None else axis, name=scope)


_ones_and_zeros: dict[DType, tuple[Tensor, Tensor]] = {}


def _one_and_zero(dtype: DType) -> tuple[Tensor, Tensor]:
    """The two as eager tensors, which no program sees."""
    found = _ones_and_zeros.get(dtype)
    if found is None:
        found = _ones_and_zeros[dtype] = (convert_to_tensor(1, dtype=dtype), convert_to_tensor(0, dtype=dtype))
    return found


@gradient("OneHot")
def _one_hot_grad(op: Operation, grad: Tensor) -> Any:
    indices, depth, on, off = op.inputs
    hot = apply_one("OneHot", indices, depth, _scalar_like(1, on), _scalar_like(0, off), axis=op.attrs["axis"])
    on_total = apply_one("Sum", reshape(apply_one("Mul", grad, hot), [-1]), [0])
    return None, None, on_total, apply_one("Sub", apply_one("Sum", reshape(grad, [-1]), [0]), on_total)


def _scalar_like(value: int, like: Tensor) -> Tensor:
    return convert_to_tensor(value, dtype=like.dtype)


@export("sequence_mask")
def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool, name: str | None = None) -> Tensor:
    """Returns rows that are true in their first `lengths[...]` places.

    Args:
        lengths: A tensor of integers.
        maxlen: The length of the rows, a scalar; the largest of `lengths` if None.
        dtype: The type of the result.
        name: The name scope.

    Returns:
        A Tensor of shape `lengths.shape + [maxlen]`.
    """
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        counts = convert_to_tensor(lengths)
        if maxlen is None:
            largest = apply_one("Max", reshape(counts, [-1]), [0])
            maxlen = apply_one("Maximum", convert_to_tensor(0, dtype=largest.dtype), largest)
        else:
            maxlen = convert_to_tensor(maxlen)
        if maxlen.shape.ndims not in (None, 0):
            raise ValueError(f"maxlen must be scalar for sequence_mask, got shape {maxlen.shape}")
        zero, one = (convert_to_tensor(n, dtype=maxlen.dtype) for n in (0, 1))
        places = apply_one("Range", zero, maxlen, one)
        ends = apply_one("ExpandDims", counts, -1)
        if ends.dtype != maxlen.dtype:
            ends = apply_one("Cast", ends, DstT=maxlen.dtype)
        mask = apply_one("Less", places, ends)
        wanted = as_dtype(dtype).base_dtype
        return mask if wanted is dtypes.bool else apply_one("Cast", mask, DstT=wanted)


@export("meshgrid")
def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Returns the coordinates of an N-dimensional grid, one tensor per dimension.

    Args:
        *args: The coordinates along each dimension: vectors or scalars.
        **kwargs: `indexing`: 'xy' (the first two dimensions are swapped, as for images) or 'ij'; `name`.

    Returns:
        A list of tensors of the shape of the grid.

    Raises:
        ValueError: If `indexing` is anything else.

    Example:
        >>> [t.shape.as_list() for t in tf.meshgrid([1, 2, 3], [4, 5])]
        [[2, 3], [2, 3]]
    """
    indexing = kwargs.pop("indexing", "xy")
    name = kwargs.pop("name", "meshgrid")
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword argument for this function")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'")
    with name_scope(name, "meshgrid", args):
        order = list(range(len(args)))
        if indexing == "xy" and len(args) > 1:
            order[:2] = [1, 0]
        vectors = [reshape(convert_to_tensor(arg), [-1]) for arg in args]
        counts = [shape_tensor(vectors[i]) for i in order]
        if not args:
            return []
        sizes = apply_one("ConcatV2", counts, 0) if len(counts) > 1 else counts[0]
        grid = []
        for i, vector in enumerate(vectors):
            along = [1] * len(args)
            along[order.index(i)] = -1
            grid.append(apply_one("BroadcastTo", reshape(vector, along), sizes))
        return grid


@export("repeat")
def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Repeats every entry along a dimension, each its own number of times.

    Args:
        input: A Tensor.
        repeats: How often: a scalar, or a vector with one entry per entry of that dimension.
        axis: The dimension; None flattens the tensor first.
        name: The name scope.

    Returns:
        A Tensor.
    """
    with name_scope(name, "Repeat", [input, repeats]):
        tensor = convert_to_tensor(input, name="input")
        if axis is None:
            tensor, axis = reshape(tensor, [-1]), 0
        counts = convert_to_tensor(repeats, name="repeats")
        if counts.dtype not in (dtypes.int32, dtypes.int64):
            counts = apply_one("Cast", counts, DstT=dtypes.int32)
        if counts.shape.ndims is None or counts.shape.ndims > 1:
            raise ValueError(f"repeats must be a scalar or a vector, got shape {counts.shape}")
        size = shape_tensor(tensor)[axis]
        counts = apply_one("BroadcastTo", counts, apply_one("ExpandDims", size, 0))
        mask = sequence_mask(counts)
        rows = apply_one("ExpandDims", apply_one("Range", 0, size, 1), -1)
        which = boolean_mask(apply_one("BroadcastTo", rows, shape_tensor(mask)), mask)
        # The reshape keeps the gradient dense, as in TensorFlow.
        result = gather(reshape(tensor, shape_tensor(tensor)), which, axis=axis)
        known = constant_value(convert_to_tensor(repeats))
        dims = tensor.shape.dims_tuple
        along = None if dims is None else dims[axis]
        if known is not None and dims is not None and along is not None:
            total = int(np.broadcast_to(known, (along,)).sum())
            at = axis % len(dims)
            result.set_shape((*dims[:at], total, *dims[at + 1 :]))
        return result


def _patches_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank(c.input(0), 4).dims_tuple
    assert dims is not None
    lists = [c.attr(name) for name in ("ksizes", "strides", "rates")]
    for name, values in zip(("ksizes", "strides", "rates"), lists, strict=True):
        if len(values) != 4 or values[0] != 1 or values[3] != 1 or min(values) < 1:
            raise ValueError(f"{name} must have the form [1, rows, columns, 1] with positive numbers, got {values}")
    ksizes, strides, rates = lists
    sizes: list[int | None] = []
    for i in (1, 2):
        size, extent = dims[i], ksizes[i] + (ksizes[i] - 1) * (rates[i] - 1)
        if size is None:
            sizes.append(None)
        elif c.attr("padding") == b"SAME":
            sizes.append(-(-size // strides[i]))
        else:
            sizes.append(max(0, (size - extent) // strides[i] + 1))
    depth = None if dims[3] is None else dims[3] * ksizes[1] * ksizes[2]
    return TensorShape._of((dims[0], *sizes, depth))


define(
    "ExtractImagePatches",
    "images: T -> patches: T",
    "ksizes: list(int) >= 4, strides: list(int) >= 4, rates: list(int) >= 4, T: {bfloat16, half, float, double, int8, "
    "int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128, bool}, padding: {'SAME', 'VALID'}",
    shape=_patches_shape,
)


@export("extract_image_patches", "image.extract_image_patches")
def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Tensor:
    """Cuts patches out of images and puts each into the depth of one pixel of the result.

    Args:
        images: A Tensor `[batch, rows, columns, depth]`.
        ksizes: The size of a patch, `[1, rows, columns, 1]`.
        strides: The distance between the centres of patches, `[1, rows, columns, 1]`.
        rates: The distance between the pixels of a patch, `[1, rows, columns, 1]`.
        padding: 'SAME' (patches may reach beyond the image, where it is 0) or 'VALID'.
        name: The node's name.
        sizes: Another name of `ksizes`.

    Returns:
        A Tensor `[batch, patches down, patches across, rows * columns * depth]`.
    """
    size = sizes if ksizes is None else ksizes
    return apply_one(
        "ExtractImagePatches", images, ksizes=size, strides=strides, rates=rates, padding=padding, name=name
    )


@export("image.extract_patches")
def extract_patches(images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """The same as `extract_image_patches`."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


@gradient("ExtractImagePatches")
def _extract_image_patches_grad(op: Operation, grad: Tensor) -> Any:
    """Cuts the same patches out of an image of pixel numbers: they say where each gradient belongs."""
    images = op.inputs[0]
    attrs = {name: op.attrs[name] for name in ("ksizes", "strides", "rates", "padding")}
    sizes = convert_to_tensor(sizes_of(images))
    batch, rows, columns, depth = (sizes[i] for i in range(4))
    area = apply_one("Mul", rows, columns)
    # Pixel numbers begin at 1, so that the zeros beyond the edge collect in row 0, which is dropped.
    numbers = apply_one("Range", 1, apply_one("AddV2", area, 1), 1)
    where = apply_one("ExtractImagePatches", reshape(numbers, apply_one("Pack", [1, rows, columns, 1])), **attrs)
    flat = reshape(where, [-1])
    split = reshape(grad, apply_one("Pack", [batch, apply_one("Size", flat), depth]))
    by_pixel = apply_one("Transpose", split, [1, 0, 2])
    total = apply_one("UnsortedSegmentSum", by_pixel, flat, apply_one("AddV2", area, 1))
    pixels = apply_one("StridedSlice", total, [1], [0], [1], end_mask=1)
    result = reshape(apply_one("Transpose", pixels, [1, 0, 2]), sizes)
    result.set_shape(images.shape)
    return result


define("DeepCopy", "x: T -> y: T", "T: type", shape=shapes.unchanged, effect=Effect.NONE, stateful=True)
not_differentiable("DeepCopy")
