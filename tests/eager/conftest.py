"""Fixtures of the tests of immediate execution."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def eagerly() -> Iterator[None]:
    """Each test runs its ops at once, but in graphs that it makes its own default."""
    with tf.eager():
        yield
