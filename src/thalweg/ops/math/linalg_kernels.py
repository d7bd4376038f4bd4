"""The kernels of linear algebra, on numpy.linalg. Each works on whole batches; what LAPACK lacks is written here."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.definitions.op_registry import python_kernel
from thalweg.ops.math.long_factorizations import by_pieces, ends_with_step

Array = np.ndarray[Any, Any]

_NOT_INVERTIBLE = "Input is not invertible."


def _invalid(message: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, message)


def _matrices(x: Array) -> Array:
    if x.ndim < 2:
        raise _invalid(f"Input must have rank >= 2, got shape {list(x.shape)}")
    return x


def _square(x: Array) -> Array:
    _matrices(x)
    if x.shape[-1] != x.shape[-2]:
        raise _invalid(f"Input matrices must be square, got {x.shape[-2]} != {x.shape[-1]} in shape {list(x.shape)}")
    return x


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def _same_batch(a: Array, b: Array, rows: int) -> None:
    if a.shape[:-2] != b.shape[:-2] or rows != b.shape[-2]:
        raise _invalid(f"Input matrix and rhs are incompatible: {list(a.shape)} vs. {list(b.shape)}")


@python_kernel("CholeskyGrad", looks_at_step=True)
@ends_with_step
def _cholesky_grad(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    lower, grad = np.tril(_square(inputs[0])), np.tril(_square(inputs[1]))
    if lower.shape != grad.shape:
        raise _invalid(f"l and grad must have one shape: {list(lower.shape)} vs. {list(grad.shape)}")
    middle = np.tril(np.swapaxes(lower, -1, -2) @ grad)
    diagonal = np.arange(middle.shape[-1])
    middle[..., diagonal, diagonal] *= 0.5
    try:
        inverse = np.linalg.inv(lower)
    except np.linalg.LinAlgError:
        raise _invalid(_NOT_INVERTIBLE) from None
    result = np.swapaxes(inverse, -1, -2) @ middle @ inverse
    return (0.5 * (result + np.swapaxes(result, -1, -2))).astype(lower.dtype)


def _by_normal_equations(a: Array, b: Array) -> Array | None:
    """Least squares by way of A^H A, in double precision, refined once; None if A is too close to a smaller rank."""
    wide = np.promote_types(a.dtype, np.float64)
    x, y = a.astype(wide, copy=False), b.astype(wide, copy=False)
    adjoint = _adjoint(x)
    gram = adjoint @ x
    try:
        pivots = np.diagonal(np.linalg.cholesky(gram), axis1=-2, axis2=-1).real
        # Squares of condition numbers count here: up to some 1e4 the refined result is as good as any.
        if (pivots.min(axis=-1) < 1e-4 * pivots.max(axis=-1)).any():
            return None
        solution = np.linalg.solve(gram, adjoint @ y)
        solution = solution + np.linalg.solve(gram, adjoint @ (y - x @ solution))
    except np.linalg.LinAlgError:
        return None
    return solution.astype(a.dtype) if np.isfinite(solution).all() else None


@python_kernel("MatrixSolveLs", looks_at_step=True)
@ends_with_step
def _least_squares(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    if inputs[2].ndim != 0:
        raise _invalid(f"l2_regularizer must be a scalar, got shape {list(inputs[2].shape)}")
    a, b, regularizer = _matrices(inputs[0]), _matrices(inputs[1]), float(inputs[2])
    _same_batch(a, b, a.shape[-2])
    if regularizer < 0:
        raise _invalid(f"l2_regularizer must be >= 0, got {regularizer}")
    m, n = a.shape[-2:]
    shape = (*a.shape[:-2], n, b.shape[-1])
    if a.size == 0 or b.size == 0:
        return np.zeros(shape, a.dtype)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.full(shape, np.nan, a.dtype)  # LAPACK iterates, and may do so for ever.
    if attrs["fast"] and regularizer == 0 and m >= n:
        solution = _by_normal_equations(a, b)
        if solution is not None:
            return solution
    if not attrs["fast"] or regularizer == 0:
        flat_a, flat_b = a.reshape(-1, m, n), b.reshape(-1, m, b.shape[-1])
        solutions = [np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(flat_a, flat_b, strict=True)]
        return np.stack(solutions).reshape(shape).astype(a.dtype)
    if m >= n:
        gram = _adjoint(a) @ a + regularizer * np.eye(n, dtype=a.dtype)
        return np.linalg.solve(gram, _adjoint(a) @ b).astype(a.dtype)
    gram = a @ _adjoint(a) + regularizer * np.eye(m, dtype=a.dtype)
    return (_adjoint(a) @ np.linalg.solve(gram, b)).astype(a.dtype)


@python_kernel("SelfAdjointEigV2", looks_at_step=True)
@ends_with_step
def _self_adjoint_eig(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x = _square(inputs[0])
    failed = "Self-adjoint eigen decomposition was not successful. The input might not be valid."
    if not np.isfinite(x).all():
        raise _invalid(failed)
    try:
        if not attrs["compute_v"]:
            return by_pieces(np.linalg.eigvalsh, x).astype(x.dtype), np.zeros([0], x.dtype)
        values, vectors = by_pieces(np.linalg.eigh, x)
    except np.linalg.LinAlgError:
        raise _invalid(failed) from None
    return values.astype(x.dtype), vectors.astype(x.dtype)


@python_kernel("Svd", looks_at_step=True)
@ends_with_step
def _svd(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x = _matrices(inputs[0])
    # LAPACK iterates, and may do so for ever on NaN or infinity: the decomposition of such a matrix is NaN.
    finite: Array = np.asarray(np.isfinite(x).all((-1, -2)))
    safe = np.where(finite[..., None, None], x, np.zeros([], x.dtype))
    empty = np.zeros([0], x.dtype)
    try:
        if not attrs["compute_uv"]:
            values = by_pieces(lambda part: np.linalg.svd(part, compute_uv=False), safe)
            return np.where(finite[..., None], values, np.nan).astype(x.dtype), empty, empty
        u, s, vh = by_pieces(lambda part: np.linalg.svd(part, full_matrices=attrs["full_matrices"]), safe)
    except np.linalg.LinAlgError:
        raise _invalid("SVD did not converge.") from None
    sides = [np.where(finite[..., None, None], side, np.nan).astype(x.dtype) for side in (u, _adjoint(vh))]
    return np.where(finite[..., None], s, np.nan).astype(x.dtype), *sides


# Coefficients of the diagonal Padé approximant of degree 13, exact in double precision up to this norm.
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_PADE_NORM = 5.371920351148152


@python_kernel("MatrixExponential", looks_at_step=True)
@ends_with_step
def _exponential(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    """Scaling and squaring: exp(x) = exp(x / 2^s)^(2^s), with a Padé approximant for the small exponential."""
    x = _square(inputs[0])
    if x.size == 0:
        return x.copy()
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    norm = float(np.abs(wide).sum(-2).max())
    if not np.isfinite(norm):
        return np.full(x.shape, np.nan, x.dtype)
    squarings = max(0, int(np.ceil(np.log2(norm / _PADE_NORM)))) if norm > 0 else 0
    wide = wide / 2.0**squarings
    identity = np.eye(x.shape[-1], dtype=wide.dtype)
    power2 = wide @ wide
    power4 = power2 @ power2
    power6 = power4 @ power2
    b = _PADE
    odd = power6 @ (b[13] * power6 + b[11] * power4 + b[9] * power2)
    odd = wide @ (odd + b[7] * power6 + b[5] * power4 + b[3] * power2 + b[1] * identity)
    even = power6 @ (b[12] * power6 + b[10] * power4 + b[8] * power2)
    even = even + b[6] * power6 + b[4] * power4 + b[2] * power2 + b[0] * identity
    result = np.linalg.solve(even - odd, even + odd)
    with np.errstate(all="ignore"):
        for _ in range(squarings):
            result = result @ result
        return result.astype(x.dtype)


def _function_of(x: Array, function: Any) -> Array:
    """Applies a function to the eigenvalues of diagonalizable matrices."""
    values, vectors = np.linalg.eig(x.astype(np.complex128))
    with np.errstate(all="ignore"):
        image = function(values)
        result: Array = (vectors * image[..., None, :]) @ np.linalg.inv(vectors)
        return result


@python_kernel("MatrixSquareRoot", looks_at_step=True)
@ends_with_step
def _square_root(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x = _square(inputs[0])
    if x.size == 0:
        return x.copy()
    if not np.isfinite(x).all():
        raise _invalid("Input matrix must be finite to have a square root.")
    try:
        result = _function_of(x, np.sqrt)
    except np.linalg.LinAlgError:
        result = np.full(x.shape, np.nan, np.complex128)
    wide = x.astype(np.complex128)
    wrong = np.abs(result @ result - wide).max((-1, -2)) > 1e-6 * (1 + np.abs(wide).max((-1, -2)))
    if not np.isfinite(result).all() or wrong.any():
        result = _newton_root(wide)  # Too few eigenvectors: iterate instead.
    if x.dtype.kind == "c":
        return result.astype(x.dtype)
    # A real matrix may have no real root.
    is_real = np.abs(result.imag).max((-1, -2)) <= 1e-6 * (1 + np.abs(result.real).max((-1, -2)))
    return np.where(is_real[..., np.newaxis, np.newaxis], result.real, np.nan).astype(x.dtype)


def _newton_root(x: Array) -> Array:
    """The Denman-Beavers iteration, which needs no eigenvectors."""
    root, inverse_root = x, np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    try:
        for _ in range(60):
            root, inverse_root = (
                0.5 * (root + np.linalg.inv(inverse_root)),
                0.5 * (inverse_root + np.linalg.inv(root)),
            )
    except np.linalg.LinAlgError:
        raise _invalid("Input matrix has no square root that can be computed.") from None
    return root


@python_kernel("MatrixLogarithm", looks_at_step=True)
@ends_with_step
def _logarithm(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x = _square(inputs[0])
    if x.size == 0:
        return x.copy()
    try:
        return _function_of(x, np.log).astype(x.dtype)
    except np.linalg.LinAlgError:
        return np.full(x.shape, np.nan, x.dtype)
