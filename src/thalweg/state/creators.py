"""variable_creator_scope: functions that stand between `tf.Variable(...)` and the variable, per graph and thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.func_graph import FuncGraph, init_scope
from thalweg.graph.graph import Graph
from thalweg.state.initial_values import value_at_once

Creator = Callable[..., Any]


class _Creators(threading.local):
    """The open creator scopes of a thread, outermost first, by graph."""

    def __init__(self) -> None:
        self.by_graph: WeakKeyDictionary[Graph, list[Creator]] = WeakKeyDictionary()


_creators = _Creators()


@export("variable_creator_scope", "variable_creator_scope_v1")
@contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """A block in which `variable_creator(next_creator, **kwargs)` creates all variables of the default graph.

    Args:
        variable_creator: Gets the next creator and all arguments of tf.Variable as keywords; it may change them, call
            `next_creator(**kwargs)`, and return its result or another object.
    """
    stack = _creators.by_graph.setdefault(get_default_graph(), [])
    stack.append(variable_creator)
    try:
        yield
    finally:
        stack.pop()


# Called with each variable that is made where ops run at once, when it has its value.
made_eagerly: list[Callable[[Any], None]] = []


class CreatedByScopes(type):
    """The metaclass of Variable: `Variable(...)` runs through the open creator scopes; subclasses do not."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Creates a variable, or lets the open scopes do it."""
        if cls.__name__ == "Variable" and get_default_graph()._building_function:
            body = get_default_graph()
            while isinstance(body, FuncGraph):
                body.num_variables_made += 1
                body = body.outer_graph
            if body._executes:
                args = tuple(map(value_at_once, args))
                kwargs = {key: value_at_once(value) for key, value in kwargs.items()}
            with init_scope():  # State belongs to the program, not to the body of one of its functions.
                return cls(*args, **kwargs)
        stack = _creators.by_graph.get(get_default_graph()) if cls.__name__ == "Variable" else None
        if not stack:
            made = super().__call__(*args, **kwargs)
            return _heard(made) if made_eagerly and cls.__name__ == "Variable" else made
        bound = signature(cls.__init__).bind(None, *args, **kwargs)  # type: ignore[misc]
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        make: Creator = lambda **kwargs: _heard(super(CreatedByScopes, cls).__call__(**kwargs))  # noqa: E731
        for creator in stack:
            make = _link(creator, make)
        return make(**arguments)


def _heard(variable: Any) -> Any:
    if get_default_graph()._executes:
        for listener in list(made_eagerly):
            listener(variable)
    return variable


def _link(creator: Creator, inner: Creator) -> Creator:
    return lambda **kwargs: creator(inner, **kwargs)
