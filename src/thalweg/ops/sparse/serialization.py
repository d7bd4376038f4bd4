"""Sparse values as strings, byte for byte as TensorFlow writes them: three serialized TensorProtos each."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, string
from thalweg.graph.messages.tensor_proto import make_ndarray
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import (
    Array,
    check_dense_shape,
    check_sparse,
    require,
    sparse_input,
    sparse_shapes,
)
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


def _serialized_proto(array: Array) -> bytes:
    """A TensorProto with the raw bytes of its elements; strings one by one."""
    from tensorboard.compat.proto import tensor_pb2  # Start-up time: protobuf is slow to import.

    proto = tensor_pb2.TensorProto(dtype=as_dtype(array.dtype).as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add().size = size
    if array.dtype == object:
        proto.string_val.extend(array.ravel().tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    result: bytes = proto.SerializeToString()
    return result


def _parse_proto(text: Any, dtype: Any, rank: int, what: str) -> Array:
    """The array in a serialized TensorProto, which must have this type and rank."""
    from google.protobuf.message import DecodeError  # Start-up time: protobuf is slow to import.
    from tensorboard.compat.proto import tensor_pb2

    proto = tensor_pb2.TensorProto()
    try:
        proto.ParseFromString(text)
    except (DecodeError, TypeError) as e:
        require(False, f"cannot parse the serialized {what}: {e}")
    wanted = as_dtype(dtype)
    require(
        proto.dtype == wanted.as_datatype_enum,
        f"the serialized {what} have type {proto.dtype}, expected {wanted.name} ({wanted.as_datatype_enum})",
    )
    array: Array = make_ndarray(proto)
    require(array.ndim == rank, f"the serialized {what} must have rank {rank}, got shape {list(array.shape)}")
    return array


def _strings(rows: list[list[bytes]]) -> Array:
    out = np.empty((len(rows), 3), object)
    for i, row in enumerate(rows):
        out[i] = row
    return out


@python_kernel("SerializeSparse")
def _serialize_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    indices, values, shape = inputs
    check_sparse(indices, values, shape)
    return _strings([[_serialized_proto(indices), _serialized_proto(values), _serialized_proto(shape)]])[0]


@python_kernel("SerializeManySparse")
def _serialize_many_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    indices, values, shape = inputs
    sizes = check_sparse(indices, values, shape)
    require(len(sizes) > 1, f"a minibatch must have rank 2 or more, got shape {list(sizes)}")
    order = np.argsort(indices[:, 0], kind="stable")
    ends = np.searchsorted(indices[order, 0], np.arange(sizes[0] + 1))
    rest = _serialized_proto(shape[1:])
    rows = []
    for first, last in itertools.pairwise(ends):
        mine = order[first:last]
        rows.append([_serialized_proto(indices[mine, 1:]), _serialized_proto(values[mine]), rest])
    return _strings(rows)


@python_kernel("DeserializeSparse", "DeserializeManySparse")
def _deserialize_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    (serialized,) = inputs
    many = "Tserialized" not in attrs
    require(
        serialized.ndim >= 1 and serialized.shape[-1] == 3 and (serialized.ndim == 2 or not many),
        f"serialized_sparse must have {'shape [N, 3]' if many else 'a last dimension of 3'}, got shape "
        f"{list(serialized.shape)}",
    )
    outer = serialized.shape[:-1]
    dtype = as_dtype(attrs["dtype"])
    require(serialized.size > 0 or not outer, "cannot tell the rank of a sparse value from none at all")
    all_indices, all_values = [], []
    largest: Array | None = None
    for at in np.ndindex(*outer):
        parts = serialized[at]
        indices = _parse_proto(parts[0], "int64", 2, "indices")
        values = _parse_proto(parts[1], dtype, 1, "values")
        shape = _parse_proto(parts[2], "int64", 1, "shape")
        check_sparse(indices, values, shape, f"element {list(at)}")
        same = largest is None or len(largest) == len(shape)
        require(same, f"element {list(at)} has rank {len(shape)}, others {0 if largest is None else len(largest)}")
        largest = shape if largest is None else np.maximum(largest, shape)
        all_indices.append(np.concatenate([np.tile(np.array(at, np.int64), (len(indices), 1)), indices], 1))
        all_values.append(values)
    assert largest is not None
    full = np.concatenate([np.array(outer, np.int64), largest])
    check_dense_shape(full)
    return np.concatenate(all_indices), np.concatenate(all_values), full


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
