"""py_func: Python functions on NumPy arrays as ops of the graph.

A node holds a token; the function itself lives as long as the graph that contains the node. A graph that is saved and
loaded elsewhere therefore cannot run its PyFunc nodes.
"""

from __future__ import annotations

import atexit
import itertools
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_list
from thalweg.graph.default_graph import graph_of
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.op_effects import Effect

_SIGNATURE = "input: Tin -> output: Tout"
_ATTRS = "token: string, Tin: list(type) >= 0, Tout: list(type) >= 0"

define("PyFunc", _SIGNATURE, _ATTRS, shape=shapes.unknown, effect=Effect.EXTERNAL)
define("PyFuncStateless", _SIGNATURE, _ATTRS, shape=shapes.unknown)
define(
    "EagerPyFunc", _SIGNATURE, "token: string, is_async: bool = false, Tin: list(type) >= 0, Tout: list(type) >= 0",
    shape=shapes.unknown, effect=Effect.EXTERNAL,
)  # fmt: skip
not_differentiable("PyFunc", "PyFuncStateless", "EagerPyFunc")


class _Function:
    """A registered function; its graph owns it."""

    __slots__ = ("__weakref__", "cast", "function")

    def __init__(self, function: Callable[..., Any], cast: bool) -> None:
        self.function = function
        self.cast = cast


_functions: weakref.WeakValueDictionary[str, _Function] = weakref.WeakValueDictionary()
_tokens = itertools.count()


@atexit.register
def _release_functions() -> None:
    """Drops the functions: their globals would keep sessions of the main program alive beyond the native module."""
    for registered in list(_functions.values()):
        registered.function = _raise_cancelled


def _raise_cancelled(*_: Any) -> Any:
    raise errors.CancelledError(None, None, "The program is ending.")


@python_kernel("PyFunc", "PyFuncStateless", "EagerPyFunc", runs_user_code=True)
def _call(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    token = attrs["token"].decode()
    registered = _functions.get(token)
    if registered is None:
        raise errors.InvalidArgumentError(
            None, None, f"callback {token} is not found: its function belongs to another process, or its graph is gone."
        )
    arguments = [_argument(value, registered.cast) for value in inputs]
    try:
        result = registered.function(*arguments)
    except errors.OpError:
        raise
    except Exception as e:
        raise _error_class(e)(None, None, f"{type(e).__name__}: {e}\n{traceback.format_exc()}") from e
    types = [DType(number) for number in attrs["Tout"]]
    values = list(result) if isinstance(result, (list, tuple)) else [] if result is None and not types else [result]
    if len(values) != len(types):
        raise errors.InvalidArgumentError(
            None, None, f"{token} returns {len(values)} values, but expects to see {len(types)} values."
        )
    return [
        _result(value, dtype, i, token, registered.cast)
        for i, (value, dtype) in enumerate(zip(values, types, strict=True))
    ]


class _NumpyTensor(np.ndarray[Any, Any]):
    """An argument of a py_function: an array with the method `numpy()` of eager tensors."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """The plain array."""
        return self.view(np.ndarray)


def _argument(value: Any, eager: bool) -> Any:
    if eager:
        return np.asarray(value).view(_NumpyTensor)
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _error_class(e: Exception) -> Any:
    if isinstance(e, (TypeError, ValueError)):
        return errors.InvalidArgumentError
    if isinstance(e, StopIteration):
        return errors.OutOfRangeError
    if isinstance(e, MemoryError):
        return errors.ResourceExhaustedError
    if isinstance(e, NotImplementedError):
        return errors.UnimplementedError
    return errors.UnknownError


def _result(value: Any, dtype: DType, index: int, token: str, cast: bool) -> Any:
    """The value as an array of exactly the type that the node declares."""
    where = f"{index}-th value returned by {token}"
    if isinstance(value, (bytes, str)):
        array = np.empty((), dtype=object)
        array[()] = value
    else:
        try:
            array = np.asarray(value)
        except ValueError as e:
            raise errors.InvalidArgumentError(None, None, f"{where} is not an array: {e}") from None
    if array.dtype.kind in "OSUT":
        array = _strings(array, where, dtype)
        found: DType = dtypes.string
    else:
        found = as_dtype(array.dtype)
    if found is dtype:
        return array
    if cast and dtype is not dtypes.string and found is not dtypes.string:
        return array.astype(dtype.as_numpy_dtype)
    raise errors.InvalidArgumentError(None, None, f"{where} is {found.name}, but expects {dtype.name}")


def _strings(array: Any, where: str, dtype: DType) -> Any:
    out = np.empty(array.shape, dtype=object)
    for position in np.ndindex(array.shape):
        item = array[position]
        if isinstance(item, str):
            out[position] = item.encode()
        elif isinstance(item, bytes):
            out[position] = bytes(item)
        else:
            raise errors.InvalidArgumentError(
                None, None, f"{where} holds a {type(item).__name__}, but expects {dtype.name}"
            )
    return out


def _apply(op_type: str, func: Callable[..., Any], inp: Any, Tout: Any, name: str | None, cast: bool) -> Any:
    if not callable(func):
        raise ValueError(f"Expected func to be callable, got func of type {type(func)}.")
    several = isinstance(Tout, (list, tuple))
    types = [as_dtype(t) for t in Tout] if several else [as_dtype(Tout)]
    token = f"pyfunc_{next(_tokens)}"
    inputs = list(inp) if isinstance(inp, (list, tuple)) else [inp]
    graph = graph_of(inputs)
    _functions[token] = kept = _Function(func, cast)
    graph._attachments.setdefault("py_func", []).append(kept)
    result = apply_list(op_type, inputs, token=token, Tout=types, name=name)
    if not types:
        # A call without state or results does nothing that anyone could ask for.
        return [] if op_type == "PyFuncStateless" else graph.get_operations()[-1]
    return result if several else result[0]


@export("py_func")
def py_func(func: Callable[..., Any], inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """Calls a Python function on NumPy arrays, in the process that runs the step.

    Args:
        func: Gets one array per element of `inp` (a NumPy scalar or bytes for a scalar) and returns arrays of exactly
            the types `Tout`.
        inp: A list of tensors.
        Tout: The type of the result, or a list of types.
        stateful: Whether it may return different values for equal arguments. If not, calls may be left out or merged.
        name: The node's name.

    Returns:
        A Tensor or a list of Tensors, as `Tout` is; without results the Operation, or an empty list if not `stateful`.

    Example:
        >>> tf.Session().run(tf.py_func(lambda x: x + 1, [tf.constant(2)], tf.int32))
        np.int32(3)
    """
    return _apply("PyFunc" if stateful else "PyFuncStateless", func, inp, Tout, name, cast=False)


@export("numpy_function")
def numpy_function(
    func: Callable[..., Any], inp: Any, Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """Another name of `py_func`."""
    return py_func(func, inp, Tout, stateful, name)


@export("py_function")
def py_function(func: Callable[..., Any], inp: Any, Tout: Any, name: str | None = None) -> Any:
    """Calls a Python function as `py_func` does, but converts its results to the types `Tout`.

    Its arguments are arrays that have a method `numpy()`. It has no gradient.
    """
    return _apply("EagerPyFunc", func, inp, Tout, name, cast=True)
