"""`tensorflow.python.eager.context`: programs ask it whether ops run at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from thalweg.contrib.public_names import tf

GRAPH_MODE = 0
EAGER_MODE = 1


def executing_eagerly() -> bool:
    """Whether ops run when they are called."""
    return bool(tf.executing_eagerly())


in_eager_mode = executing_eagerly


def in_graph_mode() -> bool:
    """Whether a graph is built."""
    return not executing_eagerly()


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    """A context in which a graph is built."""
    yield


class _Context:
    """What `context()` gives: questions about the mode."""

    def executing_eagerly(self) -> bool:
        return executing_eagerly()

    def num_gpus(self) -> int:
        return 0

    @property
    def device_name(self) -> Any:
        return None


def context() -> _Context:
    """The context of this process."""
    return _Context()


def num_gpus() -> int:
    """The number of GPUs: none."""
    return 0
