"""Matrix products, linear algebra and Fourier transforms."""

import numpy as np

from op_sweep import Sweep, named, normal

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


MATRICES = {"8": (8, 8), "64": (64, 64), "500x16": (500, 16, 16)}
VECTORS = ((64, 64), (512, 512), (2048, 2048))


def _product(op, operands, dtypes=REAL, transposed="", **options):
    """A product of two matrices, of which those named in `transposed` are given transposed."""

    def graph(tf, a, b):
        flags = {f"transpose_{name}": True for name in transposed}
        return tf.matmul(a, b, **flags)

    def torch(t, a, b):
        return (a.mT if "a" in transposed else a) @ (b.mT if "b" in transposed else b)

    inputs = {size: [normal(*a), normal(*b)] for size, (a, b) in operands.items()}
    return Sweep(op, graph, inputs, dtypes, torch, **options)


def _linear(op, name, inputs, torch=None, dtypes=REAL, **options):
    """A function of `tf.linalg`; `torch` is a function, or the name of one of `torch.linalg`."""
    call = named(f"linalg.{torch}") if isinstance(torch, str) else torch
    return Sweep(op, named(f"linalg.{name}"), inputs, dtypes, call, **options)


def _lower_system(t, a, b):
    return t.linalg.solve_triangular(a, b, upper=False)


SWEEPS = [
    _product(
        "MatMul",
        {
            f"{m}x{k}x{n}": ((m, k), (k, n))
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
    ),
    _product("MatMul whole", {"256x256x256": ((256, 256), (256, 256))}, "i32 f16", tolerance=2e-2),
    _product("MatMul ab'", {"512x512x512": ((512, 512), (512, 512))}, transposed="b"),
    _product("MatMul a'b", {"512x512x512": ((512, 512), (512, 512))}, transposed="a"),
    _product("MatMul Ax", {f"{m}x{n}": ((m, n), (n, 1)) for m, n in (*VECTORS, (20000, 50))}),
    _product("MatMul A'x", {f"{m}x{n}": ((m, n), (m, 1)) for m, n in (*VECTORS, (20000, 50))}, transposed="a"),
    _product("MatMul x'A", {f"{m}x{n}": ((1, m), (m, n)) for m, n in VECTORS}),
    _product("MatMul x'A'", {f"{m}x{n}": ((1, n), (m, n)) for m, n in VECTORS}, transposed="b"),
    _product("MatMul vector", {"512x512": ((512, 512), (512, 1))}, "f16 c64", tolerance=2e-2),
    _product(
        "BatchMatMul",
        {
            "64x32x32x32": ((64, 32, 32), (64, 32, 32)),
            "8x128x64x128": ((8, 128, 64), (8, 64, 128)),
            "1000x4x4x4": ((1000, 4, 4), (1000, 4, 4)),
            "100x50x50x1": ((100, 50, 50), (100, 50, 1)),
        },
    ),
    Sweep(
        "Einsum",
        lambda tf, a, b: tf.einsum("bij,bkj->bik", a, b),
        {"32x64x64": [normal(32, 64, 64), normal(32, 64, 64)]},
        "f32",
        lambda t, a, b: t.einsum("bij,bkj->bik", a, b),
    ),
    _linear("Cholesky", "cholesky", _squares(_definite), "cholesky"),
    _linear("MatrixInverse", "inv", _squares(_regular), "inv", "f32 f64 c64", tolerance=1e-2),
    _linear(
        "MatrixDeterminant",
        "det",
        {size: [_definite(*shape)] for size, shape in MATRICES.items()},
        "det",
        tolerance=1e-2,
    ),
    _linear("LogMatrixDeterminant", "slogdet", _squares(_definite), lambda t, x: tuple(t.linalg.slogdet(x))),
    _linear("MatrixSolve", "solve", _with_sides(_regular, 4), "solve", tolerance=1e-2),
    _linear("MatrixTriangularSolve", "triangular_solve", _with_sides(_lower, 4), _lower_system),
    _linear(
        "MatrixTriangularSolve wide", "triangular_solve", {"256": [_lower(256, 256), normal(256, 256)]}, _lower_system
    ),
    Sweep(
        "MatrixTriangularSolve adjoint",
        lambda tf, a, b: tf.linalg.triangular_solve(a, b, adjoint=True),
        {"256": [_lower(256, 256), normal(256, 4)]},
        REAL,
        lambda t, a, b: t.linalg.solve_triangular(a.mT, b, upper=True),
    ),
    _linear(
        "CholeskySolve",
        "cholesky_solve",
        {"256": [_lower(256, 256), normal(256, 4)]},
        lambda t, a, b: t.cholesky_solve(b, a),
    ),
    _linear(
        "MatrixSolveLs",
        "lstsq",
        {"64x8": [normal(64, 8), normal(64, 2)], "1000x50": [normal(1000, 50), normal(1000, 2)]},
        lambda t, a, b: t.linalg.lstsq(a, b)[0],
        tolerance=1e-2,
    ),
    Sweep(
        "MatrixSolveLs l2",
        lambda tf, a, b: tf.linalg.lstsq(a, b, l2_regularizer=0.1),
        {"1000x50": [normal(1000, 50), normal(1000, 2)]},
        REAL,
        tolerance=1e-2,
    ),
    # Vectors are known up to their signs: only times are compared.
    _linear(
        "Qr",
        "qr",
        {"8": [normal(8, 8)], "64": [normal(64, 64)], "256x64": [normal(256, 64)], "500x16": [normal(500, 16, 16)]},
        lambda t, x: tuple(t.linalg.qr(x)),
        compared=False,
    ),
    _linear(
        "Svd",
        "svd",
        {"8": [normal(8, 8)], "64": [normal(64, 64)], "128x32": [normal(128, 32)], "200x16": [normal(200, 16, 16)]},
        lambda t, x: tuple(t.linalg.svd(x, full_matrices=False)),
        compared=False,
    ),
    Sweep(
        "Svd values",
        lambda tf, x: tf.linalg.svd(x, compute_uv=False),
        {"64": [normal(64, 64)], "128x32": [normal(128, 32)]},
        REAL,
        lambda t, x: t.linalg.svdvals(x),
    ),
    _linear(
        "SelfAdjointEig",
        "eigh",
        {size: [_definite(*shape)] for size, shape in (MATRICES | {"128": (128, 128)}).items()},
        lambda t, x: tuple(t.linalg.eigh(x)),
        compared=False,
    ),
    _linear("SelfAdjointEig values", "eigvalsh", {"64": [_definite(64, 64)]}, "eigvalsh"),
    _linear("Lu", "lu", _squares(_regular), lambda t, x: t.linalg.lu_factor(x)[0], compared=False),
    _linear(
        "MatrixExponential",
        "expm",
        {"8": [normal(8, 8)], "32": [normal(32, 32)]},
        "matrix_exp",
        "f64",
        tolerance=1e-2,
    ),
    _linear("MatrixSquareRoot", "sqrtm", {"8": [_definite(8, 8)], "32": [_definite(32, 32)]}, tolerance=1e-2),
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
