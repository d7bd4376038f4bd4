"""Linear algebra: decompositions, inverses, solvers and functions of matrices."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import int32
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.matmul import matmul

_TYPES = "{double, float, complex64, complex128}"
Dims = tuple[int | None, ...]


def _square(shape: TensorShape) -> Dims | None:
    """The dimensions of a batch of square matrices, or None if the rank is unknown."""
    dims = shapes.with_rank_at_least(shape, 2).dims_tuple
    if dims is None:
        return None
    n = shapes.merge_dims(dims[-2], dims[-1])
    return (*dims[:-2], n, n)


def _square_shape(c: ShapeContext) -> TensorShape:
    dims = _square(c.input(0))
    return shapes.UNKNOWN if dims is None else TensorShape._of(dims)


def _determinant_shape(c: ShapeContext) -> Any:
    dims = _square(c.input(0))
    shape = shapes.UNKNOWN if dims is None else TensorShape._of(dims[:-2])
    return shape if c.num_outputs == 1 else [shape] * c.num_outputs


def _solve_shape(c: ShapeContext) -> TensorShape:
    a, b = _square(c.input(0)), shapes.with_rank_at_least(c.input(1), 2).dims_tuple
    if a is None or b is None:
        return shapes.UNKNOWN
    rows = shapes.merge_dims(a[-1], b[-2])
    batch = shapes.merge(TensorShape._of(a[:-2]), TensorShape._of(b[:-2])).dims_tuple
    assert batch is not None
    return TensorShape._of((*batch, rows, b[-1]))


def _triangular_shape(c: ShapeContext) -> TensorShape:
    a, b = _square(c.input(0)), shapes.with_rank_at_least(c.input(1), 2).dims_tuple
    if a is None or b is None:
        return shapes.UNKNOWN
    return TensorShape._of((*shapes.broadcast_dims(a[:-2], b[:-2]), shapes.merge_dims(a[-1], b[-2]), b[-1]))


def _least_squares_shape(c: ShapeContext) -> TensorShape:
    a, b = shapes.with_rank_at_least(c.input(0), 2).dims_tuple, shapes.with_rank_at_least(c.input(1), 2).dims_tuple
    shapes.with_rank(c.input(2), 0)
    if a is None or b is None:
        return shapes.UNKNOWN
    shapes.merge_dims(a[-2], b[-2])
    batch = shapes.merge(TensorShape._of(a[:-2]), TensorShape._of(b[:-2])).dims_tuple
    assert batch is not None
    return TensorShape._of((*batch, a[-1], b[-1]))


def _eig_shape(c: ShapeContext) -> list[TensorShape]:
    dims = _square(c.input(0))
    vectors = TensorShape._of((0,)) if not c.attr("compute_v") else None
    if dims is None:
        return [shapes.UNKNOWN, vectors or shapes.UNKNOWN]
    return [TensorShape._of(dims[:-1]), TensorShape._of(dims) if vectors is None else vectors]


def _least(m: int | None, n: int | None) -> int | None:
    return None if m is None or n is None else min(m, n)


def _svd_shape(c: ShapeContext) -> list[TensorShape]:
    dims = shapes.with_rank_at_least(c.input(0), 2).dims_tuple
    none = TensorShape._of((0,))
    if dims is None:
        return [shapes.UNKNOWN] * 3 if c.attr("compute_uv") else [shapes.UNKNOWN, none, none]
    *batch, m, n = dims
    p = _least(m, n)
    s = TensorShape._of((*batch, p))
    if not c.attr("compute_uv"):
        return [s, none, none]
    if c.attr("full_matrices"):
        return [s, TensorShape._of((*batch, m, m)), TensorShape._of((*batch, n, n))]
    return [s, TensorShape._of((*batch, m, p)), TensorShape._of((*batch, n, p))]


def _qr_shape(c: ShapeContext) -> list[TensorShape]:
    dims = shapes.with_rank_at_least(c.input(0), 2).dims_tuple
    if dims is None:
        return [shapes.UNKNOWN] * 2
    *batch, m, n = dims
    p = m if c.attr("full_matrices") else _least(m, n)
    return [TensorShape._of((*batch, m, p)), TensorShape._of((*batch, p, n))]


def _lu_shape(c: ShapeContext) -> list[TensorShape]:
    dims = _square(c.input(0))
    return [shapes.UNKNOWN] * 2 if dims is None else [TensorShape._of(dims), TensorShape._of(dims[:-1])]


define("MatrixDeterminant", "input: T -> output: T", f"T: {_TYPES}", shape=_determinant_shape)
define("LogMatrixDeterminant", "input: T -> sign: T, log_abs_determinant: T", f"T: {_TYPES}", shape=_determinant_shape)
define("MatrixInverse", "input: T -> output: T", f"adjoint: bool = false, T: {_TYPES}", shape=_square_shape)
define("Cholesky", "input: T -> output: T", f"T: {_TYPES}", shape=_square_shape)
define("CholeskyGrad", "l: T, grad: T -> output: T", "T: {float, double}", shape=_square_shape)
define("MatrixSolve", "matrix: T, rhs: T -> output: T", f"adjoint: bool = false, T: {_TYPES}", shape=_solve_shape)
define(
    "MatrixTriangularSolve",
    "matrix: T, rhs: T -> output: T",
    f"lower: bool = true, adjoint: bool = false, T: {_TYPES}",
    shape=_triangular_shape,
)
define(
    "MatrixSolveLs",
    "matrix: T, rhs: T, l2_regularizer: double -> output: T",
    f"T: {_TYPES}, fast: bool = true",
    shape=_least_squares_shape,
)
define("SelfAdjointEigV2", "input: T -> e: T, v: T", f"compute_v: bool = true, T: {_TYPES}", shape=_eig_shape)
define(
    "Svd",
    "input: T -> s: T, u: T, v: T",
    f"compute_uv: bool = true, full_matrices: bool = false, T: {_TYPES}",
    shape=_svd_shape,
)
define("Qr", "input: T -> q: T, r: T", f"full_matrices: bool = false, T: {_TYPES}", shape=_qr_shape)
define(
    "Lu",
    "input: T -> lu: T, p: output_idx_type",
    f"T: {_TYPES}, output_idx_type: {{int32, int64}} = int32",
    shape=_lu_shape,
)
define("MatrixExponential", "input: T -> output: T", f"T: {_TYPES}", shape=_square_shape)
define("MatrixSquareRoot", "input: T -> output: T", f"T: {_TYPES}", shape=_square_shape)
define("MatrixLogarithm", "input: T -> output: T", "T: {complex64, complex128}", shape=_square_shape)
work(
    works.cubic,
    "MatrixDeterminant", "LogMatrixDeterminant", "MatrixInverse", "Cholesky", "CholeskyGrad", "MatrixSolve",
    "SelfAdjointEigV2", "Qr", "Svd", "MatrixExponential", "MatrixSquareRoot", "MatrixLogarithm",
)  # fmt: skip


@export("matrix_determinant", "linalg.det", deprecated=("batch_matrix_determinant",))
def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """Returns the determinants of square matrices ([..., n, n])."""
    return apply_one("MatrixDeterminant", input, name=name)


@export("linalg.slogdet")
def slogdet(input: Any, name: str | None = None) -> Any:
    """Returns sign and logarithm of the absolute value of the determinants, as a pair (sign, log_abs_determinant)."""
    return apply("LogMatrixDeterminant", input, name=name)


@export("linalg.logdet")
def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """Returns the logarithm of the determinant of Hermitian positive definite matrices."""
    with name_scope(name, "logdet", [matrix]):
        diagonal = apply_one("MatrixDiagPart", cholesky(matrix))
        if diagonal.dtype.is_complex:
            diagonal = apply_one("Real", diagonal, Tout=diagonal.dtype.real_dtype)
        logs = apply_one("Log", diagonal)
        return apply_one("Mul", apply_one("Sum", logs, [-1]), 2.0)


@export("matrix_inverse", "linalg.inv", deprecated=("batch_matrix_inverse",))
def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Inverts square matrices, or their adjoints; InvalidArgumentError if one has no inverse."""
    return apply_one("MatrixInverse", input, adjoint=adjoint, name=name)


@export("cholesky", "linalg.cholesky", deprecated=("batch_cholesky",))
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Returns lower triangular L with L L^H = input, for Hermitian positive definite matrices.

    Args:
        input: A tensor [..., n, n]; only its lower triangle is read.
        name: The node's name.

    Returns:
        A tensor of the same shape. InvalidArgumentError if a matrix is not positive definite.
    """
    return apply_one("Cholesky", input, name=name)


@export("cholesky_solve", "linalg.cholesky_solve", deprecated=("batch_cholesky_solve",))
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solves A x = rhs, given `chol` = tf.cholesky(A)."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        half = matrix_triangular_solve(chol, rhs, lower=True, adjoint=False)
        return matrix_triangular_solve(chol, half, lower=True, adjoint=True)


@export("matrix_solve", "linalg.solve", deprecated=("batch_matrix_solve",))
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solves matrix x = rhs, or with the adjoint of `matrix`; InvalidArgumentError if it has no inverse."""
    return apply_one("MatrixSolve", matrix, rhs, adjoint=adjoint, name=name)


@export("matrix_triangular_solve", "linalg.triangular_solve", deprecated=("batch_matrix_triangular_solve",))
def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solves matrix x = rhs for triangular matrices.

    Args:
        matrix: A tensor [..., n, n].
        rhs: A tensor [..., n, k]; the leading dimensions broadcast.
        lower: Whether the lower triangle counts; the upper one otherwise. The other is not read.
        adjoint: Whether to solve with the adjoint of that triangle.
        name: The node's name.

    Returns:
        A tensor [..., n, k].
    """
    return apply_one("MatrixTriangularSolve", matrix, rhs, lower=lower, adjoint=adjoint, name=name)


@export("matrix_solve_ls", "linalg.lstsq", deprecated=("batch_matrix_solve_ls",))
def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Finds x that makes matrix x - rhs least in squares, plus `l2_regularizer` times the squares of x.

    Args:
        matrix: A tensor [..., m, n].
        rhs: A tensor [..., m, k].
        l2_regularizer: A number >= 0; ignored unless `fast`.
        fast: Whether to solve the normal equations. Otherwise the solution of least norm is found, for any rank.
        name: The node's name.

    Returns:
        A tensor [..., n, k].
    """
    return apply_one("MatrixSolveLs", matrix, rhs, l2_regularizer, fast=fast, name=name)


@export("self_adjoint_eig", "linalg.eigh", deprecated=("batch_self_adjoint_eig",))
def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Returns eigenvalues, in ascending order, and eigenvectors (as columns) of Hermitian matrices.

    Args:
        tensor: A tensor [..., n, n]; only its lower triangle is read.
        name: The node's name.

    Returns:
        The values [..., n] and the vectors [..., n, n].
    """
    values, vectors = apply("SelfAdjointEigV2", tensor, compute_v=True, name=name)
    return values, vectors


@export("self_adjoint_eigvals", "linalg.eigvalsh", deprecated=("batch_self_adjoint_eigvals",))
def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Returns the eigenvalues of Hermitian matrices, in ascending order."""
    result: Tensor = apply("SelfAdjointEigV2", tensor, compute_v=False, name=name).e
    return result


@export("svd", "linalg.svd", deprecated=("batch_svd",))
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Returns the singular value decomposition: tensor = u diag(s) v^H.

    Args:
        tensor: A tensor [..., m, n].
        full_matrices: Whether u and v are square.
        compute_uv: Whether u and v are computed.
        name: The node's name.

    Returns:
        (s, u, v), singular values in descending order; s alone without `compute_uv`.
    """
    s, u, v = apply("Svd", tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    if s.dtype.is_complex:
        s = apply_one("Real", s, Tout=s.dtype.real_dtype)
    return (s, u, v) if compute_uv else s


@export("qr", "linalg.qr")
def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Any:
    """Returns unitary q and upper triangular r with q r = input, for matrices [..., m, n]."""
    return apply("Qr", input, full_matrices=full_matrices, name=name)


@export("linalg.lu")
def lu(input: Any, output_idx_type: Any = int32, name: str | None = None) -> Any:
    """Returns (lu, p): both factors of a square matrix in one, and the order of its rows, input[p] = L U."""
    return apply("Lu", input, output_idx_type=output_idx_type, name=name)


@export("linalg.expm")
def matrix_exponential(input: Any, name: str | None = None) -> Tensor:
    """Returns the exponential of square matrices."""
    return apply_one("MatrixExponential", input, name=name or "matrix_exponential")


@export("linalg.sqrtm", "matrix_square_root")
def matrix_square_root(input: Any, name: str | None = None) -> Tensor:
    """Returns the principal square root of square matrices: that whose eigenvalues have no negative real part."""
    return apply_one("MatrixSquareRoot", input, name=name)


@export("linalg.logm")
def matrix_logarithm(input: Any, name: str | None = None) -> Tensor:
    """Returns the principal logarithm of square complex matrices."""
    return apply_one("MatrixLogarithm", input, name=name)


@export("linalg.adjoint")
def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """Transposes the last two dimensions, and conjugates."""
    with name_scope(name, "adjoint", [matrix]):
        x = convert_to_tensor(matrix, name="matrix")
        rank = x.shape.ndims
        if rank is None:
            last = apply_one("Sub", apply_one("Rank", x), apply_one("Const", value=_int32([2, 1]), dtype=int32))
            order = apply_one("ConcatV2", [apply_one("Range", 0, last[0], 1), last[1:2], last[0:1]], 0)
        elif rank < 2:
            raise ValueError(f"Argument `matrix` should be a batch of matrices with rank >= 2, got shape {x.shape}.")
        else:
            order = _int32([*range(rank - 2), rank - 1, rank - 2])
        op_type = "ConjugateTranspose" if x.dtype.is_complex else "Transpose"
        return apply_one(op_type, x, order)


def _int32(values: list[int]) -> Any:
    import numpy as np

    return np.array(values, np.int32)


@export("linalg.pinv")
def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Returns the pseudo-inverse of real matrices, taking singular values below `rcond` times the largest as zero."""
    with name_scope(name or "pinv", None, [a]):
        x = convert_to_tensor(a, name="a")
        s, u, v = svd(x)
        if rcond is None:
            import numpy as np

            sizes = (x.shape.dims_tuple or (None, None))[-2:]
            if None in sizes:
                raise ValueError("linalg.pinv needs static matrix dimensions unless `rcond` is given.")
            rcond = 10.0 * max(d or 0 for d in sizes) * float(np.finfo(x.dtype.as_numpy_dtype).eps)
        cutoff = apply_one("Mul", apply_one("Max", s, [-1], keep_dims=True), rcond)
        large = apply_one("Greater", s, cutoff)
        infinite = apply_one("Fill", apply_one("Shape", s), apply_one("Cast", float("inf"), DstT=s.dtype.base_dtype))
        scaled = apply_one("RealDiv", v, apply_one("ExpandDims", apply_one("Select", large, s, infinite), -2))
        return matmul(scaled, u, adjoint_b=True)


@export("linalg.matrix_rank")
def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Returns how many singular values of each matrix are larger than `tol`."""
    with name_scope(name or "matrix_rank", None, [a]):
        x = convert_to_tensor(a, name="a")
        s = svd(x, compute_uv=False)
        if tol is None:
            import numpy as np

            size = max(d or 0 for d in (x.shape.dims_tuple or (0, 0))[-2:])
            eps = float(np.finfo(x.dtype.as_numpy_dtype).eps) * size
            tol = apply_one("Mul", apply_one("Max", s, [-1], keep_dims=True), eps)
        return apply_one("Sum", apply_one("Cast", apply_one("Greater", s, tol), DstT=int32), [-1])
