"""Cases of joining and splitting."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64


def _axis(n: int) -> np.ndarray:
    return np.array(n, i32)


_JOINS = [
    Args(real(2, 3), real(2, 3), _axis(0)),
    Args(real(2, 3), real(2, 1), _axis(1)),
    Args(real(2, 0, 3), real(2, 4, 3), -2),
    Args(real(0), real(0), _axis(0)),
    Args(real(2, 3, 4), real(2, 3, 1), np.array(-1, i32)),
]
_BAD_JOINS = [
    Bad(Args(real(2, 3), real(2, 4), _axis(0)), match="[2,4]"),
    Bad(Args(real(2, 3), real(2), _axis(0)), match="[2]"),
    Bad(Args(real(2, 3), real(2, 3), _axis(2)), match="2"),
    Bad(Args(real(), real(), _axis(0)), match="scalar"),
    Bad(Args(real(2), real(2), np.array([0, 0], i32)), match="scalar"),
]
case(
    "ConcatV2",
    lambda a, b, axis: tf.concat([a, b], axis),
    lambda a, b, axis: np.concatenate([a, b], int(axis)),
    samples=_JOINS,
    dtypes=ALL,
    order=2,
    bad=_BAD_JOINS,
)
case(
    "Concat",
    lambda a, b, axis: apply("Concat", axis, [a, b]),
    lambda a, b, axis: np.concatenate([a, b], int(axis)),
    samples=_JOINS,
    dtypes=ALL,
    order=2,
    bad=_BAD_JOINS,
)
case(
    "Pack",
    lambda *xs, axis=0: tf.stack(xs, axis),
    lambda *xs, axis=0: np.stack(xs, axis),
    samples=[
        Args(real(2, 3), real(2, 3)),
        Args(real(2, 3), real(2, 3), axis=1),
        Args(real(2, 3), real(2, 3), real(2, 3), axis=-1),
        Args(real(), real()),
        Args(real(0, 2), real(0, 2), axis=2),
        Args(real(3)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(2), real(3)), match="[3]"),
        Bad(Args(real(2), real(2), axis=2), match="2"),
        Bad(Args(real(2), real(2), axis=-3), match="-3"),
    ],
)
case(
    "Unpack",
    lambda x, num, axis=0: tf.unstack(x, num, axis),
    lambda x, num, axis=0: [np.take(x, i, axis) for i in range(num)],
    samples=[
        Args(real(2, 3), 2),
        Args(real(2, 3), 3, axis=1),
        Args(real(2, 3), 3, axis=-1),
        Args(real(2, 0), 2),
        Args(real(4), 4),
    ],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(2, 3), 4), match="4"), Bad(Args(real(2, 3), 2, axis=2), match="2")],
)
case(
    "Split",
    lambda x, num, axis=0: tf.split(x, num, axis),
    lambda x, num, axis=0: np.split(x, num, axis),
    samples=[
        Args(real(4, 3), 2),
        Args(real(4, 3), 3, axis=1),
        Args(real(4, 3, 2), 3, axis=-2),
        Args(real(0, 3), 2),
        Args(real(4), 1),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(4, 3), 2, axis=1), match="3"),
        Bad(Args(real(4, 3), 2, axis=2), match="2"),
        Bad(Args(real(4, 3), 0)),
    ],
)
case(
    "SplitV",
    lambda x, sizes, axis=0: tf.split(x, sizes, axis, num=3),
    lambda x, sizes, axis=0: np.split(
        x, np.cumsum([n if n >= 0 else x.shape[axis] - sum(sizes) - 1 for n in sizes])[:-1], axis
    ),
    samples=[
        Args(real(6, 2), np.array([1, 2, 3], i32)),
        Args(real(2, 6), np.array([1, -1, 3], i64), axis=1),
        Args(real(2, 6, 2), [0, 5, 1], axis=-2),
        Args(real(0), np.array([0, 0, 0], i32)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(6), np.array([1, 2, 4], i32)), match="7"),
        Bad(Args(real(6), np.array([-1, -1, 3], i32)), match="-1"),
        Bad(Args(real(6), np.array([-2, 5, 3], i32)), match="-2"),
        Bad(Args(real(6), np.array([-1, 5, 3], i32)), match="8"),
        Bad(Args(real(6), np.array([2**62, 2**62, 2**62], i64)), match="overflow"),
        Bad(Args(real(6), np.array([3, 3], i32)), match="3"),
    ],
)
