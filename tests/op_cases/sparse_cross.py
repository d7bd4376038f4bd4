"""Cases of SparseCross; the buckets in them are TensorFlow's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case


def _words(*rows: list[str]) -> np.ndarray:
    return np.array([[word.encode() for word in row] for row in rows], object)


def _call(indices: Any, values: Any, dense: Any, words: Any, rows: int = 3, **options: Any) -> Any:
    sparse = tf.SparseTensor(indices, values, np.array([rows, 3], np.int64))
    if options:
        crossed = tf.sparse.cross_hashed([sparse, dense, words], **options)
    else:
        crossed = tf.sparse.cross([sparse, dense, words])
    return _parts(crossed)


def _parts(sparse: tf.SparseTensor) -> list[Any]:
    return [sparse.indices, sparse.values, sparse.dense_shape]


def _reference(indices: Any, values: Any, dense: Any, words: Any, rows: int = 3) -> list[np.ndarray]:
    places, crosses, most = [], [], 0
    for row in range(rows):
        first = [v for (r, _), v in zip(indices, values, strict=True) if r == row]
        found = list(itertools.product(first, dense[row], words[row]))
        most = max(most, len(found))
        for k, parts in enumerate(found):
            places.append((row, k))
            crosses.append(b"_X_".join(p if isinstance(p, bytes) else str(p).encode() for p in parts))
    return [np.array(places, np.int64).reshape(-1, 2), np.array(crosses, object), np.array([rows, most])]


_PLACES = np.array([[0, 0], [0, 2], [2, 0]])
_VALUES = np.array([b"x", b"y", b"z"], object)
_DENSE = np.array([[1, -2], [3, 4], [5, 6]])
_TEXT = _words(["p"], ["q"], [""])
_GOOD = Args(_PLACES, _VALUES, _DENSE, _TEXT)
case(
    "SparseCross",
    _call,
    _reference,
    samples=[
        _GOOD,
        Args(_PLACES, np.array([7, 8, 9]), _DENSE, _TEXT),
        Args(np.zeros((0, 2), np.int64), np.zeros(0, object), _DENSE, _TEXT),
        Args(_PLACES, _VALUES, np.zeros((3, 0), np.int64), _TEXT),
        Args(np.zeros((0, 2), np.int64), _VALUES[:0], _DENSE[:0], _TEXT[:0], rows=0),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(_PLACES, _VALUES[:2], _DENSE, _TEXT), match="3 elements"),
        Bad(Args(_PLACES, _VALUES, _DENSE[:2], _TEXT), match="batch size"),
        Bad(Args(_PLACES + np.array([1, 0]), _VALUES, _DENSE, _TEXT), match="not in [0, 3)"),
        Bad(Args(_PLACES - np.array([1, 0]), _VALUES, _DENSE, _TEXT), match="not in [0, 3)"),
        Bad(Args(_PLACES[::-1], _VALUES, _DENSE, _TEXT), match="sorted"),
        Bad(Args(_PLACES, _VALUES, _DENSE.ravel(), _TEXT), match="matrix"),
        Bad(Args(_PLACES[:, :1], _VALUES, _DENSE, _TEXT), match="[n, 2]"),
        Bad(Args(_PLACES, _VALUES, _DENSE, _TEXT, rows=-1), match="batch size"),
    ],
)
_FULL = [1767415281736608683, 4723407188023312959, 8589933469167541890, 1211497070121431082, 7378022074300147873,
         2882887847637411321]  # fmt: skip
for _options, _buckets in (
    ({"num_buckets": 100}, [83, 59, 90, 82, 80, 28]),
    ({"num_buckets": 0}, _FULL),
    ({"num_buckets": 1000, "hash_key": 12}, [156, 870, 504, 396, 191, 193]),
):
    case(
        "SparseCross",
        _call,
        lambda indices, values, dense, words, buckets=_buckets, **_: [
            np.array([[0, 0], [0, 1], [0, 2], [0, 3], [2, 0], [2, 1]]),
            np.array(buckets),
            np.array([3, 4]),
        ],
        samples=[Args(*_GOOD.args, **_options)],
        dtypes="float32",
    )
# Rows without features cost nothing, however many there are.
case(
    "SparseCross",
    lambda a, b: _parts(tf.sparse.cross([tf.SparseTensor(i, np.array([1, 2]), np.array([2**60, 9])) for i in (a, b)])),
    lambda a, b: [np.array([[2**59, 0]]), np.array([b"2_X_1"], object), np.array([2**60, 1])],
    samples=[Args(np.array([[3, 0], [2**59, 1]]), np.array([[2**59, 0], [2**59 + 1, 0]]))],
    dtypes="float32",
)
