"""Helpers of the NumPy kernels of sparse ops: checking indices, values and shape, and numbering positions."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape

Array = np.ndarray[Any, Any]

_MAX_ELEMENTS = 2**63 - 1


def require(condition: Any, message: str) -> None:
    """Raises InvalidArgumentError unless the condition holds."""
    if not condition:
        raise errors.InvalidArgumentError(None, None, message)


def require_memory(size: int) -> None:
    """Raises ResourceExhaustedError for more bytes than the machine has, before NumPy begins to fill them."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > available:
        raise errors.ResourceExhaustedError(None, None, f"out of memory: {size} bytes are needed of {available}")


def check_dense_shape(shape: Array, what: str = "dense_shape") -> tuple[int, ...]:
    """The sizes in a vector; refuses negative ones, and a product beyond what an int64 counts."""
    require(shape.ndim == 1, f"{what} must be a vector, got shape {list(shape.shape)}")
    sizes = tuple(int(size) for size in shape)
    require(all(size >= 0 for size in sizes), f"{what} {list(sizes)} has a negative dimension")
    require(math.prod(sizes) <= _MAX_ELEMENTS, f"{what} {list(sizes)} has more than 2^63-1 elements")
    return sizes


def check_sparse(indices: Array, values: Array, shape: Array, what: str = "input") -> tuple[int, ...]:
    """Checks the three parts of a sparse value against each other; returns the dense shape."""
    require(indices.ndim == 2, f"{what}: indices must be a matrix, got shape {list(indices.shape)}")
    require(values.ndim == 1, f"{what}: values must be a vector, got shape {list(values.shape)}")
    sizes = check_dense_shape(shape, f"{what}: dense_shape")
    require(len(indices) == len(values), f"{what}: {len(indices)} indices for {len(values)} values")
    require(
        indices.shape[1] == len(sizes), f"{what}: indices have {indices.shape[1]} columns, dense_shape {list(sizes)}"
    )
    check_bounds(indices, sizes, what)
    return sizes


def check_bounds(indices: Array, sizes: tuple[int, ...], what: str = "input") -> None:
    """Refuses indices outside of a dense shape."""
    outside = np.any((indices < 0) | (indices >= np.array(sizes, np.int64)), axis=1)
    if outside.any():
        i = int(np.argmax(outside))
        raise errors.InvalidArgumentError(
            None,
            None,
            f"{what}: indices[{i}] = {indices[i].tolist()} is out of bounds: need 0 <= index < {list(sizes)}",
        )


def positions(indices: Array, sizes: tuple[int, ...]) -> Array:
    """The row-major number of each index."""
    return indices.astype(np.int64) @ strides(sizes)


def strides(sizes: tuple[int, ...]) -> Array:
    """How far apart neighbours along each dimension are, in elements."""
    return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)


def coordinates(numbers: Array, sizes: tuple[int, ...]) -> Array:
    """The indices of row-major numbers; the opposite of `positions`."""
    steps = strides(sizes)
    result = np.zeros((len(numbers), len(sizes)), np.int64)
    for d, step in enumerate(steps):
        if step > 0 and sizes[d] > 0:
            result[:, d] = numbers // step % sizes[d]
    return result


def sparse_shapes(rank: int | None, count: int | None = None) -> list[TensorShape]:
    """The static shapes of the three parts of a sparse value."""
    return [TensorShape._of((count, rank)), TensorShape._of((count,)), TensorShape._of((rank,))]


def sparse_input(c: ShapeContext, first: int) -> tuple[int | None, int | None]:
    """The number of elements and the rank of a sparse value whose parts are inputs `first` and following."""
    indices = shapes.with_rank(c.input(first), 2).dims_tuple
    values = shapes.with_rank(c.input(first + 1), 1).dims_tuple
    shape = shapes.with_rank(c.input(first + 2), 1).dims_tuple
    assert indices is not None and values is not None and shape is not None
    return shapes.merge_dims(indices[0], values[0]), shapes.merge_dims(indices[1], shape[0])
