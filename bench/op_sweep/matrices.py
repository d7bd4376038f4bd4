"""Matrix products, linear algebra and Fourier transforms."""

import numpy as np

from op_sweep import Sweep, normal

REAL = "f32 f64"


def _definite(*shape):
    """Symmetric positive definite matrices."""

    def draw(dtype, rng):
        x = rng.standard_normal(shape)
        return (x @ np.swapaxes(x, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype)

    return draw


def _regular(*shape):
    return lambda dtype, rng: (rng.standard_normal(shape) + 4 * np.eye(shape[-1])).astype(dtype)


def _lower(*shape):
    return lambda dtype, rng: np.tril(rng.standard_normal(shape) / shape[-1] + 4 * np.eye(shape[-1])).astype(dtype)


SQUARES = {"8": (8, 8), "64": (64, 64), "256": (256, 256), "500x16": (500, 16, 16)}


def _squares(source):
    return {size: [source(*shape)] for size, shape in SQUARES.items()}


def _with_sides(source, columns):
    return {size: [source(*shape), normal(*shape[:-1], columns)] for size, shape in SQUARES.items()}


SWEEPS = [
    Sweep(
        "MatMul",
        lambda tf, a, b: tf.matmul(a, b),
        {
            f"{m}x{k}x{n}": [normal(m, k), normal(k, n)]
            for m, k, n in (
                (16, 16, 16),
                (64, 64, 64),
                (256, 256, 256),
                (1000, 1000, 1000),
                (32, 1024, 1024),
                (1024, 32, 1024),
                (4096, 64, 10),
                (1, 512, 512),
            )
        },
        "f32 f64",
        lambda t, a, b: a @ b,
    ),
    Sweep(
        "MatMul whole",
        lambda tf, a, b: tf.matmul(a, b),
        {"256x256x256": [normal(256, 256), normal(256, 256)]},
        "i32 f16",
        lambda t, a, b: a @ b,
        tolerance=2e-2,
    ),
    Sweep(
        "MatMul ab'",
        lambda tf, a, b: tf.matmul(a, b, transpose_b=True),
        {"512x512x512": [normal(512, 512), normal(512, 512)]},
        REAL,
        lambda t, a, b: a @ b.T,
    ),
    Sweep(
        "MatMul a'b",
        lambda tf, a, b: tf.matmul(a, b, transpose_a=True),
        {"512x512x512": [normal(512, 512), normal(512, 512)]},
        REAL,
        lambda t, a, b: a.T @ b,
    ),
    Sweep(
        "MatMul Ax",
        lambda tf, a, b: tf.matmul(a, b),
        {f"{m}x{n}": [normal(m, n), normal(n, 1)] for m, n in ((64, 64), (512, 512), (2048, 2048), (20000, 50))},
        "f32 f64",
        lambda t, a, b: a @ b,
    ),
    Sweep(
        "MatMul A'x",
        lambda tf, a, b: tf.matmul(a, b, transpose_a=True),
        {f"{m}x{n}": [normal(m, n), normal(m, 1)] for m, n in ((64, 64), (512, 512), (2048, 2048), (20000, 50))},
        "f32 f64",
        lambda t, a, b: a.T @ b,
    ),
    Sweep(
        "MatMul x'A",
        lambda tf, a, b: tf.matmul(b, a),
        {f"{m}x{n}": [normal(m, n), normal(1, m)] for m, n in ((64, 64), (512, 512), (2048, 2048))},
        "f32 f64",
        lambda t, a, b: b @ a,
    ),
    Sweep(
        "MatMul x'A'",
        lambda tf, a, b: tf.matmul(b, a, transpose_b=True),
        {f"{m}x{n}": [normal(m, n), normal(1, n)] for m, n in ((64, 64), (512, 512), (2048, 2048))},
        "f32 f64",
        lambda t, a, b: b @ a.T,
    ),
    Sweep(
        "MatMul vector",
        lambda tf, a, b: tf.matmul(a, b),
        {"512x512": [normal(512, 512), normal(512, 1)]},
        "f16 c64",
        lambda t, a, b: a @ b,
        tolerance=2e-2,
    ),
    Sweep(
        "BatchMatMul",
        lambda tf, a, b: tf.matmul(a, b),
        {
            "64x32x32x32": [normal(64, 32, 32), normal(64, 32, 32)],
            "8x128x64x128": [normal(8, 128, 64), normal(8, 64, 128)],
            "1000x4x4x4": [normal(1000, 4, 4), normal(1000, 4, 4)],
            "100x50x50x1": [normal(100, 50, 50), normal(100, 50, 1)],
        },
        "f32 f64",
        lambda t, a, b: a @ b,
    ),
    Sweep(
        "Einsum",
        lambda tf, a, b: tf.einsum("bij,bkj->bik", a, b),
        {"32x64x64": [normal(32, 64, 64), normal(32, 64, 64)]},
        "f32",
        lambda t, a, b: t.einsum("bij,bkj->bik", a, b),
    ),
    Sweep(
        "Cholesky",
        lambda tf, x: tf.linalg.cholesky(x),
        _squares(_definite),
        "f32 f64",
        lambda t, x: t.linalg.cholesky(x),
    ),
    Sweep(
        "MatrixInverse",
        lambda tf, x: tf.linalg.inv(x),
        _squares(_regular),
        "f32 f64 c64",
        lambda t, x: t.linalg.inv(x),
        tolerance=1e-2,
    ),
    Sweep(
        "MatrixDeterminant",
        lambda tf, x: tf.linalg.det(x),
        {"8": [_definite(8, 8)], "64": [_definite(64, 64)], "500x16": [_definite(500, 16, 16)]},
        "f32 f64",
        lambda t, x: t.linalg.det(x),
        tolerance=1e-2,
    ),
    Sweep(
        "LogMatrixDeterminant",
        lambda tf, x: tf.linalg.slogdet(x),
        _squares(_definite),
        "f32 f64",
        lambda t, x: tuple(t.linalg.slogdet(x)),
    ),
    Sweep(
        "MatrixSolve",
        lambda tf, a, b: tf.linalg.solve(a, b),
        _with_sides(_regular, 4),
        "f32 f64",
        lambda t, a, b: t.linalg.solve(a, b),
        tolerance=1e-2,
    ),
    Sweep(
        "MatrixTriangularSolve",
        lambda tf, a, b: tf.linalg.triangular_solve(a, b),
        _with_sides(_lower, 4),
        "f32 f64",
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False),
    ),
    Sweep(
        "MatrixTriangularSolve wide",
        lambda tf, a, b: tf.linalg.triangular_solve(a, b),
        {"256": [_lower(256, 256), normal(256, 256)]},
        "f32 f64",
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False),
    ),
    Sweep(
        "MatrixTriangularSolve adjoint",
        lambda tf, a, b: tf.linalg.triangular_solve(a, b, adjoint=True),
        {"256": [_lower(256, 256), normal(256, 4)]},
        "f32 f64",
        lambda t, a, b: t.linalg.solve_triangular(a.mT, b, upper=True),
    ),
    Sweep(
        "CholeskySolve",
        lambda tf, a, b: tf.linalg.cholesky_solve(a, b),
        {"256": [_lower(256, 256), normal(256, 4)]},
        "f32 f64",
        lambda t, a, b: t.cholesky_solve(b, a),
    ),
    Sweep(
        "MatrixSolveLs",
        lambda tf, a, b: tf.linalg.lstsq(a, b),
        {"64x8": [normal(64, 8), normal(64, 2)], "1000x50": [normal(1000, 50), normal(1000, 2)]},
        "f32 f64",
        lambda t, a, b: t.linalg.lstsq(a, b)[0],
        tolerance=1e-2,
    ),
    Sweep(
        "MatrixSolveLs l2",
        lambda tf, a, b: tf.linalg.lstsq(a, b, l2_regularizer=0.1),
        {"1000x50": [normal(1000, 50), normal(1000, 2)]},
        "f32 f64",
        tolerance=1e-2,
    ),
    Sweep(
        "Qr",
        lambda tf, x: tf.linalg.qr(x),
        {"8": [normal(8, 8)], "64": [normal(64, 64)], "256x64": [normal(256, 64)], "500x16": [normal(500, 16, 16)]},
        "f32 f64",
        lambda t, x: tuple(t.linalg.qr(x)),
        compared=False,
    ),
    Sweep(
        "Svd",
        lambda tf, x: tf.linalg.svd(x),
        {"8": [normal(8, 8)], "64": [normal(64, 64)], "128x32": [normal(128, 32)], "200x16": [normal(200, 16, 16)]},
        "f32 f64",
        lambda t, x: tuple(t.linalg.svd(x, full_matrices=False)),
        compared=False,
    ),
    Sweep(
        "Svd values",
        lambda tf, x: tf.linalg.svd(x, compute_uv=False),
        {"64": [normal(64, 64)], "128x32": [normal(128, 32)]},
        "f32 f64",
        lambda t, x: t.linalg.svdvals(x),
    ),
    Sweep(
        "SelfAdjointEig",
        lambda tf, x: tf.linalg.eigh(x),
        {
            "8": [_definite(8, 8)],
            "64": [_definite(64, 64)],
            "128": [_definite(128, 128)],
            "200x16": [_definite(200, 16, 16)],
        },
        "f32 f64",
        lambda t, x: tuple(t.linalg.eigh(x)),
        compared=False,
    ),
    Sweep(
        "SelfAdjointEig values",
        lambda tf, x: tf.linalg.eigvalsh(x),
        {"64": [_definite(64, 64)]},
        "f32 f64",
        lambda t, x: t.linalg.eigvalsh(x),
    ),
    Sweep(
        "Lu",
        lambda tf, x: tf.linalg.lu(x),
        {
            "8": [_regular(8, 8)],
            "64": [_regular(64, 64)],
            "256": [_regular(256, 256)],
            "500x16": [_regular(500, 16, 16)],
        },
        "f32 f64",
        lambda t, x: t.linalg.lu_factor(x)[0],
        compared=False,
    ),
    Sweep(
        "MatrixExponential",
        lambda tf, x: tf.linalg.expm(x),
        {"8": [normal(8, 8)], "32": [normal(32, 32)]},
        "f64",
        lambda t, x: t.linalg.matrix_exp(x),
        tolerance=1e-2,
    ),
    Sweep(
        "MatrixSquareRoot",
        lambda tf, x: tf.linalg.sqrtm(x),
        {"8": [_definite(8, 8)], "32": [_definite(32, 32)]},
        "f32 f64",
        tolerance=1e-2,
    ),
    *(
        Sweep(
            op,
            lambda tf, x, name=name: getattr(tf.signal, name)(x),
            {size: [normal(*shape)] for size, shape in shapes.items()},
            "c64 c128",
            lambda t, x, name=torch: getattr(t.fft, name)(x),
        )
        for op, name, torch, shapes in (
            (
                "FFT",
                "fft",
                "fft",
                {
                    "64": (64,),
                    "1024": (1024,),
                    "1000": (1000,),
                    "1009": (1009,),
                    "65536": (65536,),
                    "256x1024": (256, 1024),
                    "1000x60": (1000, 60),
                },
            ),
            ("IFFT", "ifft", "ifft", {"1024": (1024,), "256x1024": (256, 1024)}),
            ("FFT2D", "fft2d", "fft2", {"64x64": (64, 64), "256x256": (256, 256), "16x100x60": (16, 100, 60)}),
            ("IFFT2D", "ifft2d", "ifft2", {"256x256": (256, 256)}),
        )
    ),
    Sweep(
        "FFT3D",
        lambda tf, x: tf.signal.fft3d(x),
        {"32x32x32": [normal(32, 32, 32)]},
        "c64 c128",
        lambda t, x: t.fft.fftn(x),
    ),
    Sweep(
        "RFFT",
        lambda tf, x: tf.signal.rfft(x),
        {"64": [normal(64)], "1024": [normal(1024)], "256x1024": [normal(256, 1024)], "100x4410": [normal(100, 4410)]},
        "f32 f64",
        lambda t, x: t.fft.rfft(x),
    ),
    Sweep(
        "RFFT2D", lambda tf, x: tf.signal.rfft2d(x), {"256x256": [normal(256, 256)]}, "f32", lambda t, x: t.fft.rfft2(x)
    ),
    Sweep(
        "IRFFT",
        lambda tf, x: tf.signal.irfft(x),
        {
            "513": [lambda d, rng: np.fft.rfft(rng.standard_normal(1024)).astype(d)],
            "256x513": [lambda d, rng: np.fft.rfft(rng.standard_normal((256, 1024))).astype(d)],
        },
        "c64 c128",
        lambda t, x: t.fft.irfft(x),
    ),
]
