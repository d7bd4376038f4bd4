"""Module: a named object that finds the variables and modules it holds in its attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.state.variable import Variable


@export("Module")
class Module:
    """The base of user-defined layers and models.

    Example:
        >>> class Dense(tf.Module):
        ...     def __init__(self, size, name=None):
        ...         super().__init__(name)
        ...         with self.name_scope:
        ...             self.w = tf.Variable(tf.zeros([size, size]), name="w")
        >>> Dense(2).variables[0].name
        'dense/w:0'
    """

    # Attributes in which no variables and modules are looked for. Subclasses add theirs: the name is TensorFlow's.
    _TF_MODULE_IGNORED_PROPERTIES: frozenset[str] = frozenset()

    def __init__(self, name: str | None = None) -> None:
        """Opens a name scope under `name`, or under the class's name in snake case."""
        if name is None:
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        elif not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{name!r} is not a valid module name: it must be a valid Python identifier.")
        self._name = name
        with name_scope(name) as scope:
            self._scope_name = scope

    @property
    def name(self) -> str:
        """The name, without its scope."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A context in which ops and variables get the module's prefix."""
        return name_scope(self._scope_name)

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """A decorator that runs a method inside of the module's name scope."""

        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of this module and of those inside it, in the order of the attributes' names."""
        return tuple(dict.fromkeys(v for v in self._reachable(set()) if isinstance(v, Variable)))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those of `variables` that are trainable."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules inside this one, at any depth."""
        return tuple(dict.fromkeys(m for m in self._reachable(set()) if isinstance(m, Module)))

    def _reachable(self, seen: set[int]) -> Iterator[Any]:
        seen.add(id(self))
        for key in sorted(vars(self).keys() - self._TF_MODULE_IGNORED_PROPERTIES):
            yield from _members(vars(self)[key], seen)


def _members(value: Any, seen: set[int]) -> Iterator[Any]:
    if isinstance(value, Variable):
        yield value
    elif isinstance(value, Module):
        if id(value) not in seen:
            yield value
            yield from value._reachable(seen)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _members(item, seen)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _members(value[key], seen)
