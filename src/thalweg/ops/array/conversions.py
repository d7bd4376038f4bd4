"""Conversions to tensors that need ops: numbers and lists become Const and Pack, IndexedSlices a sum of rows."""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph import constant_values, dtypes
from thalweg.graph.apply import apply_one, apply_values
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import (
    convert,
    is_tensor_like,
    register_plain_conversion,
    register_tensor_conversion_function,
)
from thalweg.graph.default_graph import name_scope
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import Dimension, TensorShape

_LIST_PRIORITY: Final = 99
_DEFAULT_PRIORITY: Final = 100
_LAST_PRIORITY: Final = 200


def _constant(value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    array, dtype = constant_values.as_array(value, dtype)
    tensor: Tensor = apply_values("Const", (), name or "Const", {"value": array, "dtype": dtype})
    return tensor


def _shape_constant(value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    if isinstance(value, TensorShape) and not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
    if isinstance(value, Dimension) and value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
    if dtype not in (None, dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert {type(value).__name__} {value} to dtype {dtype.name if dtype else None}.")
    numbers = value.as_list() if isinstance(value, TensorShape) else value.value
    if dtype is None:
        flat = numbers if isinstance(numbers, list) else [numbers]
        dtype = dtypes.int64 if any(number is not None and number >= 2**31 for number in flat) else dtypes.int32
    return _constant(numbers, dtype, name or "shape_as_tensor")


def _sequence(value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    """Lists become constants, unless a tensor is in one: then they are packed."""
    first = _first_tensor(value)
    if first is None:
        return NotImplemented
    inferred = first.dtype.base_dtype
    if dtype is not None and dtype is not inferred:
        # A list of tensors is never cast: the caller reports the type that it expected.
        raise TypeError(
            f"Cannot convert a list containing a tensor of dtype {inferred.name} to {dtype.name} (Tensor is: {first!r})"
        )
    return _pack(value, inferred, name or "packed")


def _first_tensor(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        for item in value:
            found = _first_tensor(item)
            if found is not None:
                return found
        return None
    return value if is_tensor_like(value) else None


def _pack(value: Any, dtype: DType, name: str) -> Any:
    with name_scope(name) as scope:
        items = [
            _pack(item, dtype, str(i)) if isinstance(item, (list, tuple)) else item for i, item in enumerate(value)
        ]
        if not any(is_tensor_like(item) for item in items):
            return value  # Becomes one constant in the caller.
        tensors = []
        for i, item in enumerate(items):
            if is_tensor_like(item):
                tensor = convert(item)
                if tensor.dtype.base_dtype is not dtype:
                    raise TypeError(
                        f"Cannot convert a list containing a tensor of dtype {tensor.dtype.name} to "
                        f"{dtype.name} (Tensor is: "
                        f"{tensor!r})"
                    )
            else:
                tensor = _constant(item, dtype, str(i))
            tensors.append(tensor)
        return apply_one("Pack", tensors, axis=0, name=scope)


def _dense_of_slices(value: IndexedSlices, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    """Adds the rows up into the tensor they stand for."""
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with dtype {value.dtype.name}"
        )
    if value.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices without dense_shape, so its size is not known: {value}"
        )
    rows = apply_one(
        "StridedSlice", value.dense_shape, [0], [1], [1], shrink_axis_mask=1, name=f"{name}/rows" if name else None
    )
    dense = apply_one("UnsortedSegmentSum", value.values, value.indices, rows, name=name)
    dense.set_shape(value.shape)
    return dense


register_plain_conversion((list, tuple), _sequence, _LIST_PRIORITY)
register_plain_conversion((TensorShape, Dimension), _shape_constant, _DEFAULT_PRIORITY)
register_plain_conversion(object, _constant, _LAST_PRIORITY)
register_tensor_conversion_function(IndexedSlices, _dense_of_slices, _DEFAULT_PRIORITY)
