"""Cases of gathering."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from thalweg.graph.apply import apply

ALL = "bool uint8 int16 float16 float32 float64 complex128 string"
i32, i64 = np.int32, np.int64

case(
    "Gather",
    lambda params, indices: apply("Gather", params, indices),
    lambda params, indices: np.take(params, indices, 0),
    samples=[
        Args(real(5, 3), np.array([0, 4, 4], i32)),
        Args(real(5), np.array([[1, 2], [3, 0]], i64)),
        Args(real(5, 2, 2), np.array(2, i32)),
        Args(real(5, 0), np.array([1], i32)),
        Args(real(5), np.zeros([0], i32)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(5, 2), np.array([[0, 1], [5, 0]], i32)), match="indices[1,0] = 5 is not in [0, 5)"),
        Bad(Args(real(5), np.array(-1, i64)), match="indices = -1 is not in [0, 5)"),
        Bad(Args(real(0, 2), np.array([0], i32)), match="[0, 0)"),
        Bad(Args(real(), np.array([0], i32)), match="1 dimensional"),
    ],
)


def _gathered(params: Any, indices: Any, axis: Any = 0, batch_dims: int = 0) -> Any:
    if batch_dims == 0:
        return np.take(params, indices, int(axis))
    axis = int(axis) % params.ndim
    return np.stack([_gathered(p, i, axis - 1, batch_dims - 1) for p, i in zip(params, indices, strict=True)])


case(
    "GatherV2",
    lambda p, i, axis=0, batch_dims=0: tf.gather(p, i, axis=axis, batch_dims=batch_dims),
    _gathered,
    samples=[
        Args(real(5, 3), np.array([0, 4, 4], i32)),
        Args(real(2, 5, 3), np.array([[1, 0], [4, 4]], i64), 1),
        Args(real(2, 5, 3), np.array([1, 0, 1], i64), np.array(-1, i32)),
        Args(real(2, 5, 3), np.array(4, i32), 1),
        Args(real(2, 5), np.array([[1, 0, 1], [4, 4, 2]], i32), 1, batch_dims=1),
        Args(real(2, 3, 5, 2), np.array([[1, 0], [4, 4]], i32), 2, batch_dims=1),
        Args(real(2, 5), np.zeros([0], i32), 1),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(Args(real(5, 2), np.array([[0, 1], [2, 0]], i32), 1), match="indices[1,0] = 2 is not in [0, 2)"),
        Bad(Args(real(5, 2), np.array([0], i32), np.array(2, i32)), match="2"),
        Bad(Args(real(5, 2), np.array([0], i32), 0, batch_dims=1), match="batch_dims"),
        Bad(Args(real(5, 2), np.array([[0]], i32), 1, batch_dims=1), match="5"),
        Bad(Args(real(5, 2), np.array([0], i32), 1, batch_dims=3), match="3"),
        Bad(Args(real(5, 2), np.array([-(2**62)], i64)), match="indices[0]"),
    ],
)


def _gathered_nd(params: Any, indices: Any) -> Any:
    if indices.shape[-1] == 0:
        return np.broadcast_to(params, indices.shape[:-1] + params.shape)
    return params[tuple(np.moveaxis(indices, -1, 0))]


case(
    "GatherNd",
    tf.gather_nd,
    _gathered_nd,
    samples=[
        Args(real(5, 3), np.array([[0], [4], [4]], i32)),
        Args(real(5, 3), np.array([[0, 1], [4, 2]], i64)),
        Args(real(5, 3, 2), np.array([[[0, 1]], [[4, 2]]], i32)),
        Args(real(5, 3, 2), np.array([1, 2, 1], i32)),
        Args(real(5, 3), np.zeros([2, 0], i32)),
        Args(real(5, 3), np.zeros([0, 2], i32)),
        Args(real(5, 3), np.array([[0, 1], [4, 2]], np.int16)),
    ],
    dtypes=ALL,
    order=2,
    bad=[
        Bad(
            Args(real(5, 3), np.array([[0, 1], [4, 3]], i32)),
            match="indices[1] = [4, 3] does not index into param shape [5,3]",
        ),
        Bad(Args(real(5, 3), np.array([[-1]], i32)), match="[-1]"),
        Bad(Args(real(5), np.array([[0, 0]], i32)), match="2"),
        Bad(Args(real(5), np.array(0, i32)), match="vector"),
        Bad(Args(real(0), np.array([[0]], i32)), match="[0]"),
    ],
)
