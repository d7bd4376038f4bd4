"""Sets along the last dimension: union, intersection, difference and size, of dense and sparse tensors."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor, convert_to_tensor_or_sparse_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import sparse_input, sparse_shapes
from thalweg.ops.sparse.tensors import as_sparse

_TYPES = "T: {int8, int16, int32, int64, uint8, uint16, string}"
_ATTRS = f"set_operation: string, validate_indices: bool = true, {_TYPES}"
_RESULT = "-> result_indices: int64, result_values: T, result_shape: int64"


def _set_shape(c: ShapeContext) -> list[TensorShape]:
    rank: int | None = None
    for i in range(2 if c.num_inputs == 2 else 1 if c.num_inputs == 4 else 0):
        dims = shapes.with_rank_at_least(c.input(i), 2).dims_tuple
        rank = shapes.merge_dims(rank, None if dims is None else len(dims))
    for first in {2: (), 4: (1,), 6: (0, 3)}[c.num_inputs]:
        rank = shapes.merge_dims(rank, sparse_input(c, first)[1])
    return sparse_shapes(rank)


define("DenseToDenseSetOperation", f"set1: T, set2: T {_RESULT}", _ATTRS, shape=_set_shape)
define(
    "DenseToSparseSetOperation", f"set1: T, set2_indices: int64, set2_values: T, set2_shape: int64 {_RESULT}", _ATTRS,
    shape=_set_shape,
)  # fmt: skip
define(
    "SparseToSparseSetOperation",
    "set1_indices: int64, set1_values: T, set1_shape: int64, set2_indices: int64, set2_values: T, set2_shape: int64 "
    + _RESULT,
    _ATTRS, shape=_set_shape,
)  # fmt: skip
not_differentiable("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation")


def _size_shape(c: ShapeContext) -> TensorShape:
    sparse_input(c, 0)
    dims = c.constant_as_shape(2).dims_tuple
    return shapes.UNKNOWN if dims is None else TensorShape._of(dims[:-1])


define(
    "SetSize", "set_indices: int64, set_values: T, set_shape: int64 -> size: int32",
    f"validate_indices: bool = true, {_TYPES}", shape=_size_shape,
)  # fmt: skip
not_differentiable("SetSize")


@export("sets.size", "sets.set_size", "contrib.metrics.set_size")
def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """Counts the distinct elements along the last dimension of a SparseTensor."""
    x = as_sparse(a)
    return apply_one("SetSize", x.indices, x.values, x.dense_shape, validate_indices=validate_indices)


def _operate(a: Any, b: Any, operation: str, validate_indices: bool) -> SparseTensor:
    x, y = convert_to_tensor_or_sparse_tensor(a), convert_to_tensor_or_sparse_tensor(b)
    if isinstance(x, SparseTensor) and not isinstance(y, SparseTensor):
        x, y = y, x
        operation = {"a-b": "b-a", "b-a": "a-b"}.get(operation, operation)
    dense = [not isinstance(side, SparseTensor) for side in (x, y)]
    op_type = {(True, True): "DenseToDense", (True, False): "DenseToSparse"}.get((dense[0], dense[1]), "SparseToSparse")
    inputs: list[Any] = []
    for side in (x, y):
        inputs += [side.indices, side.values, side.dense_shape] if isinstance(side, SparseTensor) else [side]
    result = apply(f"{op_type}SetOperation", *inputs, set_operation=operation, validate_indices=validate_indices)
    return SparseTensor(*result)


@export("sets.intersection", "sets.set_intersection", "contrib.metrics.set_intersection")
def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Returns the common elements of the sets along the last dimension of `a` and `b`, sorted.

    Args:
        a: Tensor or SparseTensor of integers or strings, of rank 2 or more.
        b: The same, with the same outer dimensions.
        validate_indices: Whether the indices of sparse arguments must be in row-major order.

    Returns:
        A SparseTensor.
    """
    return _operate(a, b, "intersection", validate_indices)


@export("sets.difference", "sets.set_difference", "contrib.metrics.set_difference")
def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """Returns the elements of the sets of `a` that are not in those of `b`; of b but not a without `aminusb`."""
    return _operate(a, b, "a-b" if aminusb else "b-a", validate_indices)


@export("sets.union", "sets.set_union", "contrib.metrics.set_union")
def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Returns the elements of the sets along the last dimension of `a` or of `b`, sorted."""
    return _operate(a, b, "union", validate_indices)
