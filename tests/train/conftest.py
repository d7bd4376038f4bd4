"""Training writes event files; the writers that hooks share end with each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def closed_writers(nothing_left_behind: None) -> Iterator[None]:
    yield
    tf.summary.FileWriterCache.clear()


@pytest.fixture
def sess() -> Iterator[Any]:
    """A session of the default graph, as the default session."""
    with tf.Session() as session:
        yield session
