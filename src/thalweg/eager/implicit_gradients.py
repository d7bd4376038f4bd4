"""tf.contrib.eager.implicit_gradients and its kin: functions of Python that become functions of their gradients."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.eager.tape import GradientTape
from thalweg.graph import nest
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export

Function = Callable[..., Any]


@export("contrib.eager.implicit_value_and_gradients")
def implicit_value_and_gradients(f: Function) -> Function:
    """A function that returns the value of `f`, and pairs of gradient and variable for each trainable one it reads.

    Raises:
        ValueError: When it is called, if `f` returns None or reads no trainable variable.

    Example:
        >>> with tf.eager():
        ...     w = tf.Variable(2.0)
        ...     value, pairs = tf.contrib.eager.implicit_value_and_gradients(lambda x: x * w * w)(3.0)
        ...     print(value.numpy(), pairs[0][0].numpy())
        12.0 12.0
    """

    @functools.wraps(f)
    def value_and_gradients(*args: Any, **kwargs: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        with GradientTape() as tape:
            value = f(*args, **kwargs)
        if value is None:
            raise ValueError(
                f"Cannot differentiate a function that returns None; did you forget to return a value from "
                f"{getattr(f, '__name__', f)}?"
            )
        variables = list(tape.watched_variables())
        if not variables:
            raise ValueError("No trainable variables were accessed while the function was being computed.")
        return value, list(zip(tape.gradient(value, variables), variables, strict=True))

    return value_and_gradients


@export("contrib.eager.implicit_gradients")
def implicit_gradients(f: Function) -> Function:
    """A function that returns pairs of gradient and variable for each trainable variable that `f` reads."""
    both = implicit_value_and_gradients(f)

    @functools.wraps(f)
    def gradients(*args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = both(*args, **kwargs)[1]
        return found

    return gradients


def _positions(f: Function, params: Sequence[Any] | None, count: int) -> list[int]:
    """The numbers of the arguments to differentiate by."""
    if params is None:
        return list(range(count))
    names = list(inspect.signature(f).parameters) if any(isinstance(p, str) for p in params) else []
    found = []
    for param in params:
        if isinstance(param, str):
            if param not in names:
                raise ValueError(f"The function has no parameter '{param}'; it has: {', '.join(names)}.")
            found.append(names.index(param))
        elif isinstance(param, int) and not isinstance(param, bool):
            found.append(param)
        else:
            raise ValueError(f"params must be all strings or all integers; got {params!r}.")
    if len(set(found)) < len(found):
        raise ValueError("params contains duplicate entries.")
    if any(not 0 <= place < count for place in found):
        raise ValueError(f"params names argument {max(found)}, the call has {count}.")
    return found


@export("contrib.eager.value_and_gradients_function")
def value_and_gradients_function(f: Function, params: Sequence[Any] | None = None) -> Function:
    """A function that returns the value of `f`, and its derivatives by arguments.

    Args:
        f: The function.
        params: The arguments, by name or number; all if None.

    Example:
        >>> with tf.eager():
        ...     value, grads = tf.contrib.eager.value_and_gradients_function(lambda x, y: x * x * y)(3.0, 4.0)
        ...     print(value.numpy(), [g.numpy() for g in grads])
        36.0 [np.float32(24.0), np.float32(9.0)]
    """

    @functools.wraps(f)
    def value_and_gradients(*args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        dy = kwargs.pop("dy", None)
        if kwargs:
            raise ValueError("Functions to be differentiated cannot receive keyword arguments.")
        places = _positions(f, params, len(args))
        values = list(args)
        with GradientTape() as tape:
            for place in places:
                if not hasattr(values[place], "handle"):
                    values[place] = convert_to_tensor(values[place])
                tape.watch(values[place])
            result = f(*values)
        if result is None:
            raise ValueError("Cannot differentiate a function that returns None; did you forget to return a value?")
        sources = [values[place] for place in places]
        return result, tape.gradient(result, sources, None if dy is None else nest.flatten(dy))

    return value_and_gradients


@export("contrib.eager.gradients_function")
def gradients_function(f: Function, params: Sequence[Any] | None = None) -> Function:
    """A function that returns the derivatives of `f` by arguments; see `value_and_gradients_function`."""
    both = value_and_gradients_function(f, params)

    @functools.wraps(f)
    def gradients(*args: Any, **kwargs: Any) -> list[Any]:
        found: list[Any] = both(*args, **kwargs)[1]
        return found

    return gradients


@export("contrib.eager.make_vjp")
def make_vjp(f: Function, params: Sequence[Any] | None = None, persistent: bool = True) -> Function:
    """A function that returns the value of `f` and the function from a gradient of it to those of its arguments."""

    @functools.wraps(f)
    def value_and_vjp(*args: Any, **kwargs: Any) -> tuple[Any, Function]:
        if kwargs:
            raise ValueError("Functions to be differentiated cannot receive keyword arguments.")
        places = _positions(f, params, len(args))
        values = [convert_to_tensor(value) if i in places else value for i, value in enumerate(args)]
        sources = [values[place] for place in places]
        with GradientTape(persistent=persistent) as tape:
            tape.watch(sources)
            result = f(*values)
        return result, lambda dy=None: tape.gradient(result, sources, None if dy is None else nest.flatten(dy))

    return value_and_vjp
