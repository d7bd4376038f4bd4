"""from_generator: elements that a Python generator yields.

The generator runs under the GIL, in the thread that pulls the dataset. Its exceptions reach the consumer as an error
with their text. It is closed when it ends, and when the iterator is destroyed.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.data import structure
from thalweg.data.functions import DatasetFunction
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.ops.flow.py_func import py_func


class _RunningGenerators:
    """The generators of one dataset that are under way, by number."""

    def __init__(self, generator: Callable[..., Any]) -> None:
        self._generator = generator
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._iterators: dict[int, Any] = {}

    def begin(self, *args: Any) -> np.int64:
        iterator = iter(self._generator(*args))
        with self._lock:
            number = next(self._numbers)
            self._iterators[number] = iterator
        return np.int64(number)

    def next(self, number: Any) -> Any:
        return next(self._iterators[int(number)])

    def end(self, number: Any) -> np.int64:
        with self._lock:
            iterator = self._iterators.pop(int(number), None)
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
        return np.int64(0)


def generated(generator: Callable[..., Any], output_types: Any, output_shapes: Any, args: Any) -> tuple[Tensor, Any]:
    """The tensor and the structure of the dataset that `Dataset.from_generator` returns."""
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    types = structure.map_structure(as_dtype, output_types)
    spec = structure.specs_from(types, output_shapes)
    running = _RunningGenerators(generator)
    arguments = [] if args is None else [convert_to_tensor(a) for a in args]
    flat_types = structure.flatten(types)
    flat_shapes = [s.shape for s in structure.flatten(spec)]

    def next_element(number: Any) -> list[Any]:
        return _arrays(running.next(number), types, flat_types, flat_shapes)

    number = TensorSpec([], dtypes.int64)
    init = DatasetFunction(lambda: _scalar(py_func(running.begin, arguments, dtypes.int64)), name="Dataset_generator")
    step = DatasetFunction(
        lambda n: tuple(_with_shapes(py_func(next_element, [n], flat_types), flat_shapes)),
        number,
        name="Dataset_generator",
    )
    finish = DatasetFunction(lambda n: py_func(running.end, [n], dtypes.int64), number, name="Dataset_generator")
    handle = apply_one(
        "GeneratorDataset", init.captured, step.captured, finish.captured, init_func=init.attr, next_func=step.attr,
        finalize_func=finish.attr, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec),
    )  # fmt: skip
    return handle, spec


def _scalar(tensor: Any) -> Any:
    tensor.set_shape([])
    return tensor


def _with_shapes(tensors: list[Any], shapes: list[TensorShape]) -> list[Any]:
    for tensor, shape in zip(tensors, shapes, strict=True):
        tensor.set_shape(shape)
    return tensors


def _arrays(value: Any, types: Any, flat_types: list[DType], shapes: list[TensorShape]) -> list[Any]:
    """The yielded value as arrays of the declared types and shapes."""
    try:
        parts = structure.flatten_as(types, tuple(value) if isinstance(value, list) and _is_tuple(types) else value)
    except (TypeError, ValueError) as e:
        raise TypeError(
            "`generator` yielded an element that did not match the expected structure. The expected structure was "
            f"{types}, but the yielded element was {value!r}."
        ) from e
    return [_array(part, dtype, shape) for part, dtype, shape in zip(parts, flat_types, shapes, strict=True)]


def _is_tuple(types: Any) -> bool:
    return isinstance(types, tuple)


def _array(value: Any, dtype: DType, shape: TensorShape) -> Any:
    array = _converted(value, dtype)
    if not shape.is_compatible_with(array.shape):
        raise ValueError(
            f"`generator` yielded an element of shape {array.shape} where an element of shape {shape} was expected."
        )
    return array


def _converted(value: Any, dtype: DType) -> Any:
    if dtype is dtypes.string:
        if isinstance(value, (str, bytes)):
            array = np.empty((), object)
            array[()] = value
            return array
        return np.asarray(value, object)
    found = np.asarray(value)
    wanted = np.dtype(dtype.as_numpy_dtype)
    if found.dtype == wanted:
        return found
    if found.dtype.kind not in "OSUM" and np.can_cast(found.dtype, wanted, "same_kind"):
        converted = found.astype(wanted)
        # Integers must convert exactly; floats are rounded.
        if found.dtype.kind not in "iu" or wanted.kind not in "iu" or np.array_equal(converted, found):
            return converted
    elif found.size == 0:
        return found.astype(wanted)
    raise TypeError(
        "`generator` yielded an element that could not be converted to the expected type. The expected type was "
        f"{dtype.name}, but the yielded element was {value!r}."
    )
