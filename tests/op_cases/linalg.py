"""Cases of linear algebra."""

from __future__ import annotations

import numpy as np
from scipy import linalg

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

WIDE = "float32 float64 complex64 complex128"
LOOSE = {"tolerance": 2e-3, "grad_tolerance": 1e-3}


def _definite(x):
    """A Hermitian positive definite matrix from any."""
    return tf.matmul(x, x, adjoint_b=True) + tf.cast(np.eye(x.shape.as_list()[-1] if x.shape.ndims else 3), x.dtype)


def _np_definite(x):
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1], dtype=x.dtype)


def _regular(n, *batch):
    return Args(real(*batch, n, n))


def _shift(x):
    """Far from singular."""
    return x + tf.cast(4.0 * np.eye(3), x.dtype)


def _np_shift(x):
    return x + 4 * np.eye(3, dtype=x.dtype)


SQUARES = [_regular(3), _regular(3, 2), _regular(3, 2, 2)]
NOT_SQUARE = [Bad(Args(real(2, 3)), match="2"), Bad(Args(real(3)), match="rank")]
SINGULAR = Bad(Args(np.ones([2, 2], np.float32)), match="not invertible")

case(
    "MatrixDeterminant",
    tf.matrix_determinant,
    lambda x: np.linalg.det(x),
    samples=[*SQUARES, Args(real(0, 0)), Args(real(0, 2, 2))],
    dtypes=WIDE,
    bad=NOT_SQUARE,
    order=2,
    **LOOSE,
)
case(
    "LogMatrixDeterminant",
    lambda x: tf.linalg.slogdet(_shift(x)),
    lambda x: [np.asarray(p).astype(x.dtype) for p in np.linalg.slogdet(_np_shift(x))],
    samples=SQUARES,
    dtypes="float32 float64 complex128",
    bad=NOT_SQUARE[:0],
    order=2,
    **LOOSE,
)
case("LogMatrixDeterminant", tf.linalg.slogdet, None, samples=[Args(real(0, 0))], bad=NOT_SQUARE)
case(
    "MatrixInverse",
    lambda x, adjoint=False: tf.matrix_inverse(_shift(x), adjoint=adjoint),
    lambda x, adjoint=False: np.linalg.inv(np.conj(np.swapaxes(_np_shift(x), -1, -2)) if adjoint else _np_shift(x)),
    samples=[*SQUARES, Args(real(3, 3), adjoint=True)],
    dtypes=WIDE,
    order=2,
    **LOOSE,
)
case("MatrixInverse", tf.matrix_inverse, np.linalg.inv, samples=[Args(real(0, 0))], bad=[*NOT_SQUARE, SINGULAR])
case(
    "Cholesky",
    lambda x: tf.cholesky(_definite(x)),
    lambda x: np.linalg.cholesky(_np_definite(x)),
    samples=SQUARES,
    dtypes="float32 float64 complex64 complex128",
    order=2,
    **LOOSE,
)
case(
    "Cholesky",
    tf.cholesky,
    np.linalg.cholesky,
    samples=[Args(real(0, 0))],
    bad=[*NOT_SQUARE, Bad(Args(-np.ones([2, 2], np.float32)), match="Cholesky decomposition was not successful")],
)


def _cholesky_grad(x, grad):
    lower = np.linalg.cholesky(_np_definite(x)).astype(x.dtype)
    middle = np.tril(np.swapaxes(lower, -1, -2) @ np.tril(grad)) * (1 - 0.5 * np.eye(3))
    inverse = np.linalg.inv(lower)
    result = np.swapaxes(inverse, -1, -2) @ middle @ inverse
    return 0.5 * (result + np.swapaxes(result, -1, -2))


case(
    "CholeskyGrad",
    lambda x, g: tf.raw_ops.CholeskyGrad(l=tf.cholesky(_definite(x)), grad=g),
    _cholesky_grad,
    samples=[Args(real(3, 3), real(3, 3))],
    bad=[Bad(Args(real(3, 3), real(2, 2)), match="2")],
    **LOOSE,
)
case(
    "MatrixSolve",
    lambda a, b, **k: tf.matrix_solve(_shift(a), b, **k),
    lambda a, b, adjoint=False: np.linalg.solve(
        np.conj(np.swapaxes(_np_shift(a), -1, -2)) if adjoint else _np_shift(a), b
    ),
    samples=[Args(real(3, 3), real(3, 2)), Args(real(2, 3, 3), real(2, 3, 4), adjoint=True)],
    dtypes=WIDE,
    order=2,
    **LOOSE,
)
case(
    "MatrixSolve",
    tf.matrix_solve,
    np.linalg.solve,
    samples=[Args(real(2, 0, 0), real(2, 0, 3))],
    bad=[
        Bad(Args(np.ones([2, 2], np.float32), np.ones([2, 1], np.float32)), match="not invertible"),
        Bad(Args(real(2, 2), real(3, 1)), match="3"),
        Bad(Args(real(2, 3), real(2, 1)), match="3"),
        Bad(Args(real(2, 2, 2), real(3, 2, 1)), match="3"),
        Bad(Args(real(2, 2), real(2)), match="rank"),
    ],
)


def _triangular(a, b, lower=True, adjoint=False):
    a = a + 4 * np.eye(a.shape[-1], dtype=a.dtype)
    a = np.tril(a) if lower else np.triu(a)
    return np.linalg.solve(
        np.conj(np.swapaxes(a, -1, -2)) if adjoint else a,
        np.broadcast_to(b, (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])),
    )


case(
    "MatrixTriangularSolve",
    lambda a, b, **k: tf.matrix_triangular_solve(_shift(a), b, **k),
    _triangular,
    dtypes=WIDE,
    samples=[
        Args(real(3, 3), real(3, 2)),
        Args(real(3, 3), real(3, 40), lower=False),
        Args(real(3, 3), real(3, 2), adjoint=True),
        Args(real(2, 3, 3), real(2, 3, 2), lower=False, adjoint=True),
        Args(real(2, 1, 3, 3), real(4, 3, 1)),
        Args(real(3, 3), real(3, 0)),
    ],
    order=2,
    **LOOSE,
)
case(
    "MatrixTriangularSolve",
    tf.matrix_triangular_solve,
    None,
    samples=[Args(real(0, 0), real(0, 2))],
    bad=[
        Bad(Args(np.zeros([2, 2], np.float32), np.ones([2, 1], np.float32)), match="not invertible"),
        Bad(Args(real(2, 3), real(2, 1)), match="square"),
        Bad(Args(real(2, 2), real(3, 1)), match="[3,1]"),
        Bad(Args(real(2), real(2, 1)), match="[2]"),
        Bad(Args(real(2, 2), real(2)), match="[2]"),
        Bad(Args(real(2, 2, 2), real(3, 2, 1)), match="3"),
    ],
)


def _least_squares(a, b, l2_regularizer=0.0, fast=True):
    wide = np.conj(np.swapaxes(a, -1, -2))
    if not fast or not l2_regularizer:
        return np.stack(
            [
                np.linalg.lstsq(x, y, rcond=None)[0]
                for x, y in zip(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]), strict=True)
            ]
        ).reshape(*a.shape[:-2], a.shape[-1], b.shape[-1])
    return np.linalg.solve(wide @ a + l2_regularizer * np.eye(a.shape[-1]), wide @ b)


case(
    "MatrixSolveLs",
    tf.matrix_solve_ls,
    _least_squares,
    dtypes=WIDE,
    order=1,
    **LOOSE,
    samples=[
        Args(real(5, 3), real(5, 2)),
        Args(real(2, 3, 5), real(2, 3, 2), l2_regularizer=0.5),
        Args(real(5, 3), real(5, 2), l2_regularizer=0.5),
        Args(real(3, 5), real(3, 2), fast=False),
    ],
    bad=[Bad(Args(real(5, 3), real(4, 2)), match="4"), Bad(Args(real(5), real(5, 2)), match="rank")],
)


def _rebuild(x):
    """The part that no choice of signs changes: the values, and the product of vectors and values."""
    e, v = tf.self_adjoint_eig(_definite(x))
    return e, tf.matmul(v, tf.matmul(tf.matrix_diag(e * e), v, adjoint_b=True))


def _np_rebuild(x):
    e, v = np.linalg.eigh(_np_definite(x))
    return e.astype(x.dtype), (v * (e * e)[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2))


case("SelfAdjointEigV2", _rebuild, _np_rebuild, samples=SQUARES, dtypes=WIDE, order=1, **LOOSE)
case(
    "SelfAdjointEigV2",
    lambda x: tf.self_adjoint_eigvals(_definite(x)),
    lambda x: np.linalg.eigvalsh(_np_definite(x)).astype(x.dtype),
    samples=SQUARES,
    dtypes=WIDE,
    order=2,
    **LOOSE,
)
case(
    "SelfAdjointEigV2",
    tf.self_adjoint_eig,
    None,
    samples=[Args(real(0, 0))],
    bad=[*NOT_SQUARE, Bad(Args(np.full([2, 2], np.nan, np.float32)), match="not successful")],
)


def _svd_rebuild(x, full_matrices=False):
    s, u, v = tf.svd(x, full_matrices=full_matrices)
    k = min(d or 9 for d in x.shape.as_list()[-2:]) if x.shape.ndims else 3
    cubes = tf.matrix_diag(tf.cast(s * s * s, x.dtype))
    return s, tf.matmul(u[..., :k], tf.matmul(cubes, v[..., :k], adjoint_b=True))


def _np_svd_rebuild(x, full_matrices=False):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return s, (u * (s**3)[..., None, :]) @ vh


case(
    "Svd",
    _svd_rebuild,
    _np_svd_rebuild,
    dtypes="float32 float64",
    order=1,
    **LOOSE,
    samples=[Args(real(3, 3)), Args(real(2, 4, 3)), Args(real(3, 5))],
)
case("Svd", _svd_rebuild, _np_svd_rebuild, dtypes=WIDE, samples=[Args(real(3, 5), full_matrices=True)], **LOOSE)
case(
    "Svd",
    lambda x: tf.svd(x, compute_uv=False),
    lambda x: np.linalg.svd(x, compute_uv=False),
    dtypes=WIDE,
    order=2,
    samples=[Args(real(3, 3)), Args(real(2, 4, 3)), Args(real(3, 5))],
    bad=[Bad(Args(real(3)), match="rank")],
    **LOOSE,
)


def _qr_rebuild(x):
    q, r = tf.qr(x)
    return tf.matmul(q, r), tf.abs(r), tf.matmul(q, tf.matmul(r, r, adjoint_a=True)[..., :1, :] * 0.1 + r)


def _np_qr_rebuild(x):
    q, r = np.linalg.qr(x)
    return q @ r, np.abs(r), q @ ((np.conj(np.swapaxes(r, -1, -2)) @ r)[..., :1, :] * 0.1 + r)


case(
    "Qr",
    _qr_rebuild,
    _np_qr_rebuild,
    dtypes="float32 float64",
    order=1,
    **LOOSE,
    samples=[Args(real(3, 3)), Args(real(2, 4, 3))],
)
case(
    "Qr",
    lambda x, **k: tf.matmul(*tf.qr(x, **k)),
    lambda x, **k: x,
    dtypes=WIDE,
    **LOOSE,
    samples=[Args(real(3, 5)), Args(real(5, 3), full_matrices=True)],
    bad=[Bad(Args(real(3)), match="rank")],
)


def _lu(x):
    flat = x.reshape(-1, 3, 3)
    parts = [linalg.lu_factor(m) for m in flat]
    orders = []
    for _, swaps in parts:
        order = list(range(3))
        for i, j in enumerate(swaps):
            order[i], order[j] = order[j], order[i]
        orders.append(order)
    return (
        np.stack([p[0] for p in parts]).reshape(x.shape).astype(x.dtype),
        np.array(orders, np.int32).reshape(x.shape[:-1]),
    )


def _lu_rebuild(x):
    packed, order = tf.linalg.lu(x)
    ones = tf.ones_like(tf.matrix_diag_part(packed))
    lower = tf.matrix_set_diag(tf.matrix_band_part(packed, -1, 0), ones)
    rows = tf.one_hot(order, 3, dtype=x.dtype)
    return tf.matmul(rows, tf.matmul(lower, tf.matrix_band_part(packed, 0, -1)), transpose_a=True)


case("Lu", tf.linalg.lu, _lu, samples=SQUARES, order=1, bad=[*NOT_SQUARE, SINGULAR], **LOOSE)
case("Lu", _lu_rebuild, lambda x: x, samples=SQUARES, dtypes=WIDE, order=1, **LOOSE)


def _each(function):
    return lambda x: np.stack([function(m) for m in x.reshape(-1, *x.shape[-2:])]).reshape(x.shape).astype(x.dtype)


case(
    "MatrixExponential",
    tf.linalg.expm,
    _each(linalg.expm),
    samples=[*SQUARES, Args(real(3, 3, low=-20, high=9))],
    dtypes="float64 complex128",
    bad=NOT_SQUARE,
    order=2,
    **LOOSE,
)
case(
    "MatrixSquareRoot",
    lambda x: tf.linalg.sqrtm(_definite(x)),
    lambda x: _each(linalg.sqrtm)(_np_definite(x)),
    samples=SQUARES,
    dtypes=WIDE,
    order=1,
    **LOOSE,
)
case("MatrixSquareRoot", tf.linalg.sqrtm, None, samples=[Args(real(0, 0))], bad=NOT_SQUARE)
case(
    "MatrixSquareRoot",
    tf.linalg.sqrtm,
    lambda x: np.stack([np.full((2, 2), np.nan, x.dtype), np.eye(2, dtype=x.dtype)]),
    samples=[Args(np.array([[[-1.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]]))],  # The first has no real root.
    dtypes="float64",
)


def _np_log(x):
    values, vectors = np.linalg.eigh(x)
    return (vectors * np.log(values)[..., None, :]) @ np.conj(np.swapaxes(vectors, -1, -2))


case(
    "MatrixLogarithm",
    lambda x: tf.linalg.logm(_definite(x)),
    lambda x: _np_log(_np_definite(x)),
    samples=SQUARES,
    dtypes="complex64 complex128",
    **LOOSE,
)
case("MatrixLogarithm", tf.linalg.logm, None, samples=[Args(real(0, 0))], dtypes="complex64", bad=NOT_SQUARE)

case(
    "Cholesky",
    lambda a, b: tf.cholesky_solve(tf.cholesky(_definite(a)), b),
    lambda a, b: np.linalg.solve(_np_definite(a), b),
    samples=[Args(real(3, 3), real(3, 2))],
    dtypes=WIDE,
    order=1,
    **LOOSE,
)
case(
    "Cholesky",
    lambda x: tf.linalg.logdet(_definite(x)),
    lambda x: np.linalg.slogdet(_np_definite(x))[1],
    samples=SQUARES,
    dtypes="float32 float64",
    order=2,
    **LOOSE,
)
case(
    "Svd",
    lambda x: tf.linalg.pinv(x, 1e-6),
    lambda x: np.linalg.pinv(x),
    samples=[Args(real(4, 3)), Args(real(2, 3, 5))],
    **LOOSE,
)
case(
    "Svd",
    lambda x: tf.linalg.matrix_rank(x, 1e-3),
    lambda x: np.linalg.matrix_rank(x).astype(np.int32),
    samples=[Args(real(4, 3))],
)
