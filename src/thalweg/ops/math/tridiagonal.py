"""Tridiagonal matrices: solving systems with them, and multiplying by them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require

Array = np.ndarray[Any, Any]

_TYPES: Final = "{float64, float32, complex64, complex128}"


def _solve_shape(c: ShapeContext) -> TensorShape:
    diagonals = shapes.with_rank_at_least(c.input(0), 2).dims_tuple
    rhs = shapes.with_rank_at_least(c.input(1), 2)
    if diagonals is not None:
        if diagonals[-2] not in (None, 3):
            raise ValueError(f"diagonals must have shape [..., 3, M], got {c.input(0)}.")
        if rhs.dims_tuple is not None:
            return shapes.merge(rhs, TensorShape([*diagonals[:-2], diagonals[-1], None]))
    return rhs


define(
    "TridiagonalSolve",
    "diagonals: T, rhs: T -> output: T",
    f"partial_pivoting: bool = true, perturb_singular: bool = false, T: {_TYPES}",
    shape=_solve_shape,
)


def _adjoint_diagonals(diagonals: Tensor) -> Tensor:
    """The diagonals of the conjugate transpose: upper and lower change places, each shifted by one."""
    upper, main, lower = apply_list("Unpack", diagonals, num=3, axis=-2)
    pad_left = _shift(upper, 1)
    pad_right = _shift(lower, -1)
    stacked = apply_one("Pack", [pad_right, main, pad_left], axis=-2)
    return apply_one("Conj", stacked) if stacked.dtype.is_complex else stacked


def _shift(x: Tensor, by: int) -> Tensor:
    """The vectors moved by one place; which number enters at the end does not matter: it is outside of the matrix."""
    return apply_one("Roll", x, [by], [-1])


@gradient("TridiagonalSolve")
def _solve_grad(op: Operation, grad: Tensor) -> Any:
    diagonals, y = op.inputs[0], op.outputs[0]
    rhs_grad = apply_one(
        "TridiagonalSolve", _adjoint_diagonals(diagonals), grad, partial_pivoting=op.get_attr("partial_pivoting")
    )
    right = apply_one("Conj", y) if y.dtype.is_complex else y
    columns = apply_one("Neg", rhs_grad)
    upper = _products(columns, right, 1)
    main = _products(columns, right, 0)
    lower = _products(columns, right, -1)
    return apply_one("Pack", [upper, main, lower], axis=-2), rhs_grad


def _products(left: Tensor, right: Tensor, offset: int) -> Tensor:
    """The sums over the right-hand sides of `left[i] * right[i + offset]`; 0 where there is no such element."""
    size = apply_one("StridedSlice", apply_one("Shape", left), [-2], [-1], [1], shrink_axis_mask=1)
    if offset:
        right = apply_one("Roll", right, [-offset], [-2])
    total = apply_one("Sum", apply_one("Mul", left, right), [-1])
    if not offset:
        return total
    place = apply_one("Range", 0, size, 1)
    edge = apply_one("Sub", size, 1) if offset > 0 else np.int32(0)
    inside = apply_one("Cast", apply_one("NotEqual", place, edge), DstT=left.dtype)
    return apply_one("Mul", total, inside)


def _product_shape(c: ShapeContext) -> TensorShape:
    for index in range(3):
        shapes.with_rank_at_least(c.input(index), 2)
    return shapes.with_rank_at_least(c.input(3), 2)


define(
    "TridiagonalMatMul",
    "superdiag: T, maindiag: T, subdiag: T, rhs: T -> output: T",
    f"T: {_TYPES}",
    shape=_product_shape,
)


@python_kernel("TridiagonalMatMul")
def _multiply(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    upper, main, lower, rhs = (np.asarray(x) for x in inputs)
    require(rhs.ndim >= 2, f"rhs must have at least 2 dimensions, got shape {list(rhs.shape)}")
    wanted = (*rhs.shape[:-2], 1, rhs.shape[-2])
    for name, x in (("superdiag", upper), ("maindiag", main), ("subdiag", lower)):
        require(x.shape == wanted, f"{name} must have shape {list(wanted)}, got {list(x.shape)}")
    upper, main, lower = (np.swapaxes(x, -1, -2) for x in (upper, main, lower))
    out = main * rhs
    out[..., :-1, :] += upper[..., :-1, :] * rhs[..., 1:, :]
    out[..., 1:, :] += lower[..., 1:, :] * rhs[..., :-1, :]
    return out


@gradient("TridiagonalMatMul")
def _multiply_grad(op: Operation, grad: Tensor) -> Any:
    upper, main, lower, rhs = op.inputs

    def conjugate(x: Tensor) -> Tensor:
        return apply_one("Conj", x) if x.dtype.is_complex else x

    right = conjugate(rhs)
    parts = [apply_one("ExpandDims", _products(grad, right, offset), -2) for offset in (1, 0, -1)]
    rhs_grad = apply_one(
        "TridiagonalMatMul", _shift(conjugate(lower), -1), conjugate(main), _shift(conjugate(upper), 1), grad
    )
    return [*parts, rhs_grad]


def _compact(diagonals: Any, form: str) -> Tensor:
    if form == "compact":
        return convert_to_tensor(diagonals, name="diagonals")
    if form == "sequence":
        upper, main, lower = (convert_to_tensor(d) for d in diagonals)
        size = main.shape.as_list()[-1]

        def padded(x: Tensor, before: int, after: int) -> Tensor:
            if size is not None and x.shape.as_list()[-1] == size:
                return x
            rank = len(x.shape.as_list())
            return apply_one("Pad", x, [[0, 0]] * (rank - 1) + [[before, after]])

        return apply_one("Pack", [padded(upper, 0, 1), main, padded(lower, 1, 0)], axis=-2)
    if form != "matrix":
        raise ValueError(f"diagonals_format must be 'compact', 'sequence' or 'matrix', got {form!r}.")
    matrix = convert_to_tensor(diagonals)
    if matrix.shape.ndims is None:
        raise ValueError("The rank of a matrix of diagonals must be known.")
    return apply_one("MatrixDiagPartV3", matrix, [-1, 1], np.zeros((), matrix.dtype.as_numpy_dtype), align="LEFT_RIGHT")


@export("linalg.tridiagonal_solve")
def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """Solves systems of equations with tridiagonal matrices.

    Args:
        diagonals: 'compact': `[..., 3, M]`: upper, main and lower diagonal, of which the last number of the upper and
            the first of the lower do not matter; 'sequence': a tuple of these three; 'matrix': `[..., M, M]`.
        rhs: `[..., M]` or `[..., M, K]`.
        diagonals_format: The form of `diagonals`.
        transpose_rhs: Whether to transpose the right-hand side before.
        conjugate_rhs: Whether to conjugate it before.
        name: A name for the operation.
        partial_pivoting: Whether to exchange rows for precision; here they always are where it helps.
        perturb_singular: Whether to change a singular matrix a little, instead of raising an error.

    Returns:
        The solutions, of the shape of `rhs`.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.linalg.tridiagonal_solve([[0.0, 0.0], [4.0, 2.0], [0.0, 0.0]], [8.0, 6.0])))
        [2. 3.]
    """
    with name_scope(name, "tridiagonal_solve", [diagonals, rhs]):
        compact = _compact(diagonals, diagonals_format)
        right = convert_to_tensor(rhs, compact.dtype, name="rhs")
        if conjugate_rhs and right.dtype.is_complex:
            right = apply_one("Conj", right)
        is_vector = right.shape.ndims is not None and right.shape.ndims == (compact.shape.ndims or 0) - 1
        if is_vector:
            right = apply_one("ExpandDims", right, -1)
        elif transpose_rhs:
            rank = right.shape.ndims or 2
            right = apply_one("Transpose", right, [*range(rank - 2), rank - 1, rank - 2])
        found = apply_one(
            "TridiagonalSolve", compact, right, partial_pivoting=partial_pivoting, perturb_singular=perturb_singular
        )
        return apply_one("Squeeze", found, squeeze_dims=[-1]) if is_vector else found


@export("linalg.tridiagonal_matmul")
def tridiagonal_matmul(diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None) -> Tensor:
    """Multiplies tridiagonal matrices by matrices; the arguments are those of `tridiagonal_solve`."""
    with name_scope(name, "tridiagonal_matmul", [diagonals, rhs]):
        compact = _compact(diagonals, diagonals_format)
        upper, main, lower = (apply_one("ExpandDims", x, -2) for x in apply_list("Unpack", compact, num=3, axis=-2))
        return apply_one("TridiagonalMatMul", upper, main, lower, convert_to_tensor(rhs, compact.dtype))
