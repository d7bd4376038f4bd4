"""Shared by static_rnn and dynamic_rnn: the batch size, the first state, and steps past the end of a sequence."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.shapes_of_tensors import size_of_axis
from thalweg.ops.state.tensor_array import TensorArray


def batch_size_of(flat_inputs: list[Any], axis: int) -> Any:
    """The size of an axis of the inputs: a number if one of them knows it, else a scalar tensor."""
    for tensor in flat_inputs:
        size = tensor.shape.as_list()[axis] if tensor.shape.ndims is not None and tensor.shape.ndims > axis else None
        if size is not None:
            return size
    return size_of_axis(flat_inputs[0], axis)


def first_state(cell: Any, initial_state: Any, batch_size: Any, dtype: Any) -> Any:
    """The state before the first step.

    Raises:
        ValueError: If there is neither a state nor a type for one.
    """
    if initial_state is not None:
        return nest.map_structure(_as_tensor, initial_state)
    if dtype is None:
        raise ValueError("If there is no initial_state, you must give a dtype.")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def _as_tensor(value: Any) -> Any:
    return value if isinstance(value, TensorArray) else convert_to_tensor(value)


def checked_lengths(sequence_length: Any, batch_size: Any) -> Tensor:
    """The lengths of a batch of sequences as int32.

    Raises:
        ValueError: If they are not a vector with one length per sequence.
    """
    lengths = convert_to_tensor(sequence_length, name="sequence_length")
    if lengths.dtype is not dtypes.int32:
        lengths = apply_one("Cast", lengths, DstT=dtypes.int32, name="ToInt32")
    if lengths.shape.ndims not in (None, 1):
        raise ValueError(f"sequence_length must be a vector of length batch_size, but saw shape: {lengths.shape}")
    known = lengths.shape.as_list()[0] if lengths.shape.ndims else None
    if isinstance(batch_size, int) and known is not None and known != batch_size:
        raise ValueError(f"sequence_length has {known} elements, but the batch has {batch_size} sequences.")
    return lengths


def copied_through(finished: Tensor, before: Any, after: Any) -> Any:
    """Row by row: `before` for finished sequences, `after` for unfinished ones."""

    def one(old: Any, new: Any) -> Any:
        # Neither arrays nor scalars have rows.
        if isinstance(old, TensorArray) or isinstance(new, TensorArray) or new.shape.ndims == 0:
            return new
        chosen = apply_one("Select", finished, old, new)
        chosen.set_shape(new.shape)
        return chosen

    flat = [one(old, new) for old, new in zip(nest.flatten(before), nest.flatten(after), strict=True)]
    return nest.pack_sequence_as(after, flat)


def checked_state(before: Any, after: Any) -> Any:
    """The state after a step, which must have the structure and types of the one before."""
    nest.assert_same_structure(before, after)
    for old, new in zip(nest.flatten(before), nest.flatten(after), strict=True):
        if getattr(old, "dtype", None) != getattr(new, "dtype", None):
            raise ValueError(f"The cell was given a state of {old.dtype.name}, but returned {new.dtype.name}.")
    return after
