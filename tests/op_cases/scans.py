"""Cases of running totals and of counting."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

ALL = "float16 bfloat16 float32 float64 uint8 int8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128"


def _scan(accumulate, start):
    def reference(x, axis=0, exclusive=False, reverse=False):
        kind = x.dtype
        wide = x.astype(np.float64) if kind.kind not in "iuc" else x
        wide = np.flip(wide, axis) if reverse else wide
        out = accumulate(wide, axis)
        if exclusive:
            first = np.full_like(np.take(out, [0], axis), start)
            out = np.concatenate([first, np.take(out, range(wide.shape[axis] - 1), axis)], axis)
        return (np.flip(out, axis) if reverse else out).astype(kind)

    return reference


SAMPLES = [
    Args(real(4, low=0.5)),
    Args(real(2, 3, 4, low=0.5), 1),
    Args(real(2, 3, 4, low=0.5), -1, exclusive=True),
    Args(real(2, 3, low=0.5), 0, reverse=True),
    Args(real(2, 300, low=0.5, high=1.2), 1, exclusive=True, reverse=True),
    Args(real(5, 300, low=0.5), 0),
    Args(real(11, 5, low=0.5), 1),
]
BAD = [
    Bad(Args(real(2, 3), 2), match="2"),
    Bad(Args(real(2, 3), np.array(-3)), match="-3"),
    Bad(Args(real(2, 3), np.array([0])), match="scalar"),
    Bad(Args(real(), 0), match="0"),
]
case("Cumsum", tf.cumsum, _scan(lambda x, a: np.cumsum(x, a, dtype=x.dtype), 0), dtypes=ALL, bad=BAD, order=2,
     samples=[*SAMPLES, Args(real(0, 3)), Args(real(3, 0))])  # fmt: skip
case("Cumprod", tf.cumprod, _scan(lambda x, a: np.cumprod(x, a, dtype=x.dtype), 1), bad=BAD, order=2,
     dtypes="float32 float64 int32 uint8 int64", samples=SAMPLES, tolerance=1e-4)  # fmt: skip
case("Cumprod", tf.cumprod, _scan(lambda x, a: np.cumprod(x, a, dtype=x.dtype), 1), samples=SAMPLES[:4],
     dtypes="float16 bfloat16 int8 int16 uint16 uint32 uint64 complex64 complex128")  # fmt: skip
case("CumulativeLogsumexp", tf.math.cumulative_logsumexp, _scan(np.logaddexp.accumulate, -np.inf), samples=SAMPLES,
     dtypes="float16 bfloat16 float32 float64", bad=BAD)  # fmt: skip
# An exclusive scan starts with minus infinity, which has no differences.
case("CumulativeLogsumexp", tf.math.cumulative_logsumexp, _scan(np.logaddexp.accumulate, -np.inf),
     samples=[s for s in SAMPLES if not s.kwargs.get("exclusive")], order=1)  # fmt: skip


def _bincount(x, weights=None, minlength=0, maxlength=None):
    bins = np.bincount(x.ravel(), None if weights is None else weights.ravel(), minlength)[:maxlength]
    return bins.astype(np.int32 if weights is None else weights.dtype)


VALUES = np.array([[1, 1, 3], [0, 7, 1]], np.int32)
case("Bincount", tf.bincount, _bincount, dtypes="float32 int64", samples=[
    Args(np.arange(5003, dtype=np.int32) ** 2 % 97), Args(np.arange(5003, dtype=np.int32) % 9, maxlength=7),
])  # fmt: skip
case("Bincount", tf.bincount, _bincount, samples=[
    Args(VALUES), Args(VALUES, minlength=12), Args(VALUES, maxlength=3), Args(np.zeros([0], np.int32)),
    Args(np.zeros([0], np.int32), minlength=2), Args(VALUES, real(2, 3))], dtypes="float32 float64 int32 int64",
    bad=[Bad(Args(np.array([1, -2], np.int32)), match="-2"), Bad(Args(VALUES, real(3, 2)), match="[3,2]")])  # fmt: skip


def _dense(x, size, weights, binary_output=False):
    rows = [np.bincount(row, weights[i] if weights.size else None, 64)[:size] for i, row in enumerate(np.atleast_2d(x))]
    out = np.array(rows).astype(weights.dtype)
    out = (out > 0).astype(out.dtype) if binary_output else out
    return out if x.ndim == 2 else out[0]


def _call_dense(x, size, weights, binary_output=False):
    return tf.raw_ops.DenseBincount(input=x, size=size, weights=weights, binary_output=binary_output)


case("DenseBincount", _call_dense, _dense, dtypes="float32 float64 int32 int64", samples=[
    Args(VALUES, np.array(6, np.int32), real(2, 3)), Args(VALUES, np.array(6, np.int32), real(0)),
    Args(VALUES[0], np.array(2, np.int32), real(0)), Args(VALUES, np.array(9, np.int32), real(0), binary_output=True)],
    bad=[Bad(Args(VALUES, np.array(-1, np.int32), real(0)), match="-1"),
         Bad(Args(-VALUES, np.array(3, np.int32), real(0)), match="non-negative")])  # fmt: skip


def _histogram(values, value_range, nbins=100):
    low, high = (float(v) for v in value_range)
    index = np.clip(np.floor((values.astype(np.float64) - low) / (high - low) * nbins), 0, nbins - 1).astype(int)
    return np.bincount(index.ravel(), minlength=nbins).astype(np.int32)


RANGE = np.array([-1.0, 1.0], np.float32)
case("HistogramFixedWidth", tf.histogram_fixed_width, _histogram, dtypes="float32", samples=[
    Args(real(50), RANGE), Args(real(4, 5), RANGE, nbins=3), Args(real(0), RANGE, nbins=3),
    Args(real(), RANGE, nbins=1)],
    bad=[Bad(Args(real(3), -RANGE), match="value_range"), Bad(Args(real(3), RANGE[:1]), match="2 elements"),
         Bad(Args(real(3), RANGE, np.array(0, np.int32)), match="positive"),
         Bad(Args(np.array([np.nan], np.float32), RANGE), match="NaN")])  # fmt: skip
case("HistogramFixedWidth", tf.histogram_fixed_width_bins,
     lambda v, r, nbins: np.clip(np.floor((v - r[0]) / (r[1] - r[0]) * nbins), 0, nbins - 1).astype(np.int32),
     dtypes="float32", samples=[Args(real(4, 5), RANGE, nbins=5)])  # fmt: skip
