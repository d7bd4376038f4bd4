"""Gradients of linear algebra. G is the gradient of the result, ^H the adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_list, apply_one
from thalweg.graph.definitions.op_registry import gradient, not_differentiable
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.linalg import (
    adjoint,
    cholesky,
    cholesky_solve,
    matrix_inverse,
    matrix_solve,
    matrix_triangular_solve,
    self_adjoint_eig,
)
from thalweg.ops.math.math_gradients import conj, reduce_to_shape
from thalweg.ops.math.matmul import matmul


def _as_matrix(x: Any) -> Any:
    """Scalars per matrix, in a shape that broadcasts against the matrices."""
    return apply_one("ExpandDims", apply_one("ExpandDims", x, -1), -1)


def _band(x: Any, lower: int, upper: int) -> Any:
    return apply_one("MatrixBandPart", x, np.int64(lower), np.int64(upper))


def _halve_diagonal(x: Any) -> Any:
    return apply_one("MatrixSetDiag", x, apply_one("Mul", apply_one("MatrixDiagPart", x), 0.5))


def _add(*terms: Any) -> Any:
    present = [term for term in terms if term is not None]
    result = present[0]
    for term in present[1:]:
        result = apply_one("AddV2", result, term)
    return result


def _identity_like(x: Tensor) -> Any:
    """Identity matrices of the shape of a batch of square matrices."""
    diagonal = apply_one("MatrixDiagPart", x)
    return apply_one("MatrixDiag", apply_one("OnesLike", diagonal))


@gradient("MatrixInverse")
def _inverse_grad(op: Operation, grad: Tensor) -> Any:
    inverse = op.outputs[0]
    if op.get_attr("adjoint"):
        return apply_one("Neg", matmul(inverse, matmul(grad, inverse, adjoint_a=True)))
    return apply_one("Neg", matmul(inverse, matmul(grad, inverse, adjoint_b=True), adjoint_a=True))


@gradient("MatrixDeterminant")
def _determinant_grad(op: Operation, grad: Tensor) -> Any:
    factor = apply_one("Mul", grad, conj(op.outputs[0]))
    return apply_one("Mul", _as_matrix(factor), matrix_inverse(op.inputs[0], adjoint=True))


@gradient("LogMatrixDeterminant")
def _log_determinant_grad(op: Operation, _: Any, grad: Any) -> Any:
    if grad is None:
        return None
    return apply_one("Mul", _as_matrix(grad), matrix_inverse(op.inputs[0], adjoint=True))


@gradient("Cholesky")
def _cholesky_grad(op: Operation, grad: Tensor) -> Any:
    lower = op.outputs[0]
    middle = _band(_halve_diagonal(matmul(lower, grad, adjoint_a=True)), -1, 0)
    # L^-H middle L^-1, by substitution instead of inverses.
    left = matrix_triangular_solve(lower, middle, lower=True, adjoint=True)
    result = adjoint(matrix_triangular_solve(lower, adjoint(left), lower=True, adjoint=True))
    return apply_one("Mul", apply_one("AddV2", result, adjoint(result)), 0.5)


not_differentiable("CholeskyGrad")


@gradient("MatrixSolve")
def _solve_grad(op: Operation, grad: Tensor) -> Any:
    is_adjoint = op.get_attr("adjoint")
    solution = op.outputs[0]
    grad_b = matrix_solve(op.inputs[0], grad, adjoint=not is_adjoint)
    left, right = (solution, grad_b) if is_adjoint else (grad_b, solution)
    return apply_one("Neg", matmul(left, right, adjoint_b=True)), grad_b


@gradient("MatrixTriangularSolve")
def _triangular_solve_grad(op: Operation, grad: Tensor) -> Any:
    a, b = op.inputs
    lower, is_adjoint = op.get_attr("lower"), op.get_attr("adjoint")
    solution = op.outputs[0]
    grad_b = matrix_triangular_solve(a, grad, lower=lower, adjoint=not is_adjoint)
    left, right = (solution, grad_b) if is_adjoint else (grad_b, solution)
    grad_a = apply_one("Neg", matmul(left, right, adjoint_b=True))
    grad_a = _band(grad_a, -1, 0) if lower else _band(grad_a, 0, -1)
    return reduce_to_shape(grad_a, a), reduce_to_shape(grad_b, b)


@gradient("MatrixSolveLs")
def _least_squares_grad(op: Operation, grad: Tensor) -> Any:
    a, b, regularizer = op.inputs
    x = op.outputs[0]
    dims = a.shape.dims_tuple
    if dims is None or dims[-1] is None or dims[-2] is None:
        raise ValueError("The gradient of matrix_solve_ls needs static matrix dimensions.")
    weight = apply_one("Cast", regularizer, DstT=a.dtype.base_dtype)
    if dims[-2] >= dims[-1]:
        gram = matmul(a, a, adjoint_a=True)
        factor = cholesky(apply_one("AddV2", gram, apply_one("Mul", weight, _identity_like(gram))))
        z = cholesky_solve(factor, grad)
        crossed = matmul(x, z, adjoint_b=True)
        symmetric = apply_one("AddV2", crossed, adjoint(crossed))
        grad_a = apply_one("Sub", matmul(b, z, adjoint_b=True), matmul(a, symmetric))
        return grad_a, matmul(a, z), None
    gram = matmul(a, a, adjoint_b=True)
    factor = cholesky(apply_one("AddV2", gram, apply_one("Mul", weight, _identity_like(gram))))
    grad_b = cholesky_solve(factor, matmul(a, grad))
    dual = cholesky_solve(factor, b)
    first = apply_one("Neg", matmul(grad_b, matmul(a, dual, adjoint_a=True), adjoint_b=True))
    rest = apply_one("Sub", grad, matmul(a, grad_b, adjoint_a=True))
    return apply_one("AddV2", first, matmul(dual, rest, adjoint_b=True)), grad_b, None


def _reciprocal_differences(values: Any) -> Any:
    """F[i, j] = 1 / (values[j] - values[i]), and 0 on the diagonal."""
    apart = apply_one("Sub", apply_one("ExpandDims", values, -2), apply_one("ExpandDims", values, -1))
    # The diagonal is 0 - 0; infinity in its place has the reciprocal 0.
    infinite = apply_one(
        "Fill", apply_one("Shape", values), apply_one("Cast", np.float64("inf"), DstT=values.dtype.base_dtype)
    )
    return apply_one("Reciprocal", apply_one("MatrixSetDiag", apart, infinite))


@gradient("SelfAdjointEigV2")
def _self_adjoint_eig_grad(op: Operation, grad_e: Any, grad_v: Any) -> Any:
    if op.get_attr("compute_v"):
        e, v = op.outputs
    else:
        e, v = self_adjoint_eig(op.inputs[0])
        grad_v = None
    inner = None if grad_e is None else apply_one("MatrixDiag", grad_e)
    if grad_v is not None:
        turned = apply_one("Mul", _reciprocal_differences(e), matmul(v, grad_v, adjoint_a=True))
        inner = turned if inner is None else apply_one("AddV2", inner, turned)
    if inner is None:
        return None
    result = matmul(v, matmul(inner, v, adjoint_b=True))
    # Only the lower triangle of the input is read: it gets the gradient of both.
    return _halve_diagonal(_band(apply_one("AddV2", result, adjoint(result)), -1, 0))


@gradient("Svd")
def _svd_grad(op: Operation, grad_s: Any, grad_u: Any, grad_v: Any) -> Any:
    a = op.inputs[0]
    if op.get_attr("compute_uv"):
        s, u, v = op.outputs
    else:
        s, u, v = apply("Svd", a, compute_uv=True)
        grad_u = grad_v = None
    if grad_u is None and grad_v is None:
        if grad_s is None:
            return None
        if op.get_attr("compute_uv") and op.get_attr("full_matrices"):
            s, u, v = apply("Svd", a, compute_uv=True)
        return matmul(matmul(u, apply_one("MatrixDiag", grad_s)), v, adjoint_b=True)
    dims = a.shape.dims_tuple
    if a.dtype.is_complex:
        raise NotImplementedError("SVD gradients of complex singular vectors are not implemented.")
    if op.get_attr("full_matrices") and (dims is None or dims[-1] is None or dims[-1] != dims[-2]):
        raise NotImplementedError("SVD gradients with full_matrices=True are implemented for square matrices only.")
    differences = _reciprocal_differences(apply_one("Square", s))
    sigma, inverse = apply_one("MatrixDiag", s), apply_one("MatrixDiag", apply_one("Reciprocal", s))
    inner = None if grad_s is None else apply_one("MatrixDiag", grad_s)
    outer = []
    if grad_u is not None:
        turn = matmul(u, grad_u, transpose_a=True)
        inner = _add(inner, matmul(apply_one("Mul", differences, apply_one("Sub", turn, adjoint(turn))), sigma))
        across = matmul(apply_one("Sub", grad_u, matmul(u, turn)), inverse)
        outer.append(matmul(across, v, transpose_b=True))
    if grad_v is not None:
        turn = matmul(v, grad_v, transpose_a=True)
        inner = _add(inner, matmul(sigma, apply_one("Mul", differences, apply_one("Sub", turn, adjoint(turn)))))
        across = matmul(apply_one("Sub", grad_v, matmul(v, turn)), inverse)
        outer.append(matmul(u, across, transpose_b=True))
    return _add(matmul(matmul(u, inner), v, transpose_b=True), *outer)


@gradient("Qr")
def _qr_grad(op: Operation, grad_q: Any, grad_r: Any) -> Any:
    q, r = op.outputs
    dims = op.inputs[0].shape.dims_tuple
    if dims is None or dims[-1] is None or dims[-2] is None:
        raise NotImplementedError("The gradient of qr needs static matrix dimensions.")
    if dims[-2] < dims[-1] or (op.get_attr("full_matrices") and dims[-2] != dims[-1]):
        raise NotImplementedError(
            "The gradient of qr is implemented for full rank with rows >= columns, and not full_matrices."
        )
    if grad_q is None and grad_r is None:
        return None
    grad_q = apply_one("ZerosLike", q) if grad_q is None else grad_q
    grad_r = apply_one("ZerosLike", r) if grad_r is None else grad_r

    def divided(x: Any) -> Any:
        """Multiplies by r^-H from the right."""
        return adjoint(matrix_triangular_solve(r, adjoint(x), lower=False, adjoint=False))

    turn_q = matmul(q, grad_q, adjoint_a=True)
    turn_r = matmul(r, grad_r, adjoint_b=True)
    skew = apply_one("AddV2", apply_one("Sub", turn_q, adjoint(turn_q)), apply_one("Sub", turn_r, adjoint(turn_r)))
    inside = matmul(q, apply_one("AddV2", grad_r, divided(_band(skew, -1, 0))))
    outside = divided(apply_one("Sub", grad_q, matmul(q, turn_q)))
    return apply_one("AddV2", inside, outside)


@gradient("Lu")
def _lu_grad(op: Operation, grad: Any, _: Any) -> Any:
    if grad is None:
        return None
    factors, order = op.outputs
    upper = _band(factors, 0, -1)
    lower = apply_one(
        "MatrixSetDiag", _band(factors, -1, 0), apply_one("OnesLike", apply_one("MatrixDiagPart", factors))
    )
    grad_upper = _band(grad, 0, -1)
    grad_lower = apply_one("Sub", grad, grad_upper)
    below = matmul(lower, grad_lower, adjoint_a=True)
    below = apply_one("Sub", _band(below, -1, 0), _band(below, 0, 0))
    middle = apply_one("AddV2", below, _band(matmul(grad_upper, upper, adjoint_b=True), 0, -1))
    left = matrix_triangular_solve(lower, middle, lower=True, adjoint=True)
    result = adjoint(matrix_triangular_solve(upper, adjoint(left), lower=False))
    size = apply_one(
        "GatherV2", apply_one("Shape", order), -1 if order.shape.ndims is None else order.shape.ndims - 1, 0
    )
    kind = grad.dtype.base_dtype
    swaps = apply_one("OneHot", order, size, apply_one("Cast", 1, DstT=kind), apply_one("Cast", 0, DstT=kind))
    return matmul(swaps, result, transpose_a=True)


@gradient("MatrixExponential")
def _exponential_grad(op: Operation, grad: Tensor) -> Any:
    """The upper right block of exp([[A^H, G], [0, A^H]])."""
    a = adjoint(op.inputs[0])
    zeros = apply_one("ZerosLike", a)
    block = apply_one("ConcatV2", [apply_one("ConcatV2", [a, grad], -1), apply_one("ConcatV2", [zeros, a], -1)], -2)
    whole = apply_one("MatrixExponential", block)
    upper, _ = apply_list("Split", -2, whole, num_split=2)
    return apply_list("Split", -1, upper, num_split=2)[1]


@gradient("MatrixSquareRoot")
def _square_root_grad(op: Operation, grad: Tensor) -> Any:
    """Solves R^H X + X R^H = G, as linear equations for the elements of X."""
    root = adjoint(op.outputs[0])
    identity = _identity_like(root)

    def kron(x: Any, y: Any) -> Any:
        rows = apply_one("ExpandDims", apply_one("ExpandDims", x, -1), -3)
        columns = apply_one("ExpandDims", apply_one("ExpandDims", y, -2), -4)
        return apply_one("Mul", rows, columns)

    transposed = adjoint(conj(root))
    system = apply_one("AddV2", kron(root, identity), kron(identity, transposed))
    sizes = apply_one("Shape", grad)
    rank = apply_one("Rank", grad)
    batch = apply_one("Slice", sizes, [0], apply_one("ExpandDims", apply_one("Sub", rank, 2), 0))
    n = apply_one("GatherV2", sizes, apply_one("Sub", rank, 1), 0)
    square = apply_one("Mul", n, n)
    matrix = apply_one("Reshape", system, apply_one("ConcatV2", [batch, apply_one("Pack", [square, square])], 0))
    column = apply_one("Reshape", grad, apply_one("ConcatV2", [batch, apply_one("Pack", [square, 1])], 0))
    return apply_one("Reshape", matrix_solve(matrix, column), sizes)


not_differentiable("MatrixLogarithm")
