"""Cases of DynamicPartition and DynamicStitch."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.search import ALL_NUMBERS


def _partition(data: np.ndarray, partitions: np.ndarray, num_partitions: int) -> Any:
    rows = data.reshape(partitions.size, *data.shape[partitions.ndim :])
    return [rows[partitions.ravel() == p] for p in range(num_partitions)]


def _int32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


case(
    "DynamicPartition",
    tf.dynamic_partition,
    _partition,
    samples=[
        Args(real(5), _int32(0, 1, 0, 2, 2), 4),
        Args(real(3, 2), _int32(1, 1, 0), 2),
        Args(real(2, 2, 3), _int32([1, 0], [0, 0]), 2),
        Args(real(2), np.array(1, np.int32), 2),
        Args(real(0, 2), np.zeros(0, np.int32), 2),
        Args(real(2, 0), _int32(1, 0), 2),
    ],
    dtypes=ALL_NUMBERS + " string",
    bad=[
        Bad(Args(real(2), _int32(0, 7), 3), match="partitions[1] = 7 is not in [0, 3)"),
        Bad(Args(real(2), _int32(-1, 0), 3), match="-1"),
        Bad(Args(real(2), _int32(0, 0, 0), 3), match="start with"),
        Bad(Args(real(), _int32(0), 3), match="start with"),
    ],
)
case(
    "DynamicPartition",
    tf.dynamic_partition,
    _partition,
    samples=[
        Args(real(5), _int32(0, 1, 0, 2, 2), 4),
        Args(real(2, 2, 3), _int32([1, 0], [0, 0]), 2),
        Args(real(0, 2), np.zeros(0, np.int32), 2),
    ],
    order=2,
)


def _stitch(*args: Any) -> np.ndarray:
    n = len(args) // 2
    indices, data = args[:n], args[n:]
    size = max((int(i.max()) for i in indices if i.size), default=-1) + 1
    merged = np.zeros((size, *data[0].shape[indices[0].ndim :]), data[0].dtype)
    if merged.dtype == object:
        merged[...] = b""
    for i, d in zip(indices, data, strict=True):
        merged[i.ravel()] = d.reshape(i.size, *merged.shape[1:])
    return merged


for _op in ("DynamicStitch", "ParallelDynamicStitch"):

    def _call(*args: Any, op: str = _op) -> Any:
        n = len(args) // 2
        if op == "DynamicStitch":
            return tf.dynamic_stitch(list(args[:n]), list(args[n:]))
        return tf.raw_ops.ParallelDynamicStitch(indices=list(args[:n]), data=list(args[n:]))

    _SAMPLES = [
        Args(_int32(1, 0), _int32(2, 3), real(2, 2), real(2, 2)),
        Args(np.array(4, np.int32), _int32([0, 1], [2, 5]), real(3), real(2, 2, 3)),
        Args(np.zeros(0, np.int32), real(0, 3)),
        Args(_int32(0, 3), real(2)),
    ]
    _BAD = [
        Bad(Args(_int32(-1), real(1)), match="-1"),
        Bad(Args(_int32(0, 1), real(3)), match="start with"),
        Bad(Args(_int32(0), _int32(1), real(1, 2), real(1, 3)), match="different shapes"),
    ]
    case(_op, _call, _stitch, samples=_SAMPLES, dtypes=ALL_NUMBERS, bad=_BAD)
    case(_op, _call, _stitch, samples=_SAMPLES, order=2)
case(
    "DynamicStitch",
    lambda i, j, x, y: tf.dynamic_stitch([i, j], [x, y]),
    _stitch,
    samples=[Args(_int32(0, 1), _int32(1, 2), real(2), real(2))],
    dtypes="float32 string",
    notes="the later row wins",
)
