"""Cases of permuting dimensions."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"


def _perm(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


_SAMPLES = [
    Args(real(2, 3), _perm(1, 0)),
    Args(real(2, 3, 4), _perm(2, 0, 1)),
    Args(real(2, 3, 4), _perm(0, 2, 1)),
    Args(real(2, 3, 4), _perm(1, 0, 2)),
    Args(real(2, 1, 4), _perm(1, 0, 2)),
    Args(real(2, 3, 2, 2, 3), np.array([4, 2, 0, 3, 1], np.int64)),
    Args(real(2, 0), _perm(1, 0)),
    Args(real(), _perm()),
    Args(real(37, 41), _perm(1, 0)),
]
_BAD = [
    Bad(Args(real(2, 3), _perm(0)), match="2"),
    Bad(Args(real(2, 3), _perm(0, 2)), match="2"),
    Bad(Args(real(2, 3), _perm(1, 1)), match="1"),
    Bad(Args(real(2, 3), _perm(0, -3)), match="-1"),
    Bad(Args(real(2, 3), np.array([[1, 0]], np.int32)), match="rank 1"),
]
case("Transpose", tf.transpose, lambda x, perm: np.transpose(x, perm), samples=_SAMPLES, dtypes=ALL, order=2, bad=_BAD)
case("Transpose", tf.transpose, np.transpose, samples=[Args(real(2, 3, 4)), Args(real(3))], dtypes="float64", order=2)
case(
    "Transpose",
    tf.matrix_transpose,
    lambda x: np.swapaxes(x, -1, -2),
    samples=[Args(real(2, 3, 4)), Args(real(3, 2))],
    dtypes="float64",
    order=2,
)
case(
    "ConjugateTranspose",
    lambda x, perm: apply("ConjugateTranspose", x, perm),
    lambda x, perm: np.conj(np.transpose(x, perm)),
    samples=_SAMPLES,
    dtypes="float32 float64 complex64 complex128",
    order=2,
    bad=_BAD,
)
