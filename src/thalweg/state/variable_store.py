"""The variables that `tf.get_variable` knows in a graph, by full name: creating, finding, and refusing."""

from __future__ import annotations

import functools
import inspect
import threading
import traceback
from collections.abc import Callable
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collection, colocate_with, get_default_graph, name_scope
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.func_graph import outermost
from thalweg.graph.tensor_shape import TensorShape
from thalweg.state.initializers import GlorotUniform, Zeros
from thalweg.state.partitioned_variable import PartitionedVariable, PartitionInfo, cut
from thalweg.state.variable import Variable
from thalweg.state.variable_proto import SaveSliceInfo


class VariableStore:
    """One per graph. Names here are full: scopes have been added already."""

    def __init__(self) -> None:
        """Starts without variables."""
        self.vars: dict[str, Any] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}
        self.reuses = False  # Whether variables are always found again: of an EagerVariableStore.

    def get_variable(self, name: str, custom_getter: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Finds or creates a variable, through the custom getter if there is one."""
        if custom_getter is None:
            return self._get(name, **options)
        if not callable(custom_getter):
            raise ValueError(f"Passed a custom_getter which is not callable: {custom_getter}")
        return custom_getter(getter=self._get, name=name, **options)

    def _get(self, name: str, shape: Any = None, dtype: Any = None, partitioner: Any = None, **options: Any) -> Any:
        kind = as_dtype("float32" if dtype is None else dtype).base_dtype
        scalar = shape is not None and TensorShape(shape).ndims == 0
        if partitioner is not None and not scalar:
            if not callable(partitioner):
                raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
            return self._get_partitioned(name, shape, kind, partitioner, **options)
        if name in self.partitioned and options.get("reuse") is True:
            found = self.partitioned[name]
            return self._found_partitioned(name, TensorShape(shape), kind, found._get_partitions(), True)
        if f"{name}/part_0" in self.vars:
            raise ValueError(
                f"No partitioner was provided, but a partitioned version of the variable was found: {name}/part_0. "
                "Perhaps a variable of the same name was already created with partitioning?"
            )
        return self._get_single(name, shape, kind, **options)

    def _get_single(
        self, name: str, shape: Any, dtype: DType, initializer: Any = None, regularizer: Any = None, reuse: Any = None,
        info: PartitionInfo | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError("If initializer is a constant, do not specify shape.")
        wanted = TensorShape(shape)
        if name in self.vars:
            return self._found(name, wanted, dtype, reuse or self.reuses)
        if reuse is True and not outermost(get_default_graph())._executes:
            raise ValueError(
                f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you mean to set "
                "reuse=tf.AUTO_REUSE in VarScope?"
            )
        if initializer is None:
            initializer = default_initializer(name, wanted, dtype)
        initial, kind = (initializer, None) if from_value else _initial_value(name, initializer, wanted, dtype, info)
        variable = Variable(initial_value=initial, name=name, dtype=kind, **options)
        self.vars[name] = variable
        if regularizer is not None:
            _add_regularizer(regularizer, variable, name)
        return variable

    def _found(self, name: str, shape: TensorShape, dtype: DType, reuse: Any) -> Any:
        found = self.vars[name]
        if not reuse:
            message = (
                f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
                "VarScope?"
            )
            if isinstance(found, Variable):
                frames = [(file, line, function, text) for file, line, function, text in found.op.traceback]
                message += f" Originally defined at:\n\n{''.join(traceback.format_list(frames[-3:]))}"
            raise ValueError(message)
        if not shape.is_compatible_with(found.shape):
            raise ValueError(
                f"Trying to share variable {name}, but specified shape {shape} and found shape {found.shape}."
            )
        if not dtype.is_compatible_with(found.dtype):
            raise ValueError(
                f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype {found.dtype.name}."
            )
        return found

    def _get_partitioned(
        self, name: str, shape: Any, dtype: DType, partitioner: Any, initializer: Any = None, reuse: Any = None,
        **options: Any,
    ) -> PartitionedVariable:  # fmt: skip
        if name in self.vars:
            raise ValueError(
                f"A partitioner was provided, but an unpartitioned version of the variable was found: {name}.  "
                "Perhaps a "
                "variable of the same name was already created without partitioning?"
            )
        value = None
        if initializer is not None and not callable(initializer):
            if shape is not None:
                raise ValueError("If initializer is a constant, do not specify shape.")
            value = convert_to_tensor(initializer, dtype)
            shape = value.shape
        full = TensorShape(shape)
        if not full.is_fully_defined():
            raise ValueError(
                f"Shape of a new partitioned variable ({name}) must be fully defined, but instead was {full}."
            )
        partitions = partitioner(shape=full, dtype=dtype)
        if name in self.partitioned:
            return self._found_partitioned(name, full, dtype, list(partitions), reuse)
        if reuse is True:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with tf.get_variable(). Did you "
                "mean to "
                "set reuse=False or reuse=tf.AUTO_REUSE in VarScope?"
            )
        sizes = [int(size or 0) for size in full.as_list()]
        parts = []
        for i, (offset, part_shape) in enumerate(cut(sizes, partitions, name)):
            init, shape_arg = initializer, part_shape
            if value is not None:
                init, shape_arg = apply_one("Slice", value, offset, part_shape), None  # type: ignore[assignment]
            part = self._get_single(
                f"{name}/part_{i}", shape_arg, dtype, initializer=init, reuse=reuse,
                info=PartitionInfo(sizes, offset), **options,
            )  # fmt: skip
            part._set_save_slice_info(SaveSliceInfo(name, sizes, offset, part_shape))
            parts.append(part)
        whole = PartitionedVariable(name, full, dtype, parts, list(partitions))
        self.partitioned[name] = whole
        return whole

    def _found_partitioned(
        self, name: str, shape: TensorShape, dtype: DType, partitions: list[int], reuse: Any
    ) -> PartitionedVariable:
        found = self.partitioned[name]
        if not reuse:
            raise ValueError(
                f"Partitioned variable with name {name} already exists. Did you mean to set reuse=True or "
                "reuse=tf.AUTO_REUSE in VarScope?"
            )
        if not shape.is_compatible_with(found.shape):
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified shape {shape} and found shape "
                f"{found.shape}."
            )
        if not dtype.is_compatible_with(found.dtype):
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified dtype {dtype.name} and found dtype "
                f"{found.dtype.name}."
            )
        if found._get_partitions() != partitions:
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified partitions {partitions} and found "
                f"partitions {found._get_partitions()}."
            )
        return found


def default_initializer(name: str, shape: TensorShape, dtype: DType) -> Any:
    """The initializer of a variable without one: scaled random numbers for floats, zeros for other types."""
    if dtype.is_floating:
        return GlorotUniform()
    if dtype.is_integer or dtype.is_bool or dtype.name == "string":
        return Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype.name} is required")


def _initial_value(
    name: str, initializer: Any, shape: TensorShape, dtype: DType, info: PartitionInfo | None
) -> tuple[Any, DType | None]:
    """A function that computes the initial value, and the type to convert it to (None: whatever it has)."""
    if inspect.isclass(initializer):
        initializer = initializer()
    if shape.is_fully_defined():
        options: dict[str, Any] = {}
        parameters = _parameters(initializer)
        if info is not None and "partition_info" in parameters:
            options["partition_info"] = info
        if "dtype" in parameters or "kwargs" in parameters or not parameters:
            options["dtype"] = dtype
        return functools.partial(initializer, shape.as_list(), **options), dtype
    if not [p for p in _parameters(initializer).values() if p.default is p.empty]:
        return initializer, None
    raise ValueError(f"Shape of a new variable ({name}) must be fully defined, but instead was {shape}.")


def _parameters(function: Any) -> Any:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _add_regularizer(regularizer: Any, variable: Any, name: str) -> None:
    with name_scope(name + "/Regularizer/"), colocate_with(variable.op):
        loss = regularizer(variable)
    if loss is not None:
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


class _EagerStores(threading.local):
    """The innermost EagerVariableStore of a thread."""

    innermost: VariableStore | None = None


eager_stores = _EagerStores()


def store_of_default_graph() -> VariableStore:
    """The store of the default graph.

    Where ops run at once, and in their functions, nothing keeps variables by name: that of the open
    EagerVariableStore, or a new one, so that each `tf.get_variable` makes a variable.
    """
    graph = get_default_graph()
    if graph._executes or outermost(graph)._executes:
        return eager_stores.innermost or VariableStore()
    with graph._lock:
        store: VariableStore = graph._attachments.setdefault("variable_store", VariableStore())
        return store
