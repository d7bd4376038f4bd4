"""Sparse values as strings, byte for byte as TensorFlow writes them: three serialized TensorProtos each."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, string
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import sparse_input, sparse_shapes
from thalweg.ops.sparse.tensors import as_sparse

_SPARSE = "sparse_indices: int64, sparse_values: T, sparse_shape: int64"


def _serialize_shape(c: ShapeContext) -> TensorShape:
    sparse_input(c, 0)
    return TensorShape._of((3,))


def _serialize_many_shape(c: ShapeContext) -> TensorShape:
    sparse_input(c, 0)
    dims = c.constant_as_shape(2).dims_tuple
    return TensorShape._of((dims[0] if dims else None, 3))


def _deserialize_shape(c: ShapeContext) -> list[TensorShape]:
    dims = shapes.with_rank_at_least(c.input(0), 1).dims_tuple
    if dims is not None:
        shapes.merge_dims(dims[-1], 3)
    return sparse_shapes(None)


define(
    "SerializeSparse", f"{_SPARSE} -> serialized_sparse: out_type", "T: type, out_type: {string, variant} = string",
    shape=_serialize_shape,
)  # fmt: skip
define(
    "SerializeManySparse", f"{_SPARSE} -> serialized_sparse: out_type",
    "T: type, out_type: {string, variant} = string", shape=_serialize_many_shape,
)  # fmt: skip
define(
    "DeserializeSparse",
    "serialized_sparse: Tserialized -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    "dtype: type, Tserialized: {string, variant} = string", shape=_deserialize_shape,
)  # fmt: skip
define(
    "DeserializeManySparse",
    "serialized_sparse: string -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64", "dtype: type",
    shape=_deserialize_shape,
)  # fmt: skip
not_differentiable("SerializeSparse", "SerializeManySparse", "DeserializeSparse", "DeserializeManySparse")


@export("serialize_sparse", "io.serialize_sparse")
def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = string) -> Tensor:
    """Returns a SparseTensor as a vector of three strings."""
    x = as_sparse(sp_input)
    return apply_one("SerializeSparse", x.indices, x.values, x.dense_shape, out_type=_only_string(out_type), name=name)


@export("serialize_many_sparse", "io.serialize_many_sparse")
def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = string) -> Tensor:
    """Returns each row of a SparseTensor as three strings: a matrix `[N, 3]`."""
    x = as_sparse(sp_input)
    return apply_one(
        "SerializeManySparse", x.indices, x.values, x.dense_shape, out_type=_only_string(out_type), name=name
    )


def _only_string(out_type: Any) -> Any:
    if as_dtype(out_type) is not string:
        raise NotImplementedError("Sparse values are serialized to strings only; variants are not supported.")
    return string


def _with_rank(parts: Any, rank: Any) -> SparseTensor:
    if rank is not None:
        parts[0].set_shape([None, rank])
        parts[2].set_shape([rank])
    return SparseTensor(*parts)


@export("deserialize_sparse", "io.deserialize_sparse")
def deserialize_sparse(serialized_sparse: Any, dtype: Any, rank: Any = None, name: str | None = None) -> SparseTensor:
    """Returns the SparseTensor in a vector of three strings; of a tensor `[..., 3]`, all of them stacked.

    Args:
        serialized_sparse: Strings that `serialize_sparse` returned.
        dtype: The type of the values.
        rank: The rank of a single value, if it is known.
        name: A name for the operation.

    Returns:
        A SparseTensor; the shapes of stacked ones are made as large as the largest.
    """
    parts = apply("DeserializeSparse", serialized_sparse, dtype=dtype, name=name)
    outer = parts[0].op.inputs[0].shape.ndims
    return _with_rank(parts, None if rank is None or outer is None else rank + outer - 1)


@export("deserialize_many_sparse", "io.deserialize_many_sparse")
def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: Any = None, name: str | None = None
) -> SparseTensor:
    """Returns the SparseTensors in the rows of a matrix `[N, 3]` of strings, stacked; `rank` is that of a row."""
    parts = apply("DeserializeManySparse", serialized_sparse, dtype=dtype, name=name)
    return _with_rank(parts, None if rank is None else rank + 1)
