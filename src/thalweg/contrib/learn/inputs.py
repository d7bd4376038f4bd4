"""tf.contrib.learn: arrays as input functions, and the columns that they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value


def _one_array(given: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(given if hasattr(given, "shape") or isinstance(given, (list, tuple)) else list(given))
    return array.astype(np.float32) if array.dtype == np.float64 else array


def as_arrays(given: Any) -> Any:
    """An array, a list, a table or an iterable of rows as an array, float64 as float32; dictionaries by entry."""
    if given is None:
        return None
    if isinstance(given, dict):
        return {key: _one_array(value) for key, value in given.items()}
    return _one_array(given)


def _rows(arrays: Any) -> int:
    return len(next(iter(arrays.values())) if isinstance(arrays, dict) else arrays)


def input_of(
    x: Any, y: Any, input_fn: Any, batch_size: int | None, shuffle: bool = False, num_epochs: int | None = 1
) -> Callable[[], Any]:
    """The input function of a call that takes arrays or an input function.

    Raises:
        ValueError: If both or neither are given.
    """
    if input_fn is not None:
        if x is not None or y is not None:
            raise ValueError("Either x and y, or input_fn must be given, not both.")
        if batch_size is not None:
            raise ValueError("input_fn makes its own batches: do not give batch_size with it.")
        given: Callable[[], Any] = input_fn
        return given
    if x is None:
        raise ValueError("Either x or input_fn must be provided.")
    features, labels = as_arrays(x), as_arrays(y)
    size = min(batch_size or _rows(features), _rows(features))
    made: Callable[[], Any] = tf.estimator.inputs.numpy_input_fn(features, labels, size, num_epochs, shuffle)
    return made


@export("contrib.learn.infer_real_valued_columns_from_input_fn")
def infer_real_valued_columns_from_input_fn(input_fn: Any) -> list[Any]:
    """A column of numbers for each feature that an input function returns."""
    with tf.Graph().as_default():
        features, _ = input_fn()
        return _columns_of(features)


@export("contrib.learn.infer_real_valued_columns_from_input")
def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """A column of numbers for each feature of arrays.

    Example:
        >>> [c.key for c in tf.contrib.learn.infer_real_valued_columns_from_input(np.zeros([3, 2]))]
        ['']
    """
    return _columns_of(as_arrays(x))


def _columns_of(features: Any) -> list[Any]:
    named = features if isinstance(features, dict) else {"": features}
    return [_column_of(name, named[name]) for name in sorted(named)]


def _column_of(name: str, value: Any) -> Any:
    dtype = tf.as_dtype(value.dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"A column of numbers cannot hold {dtype.name}: feature {name!r}.")
    dimension = 1 if len(value.shape) == 1 else int(value.shape[1])
    return tf.contrib.layers.real_valued_column(name, dimension, dtype=dtype if dtype.is_floating else tf.float32)


for _name in ("numpy_input_fn", "pandas_input_fn"):
    export_value(getattr(tf.estimator.inputs, _name), f"contrib.learn.io.{_name}")
