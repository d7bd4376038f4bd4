"""arg_scope: default arguments for functions, for the duration of a `with` block."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from thalweg.graph.definitions.op_registry import export

Scope = dict[str, dict[str, Any]]

_state: Final = threading.local()
_DECORATED: Final[dict[str, tuple[str, ...]]] = {}


def _stack() -> list[Scope]:
    if not hasattr(_state, "stack"):
        _state.stack = [{}]
    found: list[Scope] = _state.stack
    return found


def current_arg_scope() -> Scope:
    """The defaults of the innermost scope, by function."""
    return _stack()[-1]


@export("contrib.framework.arg_scope_func_key", "contrib.slim.arg_scope_func_key")
def arg_scope_func_key(op: Any) -> Any:
    """The key of a function in a scope."""
    return getattr(op, "_key_op", str(op))


def _name(op: Any) -> str:
    return f"{op.__module__}.{getattr(op, '__qualname__', op)}"


@export("contrib.framework.has_arg_scope", "contrib.slim.has_arg_scope")
def has_arg_scope(func: Any) -> bool:
    """Whether a function takes defaults of scopes."""
    return arg_scope_func_key(func) in _DECORATED


@export("contrib.framework.arg_scoped_arguments", "contrib.slim.arg_scoped_arguments")
def arg_scoped_arguments(func: Any) -> Any:
    """The arguments of a decorated function that have defaults, and that scopes may set.

    Raises:
        ValueError: If the function is not decorated.
    """
    if not has_arg_scope(func):
        raise ValueError(f"Function {func} is not decorated with @add_arg_scope")
    return _DECORATED[arg_scope_func_key(func)]


@export("contrib.framework.add_arg_scope", "contrib.slim.add_arg_scope")
def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the function takes its defaults of the scopes around the call.

    Example:
        >>> @tf.contrib.framework.add_arg_scope
        ... def power(x, exponent=1):
        ...     return x**exponent
        >>> with tf.contrib.framework.arg_scope([power], exponent=3):
        ...     power(2)
        8
    """
    key = _name(func)

    @functools.wraps(func)
    def func_with_args(*args: Any, **kwargs: Any) -> Any:
        defaults = current_arg_scope().get(key)
        return func(*args, **({**defaults, **kwargs} if defaults else kwargs))

    code = func.__code__
    count = len(func.__defaults__ or ())
    positional = code.co_varnames[: code.co_argcount]
    with_default = positional[len(positional) - count :] if count else ()
    names = (*with_default, *(func.__kwdefaults__ or {}))
    # A function with **kwargs takes any argument.
    _DECORATED[key] = names if not code.co_flags & 0x08 else ()
    func_with_args._key_op = key  # type: ignore[attr-defined]
    return func_with_args


@export("contrib.framework.arg_scope", "contrib.slim.arg_scope")
@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Gives functions other defaults inside of a `with` block, or makes a stored scope the current one.

    Args:
        list_ops_or_scope: The functions, each decorated with `add_arg_scope`; or a scope that an earlier `with` gave.
        **kwargs: The defaults; none with a stored scope.

    Yields:
        The scope, to be stored.

    Raises:
        TypeError: If the first argument is neither.
        ValueError: If a function is not decorated, or there are defaults with a stored scope.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling a dictionary, kwargs must be empty.")
        new = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
        new = dict(current_arg_scope())
        for op in list_ops_or_scope:
            if not has_arg_scope(op):
                raise ValueError(f"{_name(op)} is not decorated with @add_arg_scope")
            key = arg_scope_func_key(op)
            new[key] = {**new.get(key, {}), **kwargs}
    _stack().append(new)
    try:
        yield new
    finally:
        _stack().pop()
