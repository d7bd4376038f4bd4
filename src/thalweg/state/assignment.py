"""`tf.assign`, `tf.scatter_add` and their relatives: the functions behind which variables are updated.

Each takes a tf.Variable (or the result of an update), or the output of a reference op of an imported graph.
"""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.variable_values import exchanged
from thalweg.state.variable import Variable
from thalweg.state.variable_updates import VariableSlice, row_positions


def _target(ref: Any) -> Any:
    """What to update: the variable, if `ref` is the tensor that stands for the value of one ('v:0'), or `ref`."""
    if isinstance(ref, Tensor) and not ref.dtype._is_ref_dtype:
        handle = exchanged(ref, wants_handle=True)
        if handle.op.type == "VarHandleOp":
            ref = _variable_of(handle)
    _check(ref)
    return ref


def _variable_of(handle: Tensor) -> Any:
    graph = handle.graph
    for key in graph.collections:
        for item in graph.get_collection(key):
            if isinstance(item, Variable) and item.handle is handle:
                return item
    raise TypeError(
        f"Cannot update '{handle.name}': no collection of the graph has its variable. Import the graph with "
        "tf.train.import_meta_graph, which restores variables."
    )


def _check(ref: Any) -> None:
    if not isinstance(ref, (Variable, Tensor)) and not hasattr(ref, "handle"):
        raise TypeError(f"Expected a tf.Variable to update, got {ref!r} of type {type(ref).__name__}.")
    if isinstance(ref, Tensor) and not ref.dtype._is_ref_dtype:
        raise TypeError(f"Cannot update '{ref.name}': it is a tensor, not a variable.")


@export("assign")
def assign(
    ref: Any, value: Any, validate_shape: bool | None = None, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Assigns `value` to `ref`, and returns `ref` as it is afterwards.

    Args:
        ref: A variable.
        value: Its new value.
        validate_shape: If False, `value` may have another shape than the variable.
        use_locking: Ignored.
        name: The node's name.
    """
    if isinstance(ref, VariableSlice):
        return ref.assign(value, name=name)
    ref = _target(ref)
    if isinstance(ref, Tensor):
        return apply_one("Assign", ref, value, validate_shape=validate_shape, use_locking=use_locking, name=name)
    if isinstance(ref, Variable):
        return ref._assign(value, name, True, validate_shape is not False)
    return ref.assign(value, name=name)


@export("assign_add")
def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Adds `value` to `ref`, and returns `ref` as it is afterwards."""
    ref = _target(ref)
    if isinstance(ref, Tensor):
        return apply_one("AssignAdd", ref, value, use_locking=use_locking, name=name)
    return ref.assign_add(value, name=name)


@export("assign_sub")
def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Subtracts `value` from `ref`, and returns `ref` as it is afterwards."""
    ref = _target(ref)
    if isinstance(ref, Tensor):
        return apply_one("AssignSub", ref, value, use_locking=use_locking, name=name)
    return ref.assign_sub(value, name=name)


@export("count_up_to")
def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Returns the value of `ref` and increments it; OutOfRangeError once it has reached `limit`."""
    ref = _target(ref)
    if isinstance(ref, Tensor):
        return apply_one("CountUpTo", ref, limit=limit, name=name)
    return apply_one("ResourceCountUpTo", ref.handle, limit=limit, T=ref.dtype, name=name)


def _scatter(kind: str, ref: Any, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Any:
    ref = _target(ref)
    if isinstance(ref, Tensor):
        return apply_one(f"Scatter{kind}", ref, indices, updates, use_locking=use_locking, name=name)
    return ref._scatter_rows(kind, indices, updates, name)


def _scatter_nd(kind: str, ref: Any, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Any:
    ref = _target(ref)
    if isinstance(ref, Tensor):
        return apply_one(f"ScatterNd{kind}", ref, indices, updates, use_locking=use_locking, name=name)
    return ref._scatter_nd(kind, indices, updates, name)


@export("scatter_update")
def scatter_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Any:
    """Replaces the rows of `ref` at `indices` by `updates`."""
    return _scatter("Update", ref, indices, updates, use_locking, name)


@export("scatter_add")
def scatter_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Adds `updates` to the rows of `ref` at `indices`; rows named twice get both."""
    return _scatter("Add", ref, indices, updates, use_locking, name)


@export("scatter_sub")
def scatter_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Subtracts `updates` from the rows of `ref` at `indices`."""
    return _scatter("Sub", ref, indices, updates, use_locking, name)


@export("scatter_mul")
def scatter_mul(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Multiplies the rows of `ref` at `indices` by `updates`."""
    return _scatter("Mul", ref, indices, updates, use_locking, name)


@export("scatter_div")
def scatter_div(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Divides the rows of `ref` at `indices` by `updates`."""
    return _scatter("Div", ref, indices, updates, use_locking, name)


@export("scatter_min")
def scatter_min(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Replaces elements of the rows of `ref` at `indices` where `updates` are smaller."""
    return _scatter("Min", ref, indices, updates, use_locking, name)


@export("scatter_max")
def scatter_max(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Replaces elements of the rows of `ref` at `indices` where `updates` are greater."""
    return _scatter("Max", ref, indices, updates, use_locking, name)


@export("scatter_nd_update")
def scatter_nd_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Any:
    """Replaces the slices of `ref` at the positions in the last dimension of `indices` by `updates`."""
    return _scatter_nd("Update", ref, indices, updates, use_locking, name)


@export("scatter_nd_add")
def scatter_nd_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Adds `updates` to the slices of `ref` at the positions in the last dimension of `indices`."""
    return _scatter_nd("Add", ref, indices, updates, use_locking, name)


@export("scatter_nd_sub")
def scatter_nd_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Subtracts `updates` from the slices of `ref` at the positions in the last dimension of `indices`."""
    return _scatter_nd("Sub", ref, indices, updates, use_locking, name)


@export("batch_scatter_update")
def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replaces rows within each batch: `ref[b..., indices[b..., i], :] = updates[b..., i, :]`.

    Args:
        ref: A variable whose leading dimensions are those of `indices`, all but the last.
        indices: Row numbers, one list per batch.
        updates: The rows.
        use_locking: Ignored.
        name: A name scope for the nodes.
    """
    with name_scope(name, "batch_scatter_update", [indices, updates]):
        return _scatter_nd("Update", ref, row_positions(indices), updates, use_locking, None)


@export("is_variable_initialized")
def is_variable_initialized(variable: Any) -> Tensor:
    """Whether a variable has a value, as a tensor."""
    if isinstance(variable, Tensor):
        handle = exchanged(variable, wants_handle=True)
        if handle.dtype.base_dtype is dtypes.resource:
            return apply_one("VarIsInitializedOp", handle)
        return apply_one("IsVariableInitialized", variable)
    tensor: Tensor = variable.is_initialized()
    return tensor
