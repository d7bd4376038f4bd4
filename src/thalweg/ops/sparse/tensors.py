"""Sparse values: into dense ones and back, reordering, reshaping, joining, splitting, slicing."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_list, apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor, op_type_of
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import (
    Array,
    require,
    sparse_input,
    sparse_shapes,
)


def as_sparse(value: Any) -> SparseTensor:
    """A SparseTensor, also from a SparseTensorValue; TypeError for anything else."""
    try:
        return SparseTensor.from_value(value)
    except TypeError:
        raise TypeError(f"Input must be a SparseTensor, got {value!r}.") from None


def _to_dense_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank_at_most(c.input(0), 2)
    shapes.with_rank(c.input(1), 1)
    shapes.with_rank_at_most(c.input(2), 1)
    shapes.with_rank(c.input(3), 0)
    return c.constant_as_shape(1)


define(
    "SparseToDense", "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> dense: T",
    "validate_indices: bool = true, T: type, Tindices: {int32, int64}", shape=_to_dense_shape,
)  # fmt: skip


@export("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Returns a dense tensor with `sparse_values` at `sparse_indices`, and `default_value` elsewhere.

    Args:
        sparse_indices: Matrix with one index per row; a vector, or a scalar, for a result of rank 1.
        output_shape: The shape of the result.
        sparse_values: Vector with one value per index, or a scalar for all of them.
        default_value: A scalar.
        validate_indices: Whether indices must be in row-major order without repetitions.
        name: A name for the operation.

    Returns:
        A Tensor.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.sparse_to_dense([0, 2], [4], 7)).tolist()
        [7, 0, 7, 0]
    """
    values = convert_to_tensor(sparse_values)
    if not isinstance(default_value, Tensor) and values.dtype.name == "bool":
        default_value = bool(default_value)
    elif not isinstance(default_value, Tensor) and values.dtype.name == "string" and default_value == 0:
        default_value = b""
    return apply_one(
        "SparseToDense", sparse_indices, output_shape, values, default_value,
        validate_indices=validate_indices, name=name,
    )  # fmt: skip


@gradient("SparseToDense")
def _to_dense_grad(op: Operation, grad: Tensor) -> Any:
    indices, _, values, _ = op.inputs
    places = indices
    if indices.shape.ndims is None or indices.shape.ndims < 2:
        places = apply_one("Reshape", indices, [-1, 1])
    picked = apply_one("GatherNd", grad, places)
    rest = apply_one("Sub", _sum_of_all(grad), _sum_of_all(picked))
    if values.shape.ndims == 0:
        return None, None, _sum_of_all(picked), rest
    if values.shape.ndims is None:
        picked = apply_one("UnsortedSegmentSum", picked, _segments_of(values, picked), apply_one("Size", values))
        picked = apply_one("Reshape", picked, apply_one("Shape", values))
    return None, None, picked, rest


def _segments_of(values: Tensor, picked: Tensor) -> Tensor:
    """To which element of `values` each picked gradient belongs: all to the first one if there is only one."""
    count = apply_one("Size", picked)
    return apply_one("Minimum", apply_one("Range", 0, count, 1), apply_one("Sub", apply_one("Size", values), 1))


def _sum_of_all(x: Tensor) -> Tensor:
    return apply_one("Sum", apply_one("Reshape", x, [-1]), [0])


@export("sparse_tensor_to_dense", "sparse.to_dense")
def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Converts a SparseTensor into a dense tensor.

    Args:
        sp_input: A SparseTensor.
        default_value: What to put where it has no element; zero, or the empty string, if None.
        validate_indices: Whether indices must be in row-major order without repetitions.
        name: A name for the operation.

    Returns:
        A Tensor.
    """
    sparse = as_sparse(sp_input)
    return sparse_to_dense(
        sparse.indices, sparse.dense_shape, sparse.values, 0 if default_value is None else default_value,
        validate_indices, name,
    )  # fmt: skip


@export("sparse.from_dense", "contrib.layers.dense_to_sparse")
def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Converts a dense tensor into a SparseTensor of its elements that are not zero (or not empty strings)."""
    with name_scope(name, "dense_to_sparse"):
        dense = convert_to_tensor(tensor)
        zero = b"" if dense.dtype.name == "string" else np.zeros((), dense.dtype.as_numpy_dtype)
        indices = apply_one("Where", dense if dense.dtype.name == "bool" else apply_one("NotEqual", dense, zero))
        return SparseTensor(indices, apply_one("GatherNd", dense, indices), apply_one("Shape", dense, out_type="int64"))


def _reorder_shape(c: ShapeContext) -> list[TensorShape]:
    count, rank = sparse_input(c, 0)
    return sparse_shapes(rank, count)[:2]


define(
    "SparseReorder",
    "input_indices: int64, input_values: T, input_shape: int64 -> output_indices: int64, output_values: T", "T: type",
    shape=_reorder_shape,
)  # fmt: skip


@export("sparse_reorder", "sparse.reorder")
def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Returns the same sparse value with its indices in row-major order."""
    x = as_sparse(sp_input)
    ordered = apply("SparseReorder", x.indices, x.values, x.dense_shape, name=name)
    return SparseTensor(ordered.output_indices, ordered.output_values, _identity_unless_constant(x.dense_shape))


def _identity_unless_constant(x: Tensor) -> Tensor:
    # The same constant, so that the static shape is known.
    return x if op_type_of(x) in ("Const", "") else apply_one("Identity", x)


@gradient("SparseReorder")
def _reorder_grad(op: Operation, _: Any, grad: Tensor) -> Any:
    indices, _values, shape = op.inputs
    numbers = apply_one("Range", 0, apply_one("Size", op.inputs[1]), 1)
    order = apply("SparseReorder", indices, numbers, shape).output_values
    back = apply_one("DynamicStitch", [order], [numbers])
    return None, apply_one("GatherV2", grad, back, 0), None


def _reshape_shape(c: ShapeContext) -> list[TensorShape]:
    indices = shapes.with_rank(c.input(0), 2).dims_tuple
    shapes.with_rank(c.input(1), 1)
    new = shapes.with_rank(c.input(2), 1)
    assert indices is not None and new.dims_tuple is not None
    return [TensorShape._of((indices[0], new.dims_tuple[0])), new]


define(
    "SparseReshape",
    "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, output_shape: int64",
    shape=_reshape_shape,
)  # fmt: skip
not_differentiable("SparseReshape")


@export("sparse_reshape", "sparse.reshape")
def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Returns the same elements, in row-major order, under another dense shape, in which one size may be -1."""
    x = as_sparse(sp_input)
    with name_scope(name, "SparseReshape", [x.values]):
        wanted = apply_one("Cast", convert_to_tensor(shape), DstT="int64") if not _is_int64(shape) else shape
        new = apply("SparseReshape", x.indices, x.dense_shape, wanted)
        return SparseTensor(new.output_indices, apply_one("Identity", x.values), new.output_shape)


def _is_int64(shape: Any) -> bool:
    return not isinstance(shape, Tensor) or shape.dtype.name == "int64"


def _concat_shape(c: ShapeContext) -> list[TensorShape]:
    n = c.attr("N")
    rank: int | None = None
    count: int | None = 0
    for i in range(n):
        indices = shapes.with_rank(c.input(i), 2).dims_tuple
        shape = shapes.with_rank(c.input(2 * n + i), 1).dims_tuple
        assert indices is not None and shape is not None
        rank = shapes.merge_dims(rank, shapes.merge_dims(indices[1], shape[0]))
        count = None if count is None or indices[0] is None else count + indices[0]
    return sparse_shapes(rank, count)


define(
    "SparseConcat",
    "indices: N * int64, values: N * T, shapes: N * int64 "
    "-> output_indices: int64, output_values: T, output_shape: int64",
    "concat_dim: int, N: int >= 2, T: type", shape=_concat_shape,
)  # fmt: skip


@export("sparse_concat", "sparse.concat")
def sparse_concat(
    axis: Any = None,
    sp_inputs: Any = None,
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: Any = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Joins SparseTensors along one axis.

    Args:
        axis: The axis.
        sp_inputs: List of SparseTensors.
        name: A name for the operation.
        expand_nonconcat_dim: Whether the other axes may differ; they then get the largest size.
        concat_dim: The older spelling of `axis`.
        expand_nonconcat_dims: The newer spelling of `expand_nonconcat_dim`.

    Returns:
        A SparseTensor.
    """
    axis = concat_dim if axis is None else axis
    if axis is None or sp_inputs is None:
        raise ValueError("sparse_concat needs an axis and inputs.")
    inputs = [as_sparse(x) for x in sp_inputs]
    if len(inputs) == 1:
        return inputs[0]
    sizes = [x.dense_shape for x in inputs]
    if expand_nonconcat_dim or expand_nonconcat_dims:
        largest = apply_one("Max", apply_one("Pack", sizes, axis=0), [0])
        rank = inputs[0].dense_shape.shape.dims_tuple
        count = apply_one("Size", inputs[0].dense_shape) if not rank or rank[0] is None else rank[0]
        here = apply_one("Equal", apply_one("Range", 0, count, 1), _non_negative_axis(axis, count))
        sizes = [apply_one("Select", here, shape, largest) for shape in sizes]
    joined = apply(
        "SparseConcat", [x.indices for x in inputs], [x.values for x in inputs], sizes, concat_dim=axis, name=name
    )
    return SparseTensor(*joined)


def _non_negative_axis(axis: int, rank: Any) -> Any:
    if axis >= 0:
        return axis
    return axis + rank if isinstance(rank, int) else apply_one("AddV2", rank, axis)


@gradient("SparseConcat")
def _concat_grad(op: Operation, _: Any, grad: Tensor, __: Any) -> Any:
    n, axis = op.attrs["N"], op.attrs["concat_dim"]
    # The result is a permutation of the inputs' values: concatenating their positions gives the permutation.
    counts = [apply_one("Size", values) for values in op.inputs[n : 2 * n]]
    total = apply_one("AddN", counts)
    numbers = apply_one("Range", 0, total, 1)
    pieces = apply_list("SplitV", numbers, apply_one("Pack", counts, axis=0), 0, num_split=n)
    order = apply("SparseConcat", op.inputs[:n], pieces, op.inputs[2 * n :], concat_dim=axis).output_values
    back = apply_one("GatherV2", grad, apply_one("DynamicStitch", [order], [numbers]), 0)
    split = apply_list("SplitV", back, apply_one("Pack", counts, axis=0), 0, num_split=n)
    return [None] * n + list(split) + [None] * n


def _split_shape(c: ShapeContext) -> list[TensorShape]:
    n = c.attr("num_split")
    _, rank = sparse_input(c, 1)
    parts = sparse_shapes(rank)
    return [part for part in parts for _ in range(n)]


define(
    "SparseSplit",
    "split_dim: int64, indices: int64, values: T, shape: int64 -> output_indices: num_split * int64, "
    "output_values: num_split * T, output_shape: num_split * int64",
    "num_split: int >= 1, T: type", shape=_split_shape,
)  # fmt: skip
not_differentiable("SparseSplit")


@export("sparse_split", "sparse.split")
def sparse_split(
    keyword_required: Any = None,
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """Splits a SparseTensor into `num_split` ones along an axis; the first are larger where it does not divide.

    Args:
        keyword_required: Must not be given: the other arguments are keyword arguments.
        sp_input: A SparseTensor.
        num_split: How many.
        axis: The axis.
        name: A name for the operation.
        split_dim: The older spelling of `axis`.

    Returns:
        A list of SparseTensors.
    """
    if keyword_required is not None:
        raise ValueError("sparse_split takes keyword arguments only: sp_input, num_split, axis.")
    axis = split_dim if axis is None else axis
    if sp_input is None or num_split is None or axis is None:
        raise ValueError("sparse_split needs sp_input, num_split and axis.")
    x = as_sparse(sp_input)
    parts = apply("SparseSplit", axis, x.indices, x.values, x.dense_shape, num_split=num_split, name=name)
    return [SparseTensor(*part) for part in zip(*parts, strict=True)]


def _slice_shape(c: ShapeContext) -> list[TensorShape]:
    _, rank = sparse_input(c, 0)
    for i in (3, 4):
        dims = shapes.with_rank(c.input(i), 1).dims_tuple
        assert dims is not None
        rank = shapes.merge_dims(rank, dims[0])
    return sparse_shapes(rank)


define(
    "SparseSlice",
    "indices: int64, values: T, shape: int64, start: int64, size: int64 "
    "-> output_indices: int64, output_values: T, output_shape: int64",
    "T: type", shape=_slice_shape,
)  # fmt: skip
define(
    "SparseSliceGrad",
    "backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64 -> val_grad: T",
    "T: numbertype",
    shape=lambda c: TensorShape._of((shapes.with_rank(c.input(1), 2).dims_tuple or (None,))[:1]),
)  # fmt: skip
not_differentiable("SparseSliceGrad")


@python_kernel("SparseSliceGrad")
def _slice_grad_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    grad, indices, start, kept = inputs
    require(grad.ndim == 1, f"backprop_val_grad must be a vector, got shape {list(grad.shape)}")
    require(
        indices.ndim == 2 and kept.ndim == 2 and indices.shape[1] == kept.shape[1] == start.size,
        f"indices of shapes {list(indices.shape)} and {list(kept.shape)} do not fit a start of shape "
        f"{list(start.shape)}",
    )
    require(len(grad) == len(kept), f"{len(grad)} gradients for {len(kept)} indices")
    result = np.zeros(len(indices), grad.dtype)
    found = {row: i for i, row in enumerate(map(tuple, (kept + start.ravel()).tolist()))}
    for i, row in enumerate(map(tuple, indices.tolist())):
        if row in found:
            result[i] = grad[found[row]]
    return result


@export("sparse_slice", "sparse.slice")
def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Returns the part of a SparseTensor from `start` on, of `size`, or less where it ends before."""
    x = as_sparse(sp_input)
    with name_scope(name, "SparseSlice", [x.values]):
        return SparseTensor(*apply("SparseSlice", x.indices, x.values, x.dense_shape, start, size))


@gradient("SparseSlice")
def _slice_grad(op: Operation, _: Any, grad: Tensor, __: Any) -> Any:
    indices, _values, _shape, start, _size = op.inputs
    return None, apply_one("SparseSliceGrad", grad, indices, start, op.outputs[0]), None, None, None
