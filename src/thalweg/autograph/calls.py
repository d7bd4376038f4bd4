"""Which functions converted code calls as they are, and which in their converted form.

Left alone are functions of this package, of Python's library and of installed packages that do not use this one,
what `do_not_convert` marks, classes (their methods are converted when they are called), generators, and whatever has
no source code.
"""

from __future__ import annotations

import functools
import inspect
import os
import sysconfig
import types
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from thalweg.autograph import items, operators
from thalweg.autograph.python_builtins import BUILTINS
from thalweg.platform import logging

MARK: Final = "__thalweg_do_not_convert__"

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PATHS: Final = sysconfig.get_paths()
_INSTALLED: Final = tuple({_PATHS[key] + os.sep for key in ("purelib", "platlib")})
_LIBRARY: Final = tuple({_PATHS[key] + os.sep for key in ("stdlib", "platstdlib")})
_NEVER: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

_left_alone: Final[weakref.WeakKeyDictionary[CodeType, bool]] = weakref.WeakKeyDictionary()
_warned: Final[set[Any]] = set()


def is_left_alone(function: FunctionType) -> bool:
    """Whether a Python function is called as it is."""
    if getattr(function, MARK, False):
        return True
    code = function.__code__
    found = _left_alone.get(code)
    if found is None:
        found = _left_alone[code] = _is_foreign(code, function.__globals__) or bool(code.co_flags & _NEVER)
    return found


def _is_foreign(code: CodeType, module_globals: dict[str, Any]) -> bool:
    path = os.path.abspath(code.co_filename)
    if path.startswith(_PACKAGE):
        return True
    if path.startswith(_INSTALLED):
        # A package that was written for TensorFlow has its name among its globals.
        name = __name__.partition(".")[0]
        return not any(
            isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in (name, "tensorflow")
            for value in list(module_globals.values())
        )
    return path.startswith(_LIBRARY)


def callee(function: Any) -> Any:
    """What converted code calls in the place of `function`; called with every call, so it finds out quickly."""
    kind = type(function)
    if kind is FunctionType:
        return _of_function(function)
    if kind is MethodType:
        inner = function.__func__
        if type(inner) is not FunctionType:
            return function
        found = _of_function(inner)
        return function if found is inner else MethodType(found, function.__self__)
    if kind is types.BuiltinFunctionType or kind is type:
        try:
            return BUILTINS.get(function, function)
        except TypeError:
            return function
    if kind is functools.partial:
        found = callee(function.func)
        if found is function.func:
            return function
        return functools.partial(found, *function.args, **function.keywords)
    if isinstance(function, type) or getattr(function, MARK, False):
        return function
    method = getattr(kind, "__call__", None)  # noqa: B004
    if type(method) is FunctionType:
        found = _of_function(method)
        return function if found is method else MethodType(found, function)
    return function


def _of_function(function: FunctionType) -> Any:
    # Start-up time: conversion needs `ast`; only programs that convert something load it.
    from thalweg.autograph.conversion import ConversionError, converted_function, is_converted

    if is_left_alone(function) or is_converted(function.__code__):
        return function
    try:
        return converted_function(function, OPERATORS)
    except ConversionError as e:
        warn_once(function, e)
        _left_alone[function.__code__] = True
        return function


def warn_once(function: Any, reason: Exception) -> None:
    """Says that a function stays as it is."""
    code = getattr(function, "__code__", function)
    if code in _warned:
        return
    _warned.add(code)
    name = getattr(function, "__qualname__", repr(function))
    logging.warning(
        "AutoGraph could not convert '%s', and runs it as it is: %s. Its `if`, `for` and `while` cannot depend on "
        "tensors. To silence this warning, decorate it with @tf.autograph.do_not_convert.", name, reason,
    )  # fmt: skip


def unchanged(function: Any) -> Any:
    """The callee without `recursive`: only built-in functions are replaced."""
    if type(function) in (types.BuiltinFunctionType, type):
        return BUILTINS.get(function, function)
    return function


def _namespace(called: Callable[[Any], Any]) -> types.SimpleNamespace:
    names = {name: value for name, value in vars(operators).items() if isinstance(value, FunctionType)}
    names |= {name: value for name, value in vars(items).items() if isinstance(value, FunctionType)}
    return types.SimpleNamespace(**names, callee=called, slice=slice)


OPERATORS: Final = _namespace(callee)
"""What the name of the operators stands for in converted code."""

OPERATORS_ONLY_HERE: Final = _namespace(unchanged)
"""The same for code whose calls are left alone."""
