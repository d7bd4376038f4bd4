"""The public names, bound at run time, and the table of what TensorFlow 2 has otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import thalweg as tf

__all__ = ["OTHERWISE", "otherwise", "tf"]

F = TypeVar("F", bound=Callable[..., Any])

# Dotted names of TensorFlow 2 whose meaning there differs from TensorFlow 1's, or that TensorFlow 1 has not.
OTHERWISE: Final[dict[str, Any]] = {}


def otherwise(*names: str) -> Callable[[F], F]:
    """Names a function or class of `thalweg.compat.v2`."""

    def bind(value: F) -> F:
        OTHERWISE.update(dict.fromkeys(names, value))
        return value

    return bind
