"""Small functions of tf.contrib.framework: cases that may be known, conversions, names, nested py_func, deprecation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from thalweg.contrib.framework.arg_scope import current_arg_scope
from thalweg.contrib.framework.checks import smart_constant_value
from thalweg.contrib.public_names import tf
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export, export_value

export_value(current_arg_scope, "contrib.framework.current_arg_scope", "contrib.slim.current_arg_scope")


@export("contrib.framework.smart_case")
def smart_case(pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, name: str = "smart_case") -> Any:
    """A `tf.case`, but for predicates whose values are known: one that is true is called, those that are false go."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    open_pairs: list[Any] = []
    for predicate, function in pairs:
        known = smart_constant_value(predicate)
        if known and not open_pairs:
            return function()
        if known is None or known:
            open_pairs.append((predicate, function))
    if not open_pairs and default is not None:
        return default()
    return tf.case(open_pairs, default=default, exclusive=exclusive, name=name)


@export("contrib.framework.convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A SparseTensor if the value is one, else a Tensor.

    Raises:
        RuntimeError: If a SparseTensor has another type than `dtype`.
    """
    if isinstance(value, tf.SparseTensorValue):
        value = tf.SparseTensor.from_value(value)
    if isinstance(value, tf.SparseTensor):
        if dtype and not tf.as_dtype(dtype).is_compatible_with(value.dtype):
            raise RuntimeError(f"Sparse dtype: requested = {tf.as_dtype(dtype).name}, actual = {value.dtype.name}")
        return value
    return tf.convert_to_tensor(value, dtype=dtype, name=name)


@export("contrib.framework.strip_name_scope")
def strip_name_scope(name: str, export_scope: str | None) -> str:
    """A name without a scope at its beginning."""
    return name.removeprefix(f"{export_scope.rstrip('/')}/") if export_scope else name


@export("contrib.framework.prepend_name_scope")
def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """A name below a scope."""
    return f"{import_scope.rstrip('/')}/{name}" if import_scope else name


@export("contrib.framework.py_func")
def py_func(
    func: Callable[..., Any], args: Any = (), kwargs: Any = None, output_types: Any = None, output_shapes: Any = None,
    stateful: bool = True, name: str | None = None,
) -> Any:  # fmt: skip
    """A `tf.py_func` whose arguments and results may be nested.

    Args:
        func: Gets the arguments with arrays for tensors.
        args: Its arguments.
        kwargs: Those by name.
        output_types: The structure of the results, of types.
        output_shapes: Their shapes: one for all, or a structure.
        stateful: As of `tf.py_func`.
        name: The node's name.

    Raises:
        TypeError: If the arguments are no sequence, or no dict of names.
    """
    if not isinstance(args, (list, tuple)):
        raise TypeError(f"args must be list and not {type(args)}. args: {args}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError(f"kwargs must be dict and not {type(kwargs)}. args: {kwargs}")
    structure = (tuple(args), dict(kwargs or {}))
    tensors = [tf.convert_to_tensor(value) for value in nest.flatten(structure)]
    types = nest.flatten(output_types) if output_types is not None else []

    def call(*arrays: Any) -> Any:
        given, named = nest.pack_sequence_as(structure, list(arrays))
        found = func(*given, **named)
        if output_types is None:
            return []
        nest.assert_same_structure(output_types, found)
        return nest.flatten(found)

    results = tf.py_func(call, tensors, types, stateful, name)
    if output_types is None:
        return results
    if output_shapes is not None:
        if isinstance(output_shapes, (tf.TensorShape, list)) and not nest.is_sequence(output_types):
            output_shapes = [output_shapes]
        shapes = [output_shapes] * len(types) if isinstance(output_shapes, tf.TensorShape) else list(
            nest.flatten_up_to(output_types, output_shapes) if nest.is_sequence(output_types) else output_shapes
        )  # fmt: skip
        for result, shape in zip(results, shapes, strict=True):
            result.set_shape(shape)
    return nest.pack_sequence_as(output_types, results)


@export("contrib.framework.deprecated_args")
def deprecated_args(date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any) -> Any:
    """A decorator that warns when a call gives one of these arguments.

    Raises:
        ValueError: If the function has no argument of that name, or no instructions are given.
    """
    names = [each if isinstance(each, str) else each[0] for each in deprecated_arg_names_or_tuples]
    if not instructions or not names:
        raise ValueError("deprecated_args needs instructions and at least one argument")

    def decorate(function: Callable[..., Any]) -> Any:
        return _warning(function, date, instructions, dict.fromkeys(names, _ANY))

    return decorate


@export("contrib.framework.deprecated_arg_values")
def deprecated_arg_values(date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any) -> Any:
    """A decorator that warns when a call gives an argument one of these values.

    Raises:
        ValueError: If the function has no argument of that name, or no instructions are given.
    """
    if not instructions or not deprecated_kwargs:
        raise ValueError("deprecated_arg_values needs instructions and at least one argument")
    return lambda function: _warning(function, date, instructions, deprecated_kwargs)


_ANY: Any = object()


def _warning(function: Callable[..., Any], date: str | None, instructions: str, values: dict[str, Any]) -> Any:
    signature = inspect.signature(function)
    unknown = set(values) - set(signature.parameters)
    if unknown:
        raise ValueError(f"deprecated arguments {sorted(unknown)} are no arguments of {function.__name__}")
    when = "in a future version" if date is None else f"after {date}"
    warned: set[str] = set()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        for name, value in values.items():
            if name in given and name not in warned and (value is _ANY or given[name] == value):
                warned.add(name)
                shown = name if value is _ANY else f"{name}={value}"
                tf.logging.warning(
                    "Calling %s with %s is deprecated and will be removed %s. %s", function.__name__, shown, when,
                    instructions,
                )  # fmt: skip
        return function(*args, **kwargs)

    return call
