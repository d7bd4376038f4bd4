"""tf.create_partitioned_variables: the parts of a variable, made in a variable scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.state.variable_scope import variable_scope


@export("create_partitioned_variables")
def create_partitioned_variables(
    shape: Any,
    slicing: Sequence[int],
    initializer: Any,
    dtype: Any = None,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """Creates the parts of a variable.

    Args:
        shape: The shape of the whole.
        slicing: How many parts along each dimension; at most one number may be greater than 1.
        initializer: Its initial value, or an initializer.
        dtype: The type of the elements; if None, that of the initial value, or float32 for an initializer.
        trainable: Whether optimizers change it by default.
        collections: The collections to join.
        name: A variable scope for the parts.
        reuse: See `tf.variable_scope`.

    Returns:
        The parts, in order.
    """
    if len(shape) != len(slicing):
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the same length: shape: "
            f"{shape}, slicing: {slicing}"
        )
    if len(shape) < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1: shape: {shape}")
    if not callable(initializer):
        initializer = convert_to_tensor(initializer, dtype)
        dtype = initializer.dtype.base_dtype
        if not initializer.shape.is_compatible_with(shape):
            raise ValueError(f"The initial value has shape {initializer.shape}, but the variable has shape {shape}.")
        shape = None
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        return list(
            scope._get_partitioned_variable(
                shape, dtype or "float32", initializer, trainable, collections, lambda **unused: list(slicing)
            )
        )
