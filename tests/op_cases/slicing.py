"""Cases of slicing; tests/ops/test_indexing.py compares many more index expressions with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64


def _ints(*values: int) -> np.ndarray:
    return np.array(values, i32)


def _box(x: np.ndarray, begin: Any, size: Any) -> np.ndarray:
    return np.asarray(x[tuple(slice(b, None if n == -1 else b + n) for b, n in zip(begin, size, strict=True))], x.dtype)


case(
    "Slice",
    tf.slice,
    _box,
    samples=[
        Args(real(4, 5), _ints(1, 2), _ints(2, 3)),
        Args(real(4, 5), _ints(1, 0), _ints(2, -1)),
        Args(real(4, 5), _ints(0, 0), _ints(4, 5)),
        Args(real(4, 5), _ints(4, 1), _ints(0, 2)),
        Args(real(), np.zeros([0], i32), np.zeros([0], i32)),
        Args(real(3, 4, 5), np.array([1, 1, 1], i64), np.array([1, 2, 3], i64)),
        Args(real(0, 2), _ints(0, 0), _ints(-1, 1)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(4, 5), _ints(1, 6), _ints(1, 0)), match="6"),
        Bad(Args(real(4, 5), _ints(-1, 0), _ints(1, 1)), match="-1"),
        Bad(Args(real(4, 5), _ints(2, 0), _ints(3, 1)), match="3"),
        Bad(Args(real(4, 5), _ints(2, 0), _ints(-2, 1)), match="-2"),
        Bad(Args(real(4, 5), _ints(2), _ints(1)), match="2"),
        Bad(Args(real(4, 5), np.array([1, 1], i64), np.array([2**63 - 1, 1], i64)), match=str(2**63 - 1)),
    ],
)


def _indexed(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    return x[tuple(slice(b, e, s) for b, e, s in zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True))]


_FAR = 2**62
case(
    "StridedSlice",
    tf.strided_slice,
    _indexed,
    samples=[
        Args(real(5, 6), _ints(1, 0), _ints(4, 6), _ints(2, 1)),
        Args(real(5, 6), _ints(-1, 5), _ints(0, 1), _ints(-2, -1)),
        Args(real(5, 6), _ints(1), _ints(3), _ints(1)),
        Args(real(5, 6), _ints(3), _ints(1), _ints(1)),
        Args(real(5), np.array([-_FAR], i64), np.array([_FAR], i64), np.array([_FAR], i64)),
        Args(real(5), np.array([_FAR], i64), np.array([-_FAR], i64), np.array([-_FAR], i64)),
        Args(real(0, 3), _ints(0), _ints(2), _ints(1)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(5), _ints(0), _ints(2), _ints(0)), match="strides[0]"),
        Bad(Args(real(5), _ints(0, 0), _ints(2, 2), _ints(1, 1)), match="1 dims"),
        Bad(Args(real(5), _ints(0, 0), _ints(2), _ints(1)), match="[2]"),
        Bad(Args(real(5), _ints(5), _ints(6), _ints(1), shrink_axis_mask=1), match="slice index 5"),
        Bad(Args(real(5), _ints(-6), _ints(6), _ints(1), shrink_axis_mask=1), match="slice index -6"),
        Bad(Args(real(5), _ints(0), _ints(1), _ints(-1), shrink_axis_mask=1), match="stride 1"),
        Bad(Args(real(5, 5), _ints(0, 0), _ints(1, 1), _ints(1, 1), ellipsis_mask=3), match="ellips"),
        Bad(Args(real(5), np.zeros([40], i32), np.zeros([40], i32), np.ones([40], i32)), match="32"),
    ],
)


def _spread(shape: Any, begin: Any, end: Any, strides: Any, dy: Any) -> Any:
    out = np.full(tuple(shape), b"", object) if dy.dtype == object else np.zeros(tuple(shape), dy.dtype)
    _indexed(out, begin, end, strides)[...] = dy
    return out


case(
    "StridedSliceGrad",
    lambda *args: apply("StridedSliceGrad", *args),
    _spread,
    samples=[
        Args(_ints(5, 6), _ints(1, 0), _ints(4, 6), _ints(2, 1), real(2, 6)),
        Args(_ints(5), _ints(-1), _ints(0), _ints(-2), real(2)),
        Args(_ints(5, 3), _ints(0), _ints(5), _ints(1), real(5, 3)),
        Args(_ints(5, 3), _ints(2), _ints(2), _ints(1), real(0, 3)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(_ints(5), _ints(1), _ints(4), _ints(1), real(4)), match="[3]"),
        Bad(Args(_ints(-5), _ints(1), _ints(4), _ints(1), real(3)), match="-5"),
        Bad(Args(np.array([[5]], i32), _ints(1), _ints(4), _ints(1), real(3)), match="1-D"),
    ],
)


def _replaced(x: Any, begin: Any, end: Any, strides: Any, value: Any) -> Any:
    out = x.copy()
    _indexed(out, begin, end, strides)[...] = value
    return out


case(
    "TensorStridedSliceUpdate",
    lambda *args: apply("TensorStridedSliceUpdate", *args),
    _replaced,
    samples=[
        Args(real(5, 6), _ints(1, 0), _ints(4, 6), _ints(2, 1), real(2, 6)),
        Args(real(5, 6), _ints(1, 0), _ints(4, 6), _ints(2, 2), real(3)),
        Args(real(5, 6), _ints(1), _ints(4), _ints(1), real()),
        Args(real(5), _ints(-1), _ints(0), _ints(-2), real(2)),
    ],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(5), _ints(1), _ints(4), _ints(1), real(4)), match="[3]")],
)
