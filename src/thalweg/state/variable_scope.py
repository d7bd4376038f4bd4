"""variable_scope and get_variable: names, sharing and defaults for variables, by place in the program."""

from __future__ import annotations

import enum
import functools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import default_graph_scope, get_collection, get_default_graph, graph_of, name_scope
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.op_registry import export, export_value
from thalweg.state.policies import VariableAggregation, VariableSynchronization
from thalweg.state.variable_store import store_of_default_graph


class ReuseMode(enum.Enum):
    """What `reuse` may be besides True, False and None."""

    AUTO_REUSE = 1


AUTO_REUSE = ReuseMode.AUTO_REUSE
export_value(AUTO_REUSE, "AUTO_REUSE")


@export("no_regularizer")
def no_regularizer(_: Any) -> None:
    """A regularizer that adds no loss: stops the one of the scope."""


def _nested_getter(custom_getter: Any, outer: Any) -> Any:
    """The getter of a scope within another: the inner one is called first, and reaches the outer one as its getter."""
    if outer is None:
        return custom_getter

    def wrapped(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return custom_getter(functools.partial(outer, getter), *args, **kwargs)

    return wrapped


@export("VariableScope")
class VariableScope:
    """The defaults that `tf.get_variable` uses at some place of the program, and the prefix of its names."""

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        """Keeps them; see `tf.variable_scope`."""
        self._reuse = reuse
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = as_dtype(dtype)
        self._use_resource = use_resource
        self._constraint = constraint

    def _copy(self, **changes: Any) -> VariableScope:
        other = VariableScope.__new__(VariableScope)
        other.__dict__.update(self.__dict__)
        other.__dict__.update({f"_{key}": value for key, value in changes.items()})
        return other

    @property
    def name(self) -> str:
        """The prefix of variable names, without a slash at the end."""
        return self._name

    @property
    def original_name_scope(self) -> str:
        """The name scope that was opened with it, with a slash at the end."""
        return self._name_scope

    @property
    def reuse(self) -> Any:
        """False or None: variables are created; True: found; AUTO_REUSE: either."""
        return self._reuse

    @property
    def initializer(self) -> Any:
        """The default initializer."""
        return self._initializer

    @property
    def dtype(self) -> DType:
        """The default type."""
        return self._dtype

    @property
    def use_resource(self) -> bool | None:
        """Has no effect."""
        return self._use_resource

    @property
    def regularizer(self) -> Any:
        """The default regularizer."""
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        """The default caching device."""
        return self._caching_device

    @property
    def partitioner(self) -> Any:
        """The default partitioner."""
        return self._partitioner

    @property
    def custom_getter(self) -> Any:
        """The function that stands between get_variable and the variable."""
        return self._custom_getter

    @property
    def constraint(self) -> Any:
        """The default constraint."""
        return self._constraint

    def reuse_variables(self) -> None:
        """From now on, find variables instead of creating them."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Sets the default initializer."""
        self._initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        """Sets the default type."""
        self._dtype = as_dtype(dtype)

    def set_use_resource(self, use_resource: bool) -> None:
        """Has no effect: all variables are resource variables."""
        self._use_resource = use_resource

    def set_regularizer(self, regularizer: Any) -> None:
        """Sets the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        """Sets the default caching device."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Sets the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Sets the custom getter."""
        self._custom_getter = custom_getter

    def get_collection(self, name: str) -> list[Any]:
        """The members of a collection whose names begin with this scope."""
        return get_collection(name, re.escape(self._name) + "/" if self._name else "")

    def trainable_variables(self) -> list[Any]:
        """The trainable variables of this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Any]:
        """The global variables of this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        """The local variables of this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(self, name: str, **given: Any) -> Any:
        """Finds or creates a variable below this scope; takes the arguments of `tf.get_variable`."""
        initializer, dtype = given.get("initializer"), given.get("dtype")
        if dtype is not None and initializer is not None and not callable(initializer):
            found = convert_to_tensor(initializer).dtype.base_dtype
            if found is not as_dtype(dtype).base_dtype:
                raise ValueError(f"Initializer type '{found.name}' and explicit dtype '{as_dtype(dtype).name}' "
                                 "don't match.")  # fmt: skip
            given["dtype"] = found
        elif dtype is None and initializer is not None and not callable(initializer):
            given["dtype"] = convert_to_tensor(initializer).dtype.base_dtype
        options = {key: given.get(key) for key in _OPTIONS}
        for key in ("initializer", "regularizer", "caching_device", "partitioner", "dtype", "constraint", "reuse"):
            if options[key] is None:
                options[key] = getattr(self, f"_{key}")
        if options["constraint"] is not None and not callable(options["constraint"]):
            raise ValueError(
                f"Argument `constraint` must be None or a callable. Got a {type(options['constraint'])}: "
                f"{options['constraint']}"
            )
        for key, default in _DEFAULTS.items():
            if options[key] is None:
                options[key] = default
        getter = given.get("custom_getter")
        getter = self._custom_getter if getter is None else _nested_getter(getter, self._custom_getter)
        full = f"{self._name}/{name}" if self._name else name
        # The names of variables depend on variable scopes only.
        with name_scope(None):
            return store_of_default_graph().get_variable(full, getter, **options)

    def _get_partitioned_variable(
        self, shape: Any, dtype: Any, initializer: Any, trainable: bool, collections: Any, partitioner: Any
    ) -> Any:
        with name_scope(None):
            return store_of_default_graph().get_variable(
                self._name, self._custom_getter, shape=shape if callable(initializer) else None, dtype=dtype,
                initializer=initializer, reuse=self._reuse, trainable=trainable, collections=collections,
                partitioner=partitioner, regularizer=self._regularizer, caching_device=self._caching_device,
            )  # fmt: skip


_OPTIONS = (
    "shape", "dtype", "initializer", "regularizer", "reuse", "trainable", "collections", "caching_device",
    "partitioner", "validate_shape", "use_resource", "constraint", "synchronization", "aggregation",
)  # fmt: skip
_DEFAULTS: dict[str, Any] = {
    "validate_shape": True,
    "synchronization": VariableSynchronization.AUTO,
    "aggregation": VariableAggregation.NONE,
}


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
            new._custom_getter = _nested_getter(self._custom_getter, getter)
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
