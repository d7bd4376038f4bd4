"""Cases of ops that find elements: Where, LowerBound, Unique, ListDiff."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL_NUMBERS = (
    "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128 bool"
)
REAL_NUMBERS = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64"


def _where(x: np.ndarray) -> np.ndarray:
    return np.argwhere(np.asarray(x) != 0).astype(np.int64)


case(
    "Where",
    lambda x: tf.raw_ops.Where(input=x),
    _where,
    samples=[
        Args(real(5)),
        Args(real(2, 3, low=-0.8, high=0.8)),
        Args(real(2, 3, 4, low=-1, high=1)),
        Args(real(0)),
        Args(real(3, 0)),
        Args(real()),
        Args(np.array([0.0, -0.0, np.nan, np.inf])),
        Args(np.zeros((2, 1, 2, 1, 2), bool)),
    ],
    dtypes=ALL_NUMBERS,
)


def _search(side: str) -> Any:
    def reference(sorted_sequence: np.ndarray, values: np.ndarray, **kwargs: Any) -> np.ndarray:
        rows = np.reshape(sorted_sequence, (-1, sorted_sequence.shape[-1])) if sorted_sequence.size else None
        out_type = kwargs.get("out_type", tf.int32).as_numpy_dtype
        if rows is None or values.size == 0:
            return np.zeros(values.shape, out_type)
        flat = np.reshape(values, (len(rows), -1))
        return np.stack([np.searchsorted(a, v, side) for a, v in zip(rows, flat, strict=True)]).reshape(
            values.shape
        ).astype(out_type)  # fmt: skip

    return reference


_SORTED = np.array([[1, 2, 2, 5], [0, 0, 9, 9]])
for _op, _side in (("LowerBound", "left"), ("UpperBound", "right")):
    case(
        _op,
        lambda *args, side=_side, **kwargs: tf.searchsorted(*args, side=side, **kwargs),
        _search(_side),
        samples=[
            Args(_SORTED[0].astype(np.float32), np.array([0, 2, 3, 7], np.float32)),
            Args(_SORTED, np.array([[2], [9]]), out_type=tf.int64),
            Args(_SORTED.reshape(2, 1, 4), np.array([[[2, 3]], [[9, 10]]])),
            Args(np.zeros((2, 0)), np.ones((2, 3))),
            Args(_SORTED, np.zeros((2, 0), np.int64)),
            Args(np.array([1.0, 3.0, np.nan, np.nan]), np.array([2.0, np.nan, np.inf, -np.inf])),
        ],
        dtypes="float32",
        bad=[Bad(Args(real(2, 3), real(3, 4)), match="leading")],
    )


def _unique(x: np.ndarray, counts: bool = False, axis: int | None = None, idx: Any = np.int32) -> Any:
    slices = [x[i] for i in range(len(x))] if axis is None else [np.take(x, i, axis) for i in range(x.shape[axis])]
    first: list[int] = []
    groups, sizes = [], []
    for j, item in enumerate(slices):
        g = next((g for g, f in enumerate(first) if np.all(slices[f] == item)), len(first))
        if g == len(first):
            first.append(j)
            sizes.append(0)
        groups.append(g)
        sizes[g] += 1
    y = np.take(x, np.array(first, int), axis or 0)
    out = [y, np.array(groups, idx)]
    return [*out, np.array(sizes, idx)] if counts else out


_VECTORS = [
    Args(real(20)),
    Args(real(0)),
    Args(real(1)),
    Args(np.array([0.0, -0.0, np.nan, np.nan, 1.0])),
    Args(np.array([b"b", b"", b"b", b"a"], object)),
]
case("Unique", tf.unique, _unique, samples=_VECTORS, dtypes=ALL_NUMBERS, bad=[Bad(Args(real(2, 2)), match="vector")])
case(
    "UniqueWithCounts",
    tf.unique_with_counts,
    lambda x: _unique(x, counts=True),
    samples=_VECTORS,
    dtypes=ALL_NUMBERS + " string",
    bad=[Bad(Args(real()), match="vector")],
)


def _with_axis(op: str) -> Any:
    return lambda x, axis: tf.nest.flatten(getattr(tf.raw_ops, op)(x=x, axis=[axis], out_idx=tf.int64))


_MATRICES = [
    Args(np.array([[1, 2, 1], [3, 4, 3], [1, 2, 1]]), 0),
    Args(np.array([[1, 2, 1], [3, 4, 3], [1, 2, 1]]), 1),
    Args(real(3, 2, 2, low=0, high=1), 1),
    Args(real(4, 0), 0),
    Args(real(0, 4), 0),
]
_BAD_AXES = [Bad(Args(real(2, 2), 2), match="axis 2"), Bad(Args(real(), 0), match="axis 0")]
case(
    "UniqueV2",
    _with_axis("UniqueV2"),
    lambda x, axis: _unique(x, axis=axis, idx=np.int64),
    samples=_MATRICES,
    bad=_BAD_AXES,
)
case(
    "UniqueWithCountsV2",
    _with_axis("UniqueWithCountsV2"),
    lambda x, axis: _unique(x, True, axis, np.int64),
    samples=_MATRICES,
    bad=_BAD_AXES,
)


def _list_diff(x: np.ndarray, y: np.ndarray) -> Any:
    kept = [i for i, value in enumerate(x.tolist()) if value not in y.tolist()]
    return [x[kept], np.array(kept, np.int32)]


case(
    "ListDiff",
    tf.setdiff1d,
    _list_diff,
    samples=[
        Args(real(8), real(3)),
        Args(np.array([1, 2, 3, 4, 2]), np.array([2, 9])),
        Args(np.array([b"a", b"b"], object), np.array([b"a"], object)),
        Args(np.array([1, 2]), np.zeros(0, np.int64)),
        Args(np.zeros(0, np.int64), np.array([1, 2])),
    ],
    bad=[Bad(Args(real(2, 2), real(2)), match="x must be a vector"), Bad(Args(real(2), real()), match="y must be")],
)

case(
    "Bucketize",
    lambda x: apply("Bucketize", x, boundaries=[-1.0, 0.0, 1.5]),
    lambda x: np.digitize(x, [-1.0, 0.0, 1.5]).astype(np.int32),
    samples=[Args(real(5, 7)), Args(real(0)), Args(real()), Args(np.array([-1.0, 0.0, 1.5, np.inf], np.float32))],
    dtypes="float32 float64 int32 int64",
)
