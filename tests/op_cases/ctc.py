"""Cases of connectionist temporal classification, against the sum over all paths one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _collapsed(path: tuple[int, ...], blank: int, merge: bool) -> tuple[int, ...]:
    kept = [k for i, k in enumerate(path) if not (merge and i > 0 and path[i - 1] == k)]
    return tuple(k for k in kept if k != blank)


def _all_sequences(logits: np.ndarray, merge: bool = True) -> dict[tuple[int, ...], float]:
    """The probability of every label sequence: the sum over all paths `[time, classes]` that mean it."""
    p = _softmax(logits.astype(np.float64))
    time, classes = p.shape
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(classes), repeat=time):
        sequence = _collapsed(path, classes - 1, merge)
        found[sequence] = found.get(sequence, 0.0) + float(np.prod([p[t, k] for t, k in enumerate(path)]))
    return found


def _loss(
    x: np.ndarray, indices: np.ndarray, values: np.ndarray, lengths: np.ndarray, collapse: bool = False,
    merge: bool = True, ignore: bool = False,
) -> np.ndarray:  # fmt: skip
    losses = []
    for b in range(x.shape[1]):
        labels = [int(v) for (row, _), v in zip(indices, values, strict=True) if row == b and v != x.shape[2] - 1]
        if collapse:
            labels = [v for i, v in enumerate(labels) if i == 0 or labels[i - 1] != v]
        if ignore and len(labels) > lengths[b]:
            losses.append(0.0)
        else:
            losses.append(-np.log(_all_sequences(x[: lengths[b], b], merge).get(tuple(labels), 0.0)))
    return np.array(losses, x.dtype)


def _call(
    x: Any, indices: Any, values: Any, lengths: Any, collapse: bool = False, merge: bool = True, ignore: bool = False
) -> Any:
    labels = tf.SparseTensor(indices, values, np.array([9, 9], np.int64))
    return tf.nn.ctc_loss(labels, x, lengths, collapse, merge, ignore)


def _labels(*rows: list[int]) -> tuple[np.ndarray, np.ndarray]:
    places = [(b, i) for b, row in enumerate(rows) for i in range(len(row))]
    return np.array(places, np.int64).reshape(-1, 2), np.array([v for row in rows for v in row], np.int32)


def _int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


case(
    "CTCLoss",
    _call,
    _loss,
    samples=[
        Args(real(4, 2, 3), *_labels([0, 1], [1]), _int32(4, 3)),
        Args(real(5, 1, 3), *_labels([0, 0, 1]), _int32(5)),
        Args(real(4, 2, 3), *_labels([], [1, 0]), _int32(2, 4)),
        Args(real(3, 1, 4), *_labels([2, 1, 0]), _int32(3)),
        Args(real(3, 1, 3), *_labels([1, 2, 2]), _int32(3)),
        Args(real(4, 1, 3), *_labels([0, 0, 1]), _int32(4), collapse=True),
        Args(real(4, 1, 3), *_labels([0, 0, 1]), _int32(4), merge=False),
        Args(real(4, 2, 3), *_labels([0, 1, 0], [1]), _int32(2, 4), ignore=True),
        Args(real(1, 1, 1), *_labels([]), _int32(1)),
    ],
    bad=[
        Bad(Args(real(4, 1, 3), *_labels([3]), _int32(4)), match="No label may be greater"),
        Bad(Args(real(4, 1, 3), *_labels([-1]), _int32(4)), match="nonnegative"),
        Bad(Args(real(4, 1, 3), *_labels([2, 1]), _int32(4)), match="following a null label"),
        Bad(Args(real(4, 1, 3), *_labels([0, 1, 0]), _int32(2)), match="Not enough time"),
        Bad(Args(real(4, 1, 3), *_labels([0]), _int32(5)), match="sequence_length"),
        Bad(Args(real(4, 1, 3), *_labels([0]), _int32(-1)), match="sequence_length"),
        Bad(Args(real(4, 1, 3), *_labels([0]), _int32(4, 4)), match="batch_size"),
        Bad(Args(real(4, 1, 3), *_labels([0], [1]), _int32(4)), match="batch index"),
        Bad(Args(real(4, 1, 3), np.array([[0, 1], [0, 0]]), _int32(0, 1), _int32(4)), match="sorted"),
        Bad(Args(real(4, 1, 3), np.zeros((1, 3), np.int64), _int32(0), _int32(4)), match="2 columns"),
        Bad(Args(real(4, 1, 3), np.zeros((2, 2), np.int64), _int32(0), _int32(4)), match="same number"),
        Bad(Args(real(4, 3), *_labels([0]), _int32(4)), match="3-Tensor"),
        Bad(Args(real(0, 1, 3), *_labels([]), _int32(0)), match="not 0"),
        Bad(Args(real(4, 1, 0), *_labels([]), _int32(1)), match="classes"),
    ],
    order=1,
)


def _sparse(sequences: list[list[int]]) -> list[np.ndarray]:
    places, values = _labels(*sequences)
    longest = max((len(s) for s in sequences), default=0)
    return [places, values.astype(np.int64), np.array([len(sequences), longest], np.int64)]


def _flat(decoded: Any) -> list[Any]:
    sparse, score = decoded
    return [part for s in sparse for part in (s.indices, s.values, s.dense_shape)] + [score]


def _greedy(x: np.ndarray, lengths: np.ndarray, merge: bool = True, blank: int | None = None) -> list[np.ndarray]:
    null = x.shape[2] - 1 if blank is None else blank % x.shape[2]
    best = [tuple(x[: lengths[b], b].argmax(-1).tolist()) for b in range(x.shape[1])]
    scores = [[-x[: lengths[b], b].max(-1).sum()] for b in range(x.shape[1])]
    sequences = [list(_collapsed(path, null, merge)) for path in best]
    return [*_sparse(sequences), np.array(scores, x.dtype).reshape(-1, 1)]


_TWICE = np.repeat(np.eye(4)[[0, 0, 3, 0, 1, 1]], 2, 0).reshape(6, 2, 4)
_DECODER_BAD = [
    Bad(Args(real(4, 2, 3), _int32(4)), match="batch_size"),
    Bad(Args(real(4, 1, 3), _int32(5)), match="sequence_length"),
    Bad(Args(real(4, 1, 3), _int32(-1)), match="sequence_length"),
    Bad(Args(real(4, 3), _int32(4)), match="3-Tensor"),
    Bad(Args(real(0, 1, 3), _int32(0)), match="max_time"),
    Bad(Args(real(4, 1, 0), _int32(1)), match="classes"),
]
case(
    "CTCGreedyDecoder",
    lambda x, n, merge=True, blank=None: _flat(tf.nn.ctc_greedy_decoder(x, n, merge, blank)),
    _greedy,
    samples=[
        Args(real(6, 3, 4), _int32(6, 0, 3)),
        Args(real(6, 3, 4), _int32(6, 2, 3), merge=False),
        Args(_TWICE, _int32(6, 6)),
        Args(_TWICE, _int32(6, 6), merge=False),
        Args(_TWICE, _int32(6, 5), blank=0),
        Args(_TWICE, _int32(6, 5), blank=-3),
        Args(real(2, 0, 3), _int32()),
    ],
    bad=[*_DECODER_BAD, Bad(Args(real(4, 1, 3), _int32(4), blank=3), match="blank_index")],
)


def _beam(
    x: np.ndarray, lengths: np.ndarray, width: int = 100, paths: int = 1, merge: bool = False
) -> list[np.ndarray]:
    """Exhaustive search: the result of a beam that is wide enough to hold all prefixes."""
    best = [
        sorted(_all_sequences(x[: lengths[b], b]).items(), key=lambda item: -item[1])[:paths] for b in range(x.shape[1])
    ]
    parts: list[np.ndarray] = []
    for p in range(paths):
        sequences = [list(rows[p][0]) for rows in best]
        if merge:
            sequences = [[v for i, v in enumerate(s) if i == 0 or s[i - 1] != v] for s in sequences]
        parts += _sparse(sequences)
    return [*parts, np.array([[np.log(q) for _, q in rows] for rows in best], x.dtype)]


case(
    "CTCBeamSearchDecoder",
    lambda x, n, width=100, paths=1, merge=False: _flat(tf.nn.ctc_beam_search_decoder(x, n, width, paths, merge)),
    _beam,
    samples=[
        Args(real(4, 2, 3), _int32(4, 2)),
        Args(real(5, 1, 3), _int32(5), paths=4),
        Args(real(3, 1, 4, low=-4, high=4), _int32(3), paths=2),
        Args(_TWICE[:, :1], _int32(6), width=2000),
        Args(_TWICE[:, :1] * 5, _int32(6), width=2000, merge=True),
    ],
    bad=[
        *_DECODER_BAD,
        Bad(Args(real(4, 1, 3), _int32(4), width=2, paths=3), match="top_paths"),
        Bad(Args(real(4, 1, 3), _int32(0), paths=2), match="Less leaves"),
        Bad(Args(real(4, 1, 3), _int32(4), width=2**40), match="beam_width"),
    ],
    tolerance=1e-4,
)
