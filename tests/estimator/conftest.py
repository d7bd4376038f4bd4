"""Closes the event files that evaluations keep open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def close_event_files(nothing_left_behind: None) -> Iterator[None]:
    yield
    tf.summary.FileWriterCache.clear()
