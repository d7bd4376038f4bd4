"""Cases of moving space into batch and depth."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64


def _to_batch(x: np.ndarray, block: Any, paddings: Any) -> np.ndarray:
    m, rest = len(block), x.shape[1 + len(block) :]
    fill = b"" if x.dtype == object else 0
    pads = [(0, 0), *[tuple(p) for p in paddings], *[(0, 0)] * len(rest)]
    x = np.pad(x, pads, constant_values=fill)
    split = [x.shape[0]]
    for n, b in zip(x.shape[1:], block, strict=False):
        split += [n // b, b]
    y = x.reshape(*split, *rest)
    order = [2 * i + 2 for i in range(m)] + [0] + [2 * i + 1 for i in range(m)]
    y = y.transpose(order + list(range(2 * m + 1, y.ndim)))
    return y.reshape(
        int(np.prod(block)) * x.shape[0], *[n // b for n, b in zip(x.shape[1:], block, strict=False)], *rest
    )


def _to_space(x: np.ndarray, block: Any, crops: Any) -> np.ndarray:
    m, rest = len(block), x.shape[1 + len(block) :]
    batch = x.shape[0] // int(np.prod(block))
    y = x.reshape(*block, batch, *x.shape[1:])
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    y = y.transpose(order + list(range(2 * m + 1, y.ndim)))
    y = y.reshape(batch, *[n * b for n, b in zip(x.shape[1:], block, strict=False)], *rest)
    return y[(slice(None), *[slice(a, n - b) for n, (a, b) in zip(y.shape[1:], crops, strict=False)])]


case(
    "SpaceToBatchND",
    tf.space_to_batch_nd,
    _to_batch,
    samples=[
        Args(real(1, 4, 6, 2), np.array([2, 3], i32), np.zeros([2, 2], i32)),
        Args(real(2, 3, 4), np.array([2], i64), np.array([[0, 1]], i32)),
        Args(real(2, 3, 4, 1), np.array([2, 2], i32), np.array([[1, 0], [1, 1]], i64)),
        Args(real(0, 4, 2), np.array([2], i32), np.zeros([1, 2], i32)),
        Args(real(2, 3), np.zeros([0], i32), np.zeros([0, 2], i32)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(1, 4, 1), np.array([3], i32), np.zeros([1, 2], i32)), match="3"),
        Bad(Args(real(1, 4, 1), np.array([0], i32), np.zeros([1, 2], i32)), match="0"),
        Bad(Args(real(1, 4, 1), np.array([2], i32), np.array([[-1, 1]], i32)), match="-1"),
        Bad(Args(real(1, 4, 1), np.array([2], i32), np.zeros([2, 2], i32)), match="[2,2]"),
        Bad(Args(real(1, 4), np.array([2, 2], i32), np.zeros([2, 2], i32)), match="3"),
        Bad(Args(real(1, 4, 1), np.array([2**62], i64), np.array([[0, 0]], i32)), match=str(2**62)),
    ],
)
case(
    "BatchToSpaceND",
    tf.batch_to_space_nd,
    _to_space,
    samples=[
        Args(real(6, 2, 2, 2), np.array([2, 3], i32), np.zeros([2, 2], i32)),
        Args(real(4, 3, 4), np.array([2], i64), np.array([[1, 1]], i32)),
        Args(real(4, 2, 3, 1), np.array([2, 2], i32), np.array([[1, 0], [2, 1]], i64)),
        Args(real(0, 2), np.array([2], i32), np.zeros([1, 2], i32)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(5, 2, 1), np.array([2], i32), np.zeros([1, 2], i32)), match="5"),
        Bad(Args(real(4, 2, 1), np.array([2], i32), np.array([[3, 2]], i32)), match="4"),
        Bad(Args(real(4, 2, 1), np.array([-2], i32), np.zeros([1, 2], i32)), match="-2"),
    ],
)
case(
    "SpaceToBatch",
    lambda x, p, size: apply("SpaceToBatch", x, p, block_size=size),
    lambda x, p, size: _to_batch(x, [size, size], p),
    samples=[
        Args(real(1, 4, 4, 2), np.zeros([2, 2], i32), 2),
        Args(real(2, 2, 4, 1), np.array([[1, 0], [2, 0]], i32), 3),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(1, 3, 4, 2), np.zeros([2, 2], i32), 2), match="3"),
        Bad(Args(real(1, 4, 4), np.zeros([2, 2], i32), 2), match="4"),
    ],
)
case(
    "BatchToSpace",
    lambda x, p, size: apply("BatchToSpace", x, p, block_size=size),
    lambda x, p, size: _to_space(x, [size, size], p),
    samples=[
        Args(real(4, 2, 2, 2), np.zeros([2, 2], i32), 2),
        Args(real(9, 2, 1, 1), np.array([[1, 0], [0, 2]], i32), 3),
    ],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(3, 2, 2, 1), np.zeros([2, 2], i32), 2), match="3")],
)


def _to_depth(x: np.ndarray, b: int, data_format: str = "NHWC") -> np.ndarray:
    if data_format == "NCHW":
        return np.moveaxis(_to_depth(np.moveaxis(x, 1, -1), b), -1, 1)
    n, h, w, c = x.shape
    return x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, b * b * c)


def _from_depth(x: np.ndarray, b: int, data_format: str = "NHWC") -> np.ndarray:
    if data_format == "NCHW":
        return np.moveaxis(_from_depth(np.moveaxis(x, 1, -1), b), -1, 1)
    n, h, w, c = x.shape
    d = c // (b * b)
    return x.reshape(n, h, w, b, b, d).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, d)


case(
    "SpaceToDepth",
    tf.space_to_depth,
    _to_depth,
    samples=[
        Args(real(2, 4, 6, 3), 2),
        Args(real(1, 3, 3, 1), 3),
        Args(real(2, 3, 4, 6), 2, data_format="NCHW"),
        Args(real(0, 4, 4, 1), 2),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(1, 3, 4, 1), 2), match="3"),
        Bad(Args(real(4, 4, 1), 2), match="4"),
        Bad(Args(real(1, 4, 4, 1), 1)),
    ],
)
case(
    "DepthToSpace",
    tf.depth_to_space,
    _from_depth,
    samples=[
        Args(real(2, 2, 3, 12), 2),
        Args(real(1, 1, 1, 9), 3),
        Args(real(2, 12, 2, 3), 2, data_format="NCHW"),
        Args(real(1, 0, 4, 4), 2),
    ],
    dtypes=ALL,
    order=2,
    bad=[Bad(Args(real(1, 4, 4, 3), 2), match="3"), Bad(Args(real(4, 4, 4), 2), match="4")],
)
