"""Cases of diagonals and bands of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.search import ALL_NUMBERS

FLOATS = "float16 bfloat16 float32 float64 complex64 complex128"


def _diag(x: np.ndarray) -> np.ndarray:
    return np.diag(x.ravel()).reshape(x.shape + x.shape) if x.size else np.zeros(x.shape + x.shape, x.dtype)


def _diag_part(x: np.ndarray) -> np.ndarray:
    half = x.shape[: x.ndim // 2]
    n = int(np.prod(half))
    return np.diagonal(x.reshape(n, n)).reshape(half) if n else np.zeros(half, x.dtype)


case(
    "Diag",
    tf.diag,
    _diag,
    samples=[Args(real(3)), Args(real(2, 3)), Args(real(0))],
    dtypes=FLOATS + " int32 int64",
    bad=[Bad(Args(real()), match="vector")],
    order=2,
)
case(
    "DiagPart",
    tf.diag_part,
    _diag_part,
    samples=[Args(real(3, 3)), Args(real(2, 3, 2, 3)), Args(real(0, 0))],
    dtypes=FLOATS + " int32 int64",
    bad=[
        Bad(Args(real(2, 3)), match="[2,3]"),
        Bad(Args(real(2, 2, 2)), match="[2,2,2]"),
        Bad(Args(real()), match="rank"),
    ],
    order=2,
)


def _positions(rows: int, columns: int, lower: int, upper: int, longest: int, align: str) -> Any:
    """Triples (row in the band, column in the band, (row, column) in the matrix)."""
    above, below = align.split("_")
    for m, d in enumerate(range(upper, lower - 1, -1)):
        length = min(rows + min(d, 0), columns - max(d, 0))
        left = (d >= 0 and above == "LEFT") or (d <= 0 and below == "LEFT")
        offset = 0 if left else longest - length
        for i in range(length):
            yield m, offset + i, (max(0, -d) + i, max(0, d) + i)


def _pair(k: Any) -> tuple[int, int]:
    k = np.ravel(k)
    return int(k[0]), int(k[-1])


def _matrix_diag(
    x: np.ndarray, k: Any = 0, num_rows: int = -1, num_cols: int = -1, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> np.ndarray:
    lower, upper = _pair(k)
    band = x if lower < upper else x[..., None, :]
    longest = x.shape[-1]
    least = longest - min(upper, 0), longest + max(lower, 0)
    rows, columns = (max(least),) * 2 if num_rows == num_cols == -1 else (
        least[0] if num_rows == -1 else num_rows, least[1] if num_cols == -1 else num_cols)  # fmt: skip
    out = np.zeros((*band.shape[:-2], rows, columns), x.dtype)
    if out.dtype == object:
        out[...] = b""
    out[...] = out if np.ndim(padding_value) == 0 and padding_value == 0 else padding_value
    for m, c, at in _positions(rows, columns, lower, upper, longest, align):
        out[..., at[0], at[1]] = band[..., m, c]
    return out


def _matrix_diag_part(x: np.ndarray, k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT") -> np.ndarray:
    lower, upper = _pair(k)
    rows, columns = x.shape[-2:]
    longest = min(rows + min(upper, 0), columns - max(lower, 0))
    out = np.full((*x.shape[:-2], upper - lower + 1, longest), padding_value, x.dtype)
    for m, c, at in _positions(rows, columns, lower, upper, longest, align):
        out[..., m, c] = x[..., at[0], at[1]]
    return out if lower < upper else out[..., 0, :]


def _matrix_set_diag(x: np.ndarray, diagonal: np.ndarray, k: Any = 0, align: str = "RIGHT_LEFT") -> np.ndarray:
    lower, upper = _pair(k)
    band = diagonal if lower < upper else diagonal[..., None, :]
    out = x.copy()
    for m, c, at in _positions(*x.shape[-2:], lower, upper, band.shape[-1], align):
        out[..., at[0], at[1]] = band[..., m, c]
    return out


case(
    "MatrixDiag",
    tf.matrix_diag,
    _matrix_diag,
    samples=[Args(real(3)), Args(real(2, 3)), Args(real(2, 0)), Args(real(0, 2)), Args(real(1, 2, 1, 2))],
    dtypes=ALL_NUMBERS + " string",
    bad=[Bad(Args(real()), match="rank")],
)
case("MatrixDiag", tf.matrix_diag, _matrix_diag, samples=[Args(real(3)), Args(real(2, 3))], order=2)
_ALIGNS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")
case(
    "MatrixDiagV3",
    tf.matrix_diag,
    _matrix_diag,
    samples=[
        Args(real(3), k=1),
        Args(real(2, 3), k=-2),
        Args(real(3), num_rows=3, num_cols=5, padding_value=7),
        Args(real(3), k=-1, num_cols=3),
        *[Args(real(2, 3, 3), k=(-1, 1), align=align) for align in _ALIGNS],
        *[Args(real(3, 2), k=(-2, 0), num_rows=4, num_cols=2, align=align) for align in _ALIGNS],
    ],
    dtypes="float32 float64 int32 complex64",
    bad=[
        Bad(Args(real(3), num_rows=2), match="too small"),
        Bad(Args(real(3), num_rows=5, num_cols=5), match="longer"),
        Bad(Args(real(3), k=(1, 0)), match="larger"),
        Bad(Args(real(3), k=(0, 1)), match="rank"),
        Bad(Args(real(3, 3), k=(0, 1)), match="2 diagonals"),
        Bad(Args(real(3), k=np.array([1, 2, 3], np.int32)), match="[3]"),
        Bad(Args(real(3), k=-(2**31)), match=""),
        Bad(Args(real(3), k=2**31 - 1), match=""),
    ],
    order=2,
)
case(
    "MatrixDiagV2",
    lambda x, padding: tf.raw_ops.MatrixDiagV2(diagonal=x, k=[0, 1], num_rows=-1, num_cols=-1, padding_value=padding),
    lambda x, padding: _matrix_diag(x, (0, 1), padding_value=padding, align="LEFT_LEFT"),
    samples=[Args(real(2, 3), real()), Args(real(2, 2, 2), real())],
    order=2,
)
case(
    "MatrixDiagPart",
    tf.matrix_diag_part,
    _matrix_diag_part,
    samples=[Args(real(3, 3)), Args(real(2, 3, 4)), Args(real(4, 2)), Args(real(2, 0, 3)), Args(real(0, 2, 2))],
    dtypes=ALL_NUMBERS,
    bad=[Bad(Args(real(3)), match="matrix"), Bad(Args(real()), match="matrix")],
)
case(
    "MatrixDiagPart",
    tf.matrix_diag_part,
    _matrix_diag_part,
    samples=[Args(real(3, 3)), Args(real(2, 3, 4)), Args(real(4, 2))],
    order=2,
)
case(
    "MatrixDiagPartV3",
    tf.matrix_diag_part,
    _matrix_diag_part,
    samples=[
        Args(real(3, 4), k=1),
        Args(real(2, 3, 4), k=-2),
        *[Args(real(2, 3, 4), k=(-2, 3), align=align) for align in _ALIGNS],
        *[Args(real(4, 3), k=(-1, 1), padding_value=5, align=align) for align in _ALIGNS],
    ],
    dtypes="float32 float64 int32 complex64",
    bad=[
        Bad(Args(real(3, 4), k=4), match="4"),
        Bad(Args(real(3, 4), k=-3), match="-3"),
        Bad(Args(real(3, 4), k=(2, 1)), match="larger"),
        Bad(Args(real(3, 4), k=(-(2**31), 2**31 - 1)), match="range"),
    ],
    order=2,
)
case(
    "MatrixDiagPartV2",
    lambda x, padding: tf.raw_ops.MatrixDiagPartV2(input=x, k=[-1, 1], padding_value=padding),
    lambda x, padding: _matrix_diag_part(x, (-1, 1), padding, "LEFT_LEFT"),
    samples=[Args(real(3, 4), real()), Args(real(2, 3, 2), real())],
    order=2,
)
case(
    "MatrixSetDiag",
    tf.matrix_set_diag,
    _matrix_set_diag,
    samples=[Args(real(3, 3), real(3)), Args(real(2, 3, 4), real(2, 3)), Args(real(2, 0), real(0))],
    dtypes=ALL_NUMBERS,
    bad=[
        Bad(Args(real(3, 3), real(2)), match="[2]"),
        Bad(Args(real(2, 3, 3), real(3)), match="[3]"),
        Bad(Args(real(3), real(3)), match="matrix"),
    ],
)
case(
    "MatrixSetDiag",
    tf.matrix_set_diag,
    _matrix_set_diag,
    samples=[Args(real(3, 3), real(3)), Args(real(2, 3, 4), real(2, 3))],
    order=2,
)
case(
    "MatrixSetDiagV3",
    tf.matrix_set_diag,
    _matrix_set_diag,
    samples=[
        Args(real(3, 4), real(3), k=1),
        *[Args(real(2, 3, 4), real(2, 3, 3), k=(-1, 1), align=align) for align in _ALIGNS],
    ],
    dtypes="float32 float64 int32",
    bad=[Bad(Args(real(3, 4), real(3), k=9), match="9"), Bad(Args(real(3, 4), real(2), k=1), match="[2]")],
    order=2,
)
case(
    "MatrixSetDiagV2",
    lambda x, d: tf.raw_ops.MatrixSetDiagV2(input=x, diagonal=d, k=[-1, 1]),
    lambda x, d: _matrix_set_diag(x, d, (-1, 1), "LEFT_LEFT"),
    samples=[Args(real(3, 4), real(3, 3))],
    order=2,
)


def _band_part(x: np.ndarray, lower: Any, upper: Any) -> np.ndarray:
    i, j = np.indices(x.shape[-2:])
    keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
    return np.where(keep, x, np.zeros((), x.dtype)).astype(x.dtype)


_BANDS = [
    Args(real(3, 4), 1, 0),
    Args(real(2, 4, 3), -1, 0),
    Args(real(4, 4), 0, -1),
    Args(real(3, 3), -1, -1),
    Args(real(3, 5), 0, 0),
    Args(real(0, 3), -1, 0),
    Args(real(3, 0), 0, 0),
    Args(real(5, 2), 5, 2),
]
case(
    "MatrixBandPart",
    tf.matrix_band_part,
    _band_part,
    samples=_BANDS,
    dtypes=ALL_NUMBERS,
    bad=[
        Bad(Args(real(3), 0, 0), match="matrix"),
        Bad(Args(real(3, 3), 4, 0), match="4"),
        Bad(Args(real(3, 3), 0, 4), match="4"),
        Bad(Args(real(3, 3), np.array([1], np.int64), np.array(0, np.int64)), match="scalar"),
    ],
)
case("MatrixBandPart", tf.matrix_band_part, _band_part, samples=_BANDS[:4], order=2)
case(
    "MatrixDiag",
    tf.eye,
    lambda n, m=None, batch_shape=None, dtype=tf.float32: np.broadcast_to(
        np.eye(n, m, dtype=dtype.as_numpy_dtype), (*(batch_shape or []), n, n if m is None else m)
    ),
    samples=[
        Args(3),
        Args(2, 4),
        Args(4, 2),
        Args(0),
        Args(np.array(3, np.int32)),
        Args(np.array(3, np.int32), np.array(2, np.int32)),
        Args(2, 3, batch_shape=[2, 1]),
        Args(2, dtype=tf.int64),
    ],
    dtypes="float32",
)
case(
    "MatrixDiagPart",
    tf.trace,
    lambda x: np.trace(x, axis1=-2, axis2=-1).astype(x.dtype),
    samples=[Args(real(3, 3)), Args(real(2, 3, 4))],
    dtypes="float32 float64 int32",
    order=2,
)
