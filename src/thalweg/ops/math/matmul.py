"""Products of matrices and vectors: MatMul, its batch forms, matvec and the vector product."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import bfloat16, float32
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.immediate import immediate
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.math_gradients import conj, reduce_to_shape
from thalweg.ops.math.operators import binary_operator

_NUMBERS = (
    "{bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}"
)

define(
    "MatMul",
    "a: T, b: T -> product: T",
    f"transpose_a: bool = false, transpose_b: bool = false, T: {_NUMBERS}, grad_a: bool = false, grad_b: bool = false",
    shape=shapes.matmul,
)
define(
    "_FusedMatMul",
    "a: T, b: T, args: num_args * T -> product: T",
    "transpose_a: bool = false, transpose_b: bool = false, T: {bfloat16, half, float, double}, num_args: int >= 0, "
    "fused_ops: list(string) = [], epsilon: float = 0.0001, leakyrelu_alpha: float = 0.2, "
    "grad_a: bool = false, grad_b: bool = false",
    shape=shapes.matmul,
    doc="A product followed by BiasAdd or Add and an activation, as passes make it.",
)
not_differentiable("_FusedMatMul")
define(
    "SparseMatMul",
    "a: Ta, b: Tb -> product: float",
    "transpose_a: bool = false, transpose_b: bool = false, a_is_sparse: bool = false, b_is_sparse: bool = false, "
    "Ta: {float, bfloat16} = float, Tb: {float, bfloat16} = float",
    shape=shapes.matmul,
)


def _batch_matmul_shape(c: ShapeContext) -> TensorShape:
    a, b = c.dims(0), c.dims(1)
    if a is not None and b is not None and len(a) >= 2 and len(b) >= 2:
        shapes.merge(TensorShape._of(a[:-2]), TensorShape._of(b[:-2]))
    return shapes.batch_matmul(c)


_ADJOINTS = "adj_x: bool = false, adj_y: bool = false, grad_x: bool = false, grad_y: bool = false"
define("BatchMatMul", "x: T, y: T -> output: T", f"T: {_NUMBERS}, {_ADJOINTS}", shape=_batch_matmul_shape)
define("BatchMatMulV2", "x: T, y: T -> output: T", f"T: {_NUMBERS}, {_ADJOINTS}", shape=shapes.batch_matmul)
define(
    "BatchMatMulV3",
    "x: Ta, y: Tb -> output: Tout",
    f"Ta: {_NUMBERS}, Tb: {_NUMBERS}, Tout: {_NUMBERS}, {_ADJOINTS}",
    shape=shapes.batch_matmul,
)
work(works.contraction("transpose_a"), "MatMul")
work(works.contraction("adj_x"), "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")


@export("matmul", "linalg.matmul")
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiplies matrices, or batches of them: all dimensions but the last two broadcast.

    Args:
        a: A tensor of rank 2 or more.
        b: A tensor of the same type, with as many rows as `a` has columns.
        transpose_a: Whether to transpose `a` first.
        transpose_b: Whether to transpose `b` first.
        adjoint_a: Whether to transpose and conjugate `a` first.
        adjoint_b: Whether to transpose and conjugate `b` first.
        a_is_sparse: A hint that `a` holds many zeros.
        b_is_sparse: A hint that `b` holds many zeros.
        name: The node's name.

    Returns:
        A Tensor of the same type.

    Raises:
        ValueError: If the shapes do not fit, or both `transpose_a` and `adjoint_a` (or the ones for b) are set.

    Example:
        >>> tf.matmul(tf.ones([2, 3]), tf.ones([3, 4])).shape.as_list()
        [2, 4]
    """
    form = (a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, a_is_sparse, b_is_sparse)
    made = immediate.run("__matmul__", form, {})
    if made is not NotImplemented:
        return made  # type: ignore[no-any-return]
    if type(a) is EagerTensor and not isinstance(b, Tensor) and executing_eagerly():
        b = convert_to_tensor(b, a.dtype.base_dtype, name="b")
        form = (a, b, *form[2:])
        made = immediate.run("__matmul__", form, {})
        if made is not NotImplemented:
            return made  # type: ignore[no-any-return]
    at_once = type(a) is EagerTensor and type(b) is EagerTensor and a.ndim == b.ndim == 2
    if at_once and not (adjoint_a or adjoint_b or a_is_sparse or b_is_sparse):
        transposes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        result = apply_one("MatMul", a, b, name=name, **transposes)
        immediate.keep_form("__matmul__", form, "MatMul", (a, b), transposes)
        return result
    with name_scope(name, "MatMul", [a, b]) as scope:
        if transpose_a and adjoint_a:
            raise ValueError("Only one of transpose_a and adjoint_a can be True.")
        if transpose_b and adjoint_b:
            raise ValueError("Only one of transpose_b and adjoint_b can be True.")
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, a.dtype.base_dtype, name="b") if not isinstance(b, Tensor) else b
        matrices = a.shape.ndims in (2, None) and b.shape.ndims in (2, None)
        if (a_is_sparse or b_is_sparse) and matrices and {a.dtype, b.dtype} <= {float32, bfloat16}:
            left, right = transpose_a or adjoint_a, transpose_b or adjoint_b
            return sparse_matmul(a, b, left, right, a_is_sparse, b_is_sparse, name=scope)
        if a.shape.ndims != 2 or b.shape.ndims != 2:
            # This op knows adjoints only: a plain transposition of complex numbers conjugates twice.
            a = conj(a) if transpose_a else a
            b = conj(b) if transpose_b else b
            adjoints = {"adj_x": transpose_a or adjoint_a, "adj_y": transpose_b or adjoint_b}
            return apply_one("BatchMatMulV2", a, b, **adjoints, name=scope)
        a = conj(a) if adjoint_a else a
        b = conj(b) if adjoint_b else b
        transposes = {"transpose_a": transpose_a or adjoint_a, "transpose_b": transpose_b or adjoint_b}
        return apply_one("MatMul", a, b, **transposes, name=scope)


binary_operator("matmul", lambda x, y: matmul(x, y, name="matmul"))


@export("batch_matmul")
def batch_matmul(x: Any, y: Any, adj_x: bool = False, adj_y: bool = False, name: str | None = None) -> Tensor:
    """Multiplies batches of matrices. An older form of tf.matmul."""
    return apply_one("BatchMatMulV2", x, y, adj_x=adj_x, adj_y=adj_y, name=name or "MatMul")


@export("sparse_matmul")
def sparse_matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiplies matrices of float32 or bfloat16 that hold many zeros; the result is float32."""
    return apply_one(
        "SparseMatMul",
        a,
        b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        a_is_sparse=a_is_sparse,
        b_is_sparse=b_is_sparse,
        name=name,
    )


def _operand_grads(left: Any, right: Any, grad: Any, transpose_a: bool, transpose_b: bool, product: Any) -> Any:
    """The gradients of both operands; `product(x, y, transpose_x, transpose_y)` multiplies."""
    if not transpose_a and not transpose_b:
        return product(grad, right, False, True), product(left, grad, True, False)
    if not transpose_a:
        return product(grad, right, False, False), product(grad, left, True, False)
    if not transpose_b:
        return product(right, grad, False, True), product(left, grad, False, False)
    return product(right, grad, True, True), product(grad, left, True, True)


@gradient("MatMul")
def _matmul_grad(op: Operation, grad: Tensor) -> Any:
    def product(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Any:
        return apply_one("MatMul", x, y, transpose_a=transpose_x, transpose_b=transpose_y)

    a, b = conj(op.inputs[0]), conj(op.inputs[1])
    return _operand_grads(a, b, grad, op.get_attr("transpose_a"), op.get_attr("transpose_b"), product)


@gradient("SparseMatMul")
def _sparse_matmul_grad(op: Operation, grad: Tensor) -> Any:
    a, b = op.inputs

    def product(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Any:
        sparse = [
            (t is a and op.get_attr("a_is_sparse")) or (t is b and op.get_attr("b_is_sparse")) or t is grad
            for t in (x, y)
        ]
        return sparse_matmul(x, y, transpose_x, transpose_y, bool(sparse[0]), bool(sparse[1]))

    grads = _operand_grads(a, b, grad, op.get_attr("transpose_a"), op.get_attr("transpose_b"), product)
    return [
        g if x.dtype is float32 else apply_one("Cast", g, DstT=x.dtype.base_dtype)
        for g, x in zip(grads, (a, b), strict=True)
    ]


def _batch_product(x: Tensor, y: Tensor, adjoint_x: bool, adjoint_y: bool) -> Any:
    return apply_one("BatchMatMulV2", x, y, adj_x=adjoint_x, adj_y=adjoint_y)


@gradient("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    grads = _operand_grads(x, y, grad, op.get_attr("adj_x"), op.get_attr("adj_y"), _batch_product)
    batch_x, batch_y = (None if t.shape.dims_tuple is None else t.shape.dims_tuple[:-2] for t in (x, y))
    if op.type == "BatchMatMul" or (batch_x is not None and batch_x == batch_y and None not in batch_x):
        return grads
    return [reduce_to_shape(grads[0], x), reduce_to_shape(grads[1], y)]


@export("linalg.matvec")
def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiplies matrices `a` ([..., rows, columns]) with vectors `b` ([..., columns])."""
    with name_scope(name, "MatVec", [a, b]):
        column = apply_one("ExpandDims", b, -1)
        product = matmul(
            a, column, transpose_a=transpose_a, adjoint_a=adjoint_a, a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse
        )
        return apply_one("Squeeze", product, squeeze_dims=[-1])


def _cross_shape(c: ShapeContext) -> TensorShape:
    shape = shapes.with_rank_at_least(shapes.merge_inputs(c), 1)
    dims = shape.dims_tuple
    if dims is not None:
        shapes.merge_dims(dims[-1], 3)
    return shape


define(
    "Cross",
    "a: T, b: T -> product: T",
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}",
    shape=_cross_shape,
)


@export("cross", "linalg.cross")
def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Returns the vector product of `a` and `b` along their last dimension, which must have size 3."""
    return apply_one("Cross", a, b, name=name)


@gradient("Cross")
def _cross_grad(op: Operation, grad: Tensor) -> Any:
    a, b = op.inputs
    return cross(b, grad), cross(grad, a)
