"""Cases of reversing and rolling."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64

case(
    "ReverseV2",
    tf.reverse,
    lambda x, axis: np.flip(x, tuple(axis)),
    samples=[
        Args(real(2, 3), np.array([1], i32)),
        Args(real(2, 3, 4), np.array([0, -1], i64)),
        Args(real(2, 3), np.zeros([0], i32)),
        Args(real(0, 3), np.array([0], i32)),
        Args(real(), np.zeros([0], i32)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(2, 3), np.array([2], i32)), match="2"),
        Bad(Args(real(2, 3), np.array([1, -1], i32)), match="more than once"),
        Bad(Args(real(2, 3), np.array(1, i32)), match="1-dim"),
    ],
)
case(
    "Reverse",
    lambda x, dims: apply("Reverse", x, dims),
    lambda x, dims: np.flip(x, tuple(np.flatnonzero(dims))),
    samples=[Args(real(2, 3), np.array([True, False])), Args(real(2, 3), np.array([True, True]))],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(2, 3), np.array([True])), match="2")],
)


def _reversed_sequences(x: np.ndarray, lengths: np.ndarray, seq_axis: int, batch_axis: int = 0) -> np.ndarray:
    out = x.copy()
    moved, source = np.moveaxis(out, (batch_axis, seq_axis), (0, 1)), np.moveaxis(x, (batch_axis, seq_axis), (0, 1))
    for b, n in enumerate(lengths):
        moved[b, :n] = source[b, :n][::-1]
    return out


case(
    "ReverseSequence",
    tf.reverse_sequence,
    _reversed_sequences,
    samples=[
        Args(real(3, 4), np.array([4, 0, 2], i32), seq_axis=1),
        Args(real(4, 3, 2), np.array([1, 3, 4], i64), seq_axis=0, batch_axis=1),
        Args(real(2, 3, 4), np.array([1, 2, 0, 1], i32), seq_axis=0, batch_axis=2),
        Args(real(0, 3), np.zeros([0], i32), seq_axis=1),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(3, 4), np.array([4, 0, 5], i32), seq_axis=1), match="5"),
        Bad(Args(real(3, 4), np.array([4, 0, -1], i32), seq_axis=1), match="-1"),
        Bad(Args(real(3, 4), np.array([4, 0], i32), seq_axis=1), match="3"),
        Bad(Args(real(3, 4), np.array([1, 1, 1], i32), seq_axis=0), match="0"),
        Bad(Args(real(3, 4), np.array([1, 1, 1], i32), seq_axis=2), match="2"),
    ],
)
case(
    "Roll",
    tf.roll,
    lambda x, shift, axis: np.roll(x, tuple(np.ravel(shift)), tuple(np.ravel(axis))),
    samples=[
        Args(real(5), np.array(2, i32), np.array(0, i32)),
        Args(real(3, 4), np.array([1, -2], i32), np.array([0, 1], i64)),
        Args(real(3, 4), np.array([1, 1], i32), np.array([0, 0], i32)),
        Args(real(3, 4), np.array(-(2**62), i64), np.array(-1, i32)),
        Args(real(0, 4), np.array([3], i32), np.array([0], i32)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(3), np.array(1, i32), np.array(1, i32)), match="1"),
        Bad(Args(real(3), np.array([1], i32), np.array([0, 0], i32)), match="[2]"),
        Bad(Args(real(), np.array(1, i32), np.array(0, i32)), match="1-D"),
    ],
)
