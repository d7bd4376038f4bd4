"""tf.make_template: a function whose variables are created by its first call and shared by all others."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.state.scope_defaults import VariableScope
from thalweg.state.variable_scope import variable_scope


@export("make_template")
def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """Wraps a function so that its variables are shared between calls.

    Args:
        name_: A name for the scope of its variables; made unique.
        func_: The function. It must get its variables with `tf.get_variable`.
        create_scope_now_: Whether the name of the scope is fixed now, instead of by the first call.
        unique_name_: A name for the scope that is used as it is.
        custom_getter_: See `tf.variable_scope`.
        **kwargs: Arguments for `func_`.

    Returns:
        A callable.

    Raises:
        ValueError: If there is no name.

    Example:
        >>> scale = tf.make_template("scale", lambda x: x * tf.get_variable("w", [], initializer=tf.ones_initializer()))
        >>> a, b = scale(1.0), scale(2.0)
        >>> [v.name for v in scale.variables]
        ['scale/w:0']
    """
    if not name_:
        raise ValueError("name cannot be None.")
    function = functools.partial(func_, **kwargs) if kwargs else func_
    return Template(name_, function, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """A function and the scope of its variables."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Any = None,
    ) -> None:
        """Used by make_template."""
        self._name = name
        self._func = func
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._lock = threading.Lock()
        self._called = False
        self._scope: VariableScope | None = None
        if create_scope_now:
            with self._new_scope() as scope:
                self._scope = scope

    def _new_scope(self) -> variable_scope:
        return variable_scope(self._unique_name, self._name, custom_getter=self._custom_getter)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function in the scope of its variables."""
        with self._lock:
            if self._scope is None:
                with self._new_scope() as scope:
                    self._scope = scope
                    return self._call(args, kwargs)
            with variable_scope(self._scope, reuse=True if self._called else None):
                return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any) -> Any:
        trainable = get_default_graph().get_collection_ref(GraphKeys.TRAINABLE_VARIABLES)
        before = len(trainable)
        result = self._func(*args, **kwargs)
        if self._called and len(trainable) > before:
            raise ValueError(
                "Trainable variable created when calling a template after the first time, perhaps you used "
                f"tf.Variable when you meant tf.get_variable: {trainable[before:]}"
            )
        self._called = True
        return result

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope of its variables; None before there is one."""
        return self._scope

    @property
    def variable_scope_name(self) -> str | None:
        """The name of that scope."""
        return None if self._scope is None else self._scope.name

    var_scope = variable_scope

    def _collection(self, key: str) -> list[Any]:
        return [] if self._scope is None else self._scope.get_collection(key)

    @property
    def variables(self) -> list[Any]:
        """Its global and local variables."""
        return self.global_variables + self.local_variables

    @property
    def weights(self) -> list[Any]:
        """The same as `variables`."""
        return self.variables

    @property
    def global_variables(self) -> list[Any]:
        """Its global variables."""
        return self._collection(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list[Any]:
        """Its local variables."""
        return self._collection(GraphKeys.LOCAL_VARIABLES)

    @property
    def trainable_variables(self) -> list[Any]:
        """Its trainable variables."""
        return self._collection(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def trainable_weights(self) -> list[Any]:
        """The same as `trainable_variables`."""
        return self.trainable_variables
