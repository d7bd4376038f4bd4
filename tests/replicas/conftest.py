"""A container for each test, in which workers of one process meet."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import thalweg as tf

_NUMBERS = itertools.count()


@pytest.fixture
def container() -> Iterator[str]:
    """The name of a container for this test only, whose state is forgotten afterwards."""
    name = f"replicas_{next(_NUMBERS)}"
    yield name
    tf.Session.reset("", [name])
