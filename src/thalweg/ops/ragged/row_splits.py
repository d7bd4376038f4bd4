"""Checks of row splits, and the NumPy forms of partitions that the kernels of ragged ops share."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.ops.sparse.kernel_arrays import require

Array = np.ndarray[Any, Any]


def check_row_splits(splits: Array, count: int, what: str = "splits") -> Array:
    """The splits as int64: from 0, never falling, to the number of values."""
    require(splits.ndim == 1, f"{what} must be a vector, got shape {list(splits.shape)}")
    require(splits.size > 0, f"{what} must not be empty: they begin with 0")
    require(splits[0] == 0, f"{what} must begin with 0, got {splits[0]}")
    require((np.diff(splits) >= 0).all(), f"{what} must not decrease, got {splits[:20].tolist()}")
    require(splits[-1] == count, f"{what} must end with the number of values {count}, got {splits[-1]}")
    return np.asarray(splits, np.int64)


def check_nested_splits(nested: list[Array], count: int) -> list[Array]:
    """The splits of several ragged dimensions, outermost first, each against the one below."""
    out: list[Array] = []
    for depth in range(len(nested) - 1, -1, -1):
        out.append(check_row_splits(nested[depth], count, f"splits {depth}"))
        count = nested[depth].size - 1
    return out[::-1]


def rows_of_values(splits: Array) -> Array:
    """For each value the row that it is in."""
    return np.repeat(np.arange(splits.size - 1), np.diff(splits))
