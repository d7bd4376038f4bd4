"""Singular values, eigenvalues, QR, least squares and functions of matrices, of matrices that are hard to decompose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import linalg

import thalweg as tf

TYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(1, 1), (2, 2), (3, 7), (33, 33), (40, 17), (90, 110), (130, 41)]


def normal(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x


def with_values(rng: np.random.Generator, shape: tuple[int, int], values: Any, dtype: Any) -> Any:
    """A matrix with these singular values."""
    u, _ = np.linalg.qr(normal(rng, (shape[0], len(values)), dtype))
    v, _ = np.linalg.qr(normal(rng, (shape[1], len(values)), dtype))
    return (u * values) @ np.conj(v.T)


def matrices(shape: tuple[int, int], dtype: Any) -> dict[str, Any]:
    rng = np.random.default_rng(sum(shape))
    p = min(shape)
    bits = np.finfo(dtype).bits
    found = {
        "random": normal(rng, shape, dtype),
        "zero": np.zeros(shape),
        "ones": np.ones(shape),
        "diagonal": np.eye(*shape) * (np.arange(shape[1]) % 5 - 2.0),
        "integers": rng.integers(-2, 3, shape).astype(float),
        "graded": with_values(rng, shape, np.logspace(0, -16, p), dtype),
        "half rank": with_values(rng, shape, (np.arange(p) < (p + 1) // 2) * 1.0, dtype),
        "clustered": with_values(rng, shape, 1 + np.arange(p) * float(np.finfo(dtype).eps), dtype),
        "one large": with_values(rng, shape, np.where(np.arange(p) == 0, 1.0, 1e-7), dtype),
        "scaled": normal(rng, shape, dtype) * np.logspace(0, -12, shape[1]) * np.logspace(0, -9, shape[0])[:, None],
        "tiny": normal(rng, shape, dtype) * (1e-30 if bits == 32 else 1e-290),
        "huge": normal(rng, shape, dtype) * (1e30 if bits == 32 else 1e290),
    }
    return {name: np.asarray(x).astype(dtype) for name, x in found.items()}


def of_size_one(x: np.ndarray) -> tuple[np.ndarray, float]:
    """The matrix in double precision, divided by its largest element, and that."""
    scale = float(np.abs(x).max()) or 1.0
    return x.astype(np.complex128) / scale, scale


def assert_unitary(x: np.ndarray, tolerance: float) -> None:
    wide = x.astype(np.complex128)
    np.testing.assert_allclose(np.conj(wide.T) @ wide, np.eye(x.shape[1]), atol=tolerance, rtol=0)


@pytest.fixture(scope="module", params=TYPES, ids=lambda t: np.dtype(t).name)
def ops(request: pytest.FixtureRequest) -> Any:
    """The element type, and a function that runs one of the ops on a matrix of that type."""
    dtype = request.param
    with tf.Graph().as_default():
        x = tf.placeholder(dtype, [None, None])
        fetches = {
            "svd": tf.svd(x),
            "full svd": tf.svd(x, full_matrices=True),
            "values": tf.svd(x, compute_uv=False),
            "eigh": tf.self_adjoint_eig(x),
            "eigvalsh": tf.self_adjoint_eigvals(x),
            "qr": tf.qr(x),
            "full qr": tf.qr(x, full_matrices=True),
        }
        session = tf.Session()
    yield dtype, lambda name, value: session.run(fetches[name], {x: value})
    session.close()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values(ops: Any, shape: tuple[int, int]) -> None:
    dtype, run = ops
    tolerance = 100 * float(np.finfo(dtype).eps)
    for name, given in matrices(shape, dtype).items():
        exact, scale = of_size_one(given)
        wanted = np.linalg.svd(exact, compute_uv=False)
        for full in (False, True):
            s, u, v = run("full svd" if full else "svd", given)
            p = len(s)
            assert u.shape == (shape[0], shape[0] if full else p), name
            assert v.shape == (shape[1], shape[1] if full else p), name
            assert (s >= 0).all() and (np.diff(s) <= 0).all(), name
            np.testing.assert_allclose(
                s.astype(np.float64) / scale, wanted, rtol=0, atol=tolerance * wanted[0], err_msg=name
            )
            assert_unitary(u, tolerance)
            assert_unitary(v, tolerance)
            built = (u[:, :p] * (s.astype(np.float64) / scale)) @ np.conj(v[:, :p].T)
            assert np.linalg.norm(built - exact, 2) <= tolerance * max(wanted[0], 1e-9), name
        alone = run("values", given).astype(np.float64) / scale
        np.testing.assert_allclose(alone, wanted, rtol=0, atol=tolerance * wanted[0], err_msg=name)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 33, 66, 140])
def test_eigenvalues(ops: Any, n: int) -> None:
    dtype, run = ops
    tolerance = 100 * float(np.finfo(dtype).eps)
    for name, x in matrices((n, n), dtype).items():
        given = np.tril(x) + np.conj(np.tril(x, -1).T)
        given[np.diag_indices(n)] = given.diagonal().real
        exact, scale = of_size_one(given)
        wanted = np.linalg.eigvalsh(exact)
        size = np.abs(wanted).max()
        only_lower = given + np.triu(np.full_like(given, scale), 1)
        e, v = run("eigh", only_lower)
        values = e.astype(np.complex128).real / scale
        assert (np.diff(values) >= 0).all(), name
        np.testing.assert_allclose(values, wanted, rtol=0, atol=tolerance * size, err_msg=name)
        assert_unitary(v, tolerance)
        assert np.linalg.norm((v * values) @ np.conj(v.T) - exact, 2) <= tolerance * max(size, 1e-9), name
        alone = run("eigvalsh", only_lower).astype(np.complex128).real / scale
        np.testing.assert_allclose(alone, wanted, rtol=0, atol=tolerance * size, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(ops: Any, shape: tuple[int, int]) -> None:
    dtype, run = ops
    tolerance = 150 * float(np.finfo(dtype).eps)
    for name, given in matrices(shape, dtype).items():
        exact, scale = of_size_one(given)
        for full in (False, True):
            q, r = run("full qr" if full else "qr", given)
            assert q.shape[1] == r.shape[0] == (shape[0] if full else min(shape)), name
            assert (np.tril(r, -1) == 0).all(), name
            assert_unitary(q, tolerance)
            left = np.linalg.norm(q @ (r.astype(np.complex128) / scale) - exact, axis=0)
            assert (left <= tolerance * np.linalg.norm(exact, axis=0) + 1e-30).all(), f"{name}: column by column"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_singular_values_of_bidiagonal_matrices_are_exact(dtype: Any) -> None:
    given = np.diag(np.logspace(0, -30, 12)) + np.diag(np.logspace(-1, -30, 11), 1)
    wanted = np.array([float(s) for s in _bidiagonal_values(given)])
    with tf.Session() as session:
        s = session.run(tf.svd(tf.constant(given.astype(dtype)), compute_uv=False))
    np.testing.assert_allclose(s, wanted, rtol=1e-5 if dtype is np.float32 else 1e-13)


def _bidiagonal_values(x: np.ndarray) -> list[Any]:
    """One-sided rotations, which keep small values exact where rows are graded."""
    lines = x.astype(np.longdouble)
    for _ in range(30):
        for i in range(len(lines)):
            for j in range(i + 1, len(lines)):
                a, b, c = lines[i] @ lines[i], lines[j] @ lines[j], lines[i] @ lines[j]
                if c == 0:
                    continue
                zeta = (b - a) / (2 * c)
                t = np.sign(zeta) / (abs(zeta) + np.sqrt(1 + zeta * zeta)) if zeta else np.longdouble(1)
                cosine = 1 / np.sqrt(1 + t * t)
                lines[i], lines[j] = cosine * (lines[i] - t * lines[j]), cosine * (lines[j] + t * lines[i])
    return sorted((np.sqrt(line @ line) for line in lines), reverse=True)


def test_batches_have_the_values_of_their_matrices() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal([2, 3, 6, 5])
    many, one = tf.placeholder(tf.float64, [2, 3, 6, 5]), tf.placeholder(tf.float64, [6, 5])
    ops = [lambda a: tf.svd(a), lambda a: tf.qr(a), lambda a: tf.self_adjoint_eig(tf.matmul(a, a, transpose_a=True))]
    with tf.Session() as session:
        for op in ops:
            whole = session.run(op(many), {many: x})
            for i, j in np.ndindex(2, 3):
                for part, alone in zip(whole, session.run(op(one), {one: x[i, j]}), strict=True):
                    np.testing.assert_array_equal(part[i, j], alone)


def test_matrices_that_are_not_finite() -> None:
    x = np.ones([3, 4, 3], np.float32)
    x[1, 2, 1] = np.nan
    x[2, 0, 0] = np.inf
    given = tf.placeholder(tf.float32, [None, None, None])
    with tf.Session() as session:
        for part in session.run(tf.svd(given), {given: x}):
            assert np.isfinite(part[0]).all() and np.isnan(part[1:]).all()
        assert np.isnan(session.run(tf.linalg.expm(given), {given: x[:, :3]})[1:]).all()
        for bad in (np.nan, np.inf):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not successful"):
                session.run(tf.self_adjoint_eig(given), {given: np.full([1, 2, 2], bad)})


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 3, 3), (2, 0, 3), (2, 3, 0)], ids=str)
def test_empty_matrices(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    with tf.Session() as session:
        for full in (False, True):
            s, u, v = session.run(tf.svd(tf.constant(x), full_matrices=full))
            wanted = np.linalg.svd(x, full_matrices=full)
            assert (u.shape, s.shape) == (wanted[0].shape, wanted[1].shape)
            assert v.shape == np.swapaxes(wanted[2], -1, -2).shape
            if full and x.size == 0 and x.ndim == 2:
                np.testing.assert_array_equal(u, np.eye(shape[0]))
                np.testing.assert_array_equal(v, np.eye(shape[1]))


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_least_squares(dtype: Any, fast: bool) -> None:
    rng = np.random.default_rng(2)
    for shape in [(5, 3), (3, 5), (60, 40), (40, 60), (1, 1)]:
        ranks = {
            "full": normal(rng, shape, dtype),
            "half": with_values(rng, shape, np.ones((min(shape) + 1) // 2), dtype),
        }
        for name, a in ranks.items():
            b = normal(rng, (shape[0], 2), dtype)
            a, b = a.astype(dtype), b.astype(dtype)
            for regularizer in (0.0, 0.5):
                with tf.Session() as session:
                    x = session.run(tf.matrix_solve_ls(tf.constant(a), tf.constant(b), regularizer, fast=fast))
                wide = a.astype(np.complex128)
                if fast and regularizer:
                    gram = np.conj(wide.T) @ wide + regularizer * np.eye(shape[1])
                    wanted = np.linalg.solve(gram, np.conj(wide.T) @ b)
                else:
                    cutoff = max(shape) * float(np.finfo(dtype).eps)
                    wanted = np.linalg.lstsq(wide, b.astype(np.complex128), rcond=cutoff)[0]
                tolerance = 1e-3 if np.finfo(dtype).bits == 32 else 1e-10
                np.testing.assert_allclose(x, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{shape} {name}")


@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_functions_of_matrices(dtype: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    tolerance = 5e-4 if np.finfo(dtype).bits == 32 else 1e-9
    x = (normal(rng, (n, n), dtype) + 2 * np.sqrt(n) * np.eye(n)).astype(dtype)
    defective = (np.eye(n) * 2 + np.diag(np.ones(n - 1), 1)).astype(dtype)
    with tf.Session() as session:
        for given in (x, defective):
            root = session.run(tf.linalg.sqrtm(tf.constant(given)))
            np.testing.assert_allclose(root @ root, given, rtol=tolerance, atol=tolerance * n)
            power = session.run(tf.linalg.expm(tf.constant(given / n)))
            np.testing.assert_allclose(
                power, linalg.expm(given.astype(np.complex128) / n), rtol=tolerance, atol=tolerance
            )
            if np.dtype(dtype).kind == "c":
                logarithm = session.run(tf.linalg.logm(tf.constant(given))).astype(np.complex128)
                np.testing.assert_allclose(linalg.expm(logarithm), given, rtol=tolerance, atol=tolerance * n)


def test_logarithms_of_negative_numbers_and_of_rotations() -> None:
    turn = np.array([[0, -1], [1, 0]], np.complex128)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(tf.linalg.logm(turn)), [[0, -np.pi / 2], [np.pi / 2, 0]], atol=1e-14)
        np.testing.assert_allclose(session.run(tf.linalg.logm(-np.eye(1) + 0j)), [[np.pi * 1j]])
        assert np.isnan(session.run(tf.linalg.logm(np.zeros([2, 2]) + 0j))).all()


def test_matrices_without_a_square_root() -> None:
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no square root"):
            session.run(tf.linalg.sqrtm(np.array([[0.0, 1.0], [0.0, 0.0]])))
        with pytest.raises(tf.errors.InvalidArgumentError, match="finite"):
            session.run(tf.linalg.sqrtm(np.array([[np.inf, 1.0], [0.0, 1.0]])))
