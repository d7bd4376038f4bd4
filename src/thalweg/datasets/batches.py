"""Random mini-batches from arrays in memory, without end."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt


def shuffled(size: int, *arrays: npt.ArrayLike, seed: int | None = 0) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Draws batches without end: every example once in random order, then all of them in another order.

    Args:
        size: Examples in a batch. The examples at the end of an order that do not fill one are left to the next order.
        *arrays: Arrays of equal length, such as images and labels.
        seed: Makes the orders repeatable; None makes them different at each call.

    Yields:
        A tuple of as many batches as there are arrays: the same examples of each.

    Raises:
        ValueError: The arrays differ in length, or there are fewer examples than a batch holds.

    Example:
        >>> from thalweg.datasets import batches
        >>> stream = batches.shuffled(2, [1, 2, 3, 4], [10, 20, 30, 40])
        >>> for _ in range(3):
        ...     x, y = next(stream)
        ...     assert (y == 10 * x).all()
    """
    columns = [np.asarray(array) for array in arrays]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise ValueError(f"Batches need arrays of one length, not of {[len(column) for column in columns]}")
    length = lengths.pop()
    if not 0 < size <= length:
        raise ValueError(f"A batch of {size} cannot be drawn from {length} examples")
    return _draw(size, length, columns, np.random.default_rng(seed))


def _draw(
    size: int, length: int, columns: list[npt.NDArray[Any]], rng: np.random.Generator
) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    while True:
        order = rng.permutation(length)
        for start in range(0, length - size + 1, size):
            chosen = order[start : start + size]
            yield tuple(column[chosen] for column in columns)
