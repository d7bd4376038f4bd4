"""Cases of filling and repeating."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64


def _ints(*values: int) -> np.ndarray:
    return np.array(values, i32)


case(
    "Fill",
    tf.fill,
    lambda dims, x: np.full(tuple(dims), x),
    samples=[
        Args(_ints(2, 3), real()),
        Args(np.zeros([0], i32), real()),
        Args(_ints(0, 3), real()),
        Args(np.array([300, 301], i64), real()),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(_ints(2, -3), real()), match="-3"),
        Bad(Args(_ints(2), real(2)), match="scalar"),
        Bad(Args(np.array([[2]], i32), real()), match="vector"),
        Bad(Args(np.array([2**40, 2**40], i64), real()), match="overflow"),
        Bad(Args(np.array([2**50], i64), real())),
    ],
)
case(
    "ZerosLike",
    lambda x: apply("ZerosLike", x),
    lambda x: np.zeros_like(x) if x.dtype != object else np.full(x.shape, b"", object),
    samples=[Args(real(2, 3)), Args(real()), Args(real(0)), Args(real(70, 1000))],
    dtypes=ALL,
)
case(
    "OnesLike",
    lambda x: apply("OnesLike", x),
    np.ones_like,
    samples=[Args(real(2, 3)), Args(real()), Args(real(0)), Args(real(70, 1000))],
    dtypes="bool uint8 int16 int64 bfloat16 float16 float32 float64 complex64 complex128",
)
case(
    "Tile",
    tf.tile,
    lambda x, m: np.tile(x, tuple(m)),
    samples=[
        Args(real(2, 3), _ints(2, 1)),
        Args(real(2, 3), _ints(3, 2)),
        Args(real(2, 3), _ints(0, 2)),
        Args(real(1), _ints(7)),
        Args(real(), np.zeros([0], i32)),
        Args(real(2, 1, 3), np.array([1, 4, 1], i64)),
        Args(real(0, 2), _ints(3, 2)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(2, 3), _ints(2)), match="2"),
        Bad(Args(real(2, 3), _ints(2, -1)), match="-1"),
        Bad(Args(real(2, 3), np.array([2**62, 4], i64)), match="overflow"),
        Bad(Args(real(2, 3), np.array([2**31, 2**24], i64))),
        Bad(Args(real(2, 3), np.array([[1, 1]], i32)), match="1-D"),
    ],
)
case(
    "BroadcastTo",
    tf.broadcast_to,
    lambda x, shape: np.broadcast_to(x, tuple(shape)),
    samples=[
        Args(real(2, 1), _ints(2, 3)),
        Args(real(), _ints(2, 3)),
        Args(real(3), np.array([2, 3], i64)),
        Args(real(1, 2), _ints(0, 2)),
        Args(real(2, 1, 1), _ints(4, 2, 3, 1)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(2, 3), _ints(3)), match="Rank"),
        Bad(Args(real(2), _ints(3)), match="[3]"),
        Bad(Args(real(2, 1), _ints(2, -3)), match="-3"),
        Bad(Args(real(2, 1), np.array([2, 2**62], i64)), match="overflow"),
    ],
)
