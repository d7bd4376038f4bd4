"""tf.contrib.memory_stats: memory of devices, asked by a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _asked(key: str, name: str) -> Any:
    def run() -> Any:
        return np.int64(tf.experimental.get_memory_info("CPU:0").get(key, 0) or 0)

    return tf.reshape(tf.py_func(run, [], tf.int64, name=name), [])


@export("contrib.memory_stats.BytesInUse")
def BytesInUse() -> Any:
    """The bytes that the first CPU device has in use."""
    return _asked("current", "BytesInUse")


@export("contrib.memory_stats.MaxBytesInUse")
def MaxBytesInUse() -> Any:
    """The most bytes that the first CPU device has had in use."""
    return _asked("peak", "MaxBytesInUse")


@export("contrib.memory_stats.BytesLimit")
def BytesLimit() -> Any:
    """The limit of the first CPU device; 0 for none."""
    return _asked("limit", "BytesLimit")
