"""Running datasets in tests: all of their elements, as lists."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf

MANY = 10_000  # No dataset of the tests is longer: one that does not end fails instead of hanging.


def elements(dataset: Any, most: int = MANY) -> list[Any]:
    """The elements of a dataset, taken one by one."""
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        return rest(session, element, most)


def rest(session: Any, element: Any, most: int = MANY) -> list[Any]:
    """The values of `element` in the remaining steps."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(session.run(element))
        except tf.errors.OutOfRangeError:
            break
    assert len(found) < MANY
    return found


def plain(value: Any) -> Any:
    """Arrays as nested lists, so that == compares them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def values(dataset: Any, most: int = MANY) -> list[Any]:
    """The elements as plain Python values."""
    return plain(elements(dataset, most))
