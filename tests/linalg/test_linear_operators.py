"""tf.linalg.LinearOperator*: each class against the NumPy matrix that it stands for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import thalweg as tf

RNG = np.random.default_rng(17)


def real(*shape: int) -> Any:
    return RNG.normal(size=shape)


def square(*shape: int) -> Any:
    """Matrices that are well conditioned."""
    return real(*shape) + 3.0 * np.eye(shape[-1])


def positive(*shape: int) -> Any:
    m = real(*shape)
    return m @ np.swapaxes(m, -1, -2) + np.eye(shape[-1])


def circulant(spectrum: Any) -> Any:
    """The matrix of a convolution, column by column."""
    size, shape = spectrum.size, spectrum.shape
    columns = [np.fft.ifftn(spectrum * np.fft.fftn(np.eye(size)[i].reshape(shape))).ravel() for i in range(size)]
    return np.stack(columns, -1)


FULL, OTHER, TALL, TRIL, DIAG = square(2, 3, 3), square(2, 2), real(4, 3), np.tril(square(3, 3)), real(2, 3) + 4.0
SPD, U, V, D = positive(4, 4), real(4, 2), real(4, 2), np.array([2.0, 3.0])
AXIS, PERM, COL, ROW, TRI = real(3), np.array([2, 0, 1]), real(4), real(4), real(3, 4)
COL[0] = ROW[0] = 6.0
TRI[1] += 6.0
SPECTRUM, SPECTRUM_2D, SPECTRUM_3D = real(4) + 1j * real(4), real(2, 3) + 1j, real(2, 3, 2) + 2j
LOWER = [square(2, 2), real(3, 2), square(3, 3)]
linalg: Any = tf.linalg
full = linalg.LinearOperatorFullMatrix

CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "full": (lambda: full(FULL), FULL),
    "full_positive": (lambda: full(SPD, is_self_adjoint=True, is_positive_definite=True), SPD),
    "tall": (lambda: full(TALL), TALL),
    "triangular": (lambda: linalg.LinearOperatorLowerTriangular(TRIL + np.triu(np.ones((3, 3)), 1)), TRIL),
    "diag": (lambda: linalg.LinearOperatorDiag(DIAG), np.einsum("bi,ij->bij", DIAG, np.eye(3))),
    "identity": (lambda: linalg.LinearOperatorIdentity(3, [2], tf.float64), np.stack([np.eye(3)] * 2)),
    "scaled": (
        lambda: linalg.LinearOperatorScaledIdentity(3, np.array([2.0, -3.0])),
        np.array([2.0, -3.0])[:, None, None] * np.eye(3),
    ),
    "zeros": (lambda: linalg.LinearOperatorZeros(2, 3, dtype=tf.float64, is_square=False, is_self_adjoint=False),
              np.zeros((2, 3))),
    "adjoint": (lambda: linalg.LinearOperatorAdjoint(full(TALL)), TALL.T),
    "inverse": (lambda: full(FULL).inverse(), np.linalg.inv(FULL)),
    "product": (lambda: linalg.LinearOperatorComposition([full(TALL), full(FULL)]), TALL @ FULL),
    "square_product": (lambda: full(FULL).matmul(full(TRIL)), FULL @ TRIL),
    "kronecker": (
        lambda: linalg.LinearOperatorKronecker([full(OTHER), full(TRIL), full(OTHER)]),
        np.kron(np.kron(OTHER, TRIL), OTHER),
    ),
    "tall_kronecker": (lambda: linalg.LinearOperatorKronecker([full(TALL), full(OTHER)]), np.kron(TALL, OTHER)),
    "block_diag": (
        lambda: linalg.LinearOperatorBlockDiag([full(OTHER), full(TRIL)]), scipy.linalg.block_diag(OTHER, TRIL),
    ),
    "block_triangular": (
        lambda: linalg.LinearOperatorBlockLowerTriangular([[full(LOWER[0])], [full(LOWER[1]), full(LOWER[2])]]),
        np.block([[LOWER[0], np.zeros((2, 3))], [LOWER[1], LOWER[2]]]),
    ),
    "low_rank": (lambda: linalg.LinearOperatorLowRankUpdate(full(SPD), U, D, V), SPD + U @ np.diag(D) @ V.T),
    "low_rank_plain": (lambda: linalg.LinearOperatorLowRankUpdate(full(SPD), U), SPD + U @ U.T),
    "householder": (
        lambda: linalg.LinearOperatorHouseholder(AXIS), np.eye(3) - 2 * np.outer(AXIS, AXIS) / (AXIS @ AXIS),
    ),
    "permutation": (lambda: linalg.LinearOperatorPermutation(PERM, tf.float64), np.eye(3)[PERM]),
    "toeplitz": (lambda: linalg.LinearOperatorToeplitz(COL, ROW), scipy.linalg.toeplitz(COL, ROW)),
    "tridiag": (
        lambda: linalg.LinearOperatorTridiag(TRI),
        np.diag(TRI[1]) + np.diag(TRI[0, :-1], 1) + np.diag(TRI[2, 1:], -1),
    ),
    "circulant": (lambda: linalg.LinearOperatorCirculant(SPECTRUM, tf.complex128), circulant(SPECTRUM)),
    "circulant_2d": (lambda: linalg.LinearOperatorCirculant2D(SPECTRUM_2D, tf.complex128), circulant(SPECTRUM_2D)),
    "circulant_3d": (lambda: linalg.LinearOperatorCirculant3D(SPECTRUM_3D, tf.complex128), circulant(SPECTRUM_3D)),
}  # fmt: skip


def run(value: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(value, feeds)


near = functools.partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_products_and_the_matrix(name: str) -> None:
    make, matrix = CASES[name]
    operator = make()
    rows, columns = matrix.shape[-2:]
    assert operator.shape.as_list() == list(matrix.shape) and operator.tensor_rank == matrix.ndim
    assert operator.is_square is (rows == columns)
    x, y = real(columns, 2).astype(matrix.dtype), real(rows, 2).astype(matrix.dtype)
    found = run([
        operator.to_dense(), operator.matmul(x), operator.matmul(y, adjoint=True),
        operator.matmul(np.conj(x.T), adjoint_arg=True), operator.matvec(x[:, 0]), operator.diag_part(),
        operator.add_to_tensor(np.ones(matrix.shape, matrix.dtype)), operator.shape_tensor(), operator.H.to_dense(),
        operator.trace(),
    ])  # fmt: skip
    adjoint = np.conj(np.swapaxes(matrix, -1, -2))
    diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
    expected = [matrix, matrix @ x, adjoint @ y, matrix @ x, matrix @ x[:, 0], diagonal, matrix + 1, matrix.shape,
                adjoint, diagonal.sum(-1)]  # fmt: skip
    for got, wanted in zip(found, expected, strict=True):
        near(got, wanted)


@pytest.mark.parametrize("name", [name for name, (_, m) in CASES.items() if m.shape[-1] == m.shape[-2]])
def test_solutions_and_determinants(name: str) -> None:
    make, matrix = CASES[name]
    operator = make()
    rhs = real(matrix.shape[-1], 2).astype(matrix.dtype)
    adjoint = np.conj(np.swapaxes(matrix, -1, -2))
    found = run([
        operator.solve(rhs), operator.solve(rhs, adjoint=True), operator.solvevec(rhs[:, 0]), operator.determinant(),
        operator.log_abs_determinant(), operator.inverse().to_dense(),
    ])  # fmt: skip
    determinant = np.linalg.det(matrix)
    inverse = np.linalg.inv(matrix)
    expected = [inverse @ rhs, np.linalg.inv(adjoint) @ rhs, inverse @ rhs[:, 0], determinant,
                np.log(np.abs(determinant)), inverse]  # fmt: skip
    for got, wanted in zip(found, expected, strict=True):
        near(got, wanted)


def test_sizes_that_are_known_only_when_a_step_runs() -> None:
    for make, matrix in (
        (full, FULL), (linalg.LinearOperatorDiag, DIAG), (linalg.LinearOperatorHouseholder, AXIS),
        (lambda x: linalg.LinearOperatorKronecker([full(x), full(OTHER)]), FULL),
        (lambda x: linalg.LinearOperatorBlockDiag([full(OTHER), full(x)]), FULL),
    ):  # fmt: skip
        fed = tf.placeholder(tf.float64, [None] * matrix.ndim)
        dense = run(make(tf.constant(matrix)).to_dense())
        operator = make(fed)
        size = dense.shape[-1]
        found = run([operator.to_dense(), operator.solve(np.ones((size, 1))), operator.shape_tensor()], {fed: matrix})
        near(found[0], dense)
        near(found[1], np.linalg.solve(dense, np.ones((*dense.shape[:-2], size, 1))))
        assert found[2].tolist() == list(dense.shape)


def test_batches_broadcast() -> None:
    x = real(5, 1, 3, 2)
    for name in ("full", "diag", "scaled", "identity", "triangular"):
        make, matrix = CASES[name]
        near(run(make().matmul(x)), matrix @ x)
        near(run(make().solve(x)), np.linalg.inv(matrix) @ x)


def test_eigenvalues_condition_and_cholesky() -> None:
    operator = CASES["full_positive"][0]()
    near(run(operator.eigvals()), np.linalg.eigvalsh(SPD))
    near(run(operator.cond()), np.linalg.cond(SPD))
    near(run(operator.cholesky().to_dense()), np.linalg.cholesky(SPD))
    near(run(linalg.LinearOperatorDiag([4.0, 9.0], is_positive_definite=True).cholesky().diag_part()), [2.0, 3.0])
    with pytest.raises(ValueError, match="Cannot take the Cholesky"):
        full(SPD).cholesky()


def test_checks_that_run() -> None:
    singular = full([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Singular matrix"):
        run(singular.assert_non_singular())
    with pytest.raises(tf.errors.InvalidArgumentError, match="not positive definite"):
        run(full([[1.0, 2.0], [2.0, 1.0]]).assert_positive_definite())
    with pytest.raises(tf.errors.InvalidArgumentError, match="not equal to its adjoint"):
        run(full([[1.0, 2.0], [3.0, 1.0]]).assert_self_adjoint())
    run([full(SPD).assert_non_singular(), full(SPD).assert_positive_definite(), full(SPD).assert_self_adjoint()])


def test_hints_that_contradict_are_refused() -> None:
    with pytest.raises(ValueError, match="always non-singular"):
        full(SPD, is_non_singular=False, is_positive_definite=True)
    with pytest.raises(ValueError, match="self adjoint"):
        linalg.LinearOperatorDiag([1.0], is_self_adjoint=False)
    with pytest.raises(NotImplementedError, match="expected to be singular"):
        full(SPD, is_non_singular=False).solve(U)
    with pytest.raises(NotImplementedError, match="square"):
        full(TALL).determinant()
    with pytest.raises(ValueError, match="incompatible"):
        linalg.LinearOperatorComposition([full(TALL), full(TALL)])


def test_gradients_flow_through_operators() -> None:
    diagonal = tf.constant([2.0, 4.0])
    solved = linalg.LinearOperatorDiag(diagonal).solvevec([1.0, 1.0])
    near(run(tf.gradients(solved, diagonal)[0]), [-0.25, -0.0625])


def test_factors_of_lu() -> None:
    lu, p = tf.linalg.lu(FULL)
    rhs = real(3, 2)
    found = run([linalg.lu_solve(lu, p, rhs), linalg.lu_matrix_inverse(lu, p), linalg.lu_reconstruct(lu, p)])
    for got, wanted in zip(found, [np.linalg.inv(FULL) @ rhs, np.linalg.inv(FULL), FULL], strict=True):
        near(got, wanted)


def test_normalize() -> None:
    x = real(2, 3)
    unit, norm = run(linalg.normalize(x, axis=-1))
    near(norm, np.linalg.norm(x, axis=-1, keepdims=True))
    near(unit, x / norm)
    near(run(linalg.normalize(x, ord=1)[1]), [[np.abs(x).sum()]])


def test_conjugate_gradients() -> None:
    operator = full(SPD, is_self_adjoint=True, is_positive_definite=True)
    rhs = real(4)
    found = run(linalg.experimental.conjugate_gradient(operator, rhs, tol=1e-12, max_iter=50))
    near(found.x, np.linalg.solve(SPD, rhs))
    assert 1 <= found.i <= 10
    with pytest.raises(ValueError, match="self-adjoint, positive definite"):
        linalg.experimental.conjugate_gradient(full(SPD), rhs)
