"""Cases of the segment reductions."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

ALL = "float16 bfloat16 float32 float64 uint8 int8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128"
REALS = "float16 bfloat16 float32 float64 uint8 int8 int16 uint16 int32 uint32 int64 uint64"


def ids(*values, dtype=np.int32):
    return np.array(values, dtype)


def _reduce(rows, kind):
    if kind == "mean":
        total = rows.sum(0, dtype=rows.dtype)
        return (
            total // len(rows)
            if rows.dtype.kind == "u"
            else np.trunc(total / len(rows))
            if rows.dtype.kind == "i"
            else total / len(rows)
        )
    if kind in ("sum", "prod"):
        return getattr(rows, kind)(0, dtype=rows.dtype)
    return getattr(rows, kind)(0)


def _segments(kind, empty):
    def reference(data, segment_ids, num_segments=None):
        wide = data.astype(np.float64) if data.dtype.kind not in "iuc" else data
        flat_ids = segment_ids.ravel()
        flat = wide.reshape(flat_ids.size, *data.shape[segment_ids.ndim :])
        count = int(num_segments) if num_segments is not None else int(flat_ids.max(initial=-1)) + 1
        value = empty(data.dtype) if callable(empty) else empty
        out = np.full((count, *flat.shape[1:]), value, wide.dtype)
        for s in range(count):
            if (flat_ids == s).any():
                out[s] = _reduce(flat[flat_ids == s], kind)
        return out.astype(data.dtype)

    return reference


def _lowest(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else ml_dtypes.finfo(dtype).min


def _highest(dtype):
    return np.iinfo(dtype).max if dtype.kind in "iu" else ml_dtypes.finfo(dtype).max


SORTED = [
    Args(real(5), ids(0, 0, 1, 3, 3)), Args(real(5, 2, 3), ids(0, 1, 1, 1, 2, dtype=np.int64)),
    Args(real(3, 40), ids(1, 1, 2)), Args(real(0, 2), ids()), Args(real(2, 0), ids(0, 1)),
]  # fmt: skip
LONG_RUNS = [
    Args(real(300), np.repeat([0, 1, 3], [70, 33, 197]).astype(np.int32)),
    Args(real(90, 16), np.repeat([0, 2], [60, 30]).astype(np.int32)),
]
SORTED_BAD = [
    Bad(Args(real(3), ids(1, 0, 2)), match="not increasing"),
    Bad(Args(real(3), ids(-1, 0, 2)), match="-1"),
    Bad(Args(real(3), ids(0, 1)), match="same size"),
    Bad(Args(real(2, 2), np.zeros([2, 2], np.int32)), match="vector"),
    Bad(Args(real(), ids(0)), match="rank 1"),
]
case("SegmentSum", tf.segment_sum, _segments("sum", 0), samples=SORTED, dtypes=ALL, bad=SORTED_BAD, order=2)
case("SegmentMean", tf.segment_mean, _segments("mean", 0), samples=SORTED, dtypes=ALL, bad=SORTED_BAD, order=2)
case("SegmentProd", tf.segment_prod, _segments("prod", 1), samples=SORTED, dtypes=ALL, bad=SORTED_BAD, order=1)
case("SegmentMin", tf.segment_min, _segments("min", 0), samples=SORTED, dtypes=REALS, bad=SORTED_BAD, order=1)
case("SegmentMax", tf.segment_max, _segments("max", 0), samples=SORTED, dtypes=REALS, bad=SORTED_BAD, order=1)
case("SegmentSum", tf.segment_sum, _segments("sum", 0), samples=LONG_RUNS, dtypes="float32 float64 int32 complex64")
case("SegmentMax", tf.segment_max, _segments("max", 0), samples=LONG_RUNS, dtypes="float32 float64 int32")

UNSORTED = [
    Args(real(5), ids(3, 0, 1, 0, -1), 4), Args(real(2, 3, 4), np.array([[0, 4, 1], [1, -2, 0]], np.int64), 5),
    Args(real(2, 3, 4), ids(1, 1), 2), Args(real(0, 3), ids(), 2), Args(real(4), ids(0, 0, 0, 0), 1),
    Args(real(3, 600), ids(1, 0, 1), 2), Args(real(2, 3), np.array(0), 1),
]  # fmt: skip
UNSORTED_BAD = [
    Bad(Args(real(3), ids(0, 5, 2), 4), match="5"),
    Bad(Args(real(3), ids(0, 1), 4), match="[3]"),
    Bad(Args(real(3), ids(0, 1, 2), np.array(-1)), match="-1"),
    Bad(Args(real(3), ids(0, 1, 2), np.array([4])), match="scalar"),
    Bad(Args(real(), ids(0), 4), match="[1]"),
]
for _op, _call, _kind, _empty, _dtypes, _order in (
    ("UnsortedSegmentSum", tf.unsorted_segment_sum, "sum", 0, ALL, 2),
    ("UnsortedSegmentProd", tf.unsorted_segment_prod, "prod", 1, ALL, 1),
):
    case(_op, _call, _segments(_kind, _empty), samples=UNSORTED, dtypes=_dtypes, bad=UNSORTED_BAD, order=_order)
EXTREMES = "float16 bfloat16 float32 float64 uint8 int8 int16 uint16 int32 uint32 int64 uint64"
FULL = [Args(real(5), ids(3, 0, 1, 2, -1), 4), Args(real(2, 3, 4), ids(1, 0), 2)]
case("UnsortedSegmentMax", tf.unsorted_segment_max, _segments("max", _lowest), samples=UNSORTED, dtypes=EXTREMES,
     bad=UNSORTED_BAD, tolerance=1e-2)  # fmt: skip
case("UnsortedSegmentMin", tf.unsorted_segment_min, _segments("min", _highest), samples=UNSORTED, dtypes=EXTREMES,
     bad=UNSORTED_BAD, tolerance=1e-2)  # fmt: skip
case("UnsortedSegmentMax", tf.unsorted_segment_max, _segments("max", 0), samples=FULL,
     dtypes="float64 bfloat16 float16", order=1)  # fmt: skip
case("UnsortedSegmentMin", tf.unsorted_segment_min, _segments("min", 0), samples=FULL,
     dtypes="float64 bfloat16 float16", order=1)  # fmt: skip
case("UnsortedSegmentSum", tf.unsorted_segment_mean, _segments("mean", 0), samples=UNSORTED, order=2)


def _chosen(scale):
    def reference(data, indices, segment_ids, num_segments=None):
        wide = data.astype(np.float64) if data.dtype.kind not in "iu" else data
        count = int(num_segments) if num_segments is not None else int(segment_ids.max(initial=-1)) + 1
        out = np.zeros((count, *data.shape[1:]), wide.dtype)
        for s in range(count):
            rows = wide[indices[segment_ids == s]]
            if len(rows):
                out[s] = (
                    rows.sum(0, dtype=wide.dtype) / scale(len(rows)) if scale(2) != 1 else rows.sum(0, dtype=wide.dtype)
                )
        return out.astype(data.dtype)

    return reference


def _numbered(call):
    return lambda data, indices, segment_ids, n: call(data, indices, segment_ids, num_segments=n)


SPARSE = [
    Args(real(4, 3), ids(0, 3, 3), ids(0, 0, 2)), Args(real(4), ids(1, 2, dtype=np.int64), ids(0, 1)),
    Args(real(4, 2, 2), ids(3, 0, 1, 1), ids(0, 1, 1, 1, dtype=np.int64)), Args(real(4, 3), ids(), ids()),
]  # fmt: skip
NUMBERED = [Args(*s.args, 5) for s in SPARSE]
SPARSE_BAD = [
    Bad(Args(real(4, 3), ids(0, 4), ids(0, 1)), match="4"),
    Bad(Args(real(4, 3), ids(0, -1), ids(0, 1)), match="-1"),
    Bad(Args(real(4, 3), ids(0, 1), ids(1, 0)), match="not increasing"),
    Bad(Args(real(4, 3), ids(0, 1), ids(-1, 0)), match="-1"),
    Bad(Args(real(4, 3), ids(0, 1), ids(0)), match="same size"),
    Bad(Args(real(), ids(0), ids(0)), match="rank 1"),
]
NUMBERED_BAD = [
    Bad(Args(real(4, 3), ids(0, 1), ids(0, 2), np.array(2)), match="2"),
    Bad(Args(real(4, 3), ids(0, 1), ids(0, 2), np.array(-2)), match="-2"),
]
FLOATS = "float16 bfloat16 float32 float64"
for _kind, _call, _scale, _dtypes in (
    ("Sum", tf.sparse_segment_sum, lambda n: 1, REALS),
    ("Mean", tf.sparse_segment_mean, lambda n: n, FLOATS),
    ("SqrtN", tf.sparse_segment_sqrt_n, np.sqrt, FLOATS),
):
    _name = f"SparseSegment{_kind}"
    case(_name, _call, _chosen(_scale), samples=SPARSE, dtypes=_dtypes, bad=SPARSE_BAD, order=2)
    case(f"{_name}WithNumSegments", _numbered(_call), _chosen(_scale), samples=NUMBERED, dtypes=_dtypes,
         bad=NUMBERED_BAD, order=2)  # fmt: skip

    def _spread(grad, indices, segment_ids, rows, scale=_scale):
        out = np.zeros((int(rows), *grad.shape[1:]))
        for i, s in zip(indices, segment_ids, strict=True):
            out[i] += grad[s].astype(np.float64) / scale((segment_ids == s).sum())
        return out.astype(grad.dtype)

    def _call_grad(grad, indices, segment_ids, rows, op=f"{_name}Grad"):
        return getattr(tf.raw_ops, op)(grad=grad, indices=indices, segment_ids=segment_ids, output_dim0=rows)

    case(f"{_name}Grad", _call_grad, _spread, dtypes=FLOATS, order=2,
         samples=[Args(real(3, 2), ids(0, 4, 4), ids(0, 0, 2), np.array(5, np.int32)),
                  Args(real(3), ids(1), ids(2), np.array(2, np.int32))],
         bad=[Bad(Args(real(3, 2), ids(0, 5), ids(0, 1), np.array(5, np.int32)), match="5"),
              Bad(Args(real(3, 2), ids(0, 1), ids(0, 3), np.array(5, np.int32)), match="3"),
              Bad(Args(real(3, 2), ids(0, 1), ids(0, 1), np.array(-5, np.int32)), match="-5")])  # fmt: skip
