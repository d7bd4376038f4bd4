"""Sets along the last dimension: union, intersection, difference and size, of dense and sparse tensors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor, convert_to_tensor_or_sparse_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import (
    Array,
    check_sparse,
    coordinates,
    positions,
    require,
    sparse_input,
    sparse_shapes,
)
from thalweg.ops.sparse.tensors import as_sparse

_TYPES = "T: {int8, int16, int32, int64, uint8, uint16, string}"
_ATTRS = f"set_operation: string, validate_indices: bool = true, {_TYPES}"
_RESULT = "-> result_indices: int64, result_values: T, result_shape: int64"
# On sorted numbers without repetitions.
_OPERATIONS: dict[bytes, Any] = {
    b"a-b": lambda a, b: np.setdiff1d(a, b, assume_unique=True),
    b"b-a": lambda a, b: np.setdiff1d(b, a, assume_unique=True),
    b"intersection": lambda a, b: np.intersect1d(a, b, assume_unique=True),
    b"union": np.union1d,
}


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


class _Members(NamedTuple):
    """The members of many sets: which set each belongs to, as a row-major number, and its value."""

    sets: Array
    values: Array
    outer: tuple[int, ...]


def _dense_members(x: Array) -> _Members:
    require(x.ndim >= 2, f"sets need at least a matrix, got shape {list(x.shape)}")
    outer = x.shape[:-1]
    return _Members(np.repeat(np.arange(math.prod(outer)), x.shape[-1]), x.reshape(-1), outer)


def _sparse_members(parts: list[Array], validate: bool, what: str) -> _Members:
    indices, values, shape = parts
    sizes = check_sparse(indices, values, shape, what)
    require(len(sizes) >= 2, f"{what}: sets need at least rank 2, got shape {list(sizes)}")
    if validate and len(indices) > 1:
        steps = np.diff(positions(indices, sizes))
        require(np.all(steps > 0), f"{what}: indices are repeated or not in row-major order")
    # Of a shape without elements the steps between neighbours need not fit.
    sets = positions(indices[:, :-1], sizes[:-1]) if len(indices) else np.zeros(0, np.int64)
    return _Members(sets, values, sizes[:-1])


class _Keys(NamedTuple):
    """Members as numbers: of each side the distinct ones, in the order of sets and values.

    A number divided by `span` is the place of the set in `sets`, and the remainder is the place of the value in
    `values`; or the set itself, and how much larger than `low` the value is, where the arrays are None.
    """

    sides: list[Array]
    span: int
    sets: Array | None
    values: Array | None
    low: int

    def sets_and_values(self, numbers: Array) -> tuple[Array, Array]:
        """The sets that members belong to, and their values."""
        sets, values = np.divmod(numbers, self.span)
        if self.sets is None or self.values is None:
            return sets, values + self.low
        return self.sets[sets], self.values[values]


def _keys(*sides: _Members) -> _Keys:
    sets = np.concatenate([side.sets for side in sides])
    values = np.concatenate([side.values for side in sides])
    ends = np.cumsum([len(side.values) for side in sides])[:-1]
    if len(values) and values.dtype.kind in "iu":
        low, span = int(values.min()), int(values.max()) - int(values.min()) + 1
        if (int(sets.max()) + 1) * span < 2**62:
            numbers = sets * span + (values.astype(np.int64) - low)
            return _Keys([np.unique(part) for part in np.split(numbers, ends)], span, None, None, low)
    sets, set_places = np.unique(sets, return_inverse=True)
    values, value_places = np.unique(values, return_inverse=True)
    span = max(1, len(values))
    numbers = set_places.reshape(-1) * span + value_places.reshape(-1)
    return _Keys([np.unique(part) for part in np.split(numbers, ends)], span, sets, values, 0)


@python_kernel("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation")
def _set_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    operation = _OPERATIONS.get(attrs["set_operation"].lower())
    require(operation, f"set_operation {attrs['set_operation']!r} is not one of {[k.decode() for k in _OPERATIONS]}")
    assert operation is not None
    validate = attrs["validate_indices"]
    rest = inputs
    sides: list[_Members] = []
    while rest:
        dense = len(rest) in (2, 1, 4)
        what = f"set{len(sides) + 1}"
        sides.append(_dense_members(rest[0]) if dense else _sparse_members(rest[:3], validate, what))
        rest = rest[1:] if dense else rest[3:]
    outer, other = sides[0].outer, sides[1].outer
    require(outer == other, f"the outer dimensions of set1 and set2 must agree, got {list(outer)} and {list(other)}")
    keys = _keys(*sides)
    sets, values = keys.sets_and_values(operation(*keys.sides))
    # Members of a set lie one behind the other.
    places = np.arange(len(sets)) - np.searchsorted(sets, sets)
    indices = np.zeros((len(places), len(outer) + 1), np.int64)
    if len(places):
        indices[:, :-1] = coordinates(sets, outer)
        indices[:, -1] = places
    kind = inputs[0].dtype if len(inputs) in (2, 4) else inputs[1].dtype
    out = np.empty(len(values), kind)
    out[:] = values
    return indices, out, np.array([*outer, places.max(initial=-1) + 1], np.int64)


def _size_shape(c: ShapeContext) -> TensorShape:
    sparse_input(c, 0)
    dims = c.constant_as_shape(2).dims_tuple
    return shapes.UNKNOWN if dims is None else TensorShape._of(dims[:-1])


define(
    "SetSize", "set_indices: int64, set_values: T, set_shape: int64 -> size: int32",
    f"validate_indices: bool = true, {_TYPES}", shape=_size_shape,
)  # fmt: skip
not_differentiable("SetSize")


@python_kernel("SetSize")
def _size_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    members = _sparse_members(inputs, attrs["validate_indices"], "set")
    keys = _keys(members)
    sizes = np.zeros(math.prod(members.outer), np.int32)
    sets, counts = np.unique(keys.sets_and_values(keys.sides[0])[0], return_counts=True)
    sizes[sets] = counts
    return sizes.reshape(members.outer)


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
