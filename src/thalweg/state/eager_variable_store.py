"""EagerVariableStore: lets `tf.get_variable` find variables again where ops run at once."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.state.variable_store import VariableStore, eager_stores


@export("contrib.eager.EagerVariableStore")
class EagerVariableStore:
    """Keeps the variables that `tf.get_variable` creates in its blocks: a second request finds the first one's.

    Example:
        >>> with tf.eager():
        ...     store = tf.contrib.eager.EagerVariableStore()
        ...     with store.as_default():
        ...         a, b = tf.get_variable("w", [2]), tf.get_variable("w", [2])
        ...     print(a is b, len(store.variables()))
        True 1
    """

    def __init__(self, store: VariableStore | None = None) -> None:
        """Starts empty, or with the variables of a store."""
        if store is not None and not store.reuses:
            raise ValueError(
                "Cannot construct EagerVariableStore from a VariableStore object that does not hold eager variables."
            )
        self._store = VariableStore() if store is None else store
        self._store.reuses = True

    @contextmanager
    def as_default(self) -> Iterator[None]:
        """A block in which it keeps the variables of this thread."""
        outer, eager_stores.innermost = eager_stores.innermost, self._store
        try:
            yield
        finally:
            eager_stores.innermost = outer

    def variables(self) -> list[Any]:
        """All variables, by name."""
        return sorted(self._store.vars.values(), key=lambda variable: str(variable.name))

    def trainable_variables(self) -> list[Any]:
        """The trainable ones."""
        return [variable for variable in self.variables() if variable.trainable]

    def non_trainable_variables(self) -> list[Any]:
        """The others."""
        return [variable for variable in self.variables() if not variable.trainable]

    def copy(self) -> EagerVariableStore:
        """A store with copies of the variables."""
        other = EagerVariableStore()
        for name, variable in self._store.vars.items():
            other._store.vars[name] = copy.deepcopy(variable)
        return other
