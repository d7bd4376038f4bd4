"""variable_scope and get_variable: names, sharing and defaults for variables, by place in the program."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph, graph_of, name_scope
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.state.policies import VariableAggregation, VariableSynchronization
from thalweg.state.scope_defaults import AUTO_REUSE, VariableScope, nested_getter


class _OpenScopes(threading.local):
    """The current scope of a thread, and how often each scope name was opened (for unique default names)."""

    def __init__(self) -> None:
        self.current = VariableScope(False)
        self.counts: dict[str, int] = {}

    def open(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def forget_below(self, name: str) -> None:
        for key in self.counts:
            if key.startswith(name + "/"):
                self.counts[key] = 0

    def unique(self, prefix: str) -> str:
        outer = self.current.name
        full = f"{outer}/{prefix}" if outer else prefix
        if not self.counts.get(full):
            return prefix
        number = 1
        while self.counts.get(f"{full}_{number}"):
            number += 1
        return f"{prefix}_{number}"


def _open_scopes() -> _OpenScopes:
    graph = get_default_graph()
    with graph._lock:
        scopes: _OpenScopes = graph._attachments.setdefault("variable_scopes", _OpenScopes())
        return scopes


@export("get_variable_scope")
def get_variable_scope() -> VariableScope:
    """The variable scope of this place of the program."""
    return _open_scopes().current


@export("variable_scope")
class variable_scope:
    """A block in which `tf.get_variable` prefixes names, shares variables, and takes its defaults.

    Example:
        >>> with tf.variable_scope("layer"):
        ...     w = tf.get_variable("w", [2])
        >>> with tf.variable_scope("layer", reuse=True):
        ...     tf.get_variable("w", [2]) is w
        True
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        """Describes the block.

        Args:
            name_or_scope: A name, below the current scope; or a VariableScope, to open that one again.
            default_name: Used, and made unique, if `name_or_scope` is None.
            values: Tensors of the op under construction: all must be of one graph, which becomes the default graph.
            initializer: Default initializer of the variables in the block.
            regularizer: Default regularizer.
            caching_device: Default caching device.
            partitioner: Default partitioner.
            custom_getter: A function `(getter, name, **kwargs)` that stands between get_variable and the variable.
            reuse: True to find variables, AUTO_REUSE to find or create them; None inherits.
            dtype: Default type.
            use_resource: Has no effect.
            constraint: Default constraint.
            auxiliary_name_scope: Whether a name scope is opened as well.

        Raises:
            ValueError: If there is no name.
            TypeError: If `default_name` is not a string.
        """
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._values = values
        self._reuse = reuse
        self._custom_getter = custom_getter
        self._changes = {
            key: value
            for key, value in (
                ("initializer", initializer), ("regularizer", regularizer), ("caching_device", caching_device),
                ("partitioner", partitioner), ("use_resource", use_resource), ("constraint", constraint),
                ("dtype", None if dtype is None else as_dtype(dtype)),
            )
            if value is not None
        }  # fmt: skip
        self._auxiliary = auxiliary_name_scope
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if self._reuse is False:
            self._reuse = None  # As in TensorFlow: the reuse of an outer scope cannot be undone.
        if not (self._reuse is None or self._reuse is True or self._reuse is AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        if values is not None and not isinstance(values, (list, tuple)):
            raise TypeError("Values must be a list or tuple")
        self._entered: list[tuple[Any, ...]] = []

    def __enter__(self) -> VariableScope:
        graph = get_default_graph() if self._values is None else graph_of(self._values)
        graph_scope = None
        if graph is not get_default_graph():
            graph_scope = default_graph_scope(graph)
            graph_scope.__enter__()
        try:
            return self._enter(graph_scope)
        except BaseException:
            if graph_scope is not None:
                graph_scope.__exit__()
            raise

    def _enter(self, graph_scope: Any) -> VariableScope:
        target = self._name_or_scope
        if target is not None and not isinstance(target, (str, VariableScope)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if target is None and self._reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        scopes = _open_scopes()
        names, name_prefix = self._open_name_scope(target)
        if target is None:
            target = scopes.unique(self._default_name or "")
        outer, counts = scopes.current, dict(scopes.counts)
        if isinstance(target, VariableScope):
            new = target._copy(reuse=self._reuse or target.reuse, **self._changes)
            getter = target.custom_getter
        else:
            full = f"{outer.name}/{target}" if outer.name and target else target or outer.name
            new = outer._copy(name=full, reuse=self._reuse or outer.reuse, name_scope=name_prefix, **self._changes)
            getter = outer.custom_getter
        if self._custom_getter is not None:
            new._custom_getter = nested_getter(self._custom_getter, getter)
        scopes.open(new.name)
        scopes.current = new
        restored = counts if isinstance(target, VariableScope) else None
        self._entered.append((scopes, outer, new.name, restored, names, graph_scope))
        return new

    def _open_name_scope(self, target: Any) -> tuple[Any, str]:
        """Opens the name scope that goes with it; returns it, and its full name with a slash at the end."""
        current = get_default_graph().get_name_scope()
        prefix = current + "/" if current else ""
        if not self._auxiliary:
            return None, prefix
        if target is None:
            name = self._default_name or ""
        else:
            name = target if isinstance(target, str) else target.name.split("/")[-1]
        if not name:
            return None, prefix
        names = name_scope(name)
        return names, names.__enter__()

    def __exit__(self, *exc_info: object) -> None:
        scopes, outer, name, restored, names, graph_scope = self._entered.pop()
        scopes.forget_below(name)
        if restored is not None:
            scopes.counts = restored
        scopes.current = outer
        if names is not None:
            names.__exit__(*exc_info)
        if graph_scope is not None:
            graph_scope.__exit__(*exc_info)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Makes every call of `function` run inside of the block."""

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


@export("variable_op_scope")
@contextmanager
def variable_op_scope(
    values: Any,
    name_or_scope: Any,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> Iterator[VariableScope]:
    """The old spelling of `tf.variable_scope(name_or_scope, default_name, values, ...)`."""
    with variable_scope(
        name_or_scope, default_name, values, initializer, regularizer, caching_device, partitioner, custom_getter,
        reuse, dtype, use_resource, constraint,
    ) as scope:  # fmt: skip
        yield scope


@export("get_variable")
def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """Finds or creates the variable of that name in the current variable scope.

    Args:
        name: Its name below the scope.
        shape: Its shape; None if `initializer` is a value.
        dtype: Its type; that of the scope, float32 at first, if None.
        initializer: A value, or a function of (shape, dtype); the scope's if None, and if that is None too, random
            numbers scaled to the shape for floats and zeros for other types.
        regularizer: A function of the variable; its result joins GraphKeys.REGULARIZATION_LOSSES.
        trainable: Whether optimizers change it by default.
        collections: The collections to join.
        caching_device: Where copies of its value are kept for readers.
        partitioner: A function of shape and type that says into how many parts to cut it.
        validate_shape: If False, its shape may change.
        use_resource: Has no effect.
        custom_getter: A function `(getter, name, **kwargs)` to create it with.
        constraint: A function that optimizers apply after an update.
        synchronization: When copies are brought together in distributed training.
        aggregation: How updates of copies are combined.

    Returns:
        A Variable, or a PartitionedVariable.

    Raises:
        ValueError: If it exists and may not be reused, does not exist and should, or has another shape or type.
    """
    return get_variable_scope().get_variable(
        name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
        collections=collections, caching_device=caching_device, partitioner=partitioner, validate_shape=validate_shape,
        use_resource=use_resource, custom_getter=custom_getter, constraint=constraint, synchronization=synchronization,
        aggregation=aggregation,
    )  # fmt: skip


@export("get_local_variable")
def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = False,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """Like `tf.get_variable`, for a variable that joins LOCAL_VARIABLES and is not trainable."""
    joined = [*(collections or ()), GraphKeys.LOCAL_VARIABLES]
    return get_variable(
        name, shape, dtype, initializer, regularizer, False, list(dict.fromkeys(joined)), caching_device, partitioner,
        validate_shape, use_resource, custom_getter, constraint, synchronization, aggregation,
    )  # fmt: skip
