"""Slots: variables that an optimizer keeps beside a variable, with TensorFlow's names, so that checkpoints fit."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import colocate_with
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.state.initializers import Zeros
from thalweg.state.scope_defaults import no_regularizer
from thalweg.state.variable import Variable
from thalweg.state.variable_scope import get_variable, get_variable_scope, variable_scope


def create_slot(primary: Any, val: Any, name: str, colocate_with_primary: bool = True) -> Variable:
    """Creates the slot `<primary>/<name>` with the initial value `val`; a second one of that name gets a number."""
    if isinstance(primary, EmbeddingVariable):
        raise NotImplementedError(f"A slot of {primary.op.name} lies in its rows, and starts as one number.")
    known = not isinstance(val, Tensor) or val.shape.is_fully_defined()
    return _create(primary, name, colocate_with_primary, initializer=val, validate_shape=known)


def create_slot_with_initializer(
    primary: Any, initializer: Any, shape: Any, dtype: Any, name: str, colocate_with_primary: bool = True
) -> Variable:
    """Creates a slot whose initial value is `initializer(shape, dtype)`."""
    if isinstance(primary, EmbeddingVariable):
        return primary.slot(name, initializer)  # type: ignore[return-value]
    known = TensorShape(shape)
    options = {"initializer": initializer, "shape": known, "dtype": dtype}
    return _create(primary, name, colocate_with_primary, validate_shape=known.is_fully_defined(), **options)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Variable:
    """Creates a slot of zeros, of the shape of the variable."""
    dtype = primary.dtype.base_dtype if dtype is None else dtype
    if known_at_once(primary):
        initializer = Zeros()
        return create_slot_with_initializer(primary, initializer, primary.shape, dtype, name, colocate_with_primary)
    # The shape is known only once the variable has been initialized.
    value = primary.initialized_value() if isinstance(primary, Variable) else primary
    zeros = apply_one("ZerosLike", apply_one("Cast", value, DstT=dtype))
    return create_slot(primary, zeros, name, colocate_with_primary)


def known_at_once(primary: Any) -> bool:
    """Whether a slot can be described before the variable is initialized: by its shape, or as a part of rows."""
    return isinstance(primary, EmbeddingVariable) or primary.shape.is_fully_defined()


def _create(primary: Any, name: str, colocated: bool, **options: Any) -> Variable:
    # The variable scope makes the name unique: a second slot of the same name gets a number.
    with variable_scope(None, f"{primary.op.name}/{name}"):
        scope = get_variable_scope()
        partitioner = scope.partitioner
        scope.set_partitioner(None)
        try:
            with colocate_with(primary) if colocated else nullcontext():
                slot: Variable = get_variable("", trainable=False, regularizer=no_regularizer, **options)
        finally:
            scope.set_partitioner(partitioner)
    _keep_slice_info(primary, slot)
    return slot


def _keep_slice_info(primary: Any, slot: Variable) -> None:
    """A slot of a part of a variable is saved as the same part of the whole variable's slot.

    Its name there is what follows the part's name in the slot's, counted in characters, as TensorFlow does it: inside
    of a variable scope, whose name the slot has in front, a piece of the part's name comes along.
    """
    info = primary._get_save_slice_info() if isinstance(primary, Variable) else None
    if info is not None and slot.shape.ndims != 0:
        saved_name = f"{info.full_name}/{slot.op.name[len(primary.op.name) + 1 :]}"
        slot._set_save_slice_info(
            Variable.SaveSliceInfo(saved_name, list(info.full_shape), list(info.var_offset), list(info.var_shape))
        )
