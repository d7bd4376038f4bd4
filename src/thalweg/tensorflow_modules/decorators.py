"""`tensorflow.python.util.tf_decorator`, `tf_export` and `tf_should_use`: decorators that leave a function as it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def make_decorator(target: Any, decorator_func: Any, decorator_name: str | None = None, **_: Any) -> Any:
    """Marks a function as a wrapper of another one."""
    functools.update_wrapper(decorator_func, target)
    return decorator_func


def unwrap(maybe_decorated: Any) -> tuple[list[Any], Any]:
    """The wrappers around a function, outermost first, and the function."""
    found = []
    while hasattr(maybe_decorated, "__wrapped__"):
        found.append(maybe_decorated)
        maybe_decorated = maybe_decorated.__wrapped__
    return found, maybe_decorated


def tf_export(*names: str, **_: Any) -> Callable[[Any], Any]:
    """Decorator of names that a library makes public: returns the value."""
    return lambda value: value


estimator_export = tf_export
keras_export = tf_export
get_symbol_from_name = None


def should_use_result(function: Any = None, **_: Any) -> Any:
    """Decorator of functions whose result is meant to be used."""
    return (lambda f: f) if function is None else function


signature = inspect.signature
