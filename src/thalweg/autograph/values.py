"""Which values a graph can carry through branches and loops, and what they become when they do."""

from __future__ import annotations

import sys
from os.path import dirname
from typing import Any, Final

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert_to_tensor, is_tensor_like
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor import Tensor
from thalweg.ops.state.tensor_array import TensorArray

_FOLDER: Final = dirname(__file__)
_PLAIN: Final = (bool, int, float, complex, str, bytes)


class StagingError(Exception):
    """Base of errors in how a program uses control flow; each is a subclass of the Python error that it is like."""


class StagedTypeError(StagingError, TypeError):
    """A value changes its type or structure in a branch or a loop of the graph."""


class StagedValueError(StagingError, ValueError):
    """A variable has no value on one path, or changes its shape in a loop of the graph."""


def is_symbolic(value: Any) -> bool:
    """Whether a value is a tensor of a graph, known in a step only; a tensor that holds its value is not."""
    return isinstance(value, Tensor) and not hasattr(type(value), "numpy")


def as_symbolic(value: Any) -> Tensor | None:
    """The graph's tensor that a value is or stands for (a variable); None for Python's values."""
    if not isinstance(value, Tensor):
        if isinstance(value, _PLAIN) or value is None or not is_tensor_like(value):
            return None
        if isinstance(value, (SparseTensor, TensorArray)):
            return None
        value = convert_to_tensor(value)
    return value if is_symbolic(value) else None


def is_plain(value: Any) -> bool:
    """Whether a value is a constant of Python or NumPy that can become a tensor."""
    return isinstance(value, (*_PLAIN, np.ndarray, np.generic))


def can_be_staged(value: Any) -> bool:
    """Whether a value can go through branches and loops of the graph."""
    return (
        is_plain(value)
        or isinstance(value, (Tensor, SparseTensor, IndexedSlices, TensorArray))
        or (value is not None and not isinstance(value, type) and is_tensor_like(value))
    )


def same_constant(first: Any, second: Any) -> bool:
    """Whether two values are one, or equal constants of one type: then no tensor is needed."""
    if first is second:
        return True
    return (
        type(first) is type(second)
        and isinstance(first, (*_PLAIN, np.generic))
        and bool(first == second)
        and repr(first) == repr(second)  # 0.0 and -0.0 are not the same.
    )


def as_staged(value: Any, like: DType | None = None) -> Any:
    """A value as a graph carries it; Python's numbers take the type `like` if they fit."""
    if isinstance(value, (Tensor, SparseTensor, IndexedSlices, TensorArray)):
        return value
    if like is not None and _fits(value, like):
        return convert_to_tensor(value, like)
    return convert_to_tensor(value)


def _fits(value: Any, dtype: DType) -> bool:
    if isinstance(value, bool):
        return dtype is dtypes.bool
    if isinstance(value, int):
        return dtype.is_integer or dtype.is_floating or dtype.is_complex
    if isinstance(value, float):
        return dtype.is_floating or dtype.is_complex
    return isinstance(value, complex) and dtype.is_complex


def kind_of(value: Any) -> str:
    """What a value is, for messages."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return f"a tensor of type {value.dtype.base_dtype.name} and shape {value.shape}"
    if isinstance(value, _PLAIN):
        return f"the {type(value).__name__} {value!r}"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)} elements"
    return f"an object of class {type(value).__name__}"


def as_condition(value: Tensor, what: str) -> Tensor:
    """A tensor as a condition: of bool, a scalar. A number is true if it is not zero.

    Raises:
        StagedValueError: If it is known not to be a scalar.
        StagedTypeError: If its type has no truth.
    """
    if value.shape.ndims not in (None, 0):
        raise StagedValueError(
            f"The condition of {what} must be a scalar, got a tensor of shape {value.shape} ('{value.name}')"
            f"{place()}. Use tf.reduce_all or tf.reduce_any to make one of all its elements."
        )
    dtype = value.dtype.base_dtype
    if dtype is dtypes.bool:
        return value
    if dtype is dtypes.string:
        return apply_one("NotEqual", value, b"")
    if not (dtype.is_integer or dtype.is_floating or dtype.is_complex):
        raise StagedTypeError(f"The condition of {what} has type {dtype.name} ('{value.name}'){place()}.")
    return apply_one("NotEqual", value, convert_to_tensor(0, dtype))


def place() -> str:
    """Where the program is, for the end of a message: the innermost frame outside of this package."""
    frame: Any = sys._getframe(1)
    package = dirname(_FOLDER)
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return "" if frame is None else f' (File "{frame.f_code.co_filename}", line {frame.f_lineno})'
