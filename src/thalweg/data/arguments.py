"""Arguments of dataset ops: counts as int64 tensors, rows of slices, and the specs of batches and slices."""

from __future__ import annotations

from typing import Any, Final

from thalweg.data import structure
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export_value
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec

AUTOTUNE: Final = -1
export_value(AUTOTUNE, "data.experimental.AUTOTUNE", "data.AUTOTUNE")
UNKNOWN_CARDINALITY: Final = -2
INFINITE_CARDINALITY: Final = -1


def int64(value: Any, name: str) -> Tensor:
    """A count or size as the tensor that dataset ops take."""
    return convert_to_tensor(value, dtypes.int64, name=name)


def static_size(value: Tensor) -> int | None:
    """A count or size if it is known while the graph is built."""
    known = constant_value(value)
    return None if known is None else int(known)


def batched_spec(spec: Any, rows: int | None) -> Any:
    """The spec of a batch of elements of `spec`."""
    if isinstance(spec, structure.SparseTensorSpec):
        return structure.SparseTensorSpec(TensorShape([rows]).concatenate(spec.shape), spec.dtype)
    if isinstance(spec, structure.NestedSpec):
        raise TypeError(f"Elements that hold datasets or arrays cannot be batched: {spec}.")
    return TensorSpec(TensorShape([rows]).concatenate(spec.shape), spec.dtype)


def slice_spec(value: Any) -> Any:
    """The spec of the slices of a value along its first dimension."""
    shape = value.shape
    rest = TensorShape(None) if shape.ndims is None else shape[1:]
    if isinstance(value, SparseTensor):
        return structure.SparseTensorSpec(rest, value.dtype)
    return TensorSpec(rest, value.dtype)


def sliceable(value: Any) -> Tensor:
    """A tensor whose rows stand for the slices of a value."""
    if isinstance(value, SparseTensor):
        return apply_one("SerializeManySparse", value.indices, value.values, value.dense_shape, out_type=dtypes.variant)
    assert isinstance(value, Tensor)
    return value


def common_spec(a: Any, b: Any) -> Any:
    """The most specific spec that fits the elements of both."""
    if isinstance(a, structure.NestedSpec):
        return a
    shape = a.shape.most_specific_compatible_shape(b.shape)
    return type(a)(shape, a.dtype)
