"""Cases of scattering by tuples of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

NUMBERS = "uint8 int16 int64 bfloat16 float16 float32 float64 complex64 complex128"
REALS = "uint8 int16 int64 bfloat16 float16 float32 float64"
i32, i64 = np.int32, np.int64


def _scatter(function: Any, out: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    out = out.copy()
    for position in np.ndindex(indices.shape[:-1]):
        at = tuple(indices[position])
        out[at] = updates[position] if function is None else function(out[at], updates[position])
    return out


case(
    "ScatterNd",
    tf.scatter_nd,
    lambda i, u, shape: _scatter(np.add, np.zeros(tuple(shape), u.dtype), i, u),
    samples=[
        Args(np.array([[4], [3], [4]], i32), real(3), np.array([8], i32)),
        Args(np.array([[0, 1], [2, 0]], i64), real(2, 2), np.array([3, 2, 2], i64)),
        Args(np.array([1, 2], i32), real(), np.array([3, 4], i32)),
        Args(np.zeros([0, 1], i32), real(0, 2), np.array([3, 2], i32)),
        Args(np.array([[[1]], [[0]]], i32), real(2, 1, 70), np.array([2, 70], i32)),
    ],
    dtypes=NUMBERS,
    order=2,
    bad=[
        Bad(Args(np.array([[4], [8]], i32), real(2), np.array([8], i32)), match="indices[1] = [8] does not index into"),
        Bad(Args(np.array([[4], [-1]], i32), real(2), np.array([8], i32)), match="[-1]"),
        Bad(Args(np.array([[4]], i32), real(2), np.array([8], i32)), match="[2]"),
        Bad(Args(np.array([[4, 0]], i32), real(1), np.array([8], i32)), match="2"),
        Bad(Args(np.array([[4]], i32), real(1), np.array([-8], i32)), match="-8"),
        Bad(Args(np.array([[0]], i32), real(1), np.array([0], i32)), match="[0]"),
        Bad(Args(np.array([[0]], i64), real(1), np.array([2**61], i64))),
    ],
)
_SAMPLES = [
    Args(real(8), np.array([[4], [3]], i32), real(2)),
    Args(real(3, 2, 2), np.array([[0, 1], [2, 0]], i64), real(2, 2)),
    Args(real(3, 4), np.array([1, 2], i32), real()),
    Args(real(3, 2), np.zeros([0, 1], i32), real(0, 2)),
]
_BAD = [
    Bad(Args(real(8), np.array([[4], [8]], i32), real(2)), match="indices[1] = [8] does not index into shape [8]"),
    Bad(Args(real(8, 2), np.array([[4]], i32), real(1, 3)), match="[1,3]"),
    Bad(Args(real(8), np.array(4, i32), real(1)), match="vector"),
]
for _op, _function, _reference, _types in (
    ("TensorScatterUpdate", tf.tensor_scatter_update, None, "bool string " + NUMBERS),
    ("TensorScatterAdd", tf.tensor_scatter_add, np.add, NUMBERS),
    ("TensorScatterSub", tf.tensor_scatter_sub, np.subtract, NUMBERS),
    ("TensorScatterMin", tf.tensor_scatter_nd_min, np.minimum, REALS),
    ("TensorScatterMax", tf.tensor_scatter_nd_max, np.maximum, REALS),
    ("ScatterNdNonAliasingAdd", lambda *args: apply("ScatterNdNonAliasingAdd", *args), np.add, NUMBERS),
):
    case(
        _op,
        _function,
        lambda x, i, u, f=_reference: _scatter(f, x, i, u),
        samples=_SAMPLES,
        dtypes=_types,
        order=2,
        bad=_BAD,
    )
