"""Embedding tables: the op on ids alone has a record; those on tables have tests of their own in tests/embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases import Args, Bad, case, covered_elsewhere
from thalweg.graph.apply import apply_one
from thalweg.graph.definitions.op_registry import all_ops

_MASK = (1 << 64) - 1


def _mixed(a: int, b: int) -> int:
    """The mixture of two numbers that all tasks agree on."""
    x = (a * 0x9E3779B97F4A7C15 + b + 1) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _part(keys: Any, num_parts: int) -> np.ndarray:
    parts = [_mixed(_mixed(int(key) & _MASK, 0), 2) * num_parts >> 64 for key in np.ravel(keys)]
    return np.array(parts, np.int32).reshape(np.shape(keys))


case(
    "EmbeddingTablePart",
    lambda keys, num_parts: apply_one("EmbeddingTablePart", keys, num_parts=num_parts),
    _part,
    samples=[
        Args(np.array([[0, 1, -1], [1 << 62, -(1 << 63), 12345]]), num_parts=3),
        Args(np.arange(100), num_parts=1),
        Args(np.zeros([0], np.int64), num_parts=7),
        Args(np.array(5), num_parts=64),
    ],
    dtypes="float32",
    bad=[Bad(Args(np.array([1]), num_parts=0), match="num_parts")],
)
covered_elsewhere(
    "works on an embedding table; see tests/embedding",
    *[op.name for op in all_ops() if op.name.startswith("EmbeddingTable") and op.name != "EmbeddingTablePart"],
)
