"""Arithmetic with sparse values: sums, products with dense tensors, reductions, softmax, operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor, is_sparse
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.division import division_type
from thalweg.ops.math.math_gradients import conj
from thalweg.ops.sparse.kernel_arrays import sparse_input, sparse_shapes
from thalweg.ops.sparse.tensors import as_sparse


def _matmul_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 2)
    shapes.with_rank(c.input(1), 1)
    shapes.with_rank(c.input(2), 1)
    a = shapes.with_rank(c.constant_as_shape(2), 2)
    return shapes.matmul_shape(a, shapes.with_rank(c.input(3), 2), c.attr("adjoint_a"), c.attr("adjoint_b"))


define(
    "SparseTensorDenseMatMul", "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> product: T",
    "T: type, Tindices: {int32, int64} = int64, adjoint_a: bool = false, adjoint_b: bool = false",
    shape=_matmul_shape,
)  # fmt: skip


@export("sparse_tensor_dense_matmul", "sparse.sparse_dense_matmul", "sparse.matmul")
def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """Multiplies a sparse matrix by a dense one.

    Args:
        sp_a: SparseTensor of rank 2.
        b: Matrix of the same type. The two may also stand the other way round.
        adjoint_a: Whether to use the conjugate transpose of the first.
        adjoint_b: Whether to use the conjugate transpose of the second.
        name: A name for the operation.

    Returns:
        A matrix.
    """
    if is_sparse(b) and not is_sparse(sp_a):
        # a b = (b^H a^H)^H
        swapped = sparse_tensor_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return conj(apply_one("Transpose", swapped, [1, 0], name=name))
    a = as_sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [a.indices, a.values, b]):
        b = convert_to_tensor(b, a.values.dtype)
        return apply_one(
            "SparseTensorDenseMatMul", a.indices, a.values, a.dense_shape, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b
        )


@gradient("SparseTensorDenseMatMul")
def _matmul_grad(op: Operation, grad: Tensor) -> Any:
    indices, values, shape, b = op.inputs
    adjoint_a, adjoint_b = op.attrs["adjoint_a"], op.attrs["adjoint_b"]
    rows, columns = (
        apply_one("StridedSlice", indices, [0, i], [0, i + 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
        for i in (0, 1)
    )
    if adjoint_a:
        rows, columns = columns, rows
    right = conj(apply_one("Transpose", b, [1, 0])) if adjoint_b else b
    parts = apply_one("Mul", apply_one("GatherV2", grad, rows, 0), conj(apply_one("GatherV2", right, columns, 0)))
    values_grad = apply_one("Sum", parts, [1])
    b_grad = apply_one("SparseTensorDenseMatMul", indices, values, shape, grad, adjoint_a=not adjoint_a)
    if adjoint_b:
        b_grad = conj(apply_one("Transpose", b_grad, [1, 0]))
    return None, conj(values_grad) if adjoint_a else values_grad, None, b_grad


_A_AND_B = "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64"


def _sparse_pair_shape(c: ShapeContext) -> list[TensorShape]:
    rank = shapes.merge_dims(sparse_input(c, 0)[1], sparse_input(c, 3)[1])
    return sparse_shapes(rank)[: c.num_outputs]


define(
    "SparseAdd", f"{_A_AND_B}, thresh: Treal -> sum_indices: int64, sum_values: T, sum_shape: int64",
    "T: numbertype, Treal: realnumbertype", shape=_sparse_pair_shape,
)  # fmt: skip
define(
    "SparseAddGrad",
    "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64 -> a_val_grad: T, b_val_grad: T",
    "T: numbertype",
    shape=lambda c: [TensorShape._of((shapes.with_rank(c.input(i), 2).dims_tuple or (None,))[:1]) for i in (1, 2)],
)  # fmt: skip
not_differentiable("SparseAddGrad")


@gradient("SparseAdd")
def _add_grad(op: Operation, _: Any, grad: Tensor, __: Any) -> Any:
    back = apply("SparseAddGrad", grad, op.inputs[0], op.inputs[3], op.outputs[0])
    return None, back.a_val_grad, None, None, back.b_val_grad, None, None


def _dense_add_shape(c: ShapeContext) -> TensorShape:
    rank = sparse_input(c, 0)[1]
    return shapes.merge(c.constant_as_shape(2), c.input(3) if rank is None else shapes.with_rank(c.input(3), rank))


define(
    "SparseTensorDenseAdd", "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T -> output: T",
    "T: numbertype, Tindices: {int32, int64}", shape=_dense_add_shape,
)  # fmt: skip


@gradient("SparseTensorDenseAdd")
def _dense_add_grad(op: Operation, grad: Tensor) -> Any:
    return None, apply_one("GatherNd", grad, op.inputs[0]), None, grad


@export("sparse_add", "sparse.add")
def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """Adds two tensors of one shape of which at least one is sparse.

    Args:
        a: SparseTensor or Tensor.
        b: SparseTensor or Tensor.
        threshold: For two sparse ones: sums of a smaller magnitude are left out. 0 keeps all.
        thresh: The older spelling of `threshold`.

    Returns:
        A SparseTensor if both are sparse, else a Tensor.
    """
    if not is_sparse(a) and not is_sparse(b):
        raise TypeError("At least one input of sparse_add should be a SparseTensor; use tf.add for two dense ones.")
    if is_sparse(a) and is_sparse(b):
        x, y = as_sparse(a), as_sparse(b)
        limit = threshold if threshold is not None else thresh if thresh is not None else 0
        real = x.dtype.real_dtype
        limit = limit if isinstance(limit, Tensor) else np.asarray(limit).astype(real.as_numpy_dtype)
        total = apply("SparseAdd", x.indices, x.values, x.dense_shape, y.indices, y.values, y.dense_shape, limit)
        total.sum_shape.set_shape(x.dense_shape.shape)
        return SparseTensor(total.sum_indices, total.sum_values, total.sum_shape)
    if is_sparse(b):
        a, b = b, a
    x = as_sparse(a)
    return apply_one("SparseTensorDenseAdd", x.indices, x.values, x.dense_shape, b)


for _op in ("SparseSparseMaximum", "SparseSparseMinimum"):
    define(_op, f"{_A_AND_B} -> output_indices: int64, output_values: T", "T: realnumbertype", shape=_sparse_pair_shape)
    not_differentiable(_op)


@export("sparse_maximum", "sparse.maximum")
def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Returns the larger of two sparse values, element by element; absent elements count as zero."""
    return _extremum("SparseSparseMaximum", sp_a, sp_b, name)


@export("sparse_minimum", "sparse.minimum")
def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Returns the smaller of two sparse values, element by element; absent elements count as zero."""
    return _extremum("SparseSparseMinimum", sp_a, sp_b, name)


def _extremum(op_type: str, sp_a: Any, sp_b: Any, name: str | None) -> SparseTensor:
    a, b = as_sparse(sp_a), as_sparse(sp_b)
    with name_scope(name, op_type, [a.values, b.values]):
        found = apply(op_type, a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape)
        return SparseTensor(found.output_indices, found.output_values, a.dense_shape)


def _values_shape(c: ShapeContext) -> TensorShape:
    return TensorShape._of((sparse_input(c, 0)[0],))


for _op in ("SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd"):
    define(
        _op, "sp_indices: int64, sp_values: T, sp_shape: int64, dense: T -> output: T", "T: numbertype",
        shape=_values_shape,
    )  # fmt: skip


@gradient("SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd")
def _cwise_grad(op: Operation, grad: Tensor) -> Any:
    indices, values, shape, dense = op.inputs
    given = apply_one("Shape", dense, out_type="int64")
    # The columns of the indices that the dense operand has, with 0 where it is broadcast.
    skip = apply_one("Sub", apply_one("Size", shape), apply_one("Rank", dense))
    begin = apply_one("Pack", [0, skip], axis=0)
    tail = apply_one("StridedSlice", indices, begin, [0, 0], [1, 1], begin_mask=1, end_mask=3)
    at = apply_one("Mul", tail, apply_one("Cast", apply_one("NotEqual", given, np.int64(1)), DstT="int64"))
    sizes = given
    if not dense.shape.ndims:
        # A scalar has no columns: give it one.
        first = apply_one("StridedSlice", indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1)
        at = apply_one("ConcatV2", [apply_one("ZerosLike", first), at], 1)
        sizes = apply_one("ConcatV2", [np.ones(1, np.int64), given], 0)
        dense = apply_one("Reshape", dense, sizes)
    picked = apply_one("GatherNd", dense, at)
    if op.type == "SparseDenseCwiseAdd":
        values_grad = part = grad
    elif op.type == "SparseDenseCwiseMul":
        values_grad, part = apply_one("Mul", grad, conj(picked)), apply_one("Mul", grad, conj(values))
    else:
        values_grad = apply_one("RealDiv", grad, conj(picked))
        part = apply_one("Neg", apply_one("Mul", values_grad, conj(apply_one("RealDiv", values, picked))))
    dense_grad = apply_one("ScatterNd", at, part, sizes)
    return None, values_grad, None, dense_grad if sizes is given else apply_one("Reshape", dense_grad, given)


def _cwise(op_type: str, name: str) -> Any:
    def operator(x: SparseTensor, y: Any) -> SparseTensor:
        with name_scope(None, name, [x.values]):
            dense = convert_to_tensor(y, x.dtype)
            return x.with_values(apply_one(op_type, x.indices, x.values, x.dense_shape, dense))

    return operator


_quotient = _cwise("SparseDenseCwiseDiv", "truediv")


def _true_quotient(x: SparseTensor, y: Any) -> SparseTensor:
    """`x / y` as Python 3 divides: integers as floating point numbers."""
    wide = division_type(x.dtype)
    if wide is not None:
        dense = convert_to_tensor(y, x.dtype)
        x, y = x.with_values(apply_one("Cast", x.values, DstT=wide)), apply_one("Cast", dense, DstT=wide)
    quotient: SparseTensor = _quotient(x, y)
    return quotient


SparseTensor.override_operator("__mul__", _cwise("SparseDenseCwiseMul", "mul"))
SparseTensor.override_operator("__rmul__", _cwise("SparseDenseCwiseMul", "mul"))
SparseTensor.override_operator("__truediv__", _true_quotient)
SparseTensor.override_operator("__div__", _cwise("SparseDenseCwiseDiv", "div"))
SparseTensor.override_operator("__add__", sparse_add)
SparseTensor.override_operator("__radd__", sparse_add)


define(
    "SparseSoftmax", "sp_indices: int64, sp_values: T, sp_shape: int64 -> output: T", "T: {half, float, double}",
    shape=_values_shape,
)  # fmt: skip


@export("sparse_softmax", "sparse.softmax")
def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Applies softmax to the elements of each row along the last dimension; absent ones have no part in it."""
    x = as_sparse(sp_input)
    with name_scope(name, "SparseSoftmax", [x.indices, x.values]):
        return x.with_values(apply_one("SparseSoftmax", x.indices, x.values, x.dense_shape))


@gradient("SparseSoftmax")
def _softmax_grad(op: Operation, grad: Tensor) -> Any:
    indices, _, shape = op.inputs
    out = op.outputs[0]
    product = apply_one("Mul", out, grad)
    sums = apply_one("SparseReduceSum", indices, product, shape, [-1], keep_dims=True)
    back = apply_one("SparseDenseCwiseMul", indices, out, shape, sums)
    return None, apply_one("Sub", product, back), None
