"""Public functions that also take values of types which libraries above define, such as RaggedTensors.

A function says so where it is defined, with `@elementwise` or `@dispatched` below its `@export`. A call looks for
values of registered types among its arguments, and hands itself over to the library of the type it finds. Until a
library has registered one, a call costs a look at an empty tuple; the functions are the same objects before and after.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Handler(Protocol):
    """What a library does with a call that has a value of its type among the arguments."""

    def __call__(
        self, function: Callable[..., Any], is_elementwise: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Takes the function without its dispatch, whether it computes each element alone, and the arguments."""


_types: tuple[type, ...] = ()
_handlers: dict[type, Handler] = {}


def register(value_type: type, handler: Handler) -> None:
    """Lets a library handle the calls whose arguments, or lists among these, have a value of this type."""
    global _types
    _handlers[value_type] = handler
    _types = tuple(_handlers)


def elementwise(function: F) -> F:
    """Marks a function that computes each element of its result from one element of each argument."""
    return _dispatching(function, is_elementwise=True)


def dispatched(function: F) -> F:
    """Marks a function that values of other types may replace as a whole."""
    return _dispatching(function, is_elementwise=False)


def _dispatching(function: F, is_elementwise: bool) -> F:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _types:
            found = _found_type(args, kwargs)
            if found is not None:
                return _handlers[found](function, is_elementwise, args, kwargs)
        return function(*args, **kwargs)

    return cast(F, call)


def _found_type(args: tuple[Any, ...], kwargs: dict[str, Any]) -> type | None:
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            for each in _types:
                if isinstance(item, each):
                    return each
    return None
