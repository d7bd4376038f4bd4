"""The public functions of `tf.autograph`."""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final

from thalweg.autograph.calls import MARK, OPERATORS, OPERATORS_ONLY_HERE, is_left_alone, warn_once
from thalweg.autograph.effects import in_order
from thalweg.autograph.tracebacks import clean
from thalweg.graph.definitions.op_registry import export
from thalweg.platform import logging


@export("autograph.experimental.Feature")
class Feature(enum.Enum):
    """Optional parts of conversion. All of them are always on; names are accepted as TensorFlow 1.15 takes them."""

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"

    @classmethod
    def all(cls) -> tuple[Feature, ...]:
        """All features."""
        return tuple(cls)

    @classmethod
    def all_but(cls, exclude: Any) -> tuple[Feature, ...]:
        """All features but one, or some."""
        left_out = exclude if isinstance(exclude, (list, tuple, set)) else (exclude,)
        return tuple(each for each in cls if each not in left_out)


@export("autograph.to_graph")
def to_graph(entity: Any, recursive: bool = True, experimental_optional_features: Any = None) -> Any:
    """The converted form of a function or class: its control flow on tensors becomes control flow of the graph.

    Args:
        entity: A function, method, callable object, or class.
        recursive: Whether the functions that it calls are converted, too.
        experimental_optional_features: A `Feature`, or several; all of them are always on.

    Returns:
        A function with the same arguments, or a subclass with converted methods. Calls add operations to the default
        graph; what they print, check or assign happens before their results are there.

    Raises:
        ValueError: If it cannot be called, or has something that cannot be converted.

    Example:
        >>> def sign(x):
        ...     if x > 0.0:
        ...         return 1.0
        ...     return -1.0
        >>> with tf.Session() as session:
        ...     print(session.run(tf.autograph.to_graph(sign)(tf.constant(-3.0))))
        -1.0
    """
    _check_features(experimental_optional_features)
    if isinstance(entity, type):
        return _converted_class(entity, recursive)
    function = _converted(entity, recursive)

    @functools.wraps(function)
    def converted(*args: Any, **kwargs: Any) -> Any:
        with clean():
            return in_order(function, args, kwargs)

    setattr(converted, MARK, True)
    converted.__wrapped__ = entity
    return converted


def _check_features(features: Any) -> None:
    for each in () if features is None else features if isinstance(features, (list, tuple, set)) else (features,):
        if not isinstance(each, Feature):
            raise ValueError(f"Expected a tf.autograph.experimental.Feature, got {each!r}.")


def _parts(entity: Any) -> tuple[FunctionType, Callable[[Any], Any]]:
    """The Python function behind a callable, and what makes a callable of its kind of another function."""
    if isinstance(entity, FunctionType):
        return entity, lambda function: function
    if isinstance(entity, MethodType):
        inner, wrap = _parts(entity.__func__)
        return inner, lambda function: MethodType(wrap(function), entity.__self__)
    if isinstance(entity, functools.partial):
        inner, wrap = _parts(entity.func)
        return inner, lambda function: functools.partial(wrap(function), *entity.args, **entity.keywords)
    python_function = getattr(entity, "python_function", None)
    if callable(python_function):  # Of tf.function.
        return _parts(python_function)
    method = getattr(type(entity), "__call__", None)  # noqa: B004
    if isinstance(method, FunctionType):
        return method, lambda function: MethodType(function, entity)
    raise ValueError(f"AutoGraph converts functions, methods, callable objects and classes, not {entity!r}.")


def _converted(entity: Any, recursive: bool) -> Any:
    # Start-up time: conversion needs `ast`; only programs that convert something load it.
    from thalweg.autograph.conversion import ConversionError, converted_function, is_converted

    function, wrap = _parts(entity)
    if is_converted(function.__code__):
        return entity
    try:
        return wrap(converted_function(function, OPERATORS if recursive else OPERATORS_ONLY_HERE))
    except ConversionError as e:
        raise ValueError(f"AutoGraph cannot convert '{function.__qualname__}': {e}.") from None


def _converted_class(cls: type, recursive: bool) -> type:
    """A subclass with converted methods: those of the class itself; what it inherits stays."""
    methods: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if isinstance(value, FunctionType) and not (name.startswith("__") and name != "__call__"):
            methods[name] = to_graph(value, recursive)
    return type(cls)(cls.__name__, (cls,), {**methods, "__module__": cls.__module__, "__doc__": cls.__doc__})


@export("autograph.to_code")
def to_code(
    entity: Any, recursive: bool = True, arg_names: Any = None, arg_values: Any = None, indentation: str = "  ",
    experimental_optional_features: Any = None,
) -> str:  # fmt: skip
    """The converted form of a function as Python source code, to look at.

    Args:
        entity: A function, method, callable object, or class.
        recursive: Accepted for compatibility: called functions are converted when they are called.
        arg_names: Accepted for compatibility.
        arg_values: Accepted for compatibility.
        indentation: Accepted for compatibility.
        experimental_optional_features: A `Feature`, or several.

    Raises:
        ValueError: If it has something that cannot be converted.
    """
    # Start-up time: conversion needs `ast`; only programs that convert something load it.
    from thalweg.autograph.conversion import ConversionError, converted_text

    _check_features(experimental_optional_features)
    if isinstance(entity, type):
        functions = [value for value in vars(entity).values() if isinstance(value, FunctionType)]
        return "\n\n".join(to_code(function) for function in functions)
    function, _ = _parts(entity)
    try:
        return converted_text(function)
    except ConversionError as e:
        raise ValueError(f"AutoGraph cannot convert '{function.__qualname__}': {e}.") from None


@export("autograph.do_not_convert", "autograph.experimental.do_not_convert")
def do_not_convert(func: Any = None) -> Any:
    """A decorator: converted code calls the function as it is.

    Example:
        >>> @tf.autograph.do_not_convert
        ... def as_it_is(x):
        ...     return x if isinstance(x, tf.Tensor) else tf.constant(x)
    """
    if func is None:
        return do_not_convert
    if isinstance(func, type):
        setattr(func, MARK, True)
        return func

    @functools.wraps(func)
    def unconverted(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    setattr(unconverted, MARK, True)
    return unconverted


@export("autograph.experimental.set_loop_options")
def set_loop_options(
    parallel_iterations: Any = None, back_prop: Any = None, swap_memory: Any = None, maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:  # fmt: skip
    """As the first statement of a loop in converted code: options of the tf.while_loop that it becomes.

    Args:
        parallel_iterations: See tf.while_loop.
        back_prop: See tf.while_loop.
        swap_memory: See tf.while_loop.
        maximum_iterations: See tf.while_loop.
        shape_invariants: Pairs of a variable of the loop and the shape that it keeps.

    Example:
        >>> def ones(n):
        ...     x = tf.zeros([0])
        ...     for _ in tf.range(n):
        ...         tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
        ...         x = tf.concat([x, [1.0]], 0)
        ...     return x
        >>> with tf.Session() as session:
        ...     print(session.run(tf.autograph.to_graph(ones)(tf.constant(2))))
        [1. 1.]
    """


@export("autograph.set_verbosity")
def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """How much AutoGraph says about what it does: from 0 (warnings only) to 10 (all that it converts)."""
    _verbosity["level"] = level
    _verbosity["stdout"] = alsologtostdout


_verbosity: Final[dict[str, Any]] = {"level": 0, "stdout": False}


def say(level: int, message: str, *args: Any) -> None:
    """Logs a message, if `set_verbosity` asks for it."""
    if _verbosity["level"] >= level:
        logging.info(message, *args)
        if _verbosity["stdout"]:
            sys.stdout.write(message % args + "\n")


@export("autograph.trace")
def trace(*args: Any) -> None:
    """Prints values while converted code is traced: tensors as the graph sees them."""
    print(*args)


def for_tracing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The form of a function that tf.function and datasets trace: converted, if that is possible.

    A function that cannot be converted is used as it is, and a warning says why.
    """
    try:
        python_function, _ = _parts(function)
        if is_left_alone(python_function) or getattr(function, MARK, False):
            return function
        converted = _converted(function, True)
    except ValueError as e:
        if not isinstance(function, type) and hasattr(function, "__code__"):
            warn_once(function, e)
        return function
    say(1, "Converted %s", function)

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with clean():
            return converted(*args, **kwargs)

    return traced
