"""`tensorflow.python.util.deprecation`: decorators of deprecated functions and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from thalweg.platform.deprecation import deprecated as deprecated
from thalweg.platform.deprecation import deprecated_argument_lookup as deprecated_argument_lookup

F = TypeVar("F", bound=Callable[..., Any])

_PRINT_DEPRECATION_WARNINGS = True


def _unchanged(*_: Any, **__: Any) -> Callable[[F], F]:
    return lambda function: function


deprecated_args = _unchanged
deprecated_arg_values = _unchanged
deprecated_endpoints = _unchanged


def deprecated_alias(deprecated_name: str, name: str, func_or_class: F, warn_once: bool = True) -> F:
    """The function under its old name."""
    return func_or_class


class silence:
    """A context in which deprecated names say nothing."""

    def __enter__(self) -> silence:
        return self

    def __exit__(self, *_: Any) -> None:
        pass
