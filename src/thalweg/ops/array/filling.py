"""Tensors filled with one value, and tensors repeated: zeros, ones, fill, tile, broadcast_to."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert, convert_to_tensor, is_tensor_like
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import constant
from thalweg.ops.array.shapes_of_tensors import reshape, shape_tensor, sizes_of
from thalweg.ops.math.math_gradients import reduce_to_shape

# Constants up to this size stand in the graph itself; larger ones are filled by the step.
_SMALL = 1000


def _fill_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 0)
    sizes = c.constant(0)
    if sizes is not None and sizes.ndim == 1 and (sizes < 0).any():
        raise ValueError(f"Fill dimensions must be >= 0, got {sizes.tolist()}")
    return c.constant_as_shape(0)


define(
    "Fill",
    "dims: index_type, value: T -> output: T",
    "T: type, index_type: {int32, int64} = int32",
    shape=_fill_shape,
)


@export("fill")
def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """Returns a tensor of shape `dims` with all elements equal to the scalar `value`."""
    return apply_one("Fill", dims, value, name=name)


@gradient("Fill")
def _fill_grad(op: Operation, grad: Tensor) -> Any:
    return None, apply_one("Sum", reshape(grad, [-1]), [0])


@export("zeros")
def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Returns a tensor of zeros (false, empty strings).

    Args:
        shape: A list of sizes, a TensorShape or a vector tensor.
        dtype: The type of the elements.
        name: The node's name.

    Returns:
        A Tensor.
    """
    return _filled_with(0, shape, as_dtype(dtype).base_dtype, name, "zeros")


@export("ones")
def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Returns a tensor of ones (true)."""
    if as_dtype(dtype) is dtypes.string:
        raise TypeError("tf.ones has no elements of type string.")
    return _filled_with(1, shape, as_dtype(dtype).base_dtype, name, "ones")


def _filled_with(number: int, shape: Any, dtype: DType, name: str | None, default: str) -> Tensor:
    value: Any = bool(number) if dtype is dtypes.bool else b"" if dtype is dtypes.string else number
    with name_scope(name, default, [shape]) as scope:
        sizes = _static_sizes(shape)
        if sizes is not None and np.prod(sizes, dtype=object) < _SMALL and min(sizes, default=0) >= 0:
            return constant(value, dtype, shape=sizes, name=scope)
        dims = shape if type(shape) is Tensor else _shape_as_tensor(shape)
        if dims.shape.ndims != 1:
            dims = reshape(dims, [-1])
        return fill(dims, constant(value, dtype), name=scope)


def _static_sizes(shape: Any) -> list[int] | None:
    """The sizes of a shape that holds Python numbers only; else None."""
    if isinstance(shape, TensorShape):
        return shape.as_list() if shape.is_fully_defined() else None  # type: ignore[return-value]
    if isinstance(shape, (list, tuple)):
        sizes = []
        for item in shape:
            number = getattr(item, "value", item)
            if not isinstance(number, (int, np.integer)):
                return None
            sizes.append(int(number))
        return sizes
    if isinstance(shape, np.ndarray):
        return shape.ravel().tolist() if shape.dtype.kind in "iu" else None
    return [int(shape)] if isinstance(shape, (int, np.integer)) else None


def _shape_as_tensor(shape: Any) -> Tensor:
    if isinstance(shape, TensorShape) or is_tensor_like(shape):
        return convert_to_tensor(shape)
    try:
        return convert(shape, dtypes.int32, "shape_as_tensor")
    except (TypeError, ValueError, OverflowError):
        return convert(shape, dtypes.int64, "shape_as_tensor")  # Sizes beyond int32, or a list with an int64 tensor.


_ONES = (
    "{bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, complex64, "
    "complex128, bool}"
)
define("ZerosLike", "x: T -> y: T", "T: type", shape=shapes.unchanged)
define("OnesLike", "x: T -> y: T", f"T: {_ONES}", shape=shapes.unchanged)
not_differentiable("ZerosLike", "OnesLike")


@export("zeros_like")
@elementwise
def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Returns zeros of the shape of `tensor`, and of its type unless `dtype` is given."""
    with name_scope(name, "zeros_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor)
        wanted = tensor.dtype.base_dtype if dtype is None else as_dtype(dtype).base_dtype
        if optimize and tensor.shape.is_fully_defined():
            return zeros(tensor.shape, wanted, name=scope)
        if wanted is not tensor.dtype.base_dtype:
            return zeros(shape_tensor(tensor, optimize=optimize), wanted, name=scope)
        return apply_one("ZerosLike", tensor, name=scope)


@export("ones_like")
@elementwise
def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Returns ones of the shape of `tensor`, and of its type unless `dtype` is given."""
    with name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor)
        wanted = tensor.dtype.base_dtype if dtype is None else as_dtype(dtype).base_dtype
        static = optimize and tensor.shape.is_fully_defined()
        result = ones(tensor.shape if static else shape_tensor(tensor, optimize=optimize), wanted, name=scope)
        if not optimize:
            result.set_shape(tensor.shape)
        return result


def _tile_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 1)
    dims, multiples = c.dims(0), c.constant(1)
    if multiples is not None and (multiples < 0).any():
        raise ValueError(f"Expected multiples >= 0, but got {multiples.tolist()}")
    length = shapes.with_rank(c.input(1), 1).dims_tuple
    if dims is not None and length is not None:
        shapes.merge_dims(len(dims), length[0])
    if dims is None:
        return TensorShape._of((None,) * length[0]) if length and length[0] is not None else shapes.UNKNOWN
    # Single multiples can be known without the others: tf.tile(x, [batch_size, 2]).
    factors = c.constant_as_shape(1).dims_tuple or (None,) * len(dims)
    return TensorShape._of(
        tuple([0 if 0 in (d, m) else None if None in (d, m) else d * m for d, m in zip(dims, factors, strict=True)])  # type: ignore[operator]
    )


define(
    "Tile",
    "input: T, multiples: Tmultiples -> output: T",
    "T: type, Tmultiples: {int32, int64} = int32",
    shape=_tile_shape,
)


@export("tile", "manip.tile")
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeats a tensor `multiples[i]` times along each dimension i."""
    return apply_one("Tile", input, multiples, name=name)


@gradient("Tile")
def _tile_grad(op: Operation, grad: Tensor) -> Any:
    x, multiples = op.inputs
    dims, repeats = x.shape.dims_tuple, constant_value(multiples)
    if dims is not None and repeats is not None and None not in dims:
        split = [n for pair in zip(repeats.tolist(), dims, strict=True) for n in pair]
        return apply_one("Sum", reshape(grad, np.array(split, np.int32)), list(range(0, len(split), 2))), None
    # [m0, d0, m1, d1, ...]: every copy gets a dimension of its own, which is then summed over.
    pairs = apply_one("Pack", [multiples, sizes_of(x, multiples.dtype)], axis=1)
    split_sizes = reshape(pairs, [-1])
    if dims is not None:
        axes: Any = list(range(0, 2 * len(dims), 2))
    else:
        axes = apply_one("Range", 0, apply_one("Size", split_sizes), 2)
    total = apply_one("Sum", reshape(grad, split_sizes), axes)
    total.set_shape(x.shape)
    return total, None


def _broadcast_to_shape(c: ShapeContext) -> TensorShape:
    target = c.constant_as_shape(1)
    dims, wanted = c.dims(0), target.dims_tuple
    if dims is None or wanted is None:
        return target
    if len(dims) > len(wanted):
        raise ValueError(f"Rank of input ({len(dims)}) must be no greater than rank of output shape ({len(wanted)})")
    for d, w in zip(dims, wanted[len(wanted) - len(dims) :], strict=True):
        if d not in (1, None) and w is not None and d != w:
            raise ValueError(f"Incompatible shapes: {shapes.short(c.input(0))} vs. {shapes.short(target)}")
    return target


define(
    "BroadcastTo",
    "input: T, shape: Tidx -> output: T",
    "T: type, Tidx: {int32, int64} = int32",
    shape=_broadcast_to_shape,
)


@export("broadcast_to")
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeats a tensor along dimensions of size 1, and along new leading ones, to a shape that it broadcasts to."""
    return apply_one("BroadcastTo", input, shape, name=name)


@gradient("BroadcastTo")
def _broadcast_to_grad(op: Operation, grad: Tensor) -> Any:
    return reduce_to_shape(grad, op.inputs[0]), None
