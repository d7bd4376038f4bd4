"""VariableScope: the defaults that get_variable uses at some place of a program, and the prefix of its names."""

from __future__ import annotations

import enum
import functools
import re
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_collection, name_scope
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.graph.dtypes import DType, as_dtype
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


def nested_getter(custom_getter: Any, outer: Any) -> Any:
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
        getter = self._custom_getter if getter is None else nested_getter(getter, self._custom_getter)
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
