"""Joining tensors and taking them apart: concat, stack, split, unstack."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert, convert_to_tensor, is_tensor_like
from thalweg.graph.default_graph import get_default_graph, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import dispatched
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import int32
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import Dimension, TensorShape
from thalweg.ops.array.constants import identity


def _axis_of(c: ShapeContext, index: int) -> int | None:
    value = c.constant(index)
    if value is None:
        shapes.with_rank(c.input(index), 0)
        return None
    if value.ndim != 0:
        raise ValueError(f"Shape must be rank 0 but is rank {value.ndim}")
    return int(value)


def _concat_shape(c: ShapeContext) -> TensorShape:
    return shapes.concat_shapes(c.inputs()[1:], _axis_of(c, 0))


def _concat_v2_shape(c: ShapeContext) -> TensorShape:
    return shapes.concat_shapes(c.inputs()[:-1], _axis_of(c, c.num_inputs - 1))


define("Concat", "concat_dim: int32, values: N * T -> output: T", "N: int >= 2, T: type", shape=_concat_shape)
define(
    "ConcatV2",
    "values: N * T, axis: Tidx -> output: T",
    "N: int >= 2, T: type, Tidx: {int32, int64} = int32",
    shape=_concat_v2_shape,
)


@export("concat", deprecated=("concat_v2",))
@dispatched
def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Joins tensors along one dimension.

    Args:
        values: A list of tensors whose shapes agree but for `axis`.
        axis: The dimension; negative counts from the end.
        name: The node's name.

    Returns:
        A Tensor.

    Example:
        >>> tf.concat([tf.zeros([2, 3]), tf.ones([2, 1])], axis=1).shape.as_list()
        [2, 4]
    """
    if isinstance(values, (int, np.integer)) and isinstance(axis, (list, tuple)):
        raise ValueError(
            "tf.concat takes the list of tensors first and the axis second (before TensorFlow 1.0 it was the other "
            f"way around): write tf.concat(values, {values})."
        )
    tensors = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(tensors) == 1:
        with name_scope(name) as scope:
            convert(axis, int32, "concat_dim").shape.assert_has_rank(0)
            tensor: Tensor = identity(tensors[0], name=f"{scope}{scope.rstrip('/').rpartition('/')[2]}/")
            return tensor
    return apply_one("ConcatV2", tensors, axis, name=name)


@gradient("Concat")
def _concat_grad(op: Operation, grad: Any) -> Any:
    return [None, *_concat_input_grads(op.inputs[1:], op.inputs[0], grad)]


@gradient("ConcatV2")
def _concat_v2_grad(op: Operation, grad: Any) -> Any:
    return [*_concat_input_grads(op.inputs[:-1], op.inputs[-1], grad), None]


def _concat_input_grads(values: Any, axis: Tensor, grad: Any) -> list[Any]:
    """Splits the gradient of a concatenation at the boundaries of the inputs."""
    where = constant_value(axis)
    if isinstance(grad, IndexedSlices):
        rank = next((v.shape.ndims for v in values if v.shape.ndims is not None), None)
        if where is not None and rank is not None and int(where) % rank > 0:
            return _concat_slices_grads(values, int(where) % rank, rank, grad)
        grad = convert_to_tensor(grad)
    if where is not None:
        dims = [v.shape.dims_tuple for v in values]
        sizes = [None if d is None else d[int(where)] for d in dims]
        if None not in sizes:
            return apply_list("SplitV", grad, np.array(sizes, np.int64), int(where), num_split=len(sizes))
    shapes_of_values = apply_list("ShapeN", list(values))
    at = axis if axis.dtype == int32 else apply_one("Cast", axis, DstT=int32)
    offsets = apply_list("ConcatOffset", at, shapes_of_values)
    return [apply_one("Slice", grad, o, s) for o, s in zip(offsets, shapes_of_values, strict=True)]


def _concat_slices_grads(values: Any, axis: int, rank: int, grad: IndexedSlices) -> list[Any]:
    """The same for IndexedSlices, concatenated along a dimension other than the first: the indices stay."""
    offset: Any = 0
    parts = []
    for value in values:
        size = apply_one("StridedSlice", apply_one("Shape", value), [axis], [axis + 1], [1], shrink_axis_mask=1)
        begin = apply_one("Pack", [offset if i == axis else 0 for i in range(rank)])
        sizes = apply_one("Pack", [size if i == axis else -1 for i in range(rank)])
        rows = apply_one("Slice", grad.values, begin, sizes)
        parts.append(IndexedSlices(rows, grad.indices, apply_one("Shape", value)))
        offset = apply_one("AddV2", size, offset)
    return parts


def _pack_shape(c: ShapeContext) -> TensorShape:
    shape, axis = shapes.merge_shapes(c.inputs()), c.attr("axis")
    dims = shape.dims_tuple
    if dims is None:
        return shapes.UNKNOWN
    rank = len(dims) + 1
    if not -rank <= axis < rank:
        raise ValueError(f"axis = {axis} not in [{-rank}, {rank})")
    axis %= rank
    return TensorShape._of((*dims[:axis], c.num_inputs, *dims[axis:]))


define("Pack", "values: N * T -> output: T", "N: int >= 1, T: type, axis: int = 0", shape=_pack_shape)


@export("stack", deprecated=("pack",))
@dispatched
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Joins tensors of one shape along a new dimension.

    Args:
        values: A list of tensors.
        axis: Where the new dimension goes; negative counts from the end.
        name: The node's name.

    Returns:
        A Tensor with one dimension more.

    Example:
        >>> tf.stack([tf.zeros([3]), tf.ones([3])], axis=1).shape.as_list()
        [3, 2]
    """
    if axis == 0 and (
        not isinstance(values, (list, tuple)) or not any(is_tensor_like(v) or isinstance(v, np.ndarray) for v in values)
    ):
        try:
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass  # Pack's own error says more precisely what does not fit.
    return apply_one("Pack", list(values) if isinstance(values, (list, tuple)) else values, axis=axis, name=name)


@gradient("Pack")
def _pack_grad(op: Operation, grad: Any) -> Any:
    return apply_list("Unpack", grad, num=op.attrs["N"], axis=op.attrs["axis"])


def _unpack_shape(c: ShapeContext) -> list[TensorShape]:
    dims, axis = c.dims(0), c.attr("axis")
    if dims is None:
        return [shapes.UNKNOWN] * c.num_outputs
    if not -len(dims) <= axis < len(dims):
        raise ValueError(f"axis = {axis} not in [{-len(dims)}, {len(dims)})")
    axis %= len(dims)
    shapes.merge_dims(dims[axis], c.attr("num"))
    return [TensorShape._of((*dims[:axis], *dims[axis + 1 :]))] * c.num_outputs


define("Unpack", "value: T -> output: num * T", "num: int >= 0, T: type, axis: int = 0", shape=_unpack_shape)


@export("unstack", deprecated=("unpack",))
def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """Takes a tensor apart along one dimension: the inverse of `stack`.

    Args:
        value: A Tensor.
        num: The size of the dimension, where the static shape does not tell.
        axis: The dimension; negative counts from the end.
        name: The node's name.

    Returns:
        A list of tensors with one dimension less.

    Raises:
        ValueError: If `num` is not given and not known, or there is no such axis.
    """
    tensor = convert_to_tensor(value)
    if num is None:
        dims = tensor.shape.dims_tuple
        if dims is not None:
            if not -len(dims) <= axis < len(dims):
                raise ValueError(f"axis = {axis} not in [{-len(dims)}, {len(dims)})")
            num = dims[axis]
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {tensor.shape}")
    return apply_list("Unpack", tensor, num=num, axis=axis, name=name)


@gradient("Unpack")
def _unpack_grad(op: Operation, *grads: Any) -> Any:
    return apply_one("Pack", list(grads), axis=op.attrs["axis"])


def _split_axis(c: ShapeContext, axis_input: int, value_input: int) -> tuple[shapes.Dims, int | None]:
    dims, axis = c.dims(value_input), _axis_of(c, axis_input)
    if dims is None or axis is None:
        return dims, None
    if not -len(dims) <= axis < len(dims):
        raise ValueError(f"-input rank({-len(dims)}) <= split_dim < input rank ({len(dims)}), but got {axis}")
    return dims, axis % len(dims)


def _split_shape(c: ShapeContext) -> list[TensorShape]:
    dims, axis = _split_axis(c, 0, 1)
    parts = c.attr("num_split")
    if dims is None or axis is None:
        return [shapes.UNKNOWN if dims is None else TensorShape._of((None,) * len(dims))] * parts
    total = dims[axis]
    if total is not None and total % parts:
        raise ValueError(
            f"Number of ways to split should evenly divide the split dimension, but got split_dim {axis} "
            f"(size = {total}) and num_split {parts}"
        )
    size = None if total is None else total // parts
    return [TensorShape._of((*dims[:axis], size, *dims[axis + 1 :]))] * parts


def _split_v_shape(c: ShapeContext) -> list[TensorShape]:
    dims, axis = _split_axis(c, 2, 0)
    parts, sizes = c.attr("num_split"), c.constant(1)
    length = shapes.with_rank(c.input(1), 1).dims_tuple
    assert length is not None
    shapes.merge_dims(length[0], parts)
    if dims is None or axis is None:
        return [shapes.UNKNOWN if dims is None else TensorShape._of((None,) * len(dims))] * parts
    each: list[int | None] = [None] * parts if sizes is None else _checked_sizes(sizes.tolist(), dims[axis], axis)
    return [TensorShape._of((*dims[:axis], size, *dims[axis + 1 :])) for size in each]


def _checked_sizes(sizes: list[int], total: int | None, axis: int) -> list[int | None]:
    if sizes.count(-1) > 1 or any(size < -1 for size in sizes):
        raise ValueError(f"size_splits must be >= 0, with at most one -1, but is {sizes}")
    known = sum(size for size in sizes if size >= 0)
    if -1 in sizes:
        if total is not None and known > total:
            raise ValueError(f"The sizes {sizes} exceed the size {total} of dimension {axis}")
        return [size if size >= 0 else None if total is None else total - known for size in sizes]
    if total is not None and known != total:
        raise ValueError(f"The sizes {sizes} add up to {known}, but dimension {axis} has size {total}")
    return list(sizes)


define(
    "Split",
    "split_dim: int32, value: T -> output: num_split * T",
    "num_split: int >= 1, T: type",
    shape=_split_shape,
)
define(
    "SplitV",
    "value: T, size_splits: Tlen, split_dim: int32 -> output: num_split * T",
    "num_split: int >= 1, T: type, Tlen: {int8, int32, int64} = int64",
    shape=_split_v_shape,
)


@export("split")
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Cuts a tensor into parts along one dimension.

    Args:
        value: A Tensor.
        num_or_size_splits: The number of equal parts, or a vector with the size of each (one of them may be -1).
        axis: The dimension.
        num: The number of parts, where the static shape of the sizes does not tell.
        name: The node's name.

    Returns:
        A list of tensors.

    Raises:
        ValueError: If the number of parts is not known, or the sizes do not fit.

    Example:
        >>> [t.shape.as_list() for t in tf.split(tf.zeros([5, 30]), [4, 15, 11], axis=1)]
        [[5, 4], [5, 15], [5, 11]]
    """
    if isinstance(num_or_size_splits, Dimension):
        num_or_size_splits = num_or_size_splits.value
    if isinstance(num_or_size_splits, (int, np.integer)):
        get_default_graph()._shift_seeds(1)  # the number of parts
        return apply_list("Split", axis, value, num_split=int(num_or_size_splits), name=name)
    sizes = convert_to_tensor(num_or_size_splits)
    if sizes.shape.ndims == 0:
        raise ValueError("Rank-0 tensors are not supported as the num_or_size_splits argument to split.")
    if num is None:
        dims = sizes.shape.dims_tuple
        num = dims[0] if dims else None
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {sizes.shape}")
    return apply_list("SplitV", value, sizes, axis, num_split=num, name=name)


@gradient("Split")
def _split_grad(op: Operation, *grads: Any) -> Any:
    return None, _concat_grads(grads, op.inputs[0])


@gradient("SplitV")
def _split_v_grad(op: Operation, *grads: Any) -> Any:
    return _concat_grads(grads, op.inputs[2]), None, None


def _concat_grads(grads: Any, axis: Tensor) -> Any:
    return grads[0] if len(grads) == 1 else apply_one("ConcatV2", list(grads), axis)


define(
    "ParallelConcat",
    "values: N * T -> output: T",
    "N: int >= 1, T: type, shape: shape",
    shape=shapes.from_attr("shape"),
    doc="Joins tensors whose first dimension is 1 along it.",
)


@export("parallel_stack")
def parallel_stack(values: Any, name: str = "parallel_stack") -> Tensor:
    """Joins tensors of one static shape along a new first dimension."""
    with name_scope(name):
        tensors = [convert_to_tensor(value) for value in values]
        shape = shapes.merge_shapes([tensor.shape for tensor in tensors])
        if not shape.is_fully_defined():
            raise ValueError(f"parallel_stack needs values of a known shape, got {shape}; use tf.stack.")
        rows = [apply_one("ExpandDims", tensor, 0) for tensor in tensors]
        return apply_one("ParallelConcat", rows, shape=[len(rows), *shape.as_list()])


@gradient("ParallelConcat")
def _parallel_concat_grad(op: Operation, grad: Any) -> Any:
    return apply_list("Split", 0, grad, num_split=op.attrs["N"])
