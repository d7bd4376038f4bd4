"""convert_to_tensor and the registry of conversions: how arguments that are not tensors become tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.default_stack import default_graphs
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.tensor import Tensor

Conversion = Callable[..., Any]

_registry: list[tuple[int, int, tuple[type, ...], Conversion]] = []
_by_type: dict[type, list[Conversion]] = {}
_of_plain_values: set[Conversion] = set()


@export("register_tensor_conversion_function")
def register_tensor_conversion_function(base_type: Any, conversion_func: Conversion, priority: int = 100) -> None:
    """Teaches convert_to_tensor a type.

    Args:
        base_type: A type, or a tuple of types; subclasses count.
        conversion_func: `fn(value, dtype=None, name=None, as_ref=False)`: returns a Tensor of the type asked for,
            raises TypeError or ValueError, or returns NotImplemented to leave the value to others.
        priority: Functions with smaller numbers come first; those with equal numbers in order of registration.

    Raises:
        TypeError: If `base_type` or `conversion_func` is not what it should be.
    """
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(t, type) for t in types):
        raise TypeError(f"base_type must be a type or a tuple of types, got {base_type!r}.")
    if not callable(conversion_func):
        raise TypeError(f"conversion_func must be callable, got {conversion_func!r}.")
    _registry.append((priority, len(_registry), types, conversion_func))
    _registry.sort(key=lambda entry: entry[:2])
    _by_type.clear()


def register_plain_conversion(base_type: Any, conversion_func: Conversion, priority: int) -> None:
    """As `register_tensor_conversion_function`, for values (numbers, lists) that become constants.

    Any other conversion makes its type stand for tensors: see `is_tensor_like`.
    """
    _of_plain_values.add(conversion_func)
    register_tensor_conversion_function(base_type, conversion_func, priority)


def _conversions(value_type: type) -> list[Conversion]:
    found = _by_type.get(value_type)
    if found is None:
        found = [function for _, _, types, function in _registry if issubclass(value_type, types)]
        _by_type[value_type] = found
    return found


def is_tensor_like(value: Any) -> bool:
    """Whether a value is a tensor, or stands for one by a registered conversion (a variable)."""
    if type(value) is Tensor:
        return True
    return isinstance(value, Tensor) or _conversions(type(value))[0] not in _of_plain_values


def convert(
    value: Any,
    dtype: DType | None = None,
    name: str | None = None,
    preferred_dtype: DType | None = None,
    as_ref: bool = False,
) -> Tensor:
    """Converts a value to a Tensor; see `convert_to_tensor`, which also takes other spellings of types."""
    if isinstance(value, Tensor):
        if dtype is not None and dtype.base_dtype is not value.dtype.base_dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype {value.dtype.name}: {value!r}"
            )
        if type(value) is EagerTensor:
            stack = default_graphs.stack
            if stack and not stack[-1]._executes:
                return stack[-1]._tensor_of_value(value)
        return value
    for function in _conversions(type(value)):
        result: Any = NotImplemented
        if dtype is None and preferred_dtype is not None:
            try:
                result = function(value, dtype=preferred_dtype, name=name, as_ref=as_ref)
            except (TypeError, ValueError):
                result = NotImplemented
        if result is NotImplemented:
            result = function(value, dtype=dtype, name=name, as_ref=as_ref)
        if result is NotImplemented:
            continue
        if not isinstance(result, Tensor):
            raise RuntimeError(
                f"Conversion function {function!r} for type {type(value)} returned non-Tensor: {result!r}"
            )
        if dtype is not None and not dtype.is_compatible_with(result.dtype):
            raise RuntimeError(
                f"Conversion function {function!r} for type {type(value)} returned incompatible dtype: requested = "
                f"{dtype.name}, actual = {result.dtype.name}"
            )
        return result
    raise TypeError(f"Cannot convert {value!r} with type {type(value)} to Tensor: no conversion function registered.")


@export("convert_to_tensor")
def convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None, dtype_hint: Any = None
) -> Tensor:
    """Converts a value to a Tensor.

    Args:
        value: A tensor, variable, number, string, array, nested list of these (also of tensors), or an object of a type
            given to `tf.register_tensor_conversion_function`.
        dtype: The type that the result must have; inferred if None.
        name: The name of the op, if one is created.
        preferred_dtype: A type to try first if `dtype` is None; ignored if the value does not fit it.
        dtype_hint: The same as `preferred_dtype`.

    Returns:
        The Tensor.

    Raises:
        TypeError: If the value cannot become a tensor of type `dtype`.
        ValueError: If it is None, a ragged list, or a tensor of another type.

    Example:
        >>> tf.convert_to_tensor([[1.0, 2.0]]).shape.as_list()
        [1, 2]
    """
    preferred = dtype_hint if preferred_dtype is None else preferred_dtype
    return convert(
        value,
        None if dtype is None else as_dtype(dtype).base_dtype,
        name,
        None if preferred is None else as_dtype(preferred).base_dtype,
    )
