"""`tf.compat`: text and bytes, and switches of TensorFlow 2 that have nothing to switch here."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np

__all__ = [
    "as_bytes",
    "as_str",
    "as_str_any",
    "as_text",
    "bytes_or_text_types",
    "complex_types",
    "forward_compatible",
    "integral_types",
    "path_to_str",
    "real_types",
]

bytes_or_text_types = (bytes, str)
integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Returns bytes as they are, and text encoded.

    Raises:
        TypeError: If the argument is neither.

    Example:
        >>> tf.compat.as_bytes("a")
        b'a'
    """
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Returns text as it is, and bytes decoded.

    Raises:
        TypeError: If the argument is neither.

    Example:
        >>> tf.compat.as_text(b"a")
        'a'
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Returns bytes decoded, and the str() of anything else."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Returns the text of a path object, and anything else as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether graphs may use ops introduced before that date: always."""
    return True


def no_effect(*args: Any, **kwargs: Any) -> None:
    """Does nothing: Thalweg's graph mode is already what this function asks TensorFlow 2 for."""
