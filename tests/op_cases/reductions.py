"""Cases of the reductions."""

from __future__ import annotations

import numpy as np
from scipy import special

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

ALL = "float16 bfloat16 float32 float64 uint8 int8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128"
REALS = "float16 bfloat16 float32 float64 uint8 int8 int16 uint16 int32 uint32 int64 uint64"

AXES = [
    Args(real(2, 3, 4)), Args(real(2, 3, 4), 0), Args(real(2, 3, 4), 1), Args(real(2, 3, 4), -1),
    Args(real(2, 3, 4), (0, 2)), Args(real(2, 3, 4), (0, 2), keepdims=True), Args(real(2, 3, 4), (), keepdims=True),
    Args(real(2, 1, 3, 2, 1), (2, 0)), Args(real()), Args(real(3, 0), 0), Args(real(5, 33), 1), Args(real(37, 5), 0),
    Args(real(3, 1, 2, 3, 2), (1, 3), keepdims=True),
]  # fmt: skip
LARGE = [Args(real(7, 1300), 1), Args(real(300, 3), 0), Args(real(600, 70), 0), Args(real(3, 90, 5, 70), (1, 3))]
SHORT_ROWS = [Args(real(150, n), 1) for n in (2, 3, 4, 7, 8, 31)]
BAD = [
    Bad(Args(real(2, 3), 2), match="2"),
    Bad(Args(real(2, 3), (-3,)), match="-3"),
    Bad(Args(real(2, 3), np.array([0, 7])), match="7"),
    Bad(Args(real(2, 3), np.array([1, -1])), match="duplicate"),
]


def _wide(function):
    """The reference computes in double, and rounds once; integers wrap."""

    def reference(x, axis=None, keepdims=False):
        x = np.asarray(x)
        wide = x.astype(np.float64) if x.dtype.kind in "fV" else x
        return function(wide, axis=axis, keepdims=keepdims).astype(x.dtype)

    return reference


def _mean(x, axis=None, keepdims=False):
    if x.dtype.kind not in "iu":
        return np.mean(x, axis=axis, keepdims=keepdims)
    wide = x.dtype if x.dtype.itemsize == 8 else np.int64  # Totals of smaller integers do not wrap around.
    total = np.asarray(np.sum(x, axis=axis, keepdims=keepdims, dtype=wide))
    count = x.size // max(1, total.size) if x.size else 0
    return np.array([abs(int(t)) // count * (1 if t >= 0 else -1) for t in np.ravel(total)], dtype=object).reshape(
        total.shape
    )


def _same_type(function):
    def reference(x, axis=None, keepdims=False):
        return function(x, axis=axis, keepdims=keepdims, dtype=x.dtype)

    return reference


case(
    "Sum", tf.reduce_sum, _wide(_same_type(np.sum)), samples=AXES + LARGE, dtypes=ALL, bad=BAD, order=2, tolerance=1e-6
)
case("Mean", tf.reduce_mean, _wide(_mean), samples=AXES + LARGE, dtypes=ALL, bad=BAD, order=2, tolerance=1e-6)
case("Mean", tf.reduce_mean, _wide(_mean), samples=[Args(real(64, 70, low=100, high=120))],
     dtypes="int8 uint8 int16 uint16 int32 uint32")  # fmt: skip
case("Prod", tf.reduce_prod, _wide(_same_type(np.prod)), samples=AXES, dtypes=ALL, bad=BAD, order=2)
case("Max", tf.reduce_max, _wide(np.max), samples=AXES, dtypes=REALS, bad=BAD, order=1)
case("Max", tf.reduce_max, _wide(np.max), samples=LARGE, dtypes=REALS)
case("Min", tf.reduce_min, _wide(np.min), samples=AXES, dtypes=REALS, bad=BAD, order=1)
case("Min", tf.reduce_min, _wide(np.min), samples=LARGE, dtypes=REALS)
case("Sum", tf.reduce_sum, _wide(_same_type(np.sum)), samples=SHORT_ROWS, dtypes=ALL, tolerance=1e-6)
case("Min", tf.reduce_min, _wide(np.min), samples=SHORT_ROWS, dtypes=REALS)
case("All", tf.reduce_all, np.all, samples=SHORT_ROWS, dtypes="bool")
case("Any", tf.reduce_any, np.any, samples=AXES + LARGE, dtypes="bool", bad=BAD)
case("All", tf.reduce_all, np.all, samples=AXES + LARGE, dtypes="bool", bad=BAD)


def _norm(x, axis=None, keepdims=False):
    squares = np.real(x * np.conj(x))
    return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims)).astype(x.dtype)


case("EuclideanNorm", tf.math.reduce_euclidean_norm, _wide(_norm), samples=AXES + LARGE[:2],
     dtypes="float16 bfloat16 float32 float64 int32 int64 complex64 complex128", bad=BAD, order=2)  # fmt: skip

case("Max", tf.reduce_logsumexp, lambda x, axis=None, keepdims=False: special.logsumexp(x, axis, keepdims=keepdims),
     samples=AXES[:9], order=2)  # fmt: skip
case("Mean", tf.math.reduce_std, np.std, samples=AXES[:6], dtypes="float32 float64 complex64", order=1)
case("Sum", tf.count_nonzero, lambda x, axis=None, keepdims=False: np.sum(x != 0, axis=axis, keepdims=keepdims),
     samples=AXES, dtypes="float32 int32 complex64 bool")  # fmt: skip

ARG = [Args(real(2, 3, 4), 0), Args(real(2, 3, 4), 1), Args(real(2, 3, 4), -1), Args(real(5)), Args(real(0, 3), 1),
       Args(real(40, 300), 0), Args(real(3, 400), 1), Args(real(2, 2500), 1), Args(real(1307, 3), 0)]  # fmt: skip
ARG_BAD = [
    Bad(Args(real(2, 3), 2), match="2"),
    Bad(Args(real(2, 3), np.array(-3)), match="-3"),
    Bad(Args(real(2, 0), 1), match="empty"),
    Bad(Args(real(), 0), match="0"),
    Bad(Args(real(2, 3), np.array([0, 1])), match="scalar"),
]
ARG_TYPES = REALS + " bool"
case("ArgMax", tf.argmax, lambda x, axis=0: np.argmax(x, axis), samples=ARG, dtypes=ARG_TYPES, bad=ARG_BAD)
case("ArgMin", tf.argmin, lambda x, axis=0: np.argmin(x, axis), samples=ARG, dtypes=ARG_TYPES, bad=ARG_BAD)
_RISING = np.repeat(np.arange(700.0), 2)[:, None] * [1, -1, 0, 1]
_GAPS = np.where(np.arange(1400)[:, None] % 3 == [0, 1, 2, 3], np.nan, _RISING)
_NAN_LAST = np.stack([np.full(1400, np.nan), np.full(1400, -np.inf), *_GAPS.T])
case("ArgMax", tf.argmax, lambda x, axis: np.argmax(np.where(np.isnan(x), -np.inf, x), axis),
     samples=[Args(_GAPS, 0), Args(_NAN_LAST, 1), Args(_NAN_LAST.T.copy(), 0)], dtypes="float32 float64")  # fmt: skip
case("ArgMax", tf.argmax, lambda x, axis, output_type: np.argmax(x, axis).astype(output_type.as_numpy_dtype),
     samples=[Args(real(2, 3), 1, output_type=t) for t in (tf.int32, tf.int16, tf.uint16)])  # fmt: skip
