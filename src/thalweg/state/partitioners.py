"""Partitioners: functions from a variable's shape and type to the number of parts along each dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.tensor_shape import TensorShape

Partitioner = Callable[..., list[int]]


def _full(shape: Any) -> list[int]:
    full = TensorShape(shape)
    if not full.is_fully_defined() or full.ndims == 0:
        raise ValueError(f"Only a fully known shape of at least one dimension can be partitioned, got {full}.")
    return [int(size or 0) for size in full.as_list()]


def _one_axis(rank: int, axis: int, parts: int) -> list[int]:
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for a variable with {rank} dimensions.")
    partitions = [1] * rank
    partitions[axis] = parts
    return partitions


def _element_bytes(dtype: DType, bytes_per_string_element: int) -> int:
    return bytes_per_string_element if dtype.name == "string" else int(dtype.size)


@export("variable_axis_size_partitioner")
def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Partitioner:
    """A partitioner that keeps every part below `max_shard_bytes`.

    Args:
        max_shard_bytes: The most bytes in a part.
        axis: The dimension to cut along.
        bytes_per_string_element: The bytes that a string counts as.
        max_shards: The most parts.
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        sizes = _full(shape)
        elements = math.prod(sizes) // max(1, sizes[axis])
        slice_bytes = max(1, elements * _element_bytes(as_dtype(dtype), bytes_per_string_element))
        per_shard = max(1, max_shard_bytes // slice_bytes)
        shards = max(1, math.ceil(sizes[axis] / per_shard))
        return _one_axis(len(sizes), axis, min(max_shards, shards) if max_shards else shards)

    return partitioner


@export("min_max_variable_partitioner")
def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Partitioner:
    """A partitioner that makes as many parts as it may, none smaller than `min_slice_size` bytes.

    Args:
        max_partitions: The most parts.
        axis: The dimension to cut along.
        min_slice_size: The fewest bytes in a part.
        bytes_per_string_element: The bytes that a string counts as.
    """

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        if max_partitions < 1:
            raise ValueError(f"max_partitions must be at least 1, got {max_partitions}.")
        sizes = _full(shape)
        total = math.prod(sizes) * _element_bytes(as_dtype(dtype), bytes_per_string_element)
        parts = max(1, min(sizes[axis], max_partitions, math.ceil(total / min_slice_size)))
        return _one_axis(len(sizes), axis, parts)

    return partitioner


@export("fixed_size_partitioner")
def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """A partitioner that makes `num_shards` parts along `axis`, or as many as there are rows."""

    def partitioner(shape: Any, **unused_args: Any) -> list[int]:
        sizes = _full(shape)
        return _one_axis(len(sizes), axis, min(num_shards, sizes[axis]))

    return partitioner
