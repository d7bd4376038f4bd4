"""Cases of ops about order within rows: TopK, NthElement, InTopK, sort and argsort."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.search import REAL_NUMBERS


def _top_k(x: np.ndarray, k: Any = 1) -> Any:
    k = int(k)
    wide = x.astype(np.float64) if x.dtype.kind not in "iuf" or x.dtype.itemsize == 2 else x
    order = np.stack([_descending(row) for row in wide.reshape(-1, x.shape[-1])]) if x.size else np.zeros((0, 0), int)
    order = order[:, :k].reshape(*x.shape[:-1], k) if x.size else np.zeros((*x.shape[:-1], k), int)
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def _descending(row: np.ndarray) -> np.ndarray:
    """Positions by value, largest first, equal ones by position, NaN last."""
    return np.array(sorted(range(len(row)), key=lambda i: (row[i] != row[i], -row[i].item(), i)), int)


_SPECIAL = np.array([[np.nan, 1, -np.inf, 0.0, -0.0, np.inf, np.nan, 1]])
case(
    "TopKV2",
    tf.nn.top_k,
    _top_k,
    samples=[
        Args(real(6), 2),
        Args(real(3, 40, low=-100, high=100), 2),
        Args(real(2, 3, 5), 5),
        Args(real(2, 33), 30),
        Args(real(4, 3), 0),
        Args(real(0, 3), 2),
        Args(_SPECIAL, 8),
        Args(np.tile(_SPECIAL, 10), 4),
        Args(np.tile(_SPECIAL, 40), 320),
        Args(real(2, 300, low=-100, high=100), 200),
        Args(np.array([-(2**63), 2**63 - 1, 0, -1]), 4),
        Args(real(3, 4), np.int32(2)),
    ],
    dtypes=REAL_NUMBERS,
    bad=[
        Bad(Args(real(3), 4), match="4"),
        Bad(Args(real(3), np.array(-1, np.int32)), match="-1"),
        Bad(Args(real(3), np.array([1], np.int32)), match="scalar"),
        Bad(Args(real(), np.array(0, np.int32)), match="scalar"),
    ],
)
case(
    "TopKV2",
    lambda x, k: tf.nn.top_k(x, k).values,
    lambda x, k: _top_k(x, k)[0],
    samples=[Args(real(3, 5), 2), Args(real(2, 2, 4), 3), Args(real(3), 0), Args(real(0, 3), 1)],
    order=2,
)
case(
    "TopK",
    lambda x, k: tf.nest.flatten(tf.raw_ops.TopK(input=x, k=k)),
    _top_k,
    samples=[Args(real(3, 5), 2)],
    bad=[Bad(Args(real(3), 4), match="4")],
)


def _nth(x: np.ndarray, n: Any, reverse: bool = False) -> np.ndarray:
    ordered = np.sort(x, -1)
    return ordered[..., -1 - int(n) if reverse else int(n)]


case(
    "NthElement",
    tf.contrib.nn.nth_element,
    _nth,
    samples=[
        Args(real(5), 2),
        Args(real(3, 4), 0, reverse=True),
        Args(real(2, 3, 7), 6),
        Args(real(0, 4), 1),
        Args(real(1), 0),
    ],
    dtypes=REAL_NUMBERS,
    bad=[
        Bad(Args(real(3), 3), match="3"),
        Bad(Args(real(3), np.array(-1, np.int32)), match="-1"),
        Bad(Args(real(), 0), match="scalar"),
    ],
    order=1,
)


def _in_top_k(predictions: np.ndarray, targets: np.ndarray, k: int) -> np.ndarray:
    result = []
    for row, target in zip(predictions, targets, strict=True):
        inside = 0 <= target < len(row) and bool(np.all(np.isfinite(row)))
        result.append(inside and bool(np.sum(row > row[target]) < k))
    return np.array(result, bool)


_SCORES = np.array([[0.1, 0.9, 0.5], [np.inf, 1, 2], [3, 3, 1], [np.nan, 0, 0]], np.float32)
_IN_TOP_K: Any = {
    "samples": [
        Args(_SCORES, np.array([2, 1, 0, 1], np.int32), 2),
        Args(_SCORES, np.array([5, -1, 1, 2], np.int32), 1),
        Args(_SCORES, np.array([0, 0, 0, 0], np.int32), -1),
        Args(np.zeros((0, 3), np.float32), np.zeros(0, np.int32), 1),
    ],
    "dtypes": "float32",
    "bad": [
        Bad(Args(_SCORES, np.array([1], np.int32), 1), match="4,3"),
        Bad(Args(_SCORES[0], np.array([1], np.int32), 1), match="matrix"),
        Bad(Args(_SCORES, np.array([[1]], np.int32), 1), match="vector"),
    ],
}
case("InTopKV2", tf.nn.in_top_k, _in_top_k, **_IN_TOP_K)
case("InTopK", lambda p, t, k: tf.raw_ops.InTopK(predictions=p, targets=t, k=k), _in_top_k, **_IN_TOP_K)


def _ordered(pick: int) -> Any:
    def reference(x: np.ndarray, axis: int = -1, direction: str = "ASCENDING") -> np.ndarray:
        sign = -1 if direction == "DESCENDING" else 1
        keys = x.astype(np.float64) * sign
        order = np.argsort(keys, axis, kind="stable")
        return order.astype(np.int32) if pick else np.take_along_axis(x, order, axis)

    return reference


_SORTS = [
    Args(real(7)),
    Args(real(3, 4), direction="DESCENDING"),
    Args(real(2, 3, 4), axis=1),
    Args(real(2, 3, 4), axis=0),
    Args(real(2, 3, 4), axis=-2, direction="DESCENDING"),
    Args(real(0, 3)),
    Args(real(3, 0)),
    Args(np.array([1.0, np.nan, -np.inf])),
    Args(np.array([0, 255, 3], np.uint8)),
    Args(np.array([-128, 127, 3], np.int8)),
]
case("TopKV2", tf.sort, _ordered(0), samples=_SORTS, dtypes="float32 float64 int32 uint8")
case("TopKV2", tf.argsort, _ordered(1), samples=_SORTS, dtypes="float32 float64 int64 uint64")
