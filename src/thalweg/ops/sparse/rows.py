"""Sparse values from sparse values: empty rows filled, elements dropped, transposed, merged; and placeholders."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one, apply_op
from thalweg.graph.composite import IndexedSlices, SparseTensor, SparseTensorValue
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, float32, int64
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor, op_type_of
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import Array, require, sparse_input, sparse_shapes
from thalweg.ops.sparse.tensors import as_sparse, sparse_reorder, sparse_tensor_to_dense


def _fill_shape(c: ShapeContext) -> list[TensorShape]:
    count, rank = sparse_input(c, 0)
    shapes.with_rank(c.input(3), 0)
    dense = c.constant_as_shape(2).dims_tuple
    rows = dense[0] if dense else None
    return [*sparse_shapes(rank)[:2], TensorShape._of((rows,)), TensorShape._of((count,))]


define(
    "SparseFillEmptyRows",
    "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, output_values: T, "
    "empty_row_indicator: bool, reverse_index_map: int64",
    "T: type", shape=_fill_shape,
)  # fmt: skip
define(
    "SparseFillEmptyRowsGrad",
    "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T", "T: type",
    shape=lambda c: [shapes.with_rank(c.input(0), 1), shapes.SCALAR],
)  # fmt: skip
not_differentiable("SparseFillEmptyRowsGrad")


@python_kernel("SparseFillEmptyRowsGrad")
def _fill_grad_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    places, grad = inputs
    require(
        places.ndim == 1 and grad.ndim == 1,
        f"reverse_index_map and grad_values must be vectors, got shapes {list(places.shape)} and {list(grad.shape)}",
    )
    require(
        places.size == 0 or (places.min() >= 0 and places.max() < len(grad)),
        f"reverse_index_map holds an index outside of [0, {len(grad)})",
    )
    rest = np.ones(len(grad), bool)
    rest[places] = False
    return grad[places], np.asarray(grad[rest].sum(), grad.dtype)


@export("sparse_fill_empty_rows", "sparse.fill_empty_rows")
def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """Gives every row without an element one: `default_value`, at the row's first position.

    Args:
        sp_input: A SparseTensor.
        default_value: A scalar.
        name: A name for the operation.

    Returns:
        The SparseTensor, and a vector of bool: which rows were empty.
    """
    x = as_sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [x.values]):
        default = convert_to_tensor(default_value, x.values.dtype)
        filled = apply("SparseFillEmptyRows", x.indices, x.values, x.dense_shape, default)
        sparse = SparseTensor(filled.output_indices, filled.output_values, x.dense_shape)
        return sparse, filled.empty_row_indicator


@gradient("SparseFillEmptyRows")
def _fill_grad(op: Operation, _: Any, grad: Tensor, *__: Any) -> Any:
    back = apply("SparseFillEmptyRowsGrad", op.outputs[3], grad)
    return None, back.d_values, None, back.d_default_value


@export("sparse_retain", "sparse.retain")
def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Keeps the elements for which the vector of bool `to_retain` is true."""
    x = as_sparse(sp_input)
    keep = convert_to_tensor(to_retain)
    keep.shape.assert_has_rank(1)
    if not keep.shape.is_compatible_with(x.values.shape):
        raise ValueError(f"to_retain of shape {keep.shape} does not fit {x.values.shape} values.")
    where = apply_one("Reshape", apply_one("Where", keep), [-1])
    indices = apply_one("GatherV2", x.indices, where, 0)
    return SparseTensor(indices, apply_one("GatherV2", x.values, where, 0), _identity_unless_constant(x.dense_shape))


def _identity_unless_constant(shape: Tensor) -> Tensor:
    # The same constant, so that the static shape is known.
    return shape if op_type_of(shape) in ("Const", "") else apply_one("Identity", shape)


@export("sparse_mask", "sparse.mask")
def sparse_mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Drops the rows of an IndexedSlices whose indices are in `mask_indices`."""
    with name_scope(name, "sparse_mask", [a.values]):
        kept = apply("ListDiff", a.indices, mask_indices)
        return IndexedSlices(apply_one("GatherV2", a.values, kept.idx, 0), kept.out, a.dense_shape)


@export("sparse_transpose", "sparse.transpose")
def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Permutes the dimensions of a SparseTensor: reverses them if `perm` is None. The result is in row-major order."""
    x = as_sparse(sp_input)
    with name_scope(name, "SparseTranspose", [x.values]):
        rank = x.dense_shape.shape.dims_tuple
        if perm is None:
            count = rank[0] if rank else None
            if count is not None:
                perm = np.arange(count - 1, -1, -1, dtype=np.int32)
            else:
                perm = apply_one("Range", apply_one("Sub", apply_one("Size", x.dense_shape), 1), -1, -1)
        indices = apply_one("GatherV2", x.indices, perm, 1)
        static = constant_value(x.dense_shape)
        known = None if isinstance(perm, Tensor) else np.asarray(perm)
        if static is not None and known is not None:
            shape = convert_to_tensor(static[known], int64)
        else:
            shape = apply_one("GatherV2", x.dense_shape, perm, 0)
        return sparse_reorder(SparseTensor(indices, x.values, shape))


@export("sparse_to_indicator", "sparse.to_indicator")
def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """Turns rows of ids into rows of bool: true at each id.

    Args:
        sp_input: SparseTensor of int32 or int64, with ids in `[0, vocab_size)`.
        vocab_size: The size of the last dimension of the result.
        name: A name for the operation.

    Returns:
        A Tensor of the same outer dimensions.
    """
    x = as_sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [x.values]):
        ones = apply_one("Fill", apply_one("Shape", x.values), True)
        merged = sparse_merge(x, x.with_values(ones), vocab_size)
        # An id may occur twice in a row: the same place is then set twice.
        return sparse_tensor_to_dense(merged, default_value=False, validate_indices=False)


@export("sparse_merge", "sparse.merge")
def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """Replaces the last dimension of `sp_values` by the ids at the same places in `sp_ids`.

    Args:
        sp_ids: SparseTensor of int32 or int64; or a list of them, each of which gives one dimension.
        sp_values: SparseTensor of any type, with the same indices.
        vocab_size: The size of the new dimension; a list for a list of ids.
        name: A name for the operation.
        already_sorted: Whether the result is in row-major order without sorting.

    Returns:
        A SparseTensor.
    """
    listed = isinstance(sp_ids, (list, tuple)) and not isinstance(sp_ids, SparseTensorValue)
    ids = [as_sparse(x) for x in (sp_ids if listed else [sp_ids])]
    sizes = list(vocab_size) if listed else [vocab_size]
    if len(ids) != len(sizes):
        raise ValueError(f"{len(ids)} sp_ids have to go with as many vocab_size, got {len(sizes)}.")
    values = as_sparse(sp_values)
    with name_scope(name, "SparseMerge", [x.values for x in ids]):
        columns = [apply_one("ExpandDims", _as_int64(x.values), 1) for x in ids]
        leading = apply_one("StridedSlice", ids[0].indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
        indices = apply_one("ConcatV2", [leading, *columns], 1)
        outer = apply_one("StridedSlice", ids[0].dense_shape, [0], [-1], [1], begin_mask=1)
        shape = apply_one("ConcatV2", [outer, *[apply_one("Reshape", _as_int64(size), [1]) for size in sizes]], 0)
        result = SparseTensor(indices, values.values, shape)
        return result if already_sorted else sparse_reorder(result)


def _as_int64(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        return convert_to_tensor(x, int64)
    return x if x.dtype.name == "int64" else apply_one("Cast", x, DstT="int64")


@export("sparse_reset_shape", "sparse.reset_shape")
def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """Gives a SparseTensor another dense shape: the smallest that holds its elements if `new_shape` is None.

    Raises:
        ValueError: If `new_shape` is known to have another rank, or to be smaller.
    """
    x = as_sparse(sp_input)
    indices, values = apply_one("Identity", x.indices), apply_one("Identity", x.values)
    if new_shape is None:
        # An empty value gives the lowest integer, for which the shape is zero.
        largest = apply_one("Max", indices, [0])
        return SparseTensor(
            indices, values, apply_one("Maximum", np.int64(0), apply_one("AddV2", largest, np.int64(1)))
        )
    shape = _as_int64(new_shape)
    if shape.shape.ndims not in (None, 1):
        raise ValueError(f"new_shape must be a vector, got shape {shape.shape}.")
    old, new = constant_value(x.dense_shape), constant_value(shape)
    if old is not None and new is not None:
        if len(old) != len(new):
            raise ValueError(f"new_shape {new.tolist()} has another rank than the shape {old.tolist()}.")
        if np.any(new < old):
            raise ValueError(f"new_shape {new.tolist()} is smaller than the shape {old.tolist()}.")
    else:
        fits = apply_one("All", apply_one("LessEqual", x.dense_shape, shape), [0])
        check = apply_op(
            "Assert", fits, ["new_shape is smaller than the shape of the SparseTensor:", x.dense_shape, shape]
        )
        with control_dependencies([check]):
            shape = apply_one("Identity", shape)
    return SparseTensor(indices, values, shape)


@export("sparse_placeholder", "sparse.placeholder")
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Creates a SparseTensor that every step must be fed, with a SparseTensorValue or its three parts.

    Args:
        dtype: The type of its values.
        shape: The dense shape: a list in which sizes may be None, a tensor, or None if it is unknown.
        name: The prefix of the names of its three tensors.

    Returns:
        A SparseTensor.
    """
    prefix = None if name is None else name + "/"
    rank: int | None = None

    def named(part: str) -> str | None:
        return None if prefix is None else prefix + part

    if shape is None:
        dense: Any = apply_one("Placeholder", dtype=int64, shape=TensorShape([None]), name=named("shape"))
    elif isinstance(shape, Tensor):
        dims = shape.shape.dims_tuple
        rank, dense = (dims[0] if dims else None), _as_int64(shape)
    else:
        static = TensorShape(shape)
        rank = static.ndims
        sizes = np.array([-1 if size is None else size for size in static.as_list()], np.int64)
        dense = apply_one("Const", value=sizes, dtype=int64, name=named("shape") or "Const")
    return SparseTensor(
        values=apply_one("Placeholder", dtype=as_dtype(dtype), shape=TensorShape([None]), name=named("values")),
        indices=apply_one("Placeholder", dtype=int64, shape=TensorShape([None, rank]), name=named("indices")),
        dense_shape=dense,
    )


@export("sparse.expand_dims")
def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """Inserts a dimension of size 1 before `axis`; at the end if it is None."""
    x = as_sparse(sp_input)
    with name_scope(name, "expand_dims", [x.values]):
        dims = x.dense_shape.shape.dims_tuple
        rank = dims[0] if dims else None
        if rank is None:
            raise ValueError("sparse.expand_dims needs a SparseTensor of known rank.")
        axis = -1 if axis is None else int(axis)
        if not -rank - 1 <= axis <= rank:
            raise ValueError(f"axis {axis} is out of range for a SparseTensor of rank {rank}.")
        axis = axis + rank + 1 if axis < 0 else axis
        zeros = apply_one(
            "ZerosLike", apply_one("StridedSlice", x.indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1)
        )
        left = apply_one("StridedSlice", x.indices, [0, 0], [0, axis], [1, 1], begin_mask=3, end_mask=1)
        right = apply_one("StridedSlice", x.indices, [0, axis], [0, 0], [1, 1], begin_mask=1, end_mask=3)
        before = apply_one("StridedSlice", x.dense_shape, [0], [axis], [1], begin_mask=1)
        after = apply_one("StridedSlice", x.dense_shape, [axis], [0], [1], end_mask=1)
        if rank == 0:
            raise ValueError("sparse.expand_dims needs at least one dimension.")
        indices = apply_one("ConcatV2", [left, zeros, right], 1)
        shape = apply_one("ConcatV2", [before, np.ones(1, np.int64), after], 0)
        return SparseTensor(indices, x.values, shape)


@export("sparse.eye")
def sparse_eye(num_rows: Any, num_columns: Any = None, dtype: Any = float32, name: str | None = None) -> SparseTensor:
    """Returns a sparse identity matrix."""
    with name_scope(name, "eye"):
        rows = _as_int64(num_rows)
        columns = rows if num_columns is None else _as_int64(num_columns)
        length = apply_one("Minimum", rows, columns)
        diagonal = apply_one("Range", np.int64(0), length, np.int64(1))
        one = np.ones((), as_dtype(dtype).as_numpy_dtype)
        return SparseTensor(
            indices=apply_one("Pack", [diagonal, diagonal], axis=1),
            values=apply_one("Fill", apply_one("Reshape", length, [1]), one),
            dense_shape=apply_one("Pack", [rows, columns], axis=0),
        )
