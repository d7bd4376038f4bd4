"""Ways to mark functions, names and arguments as deprecated: a program hears of each once per line that uses it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

from thalweg.platform import logging

_P = ParamSpec("_P")
_T = TypeVar("_T")

_warned: Final[set[tuple[str, str, int]]] = set()  # (deprecated name, file, line) of past warnings.


def _warn_once_per_call_site(name: str, text: str) -> None:
    """Warns unless the line of the program that called our caller was warned before."""
    frame = sys._getframe(2)
    file, line = frame.f_code.co_filename, frame.f_lineno
    key = (name, file, line)
    if key not in _warned:
        _warned.add(key)
        # 3: the message's place is the program's line, not the wrapper.
        logging.get_logger().warning("From %s:%d: %s", file, line, text, stacklevel=3)


def deprecated(
    date: str | None, instructions: str, warn_once: bool = True
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Makes a function warn when it is called.

    Args:
        date: When the function goes away, as `'2030-01-31'`, or None if that is not decided.
        instructions: What to do instead: a full sentence.
        warn_once: Taken for programs that give it; each line of a program is warned once.

    Returns:
        A decorator. The function keeps its name and signature; its docstring gains a note.
    """
    when = "in a future version" if date is None else f"after {date}"

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        name = function.__qualname__
        text = f"{name} (from {function.__module__}) is deprecated and will be removed {when}. {instructions}"

        @functools.wraps(function)
        def warn_and_call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            _warn_once_per_call_site(name, text)
            return function(*args, **kwargs)

        warn_and_call.__doc__ = f"{function.__doc__ or name}\n\nDeprecated: it will be removed {when}. {instructions}\n"
        return warn_and_call

    return decorate


def deprecated_alias(old_name: str, function: _T, new_name: str | None = None) -> _T:
    """Makes the value for an old name of a function or class, which warns and then does what the new one does.

    Args:
        old_name: The name that programs should stop using, as in `tf.old_name`.
        function: The function or class under its new name.
        new_name: What to recommend; the name of `function` unless given.

    Returns:
        For a function, a wrapper; for a class, a subclass, so that it still serves as a base class.
    """
    target: Any = function
    text = f"The name tf.{old_name} is deprecated. Please use tf.{new_name or target.__name__} instead."
    if isinstance(target, type):

        def warn_and_init(self: Any, *args: Any, **kwargs: Any) -> None:
            _warn_once_per_call_site(old_name, text)
            target.__init__(self, *args, **kwargs)  # type: ignore[misc]

        body = {"__init__": warn_and_init, "__doc__": target.__doc__, "__module__": target.__module__}
        return cast(_T, type(target)(target.__name__, (target,), body))

    @functools.wraps(target)
    def warn_and_call(*args: Any, **kwargs: Any) -> Any:
        _warn_once_per_call_site(old_name, text)
        return target(*args, **kwargs)

    return cast(_T, warn_and_call)


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """Settles which of an argument's two names a call used.

    Args:
        new_name: The name to use.
        new_value: Its value, None if it was not given.
        old_name: The name that is deprecated.
        old_value: Its value, None if it was not given.

    Returns:
        The value that was given.

    Raises:
        ValueError: If both were given.
    """
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}': they are names of one argument.")
    return old_value
