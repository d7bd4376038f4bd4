"""Jacobians from gradients: one backward walk for each element of the target, or of one example's target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.tensor import Tensor

Row = Callable[[Any, Any, Any, Any], Any]
"""Target, sources, seed, unconnected_gradients: the gradients."""


def _sizes(tensor: Any, what: str) -> list[int]:
    sizes = tensor.shape.as_list() if tensor.shape.ndims is not None else [None]
    if any(size is None for size in sizes):
        raise ValueError(f"A Jacobian needs the static shape of its {what}, which is {tensor.shape}.")
    return [int(size) for size in sizes if size is not None]


def _stacked(rows: list[Any], axis: int) -> Tensor:
    return apply_one("Pack", [convert_to_tensor(row) for row in rows], axis=axis)


def jacobian(row: Row, target: Any, sources: Any, unconnected: Any) -> Any:
    """For each source: target.shape + source.shape, or None."""
    target = convert_to_tensor(target)
    sizes = _sizes(target, "target")
    count = int(np.prod(sizes, dtype=np.int64))
    flat = nest.flatten(sources)
    rows: list[list[Any]] = [[] for _ in flat]
    kind = target.dtype.base_dtype.as_numpy_dtype
    for i in range(count):
        seed = np.zeros(count, kind)
        seed[i] = 1
        for kept, grad in zip(rows, row(target, flat, [seed.reshape(sizes)], unconnected), strict=True):
            kept.append(grad)
    found: list[Any] = []
    for source, kept in zip(flat, rows, strict=True):
        if not kept or any(grad is None for grad in kept):
            found.append(None)
            continue
        inner = _sizes(source, "source")
        found.append(apply_one("Reshape", _stacked(kept, 0), np.array(sizes + inner, np.int32)))
    return nest.pack_sequence_as(sources, found)


def batch_jacobian(row: Row, target: Any, source: Any, unconnected: Any) -> Any:
    """[batch] + target.shape[1:] + source.shape[1:], or None."""
    target = convert_to_tensor(target)
    sizes, inner = _sizes(target, "target"), _sizes(source, "source")
    if not sizes or not inner or sizes[0] != inner[0]:
        raise ValueError(
            f"Need first dimension of target shape ({target.shape}) and source shape ({source.shape}) to match."
        )
    count = int(np.prod(sizes[1:], dtype=np.int64))
    kind = target.dtype.base_dtype.as_numpy_dtype
    rows = []
    for i in range(count):
        seed = np.zeros((sizes[0], count), kind)
        seed[:, i] = 1
        rows.append(row(target, source, [seed.reshape(sizes)], unconnected))
    if not rows or any(grad is None for grad in rows):
        return None
    return apply_one("Reshape", _stacked(rows, 1), np.array(sizes + inner[1:], np.int32))
