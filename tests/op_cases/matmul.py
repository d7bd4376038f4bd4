"""Cases of matrix products."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

ALL = "float16 bfloat16 float32 float64 uint8 uint16 int32 uint32 int64 uint64 complex64 complex128"


def _matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False):
    kind = a.dtype
    if kind.kind not in "iuc":
        a, b = a.astype(np.float64), b.astype(np.float64)
    if transpose_a or adjoint_a:
        a = np.swapaxes(a, -1, -2)
    if transpose_b or adjoint_b:
        b = np.swapaxes(b, -1, -2)
    return np.matmul(np.conj(a) if adjoint_a else a, np.conj(b) if adjoint_b else b).astype(kind)


def _batched(a, b, **kwargs):
    return tf.raw_ops.BatchMatMul(x=a, y=b, **kwargs)


SQUARE = [
    Args(real(2, 3), real(3, 4)),
    Args(real(3, 2), real(3, 4), transpose_a=True),
    Args(real(2, 3), real(4, 3), transpose_b=True),
    Args(real(3, 2), real(4, 3), transpose_a=True, transpose_b=True),
    Args(real(3, 2), real(4, 3), adjoint_a=True, adjoint_b=True),
    Args(real(1, 5), real(5, 1)),
    Args(real(5, 1), real(1, 5)),
    Args(real(5, 1), real(5, 1), transpose_a=True),
    Args(real(0, 3), real(3, 4)),
    Args(real(2, 0), real(0, 4)),
]
# Large enough for oneDNN and for several blocks of our own loops.
LARGE = [
    Args(real(40, 33), real(33, 29)),
    Args(real(33, 40), real(29, 33), transpose_a=True, transpose_b=True),
    Args(real(1, 300), real(300, 40)),
    Args(real(300, 40), real(40, 1)),
    Args(real(130, 300), real(300, 27)),
    Args(real(3, 20, 18), real(3, 18, 21)),
    Args(real(3, 20, 18), real(18, 21)),
    Args(real(20, 18), real(3, 18, 21)),
    Args(real(2, 1, 20, 18), real(3, 21, 18), transpose_b=True),
]
BATCHES = [
    Args(real(5, 2, 3), real(5, 3, 4)),
    Args(real(5, 3, 2), real(5, 4, 3), transpose_a=True, adjoint_b=True),
    Args(real(2, 1, 2, 3), real(4, 3, 2)),
    Args(real(2, 3), real(4, 3, 2)),
    Args(real(4, 2, 3), real(3, 2)),
    Args(real(0, 2, 3), real(3, 2)),
    Args(real(4, 2, 0), real(4, 0, 2)),
]
BAD = [
    Bad(Args(real(2, 3), real(4, 5)), match="2,3"),
    Bad(Args(real(2, 3), real(2, 5), transpose_b=True), match="2,3"),
    Bad(Args(real(3), real(3, 5)), match="[3]"),
    Bad(Args(real(2, 2, 3), real(3, 3, 5)), match="2"),
]
case("MatMul", tf.matmul, _matmul, samples=SQUARE, dtypes=ALL, bad=BAD, order=2)
case("MatMul", tf.matmul, _matmul, samples=LARGE, dtypes=ALL, tolerance=2e-4)
case("BatchMatMulV2", tf.matmul, _matmul, samples=BATCHES, dtypes=ALL, bad=BAD, order=2)
case(
    "BatchMatMulV3",
    lambda a, b: tf.raw_ops.BatchMatMulV3(x=a, y=b, Tout=a.dtype),
    _matmul,
    samples=[Args(real(5, 2, 3), real(5, 3, 4)), Args(real(2, 3), real(5, 3, 4))],
    order=1,
)
case(
    "BatchMatMul",
    _batched,
    lambda a, b, adj_x=False, adj_y=False: _matmul(a, b, adjoint_a=adj_x, adjoint_b=adj_y),
    samples=[Args(real(5, 2, 3), real(5, 3, 4)), Args(real(5, 3, 2), real(5, 4, 3), adj_x=True, adj_y=True)],
    dtypes="float32 float64 complex64",
    bad=[Bad(Args(real(5, 2, 3), real(4, 3, 4)), match="same batch")],
    order=2,
)
case(
    "SparseMatMul",
    lambda a, b, **k: tf.matmul(a, b, a_is_sparse=True, **k),
    lambda a, b, **k: _matmul(a.astype(np.float32), b.astype(np.float32), **k),
    samples=[Args(real(2, 3), real(3, 4)), Args(real(3, 2), real(4, 3), transpose_a=True, transpose_b=True)],
    dtypes="float32 bfloat16",
    bad=[Bad(Args(real(2, 3), real(4, 5)), match="2,3")],
)
case("MatMul", lambda a, b: a @ b, _matmul, samples=[Args(real(2, 3), real(3, 4)), Args(real(4, 2, 3), real(3, 4))])
case(
    "BatchMatMulV2",
    tf.linalg.matvec,
    lambda a, b: np.matmul(a, b[..., None])[..., 0],
    samples=[Args(real(2, 3), real(3)), Args(real(5, 2, 3), real(5, 3))],
    order=2,
)
case(
    "Cross",
    tf.cross,
    lambda a, b: np.cross(a, b).astype(a.dtype),
    samples=[Args(real(3), real(3)), Args(real(4, 5, 3), real(4, 5, 3)), Args(real(0, 3), real(0, 3))],
    dtypes="float16 bfloat16 float32 float64 int32 int64",
    bad=[
        Bad(Args(real(2, 3), real(3)), match="same shape"),
        Bad(Args(real(2), real(2)), match="3-element"),
        Bad(Args(real(), real()), match="1D"),
    ],
    order=2,
)
