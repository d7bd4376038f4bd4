"""Reading the shape of a tensor, and giving a tensor another shape without touching its elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.composite import SparseTensor, SparseTensorValue
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.dispatch import dispatched
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape, as_shape
from thalweg.ops.array.constants import constant
from thalweg.platform.deprecation import deprecated_argument_lookup


def _shape_shape(c: ShapeContext) -> TensorShape:
    return _shape_of_shape(c.input(0))


def _shape_n_shape(c: ShapeContext) -> list[TensorShape]:
    return [_shape_of_shape(shape) for shape in c.inputs()]


def _shape_of_shape(shape: TensorShape) -> TensorShape:
    return TensorShape._of((shape.ndims,))


define(
    "Shape",
    "input: T -> output: out_type",
    "T: type, out_type: {int32, int64} = int32",
    shape=_shape_shape,
    doc="The shape of a tensor, as a vector.",
)
define(
    "ShapeN",
    "input: N * T -> output: N * out_type",
    "N: int >= 1, T: type, out_type: {int32, int64} = int32",
    shape=_shape_n_shape,
)
define("Size", "input: T -> output: out_type", "T: type, out_type: {int32, int64} = int32", shape=shapes.scalar)
define("Rank", "input: T -> output: int32", "T: type", shape=shapes.scalar)
work(works.free, "Shape", "ShapeN", "Size", "Rank")
not_differentiable("Shape", "ShapeN", "Size", "Rank")


@export("shape")
def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Returns the shape of a tensor as a vector.

    Args:
        input: A Tensor or SparseTensor.
        name: The node's name.
        out_type: int32 or int64.

    Returns:
        A Tensor; a constant where the shape is known before a step runs.

    Example:
        >>> tf.shape(tf.zeros([2, 3])).op.type
        'Const'
    """
    return shape_tensor(input, name, True, out_type)


def shape_tensor(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32) -> Tensor:
    """As `shape`; `optimize` decides whether a shape that is known becomes a constant."""
    with name_scope(name, "Shape", [input]) as scope:
        if isinstance(input, (SparseTensor, SparseTensorValue)):
            return _cast(input.dense_shape, out_type)
        tensor = convert_to_tensor(input)
        if optimize and tensor.shape.is_fully_defined():
            return constant(tensor.shape.as_list(), out_type, name=scope)
        return apply_one("Shape", tensor, name=scope, out_type=out_type)


def sizes_of(tensor: Tensor, dtype: Any = dtypes.int32) -> Any:
    """The shape of a tensor for a gradient function: an array where it is known, otherwise a Shape node."""
    if tensor.shape.is_fully_defined():
        return np.array(tensor.shape.as_list(), dtypes.as_dtype(dtype).as_numpy_dtype)
    return apply_one("Shape", tensor, out_type=dtype)


def _cast(value: Any, dtype: Any) -> Tensor:
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype == dtype else apply_one("Cast", tensor, DstT=dtype)


@export("shape_n")
def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """Returns the shapes of several tensors of one type."""
    return apply_list("ShapeN", input, out_type=out_type, name=name)


@export("size")
@dispatched
def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Returns the number of elements of a tensor, as a scalar."""
    with name_scope(name, "Size", [input]) as scope:
        if isinstance(input, (SparseTensor, SparseTensorValue)):
            return apply_one("Prod", _cast(input.dense_shape, out_type), [0], name=scope)
        tensor = convert_to_tensor(input)
        count = shapes.num_elements(tensor.shape.dims_tuple)
        if count is not None:
            return constant(count, out_type, name=scope)
        return apply_one("Size", tensor, name=scope, out_type=out_type)


@export("rank")
@dispatched
def rank(input: Any, name: str | None = None) -> Tensor:
    """Returns the number of dimensions of a tensor, as a scalar."""
    with name_scope(name, "Rank", [input]) as scope:
        if isinstance(input, (SparseTensor, SparseTensorValue)):
            return size(input.dense_shape, name=scope)
        tensor = convert_to_tensor(input)
        if tensor.shape.ndims is not None:
            return constant(tensor.shape.ndims, dtypes.int32, name=scope)
        return apply_one("Rank", tensor, name=scope)


def _reshape_shape(c: ShapeContext) -> TensorShape:
    sizes = c.constant(1)
    if sizes is not None and sizes.ndim == 1 and int((sizes == -1).sum()) > 1:
        first, second = np.flatnonzero(sizes == -1)[:2]
        raise ValueError(f"Only one input size may be -1, not both {first} and {second}")
    target = c.constant_as_shape(1)
    count, dims = shapes.num_elements(c.dims(0)), target.dims_tuple
    if dims is None or count is None:
        return target
    known = [d for d in dims if d is not None]
    product = int(np.prod(known, dtype=object)) if known else 1
    if len(known) == len(dims):
        if product != count:
            raise ValueError(
                f"Cannot reshape a tensor with {count} elements to shape {shapes.short(target)} ({product} elements)"
            )
        return target
    if product == 0:
        return target
    if count % product:
        raise ValueError(
            f"Dimension size must be evenly divisible by {product} but is {count}: cannot reshape a tensor of shape "
            f"{shapes.short(c.input(0))} to {shapes.short(target)}"
        )
    if len(known) == len(dims) - 1:
        return TensorShape._of(tuple([count // product if d is None else d for d in dims]))
    return target


define(
    "Reshape", "tensor: T, shape: Tshape -> output: T", "T: type, Tshape: {int32, int64} = int32", shape=_reshape_shape
)
work(works.free, "Reshape")


@export("reshape", "manip.reshape")
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """Returns the same elements, in the same order, under another shape.

    Args:
        tensor: A Tensor.
        shape: The new shape; at most one size may be -1, and is then inferred.
        name: The node's name.

    Returns:
        A Tensor that shares the memory of `tensor`.

    Example:
        >>> tf.reshape(tf.zeros([4, 3]), [2, -1]).shape.as_list()
        [2, 6]
    """
    return apply_one("Reshape", tensor, shape, name=name)


def like_input(op: Operation, grad: Any) -> Tensor:
    """`grad` in the shape of the first input: the gradient of the ops that only reshape."""
    return reshape(grad, sizes_of(op.inputs[0]))


@gradient("Reshape", "ExpandDims")
def _reshape_grad(op: Operation, grad: Any) -> Any:
    return like_input(op, grad), None


def _expand_dims_shape(c: ShapeContext) -> TensorShape:
    dims, axis = c.dims(0), c.constant(1)
    if dims is None:
        return shapes.UNKNOWN
    if axis is None:
        return TensorShape._of((None,) * (len(dims) + 1))
    if axis.size != 1:
        raise ValueError(f"'dim' input must be a tensor with a single value, got shape {list(axis.shape)}")
    at, rank = int(axis.ravel()[0]), len(dims)
    if not -rank - 1 <= at <= rank:
        raise ValueError(f"dim {at} not in the interval [{-rank - 1}, {rank}].")
    at += rank + 1 if at < 0 else 0
    return TensorShape._of((*dims[:at], 1, *dims[at:]))


define(
    "ExpandDims", "input: T, dim: Tdim -> output: T", "T: type, Tdim: {int32, int64} = int32", shape=_expand_dims_shape
)
work(works.free, "ExpandDims")


@export("expand_dims")
@dispatched
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """Inserts a dimension of size 1 at `axis` (`dim` is its deprecated name)."""
    axis = deprecated_argument_lookup("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return apply_one("ExpandDims", input, axis, name=name)


def _squeeze_shape(c: ShapeContext) -> TensorShape:
    dims, axes = c.dims(0), c.attr("squeeze_dims")
    if dims is None:
        return shapes.UNKNOWN
    if not axes:
        return shapes.UNKNOWN if None in dims else TensorShape._of(tuple([d for d in dims if d != 1]))
    dropped = set()
    for axis in axes:
        if not -len(dims) <= axis < len(dims):
            raise ValueError(f"Tried to squeeze dim index {axis} for tensor with {len(dims)} dimensions")
        axis %= len(dims)
        if dims[axis] not in (1, None):
            raise ValueError(f"Can not squeeze dim[{axis}], expected a dimension of 1, got {dims[axis]}")
        dropped.add(axis)
    return TensorShape._of(tuple([d for i, d in enumerate(dims) if i not in dropped]))


define("Squeeze", "input: T -> output: T", "T: type, squeeze_dims: list(int) >= 0 = []", shape=_squeeze_shape)
work(works.free, "Squeeze")


@export("squeeze")
def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Removes dimensions of size 1: those in `axis`, or all (`squeeze_dims` is its deprecated name)."""
    axis = deprecated_argument_lookup("axis", axis, "squeeze_dims", squeeze_dims)
    axes = [] if axis is None else np.ravel(axis).tolist()
    return apply_one("Squeeze", input, squeeze_dims=axes, name=name)


@gradient("Squeeze")
def _squeeze_grad(op: Operation, grad: Any) -> Any:
    return like_input(op, grad)


def _ensure_shape_shape(c: ShapeContext) -> TensorShape:
    return shapes.merge(c.input(0), c.attr("shape"))


define("EnsureShape", "input: T -> output: T", "shape: shape, T: type", shape=_ensure_shape_shape)
work(works.free, "EnsureShape")


@export("ensure_shape")
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Passes `x` on, and fails the step if its shape does not fit `shape`; None in it fits anything."""
    return apply_one("EnsureShape", x, shape=as_shape(shape), name=name)


@gradient("EnsureShape")
def _ensure_shape_grad(op: Operation, grad: Any) -> Any:
    return grad


def _broadcast_args_shape(c: ShapeContext) -> TensorShape:
    lengths = [shapes.with_rank(shape, 1).dims_tuple for shape in c.inputs()]
    known = [length[0] for length in lengths if length and length[0] is not None]
    return TensorShape._of((max(known),)) if len(known) == 2 else shapes.ANY_VECTOR


define("BroadcastArgs", "s0: T, s1: T -> r0: T", "T: {int32, int64} = int32", shape=_broadcast_args_shape)
not_differentiable("BroadcastArgs")


@export("broadcast_dynamic_shape")
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Returns the shape to which two shapes, given as tensors, broadcast."""
    return apply_one("BroadcastArgs", shape_x, shape_y)


@export("broadcast_static_shape")
def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """Returns the TensorShape to which two static shapes broadcast.

    Raises:
        ValueError: If they never do.
    """
    x, y = as_shape(shape_x), as_shape(shape_y)
    try:
        return shapes.broadcast_shapes(x, y)
    except ValueError:
        raise ValueError(f"Incompatible shapes for broadcasting: {x} and {y}.") from None


def _offsets_shape(c: ShapeContext) -> list[TensorShape]:
    length = shapes.merge_shapes([shapes.with_rank(shape, 1) for shape in c.inputs()[1:]])
    return [length] * c.num_outputs


define(
    "ConcatOffset",
    "concat_dim: int32, shape: N * shape_type -> offset: N * shape_type",
    "N: int >= 2, shape_type: {int32, int64} = int32",
    shape=_offsets_shape,
    doc="Where each part begins in the concatenation of tensors of the given shapes.",
)
not_differentiable("ConcatOffset")


def _permutation_shape(c: ShapeContext) -> TensorShape:
    return shapes.with_rank(c.input(0), 1)


define("InvertPermutation", "x: T -> y: T", "T: {int32, int64} = int32", shape=_permutation_shape)
not_differentiable("InvertPermutation")


@export("invert_permutation", "math.invert_permutation")
def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Returns y with `y[x[i]] = i`."""
    return apply_one("InvertPermutation", x, name=name)


def size_of_axis(tensor: Any, axis: int) -> Any:
    """The size of an axis, as a scalar tensor."""
    return apply_one(
        "StridedSlice", apply_one("Shape", tensor), [axis], [axis + 1], [1], shrink_axis_mask=1, name="strided_slice"
    )
