"""Cases of ops on ragged tensors: lists of lists are the reference."""

from __future__ import annotations

import collections
import itertools
from typing import Any

import numpy as np

from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

_SPLITS = np.array([0, 2, 2, 5])
_OUTER = np.array([0, 1, 3])


def _rows(splits: np.ndarray, values: Any) -> list[Any]:
    return [list(values[a:b]) for a, b in itertools.pairwise(splits)]


def _dense(shape: np.ndarray, values: np.ndarray, default: np.ndarray, *nested: np.ndarray) -> np.ndarray:
    rows: Any = list(values)
    for splits in nested[::-1]:
        rows = _rows(splits, rows)
    sizes = [-1] * (len(nested) + 1) if np.ndim(shape) == 0 else list(shape)
    for depth in range(len(nested) + 1):
        level = [rows]
        for _ in range(depth):
            level = [item for part in level for item in part]
        sizes[depth] = max(map(len, level), default=0) if sizes[depth] < 0 else sizes[depth]
    out = np.empty([*sizes[: len(nested) + 1], *values.shape[1:]], values.dtype)
    out[...] = default
    for place in np.ndindex(*sizes[: len(nested) + 1]):
        found: Any = rows
        for i in place:
            found = found[i] if found is not None and i < len(found) else None
        if found is not None:
            out[place] = found
    return out


def _to_dense(shape: Any, values: Any, default: Any, *nested: Any) -> Any:
    return apply(
        "RaggedTensorToTensor", shape, values, default, list(nested), row_partition_types=["ROW_SPLITS"] * len(nested)
    )


def _by_rows(shape: Any, values: Any, default: Any, rows: Any, rowids: Any) -> Any:
    kinds = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
    return apply("RaggedTensorToTensor", shape, values, default, [rows, rowids], row_partition_types=kinds)


case(
    "RaggedTensorToTensor",
    _to_dense,
    _dense,
    samples=[
        Args(np.array(-1), real(5), real(), _SPLITS),
        Args(np.array([-1, 2]), real(5), real(), _SPLITS),
        Args(np.array([4, 6]), real(5), real(), _SPLITS),
        Args(np.array([2, -1, 3]), real(5, 3), real(3), _SPLITS),
        Args(np.array([-1, -1, -1]), real(5), real(), _OUTER, _SPLITS),
        Args(np.array([-1, -1]), real(0), real(), np.array([0])),
    ],
    dtypes="float32 float64 int32 string",
    order=1,
    bad=[
        Bad(Args(np.array(-1), real(4), real(), _SPLITS), match="4"),
        Bad(Args(np.array(-1), real(5), real(), np.array([0, 3, 2, 5])), match="decrease"),
        Bad(Args(np.array(-1), real(5), real(), np.array([1, 5])), match="begin with 0"),
        Bad(Args(np.array([3, 3, 3]), real(5), real(), _SPLITS), match=""),
        Bad(Args(np.array([-2, 3]), real(5), real(), _SPLITS), match="-2"),
        Bad(Args(np.array(-1), real(5), real(2), _SPLITS), match="default_value"),
        Bad(Args(np.array(-1), real(5), real(), np.zeros(0, np.int64)), match="empty"),
    ],
)
case(
    "RaggedTensorToTensor",
    _by_rows,
    lambda shape, values, default, rows, rowids: _dense(
        shape, values, default, np.searchsorted(rowids, np.arange(rows + 1))
    ),
    samples=[Args(np.array(-1), real(4), real(), np.array(4), np.array([0, 2, 2, 3]))],
    bad=[
        Bad(Args(np.array(-1), real(2), real(), np.array(2), np.array([0, 2])), match="less than 2"),
        Bad(Args(np.array(-1), real(2), real(), np.array(2), np.array([1, 0])), match="decrease"),
    ],
)


def _sparse(values: np.ndarray, *nested: np.ndarray) -> list[np.ndarray]:
    missing = -12345
    dense = _dense(np.array(-1), values.astype(np.int64), np.array(missing), *nested)
    places = np.argwhere(dense != missing)
    return [places, dense[dense != missing].astype(values.dtype), np.array(dense.shape)]


case(
    "RaggedTensorToSparse",
    lambda values, *nested: list(apply("RaggedTensorToSparse", list(nested), values)),
    _sparse,
    samples=[
        Args(np.arange(5), _SPLITS),
        Args(np.arange(10).reshape(5, 2), _SPLITS),
        Args(np.arange(5), _OUTER, _SPLITS),
        Args(np.zeros(0, np.int64), np.array([0, 0])),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(np.arange(4), _SPLITS), match="4"),
        Bad(Args(np.arange(5), np.array([0, 2]), _SPLITS), match="3"),
    ],
)


def _gathered(values: np.ndarray, indices: np.ndarray, *nested: np.ndarray) -> list[np.ndarray]:
    rows: Any = list(values)
    for splits in nested[::-1]:
        rows = _rows(splits, rows)
    picked: Any = [rows[i] for i in indices.reshape(-1)]
    splits = [np.arange(indices.shape[0] + 1) * indices.shape[1]] if indices.ndim == 2 else []
    for _ in nested:
        splits.append(np.cumsum([0] + [len(row) for row in picked]))
        picked = [item for row in picked for item in row]
    return [*splits, np.array(picked, values.dtype).reshape(-1, *values.shape[1:])]


def _gather(values: Any, indices: Any, *nested: Any) -> Any:
    rank = len(nested) + len(indices.shape) - 1 if indices.shape.ndims is not None else len(nested)
    out = apply("RaggedGather", list(nested), values, indices, OUTPUT_RAGGED_RANK=rank)
    return [*out.output_nested_splits, out.output_dense_values]


case(
    "RaggedGather",
    _gather,
    _gathered,
    samples=[
        Args(real(5), np.array([2, 0, 2]), _SPLITS),
        Args(real(5, 2), np.array([1, 2]), _SPLITS),
        Args(real(5), np.array([1]), _OUTER, _SPLITS),
        Args(real(5), np.zeros(0, np.int64), _SPLITS),
    ],
    dtypes="float32 float64 string",
    bad=[
        Bad(Args(real(5), np.array([3]), _SPLITS), match="3"),
        Bad(Args(real(5), np.array([-1]), _SPLITS), match="-1"),
        Bad(Args(real(4), np.array([0]), _SPLITS), match="4"),
    ],
)


def _ranges(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    rows = [np.arange(*row) for row in zip(*np.broadcast_arrays(*map(np.atleast_1d, (a, b, d))), strict=True)]
    return [np.cumsum([0] + [len(row) for row in rows]), np.concatenate(rows).astype(a.dtype)]


case(
    "RaggedRange",
    lambda a, b, d: list(apply("RaggedRange", a, b, d)),
    _ranges,
    samples=[
        Args(np.array([0, 5, 8]), np.array([3, 5, 2]), np.array([1, 2, -3])),
        Args(np.array(0), np.array([2, 3]), np.array(1)),
        Args(np.array(1.0, np.float32), np.array(2.0, np.float32), np.array(0.25, np.float32)),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(np.array([0]), np.array([3]), np.array([0])), match="delta"),
        Bad(Args(np.array([0, 1]), np.array([3, 4, 5]), np.array(1)), match="same shape"),
    ],
)


def _counts(rows: list[list[int]], size: int, weights: list[list[float]] | None, binary: bool) -> np.ndarray:
    out = np.zeros((len(rows), size), np.float32)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if value < size:
                out[i, value] = 1 if binary else out[i, value] + (1 if weights is None else weights[i][j])
    return out


_VALUES = np.array([1, 1, 0, 3, 1])
_WEIGHTS = np.array([0.5, 2, 3, 4, 5], np.float32)
_NO_WEIGHTS = np.zeros(0, np.float32)


def _weights_of(splits: np.ndarray, weights: np.ndarray) -> Any:
    return _rows(splits, weights) if weights.size else None


case(
    "RaggedBincount",
    lambda s, v, n, w, binary=False: apply("RaggedBincount", s, v, n, w, binary_output=binary),
    lambda s, v, n, w, binary=False: _counts(_rows(s, v), int(n), _weights_of(s, w), binary),
    samples=[
        Args(_SPLITS, _VALUES, np.array(3), _NO_WEIGHTS),
        Args(_SPLITS, _VALUES, np.array(5), _WEIGHTS),
        Args(_SPLITS, _VALUES, np.array(4), _NO_WEIGHTS, binary=True),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(_SPLITS, -_VALUES, np.array(3), _NO_WEIGHTS), match="negative"),
        Bad(Args(_SPLITS, _VALUES, np.array(-1), _NO_WEIGHTS), match="-1"),
        Bad(Args(_SPLITS, _VALUES, np.array(3), _WEIGHTS[:2]), match="weights"),
    ],
)
_INDICES = np.array([[0, 0], [0, 1], [2, 0], [2, 1], [2, 5]])
case(
    "SparseBincount",
    lambda i, v, s, n, w: apply("SparseBincount", i, v, s, n, w),
    lambda i, v, s, n, w: _counts(_rows(_SPLITS, v), int(n), _weights_of(_SPLITS, w), False),
    samples=[
        Args(_INDICES, _VALUES, np.array([3, 6]), np.array(4), _NO_WEIGHTS),
        Args(_INDICES, _VALUES, np.array([3, 6]), np.array(4), _WEIGHTS),
    ],
    dtypes="float32",
    bad=[Bad(Args(_INDICES, _VALUES, np.array([2, 6]), np.array(4), _NO_WEIGHTS), match="out of bounds")],
)


def _sparse_counts(rows: list[list[int]], minlength: int = -1, maxlength: int = -1) -> list[np.ndarray]:
    found = [collections.Counter(v for v in row if maxlength < 0 or v < maxlength) for row in rows]
    places = [(i, v, n) for i, c in enumerate(found) for v, n in sorted(c.items())]
    width = max([v + 1 for _, v, _ in places] + [minlength, 0])
    return [
        np.array([p[:2] for p in places]).reshape(-1, 2),
        np.array([p[2] for p in places], np.float32),
        np.array([len(rows), maxlength if maxlength >= 0 else width]),
    ]


def _options(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"binary_output": False, "minlength": -1, "maxlength": -1, **kwargs}


case(
    "RaggedCountSparseOutput",
    lambda s, v, w, **k: list(apply("RaggedCountSparseOutput", s, v, w, **_options(k))),
    lambda s, v, w, **k: _sparse_counts(_rows(s, v), **k),
    samples=[
        Args(_SPLITS, _VALUES, _NO_WEIGHTS),
        Args(_SPLITS, _VALUES, _NO_WEIGHTS, minlength=9),
        Args(_SPLITS, _VALUES, _NO_WEIGHTS, maxlength=2),
    ],
    dtypes="float32",
    bad=[Bad(Args(_SPLITS[:2], _VALUES, _NO_WEIGHTS), match="end with")],
)
case(
    "DenseCountSparseOutput",
    lambda v, w, **k: list(apply("DenseCountSparseOutput", v, w, **_options(k))),
    lambda v, w, **k: _sparse_counts(v.tolist(), **k),
    samples=[Args(np.array([[1, 1, 4], [0, 2, 0]]), _NO_WEIGHTS), Args(np.zeros((2, 0), np.int64), _NO_WEIGHTS)],
    dtypes="float32",
    bad=[Bad(Args(np.zeros((1, 1, 1), np.int64), _NO_WEIGHTS), match="matrix")],
)
case(
    "SparseCountSparseOutput",
    lambda i, v, s, w, **k: list(apply("SparseCountSparseOutput", i, v, s, w, **_options(k))),
    lambda i, v, s, w, **k: _sparse_counts(_rows(_SPLITS, v), **k),
    samples=[Args(_INDICES, _VALUES, np.array([3, 6]), _NO_WEIGHTS)],
    dtypes="float32",
    bad=[Bad(Args(_INDICES, _VALUES, np.array([3, 5]), _NO_WEIGHTS), match="out of bounds")],
)
