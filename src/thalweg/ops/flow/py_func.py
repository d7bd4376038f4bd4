"""py_func: Python functions on NumPy arrays as ops of the graph.

A node holds a token; the function itself lives as long as the graph that contains the node. A graph that is saved and
loaded elsewhere therefore cannot run its PyFunc nodes.
"""

from __future__ import annotations

import atexit
import collections
import itertools
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes, eager_tensor
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import eager_graph, executing_eagerly, graph_of
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, python_kernel
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.ops.plain_gradients import recorded

_SIGNATURE = "input: Tin -> output: Tout"
_MOST_CALLS = 64  # Calls of a py_function that wait for their gradients.
_ATTRS = "token: string, Tin: list(type) >= 0, Tout: list(type) >= 0"

define("PyFunc", _SIGNATURE, _ATTRS, shape=shapes.unknown, effect=Effect.EXTERNAL)
define("PyFuncStateless", _SIGNATURE, _ATTRS, shape=shapes.unknown)
define(
    "EagerPyFunc", _SIGNATURE, "token: string, is_async: bool = false, Tin: list(type) >= 0, Tout: list(type) >= 0",
    shape=shapes.unknown, effect=Effect.EXTERNAL,
)  # fmt: skip
not_differentiable("PyFunc", "PyFuncStateless")


class _Function:
    """A registered function; its graph owns it.

    `calls` are those of a py_function whose gradients may be asked for: its inputs, and the function of its gradients.
    """

    __slots__ = ("__weakref__", "calls", "cast", "function")

    def __init__(self, function: Callable[..., Any], cast: bool) -> None:
        self.function = function
        self.cast = cast
        self.calls: collections.deque[Any] | None = None


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
    types = [DType(number) for number in attrs["Tout"]]
    if registered.cast:
        values = _called_on_tensors(registered, inputs, [DType(number) for number in attrs["Tin"]], types, token)
    else:
        arguments = [value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value for value in inputs]
        values = _called(registered.function, arguments, len(types), token)
    return [
        _result(value, dtype, i, token, registered.cast)
        for i, (value, dtype) in enumerate(zip(values, types, strict=True))
    ]


def _called(function: Callable[..., Any], arguments: list[Any], count: int, token: str) -> list[Any]:
    """The results of a call, whose errors are those of a step."""
    try:
        result = function(*arguments)
    except errors.OpError:
        raise
    except Exception as e:
        raise _error_class(e)(None, None, f"{type(e).__name__}: {e}\n{traceback.format_exc()}") from e
    values = list(result) if isinstance(result, (list, tuple)) else [] if result is None and not count else [result]
    if len(values) != count:
        raise errors.InvalidArgumentError(
            None, None, f"{token} returns {len(values)} values, but expects to see {count} values."
        )
    return values


def _called_on_tensors(
    registered: _Function, inputs: list[Any], takes: list[DType], types: list[DType], token: str
) -> list[Any]:
    """The results of a function that runs at once, on tensors with values; what its gradient will need is kept."""
    with default_graph_scope(eager_graph()):
        tensors = [
            eager_tensor.from_array(np.asarray(value), dtype.as_datatype_enum)
            for value, dtype in zip(inputs, takes, strict=True)
        ]

        def build() -> list[Any]:
            return as_tensors(_called(registered.function, tensors, len(types), token), types)

        if registered.calls is None:
            return _called(registered.function, tensors, len(types), token)
        values: list[Any]
        values, backward = recorded(build, tensors, outer=False)
        registered.calls.append(([np.array(value) for value in inputs], backward))
    return values


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
    """Calls a Python function on tensors with values, as ops run at once, wherever the call itself is.

    The results are converted to the types `Tout`. It has a gradient: that of the ops that the function runs.

    Example:
        >>> x = tf.constant(3.0)
        >>> y = tf.py_function(lambda a: a * a if a > 0 else -a, [x], tf.float32)
        >>> tf.Session().run([y, tf.gradients(y, x)[0]])
        [np.float32(9.0), np.float32(6.0)]
    """
    if not executing_eagerly():
        return _apply("EagerPyFunc", func, inp, Tout, name, cast=True)
    if not callable(func):
        raise ValueError(f"Expected func to be callable, got func of type {type(func)}.")
    several = isinstance(Tout, (list, tuple))
    types = [as_dtype(t) for t in Tout] if several else [as_dtype(Tout)]
    inputs = [convert_to_tensor(value) for value in (inp if isinstance(inp, (list, tuple)) else [inp])]
    results = as_tensors(_called(func, inputs, len(types), getattr(func, "__name__", "the function")), types)
    return results if several else results[0]


def as_tensors(values: list[Any], types: list[DType]) -> list[Any]:
    """Tensors of these types, where ops run at once; numbers are converted.

    Raises:
        errors.InvalidArgumentError: If a value is a string in the place of a number, or the reverse.
    """
    tensors = []
    for i, (value, dtype) in enumerate(zip(values, types, strict=True)):
        tensor = convert_to_tensor(0 if value is None else value, preferred_dtype=dtype)
        found = tensor.dtype.base_dtype
        if found is not dtype:
            if dtypes.string in (found, dtype):
                raise errors.InvalidArgumentError(
                    None, None, f"{i}-th value returned is {found.name}, but expects {dtype.name}"
                )
            tensor = apply_one("Cast", tensor, DstT=dtype)
        tensors.append(tensor)
    return tensors


@gradient("EagerPyFunc")
def _py_function_gradient(op: Operation, *grads: Any) -> list[Any]:
    """Another py_function: it differentiates the call that had these inputs, or calls the function once more."""
    registered = _functions.get(op.attrs["token"].decode())
    if registered is None:
        raise LookupError(f"The function of '{op.name}' is gone: its graph comes from elsewhere.")
    if registered.calls is None:
        registered.calls = collections.deque(maxlen=_MOST_CALLS)
    types = [output.dtype for output in op.outputs]
    floating = [i for i, x in enumerate(op.inputs) if x.dtype.is_floating or x.dtype.is_complex]
    given = [i for i, grad in enumerate(grads) if grad is not None]
    if not floating or not given:
        return [None] * len(op.inputs)
    count = len(op.inputs)

    def backward(*values: Any) -> list[Any]:
        inputs, seeds = list(values[:count]), values[count:]
        by_result: list[Any] = [None] * len(types)
        for i, seed in zip(given, seeds, strict=True):
            by_result[i] = seed
        function = _taken_call(registered, inputs)
        if function is None:
            build = lambda: as_tensors(_called(registered.function, inputs, len(types), op.name), types)  # noqa: E731
            _, function = recorded(build, inputs)
        found = function(*by_result)
        return [
            apply_one("ZerosLike", inputs[i]) if found[i] is None else convert_to_tensor(found[i]) for i in floating
        ]

    wanted = [op.inputs[i].dtype.base_dtype for i in floating]
    results = py_function(backward, [*op.inputs, *(grads[i] for i in given)], wanted)
    by_input = dict(zip(floating, results, strict=True))
    for i, result in by_input.items():
        result.set_shape(op.inputs[i].shape)
    return [by_input.get(i) for i in range(count)]


def _taken_call(registered: _Function, inputs: list[Any]) -> Any:
    """The gradient function of the last call that had inputs of these bits; None if none is kept."""
    arrays = [np.asarray(value.numpy()) for value in inputs]
    for call in reversed(registered.calls or ()):
        if all(_same_bits(kept, array) for kept, array in zip(call[0], arrays, strict=True)):
            registered.calls.remove(call)  # type: ignore[union-attr]
            return call[1]
    return None


def _same_bits(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(np.array_equal(a, b)) if a.dtype == object else a.tobytes() == b.tobytes()
