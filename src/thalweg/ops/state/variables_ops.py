"""Resource variables as ops: handle, read, assign, and the queries. `thalweg.state` builds tf.Variable on these."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import DType
from thalweg.graph.handle_data import handle_data
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, half, uint32, uint64}"
)


def value_shape(c: ShapeContext, dtype: DType | None = None, index: int = 0) -> TensorShape:
    """The shape of the variable behind an input; ValueError if the op works on another type than the variable's."""
    shapes.with_rank(c.input(index), 0)
    data = c.handle_data(index)
    if data is None:
        return shapes.UNKNOWN
    if dtype is not None and data.dtype.base_dtype is not dtype.base_dtype:
        raise ValueError(
            f"Trying to use a variable with wrong dtype. Expected {data.dtype.name}, the dtype of the variable, got "
            f"{dtype.name}"
        )
    result: TensorShape = data.shape
    return result


def _read_shape(c: ShapeContext) -> TensorShape:
    return value_shape(c, c.attr("dtype"))


def _assign_shape(c: ShapeContext) -> list[TensorShape]:
    shape = value_shape(c, c.attr("dtype"))
    if c.op_type != "AssignVariableOp" or c.attr("validate_shape"):
        shapes.merge(shape, c.input(1))
    return []


define(
    "VarHandleOp",
    "-> resource: resource",
    "container: string = '', shared_name: string = '', debug_name: string = '', dtype: type, shape: shape, "
    "allowed_devices: list(string) = []",
    shape=shapes.scalar,
    effect=Effect.CREATES,
)
define("ReadVariableOp", "resource: resource -> value: dtype", "dtype: type", shape=_read_shape, effect=Effect.READS)
define(
    "AssignVariableOp",
    "resource: resource, value: dtype ->",
    "dtype: type, validate_shape: bool = false",
    shape=_assign_shape,
    effect=Effect.WRITES,
)
for _op in ("AssignAddVariableOp", "AssignSubVariableOp"):
    define(_op, "resource: resource, value: dtype ->", "dtype: type", shape=_assign_shape, effect=Effect.WRITES)
define("VarIsInitializedOp", "resource: resource -> is_initialized: bool", shape=shapes.scalar, effect=Effect.READS)
define(
    "DestroyResourceOp", "resource: resource ->", "ignore_lookup_error: bool = true", shape=shapes.no_outputs,
    effect=Effect.WRITES,
)  # fmt: skip
# TensorFlow 2 adds this op before the reads of its savers; here, reads never copy.
define("DisableCopyOnRead", "resource: resource ->", shape=shapes.no_outputs, effect=Effect.WRITES)
not_differentiable(
    "VarHandleOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "VarIsInitializedOp",
    "DestroyResourceOp", "DisableCopyOnRead",
)  # fmt: skip


work(works.free, "VarHandleOp", "ReadVariableOp", "VarIsInitializedOp")


@gradient("ReadVariableOp")
def _read_grad(op: Operation, grad: Any) -> Any:
    return grad


def _variable_shape_shape(c: ShapeContext) -> TensorShape:
    return TensorShape._of((value_shape(c).ndims,))


define(
    "VariableShape",
    "input: resource -> output: out_type",
    "out_type: {int32, int64} = int32",
    shape=_variable_shape_shape,
    effect=Effect.READS,
)
not_differentiable("VariableShape")


def shape_tensor(handle: Tensor, dtype: Any = None) -> Any:
    """The shape of the variable behind a handle: a constant if it is known, else a tensor."""
    data = handle_data(handle)
    if data is not None and data.shape.is_fully_defined():
        import numpy as np

        kind = dtypes.int32 if dtype is None else dtypes.as_dtype(dtype)
        return apply_one("Const", value=np.array(data.shape.as_list(), kind.as_numpy_dtype), dtype=kind)
    return apply_one("VariableShape", handle, out_type=dtype)


def _gather_shape(c: ShapeContext) -> TensorShape:
    params, indices = value_shape(c, c.attr("dtype")).dims_tuple, c.dims(1)
    batch = c.attr("batch_dims")
    if params is not None and not params:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    if params is None or indices is None or batch < 0:
        return shapes.UNKNOWN
    if batch >= len(params) or batch > len(indices):
        raise ValueError(f"batch_dims = {batch} is too large for params {params} and indices {indices}")
    head = tuple(shapes.merge_dims(p, i) for p, i in zip(params[:batch], indices[:batch], strict=True))
    return TensorShape._of((*head, *indices[batch:], *params[batch + 1 :]))


def _gather_nd_shape(c: ShapeContext) -> TensorShape:
    params, indices = value_shape(c, c.attr("dtype")).dims_tuple, shapes.with_rank_at_least(c.input(1), 1).dims_tuple
    if params is None or indices is None or indices[-1] is None:
        return shapes.UNKNOWN
    if indices[-1] > len(params):
        raise ValueError(f"indices.shape[-1] must be <= params.rank, but saw indices {indices} and params {params}")
    return TensorShape._of((*indices[:-1], *params[indices[-1] :]))


define(
    "ResourceGather",
    "resource: resource, indices: Tindices -> output: dtype",
    "batch_dims: int = 0, validate_indices: bool = true, dtype: type, Tindices: {int32, int64}",
    shape=_gather_shape,
    effect=Effect.READS,
)
define(
    "ResourceGatherNd",
    "resource: resource, indices: Tindices -> output: dtype",
    "dtype: type, Tindices: {int32, int64}",
    shape=_gather_nd_shape,
    effect=Effect.READS,
)


work(works.picking, "ResourceGather")


@gradient("ResourceGather")
def _gather_grad(op: Operation, grad: Tensor) -> Any:
    if op.attrs["batch_dims"]:
        raise NotImplementedError("The gradient of ResourceGather with batch_dims is not implemented.")
    handle, indices = op.inputs
    data = handle_data(handle)
    shape = shape_tensor(handle)
    # A vector stays as it is: it is on the variable's task already.
    flat = indices if indices.shape.ndims == 1 else apply_one("Reshape", indices, [-1])
    if data is not None and data.shape.ndims is not None and data.shape[1:].is_fully_defined():
        rows: Any = [-1, *data.shape.as_list()[1:]]
    else:
        rows = apply_one("ConcatV2", [[-1], apply_one("StridedSlice", shape, [1], [0], [1], end_mask=1)], 0)
    return IndexedSlices(apply_one("Reshape", grad, rows), flat, shape), None


@gradient("ResourceGatherNd")
def _gather_nd_grad(op: Operation, grad: Tensor) -> Any:
    handle, indices = op.inputs
    shape = shape_tensor(handle, indices.dtype)
    if indices.shape.ndims == 2 and indices.shape.as_list()[-1] == 1:
        return IndexedSlices(grad, apply_one("Squeeze", indices, squeeze_dims=[-1]), shape), None
    return apply_one("ScatterNd", indices, grad, shape), None
