"""Cases of set operations, edit distance and serialized sparse values."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere
from tests.op_cases.sparse import BROKEN, CUBE, INDICES, NONE, SHAPE, THREE_D, parts

_A = np.array([[1, 2, 2], [3, 4, 5]])
_B = np.array([[2, 2, 9, 1], [5, 4, 0, 0]])
_OPERATIONS = {
    "intersection": (tf.sets.intersection, lambda a, b: a & b),
    "union": (tf.sets.union, lambda a, b: a | b),
    "difference": (tf.sets.difference, lambda a, b: a - b),
    "other": (lambda a, b: tf.sets.difference(a, b, aminusb=False), lambda a, b: b - a),
}


def _groups(x: Any) -> tuple[dict[tuple[int, ...], set[Any]], tuple[int, ...]]:
    if isinstance(x, np.ndarray):
        return {at: set(x[at].tolist()) for at in np.ndindex(*x.shape[:-1])}, x.shape[:-1]
    indices, values, shape = x
    groups: dict[tuple[int, ...], set[Any]] = {}
    for at, value in zip(indices.tolist(), values.tolist(), strict=True):
        groups.setdefault(tuple(at[:-1]), set()).add(value)
    return groups, tuple(shape[:-1])


def _operate(operation: str, a: Any, b: Any) -> Any:
    (x, outer), (y, _) = _groups(a), _groups(b)
    indices, values, largest = [], [], 0
    for at in np.ndindex(*outer):
        members = sorted(_OPERATIONS[operation][1](x.get(at, set()), y.get(at, set())))
        largest = max(largest, len(members))
        indices += [(*at, i) for i in range(len(members))]
        values += members
    kind = a.dtype if isinstance(a, np.ndarray) else a[1].dtype
    return [np.array(indices, int).reshape(-1, len(outer) + 1), np.array(values, kind), np.array([*outer, largest])]


def _values(*values: Any) -> np.ndarray:
    return np.array(values, object if isinstance(values[0], bytes) else np.int64)


case(
    "DenseToDenseSetOperation",
    lambda a, b, operation: parts(_OPERATIONS[operation][0](a, b)),
    lambda a, b, operation: _operate(operation, a, b),
    samples=[
        *[Args(_A, _B, operation) for operation in _OPERATIONS],
        Args(_A[:, None], _B[:, None, :2], "union"),
        Args(np.array([[b"x", b"y"]], object), np.array([[b"y"]], object), "difference"),
        Args(np.zeros((2, 0), np.int64), _B, "intersection"),
    ],
    dtypes="int64",
    bad=[
        Bad(Args(_A, _B[:1], "union"), match="[2] and [1]"),
        Bad(Args(_A[0], _B[0], "union"), match="matrix"),
    ],
)
case(
    "DenseToSparseSetOperation",
    lambda a, i, v, s, operation: parts(_OPERATIONS[operation][0](a, tf.SparseTensor(i, v, s))),
    lambda a, i, v, s, operation: _operate(operation, a, (i, v, s)),
    samples=[Args(_A, INDICES, _values(2, 5, 6), SHAPE, operation) for operation in _OPERATIONS],
    dtypes="int64",
    bad=[
        Bad(Args(_A, INDICES[::-1].copy(), _values(2, 5, 6), SHAPE, "union"), match="order"),
        Bad(Args(_A, THREE_D, _values(2, 5, 6), CUBE, "union")),
        *[Bad(Args(_A, *args.args, "union"), dtype="int64") for args in BROKEN],
    ],
)
case(
    "SparseToSparseSetOperation",
    lambda i, v, s, j, w, t, operation: parts(
        _OPERATIONS[operation][0](tf.SparseTensor(i, v, s), tf.SparseTensor(j, w, t))
    ),
    lambda i, v, s, j, w, t, operation: _operate(operation, (i, v, s), (j, w, t)),
    samples=[
        *[Args(INDICES, _values(2, 5, 6), SHAPE, INDICES, _values(2, 6, 7), SHAPE, o) for o in _OPERATIONS],
        Args(INDICES, _values(b"a", b"b", b"c"), SHAPE, INDICES[:1], _values(b"a"), SHAPE, "union"),
        Args(NONE, np.zeros(0, np.int64), SHAPE, NONE, np.zeros(0, np.int64), SHAPE, "union"),
    ],
    dtypes="int64",
    bad=[Bad(Args(INDICES, _values(2, 5, 6), SHAPE, *args.args, "union"), dtype="int64") for args in BROKEN],
)
case(
    "SetSize",
    lambda i, v, s: tf.sets.size(tf.SparseTensor(i, v, s)),
    lambda i, v, s: np.array([len(_groups((i, v, s))[0].get(at, ())) for at in np.ndindex(*s[:-1])], np.int32).reshape(
        s[:-1]
    ),
    samples=[
        Args(INDICES, _values(1, 1, 2), SHAPE),
        Args(INDICES, _values(1, 2, 2), SHAPE),
        Args(NONE, np.zeros(0, np.int64), SHAPE),
        Args(THREE_D, _values(b"a", b"b", b"c"), CUBE),
    ],
    dtypes="int64",
    bad=[Bad(Args(*args.args), dtype="int64") for args in BROKEN],
)


def _levenshtein(a: list[Any], b: list[Any]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = _next(row, i, x, b)
    return row[-1]


def _next(row: list[int], i: int, x: Any, b: list[Any]) -> list[int]:
    out = [i + 1]
    for j, y in enumerate(b):
        out.append(min(out[j] + 1, row[j + 1] + 1, row[j] + (x != y)))
    return out


def _distances(i: Any, v: Any, s: Any, j: Any, w: Any, t: Any, normalize: bool = True) -> np.ndarray:
    outer = tuple(np.maximum(s[:-1], t[:-1]))
    out = np.zeros(outer, np.float32)
    for at in np.ndindex(*outer):
        a, b = (
            [x for row, x in zip(idx.tolist(), val.tolist(), strict=True) if tuple(row[:-1]) == at]
            for idx, val in ((i, v), (j, w))
        )
        d = float(_levenshtein(a, b))
        out[at] = d if not normalize else d / len(b) if b else np.inf if d else 0
    return out


_H = (np.array([[0, 0], [0, 1], [0, 2], [1, 0], [3, 0]]), _values(b"a", b"b", b"c", b"c", b"z"), np.array([4, 3]))
_T = (np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), _values(b"b", b"c", b"c", b"d"), np.array([3, 2]))
case(
    "EditDistance",
    lambda i, v, s, j, w, t, **k: tf.edit_distance(tf.SparseTensor(i, v, s), tf.SparseTensor(j, w, t), **k),
    _distances,
    samples=[
        Args(*_H, *_T),
        Args(*_H, *_T, normalize=False),
        Args(INDICES, _values(1, 2, 3), SHAPE, INDICES, _values(1, 3, 2), SHAPE),
        Args(NONE, np.zeros(0, np.int64), SHAPE, INDICES, _values(1, 3, 2), SHAPE),
        Args(np.array([[0], [1]]), _values(1, 2), np.array([2]), np.array([[0]]), _values(2), np.array([1])),
        Args(THREE_D, _values(1, 2, 3), CUBE, THREE_D, _values(1, 3, 3), CUBE),
    ],
    dtypes="int64",
    bad=[
        Bad(Args(INDICES, _values(1, 2, 3), SHAPE, THREE_D, _values(1, 2, 3), CUBE), match="rank"),
        *[Bad(Args(INDICES, _values(1, 2, 3), SHAPE, *args.args), dtype="int64") for args in BROKEN],
    ],
)
covered_elsewhere(
    "byte strings are compared in tests/ops/test_sparse.py",
    "SerializeSparse", "SerializeManySparse", "DeserializeSparse", "DeserializeManySparse",
)  # fmt: skip
