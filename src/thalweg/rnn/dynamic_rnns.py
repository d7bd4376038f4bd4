"""Recurrent networks as loops: dynamic_rnn and bidirectional_dynamic_rnn."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.while_loop import while_loop
from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import constant
from thalweg.ops.array.filling import zeros
from thalweg.ops.array.reversing import reverse, reverse_sequence
from thalweg.ops.array.transpose import transpose
from thalweg.ops.state.tensor_array import TensorArray
from thalweg.rnn.cell_base import (
    ProjectedInputs,
    assert_like_rnn_cell,
    projected_sequence,
    sizes_with_batch,
    static_sizes_with_batch,
)
from thalweg.rnn.steps import batch_size_of, checked_lengths, checked_state, copied_through, first_state
from thalweg.state.variable_scope import variable_scope


@export("nn.dynamic_rnn", "contrib.rnn.dynamic_rnn")
def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> Any:
    """Applies a cell to a batch of sequences in a loop.

    Args:
        cell: An RNNCell.
        inputs: A tensor [batch, time, ...], or a structure of them.
        sequence_length: The length of each sequence of the batch. Past it, outputs are zero and the state stays.
        initial_state: The first state; zeros if None.
        dtype: The type of the first state and of the outputs, if there is no `initial_state`.
        parallel_iterations: How many steps may be under way at the same time; 32 if None.
        swap_memory: Accepted for compatibility.
        time_major: Whether inputs and outputs are [time, batch, ...] instead.
        scope: A variable scope; "rnn" if None.

    Returns:
        The outputs [batch, time, ...], and the last state.

    Raises:
        TypeError: If `cell` is not a cell.
        ValueError: If there is no way to know the first state, or sizes do not fit.

    Example:
        >>> cell = tf.nn.rnn_cell.BasicLSTMCell(5)
        >>> outputs, state = tf.nn.dynamic_rnn(cell, tf.zeros([2, 7, 3]), dtype=tf.float32)
        >>> outputs.shape.as_list(), state.h.shape.as_list()
        ([2, 7, 5], [2, 5])
    """
    assert_like_rnn_cell("cell", cell)
    with variable_scope(scope or "rnn"):
        flat_inputs = [convert_to_tensor(tensor, name="inputs") for tensor in nest.flatten(inputs)]
        if not time_major:
            flat_inputs = [_swap_batch_and_time(tensor) for tensor in flat_inputs]
        for tensor in flat_inputs:
            if tensor.shape.ndims is not None and tensor.shape.ndims < 2:
                raise ValueError(f"Inputs need the axes batch and time, got {tensor} of rank {tensor.shape.ndims}.")
            if tensor.shape.ndims is not None and None in tensor.shape.as_list()[2:]:
                raise ValueError(
                    "Input size (depth of inputs) must be accessible via shape inference, but saw value None for "
                    f"{tensor} of shape {tensor.shape}."
                )
        batch_size = batch_size_of(flat_inputs, 1)
        lengths = None if sequence_length is None else checked_lengths(sequence_length, batch_size)
        state = first_state(cell, initial_state, batch_size, dtype)
        steps = batch_size_of(flat_inputs, 0)
        packed = nest.pack_sequence_as(inputs, flat_inputs)
        loop = _Loop(cell, packed, lengths, batch_size, steps, dtype)
        outputs, final_state = loop.run(state, parallel_iterations or 32, swap_memory)
        if not time_major:
            outputs = nest.map_structure(_swap_batch_and_time, outputs)
        return outputs, final_state


def _swap_batch_and_time(tensor: Tensor) -> Any:
    rank = tensor.shape.ndims
    if rank is not None and rank >= 2:
        return transpose(tensor, [1, 0, *range(2, rank)])
    if rank is not None:
        return tensor
    order = apply_one(
        "ConcatV2", [[1, 0], apply_one("Range", 2, apply_one("Rank", tensor), 1, name="range")], 0, name="concat"
    )
    return transpose(tensor, order)


class _Loop:
    """The loop of one dynamic_rnn."""

    def __init__(self, cell: Any, inputs: Any, lengths: Tensor | None, batch_size: Any, steps: Any, dtype: Any) -> None:
        self._cell = cell
        self._inputs = inputs
        self._lengths = lengths
        self._batch_size = batch_size
        self._steps = steps
        self._dtype = dtype
        self._zero_output: Any = None

    def _array(self, dtype: Any, shape: TensorShape) -> TensorArray:
        return TensorArray(dtype, size=self._steps, element_shape=shape)

    def run(self, state: Any, parallel_iterations: int, swap_memory: bool) -> Any:
        """Builds it; returns the stacked outputs and the last state."""
        output_size = self._cell.output_size
        shapes = [static_sizes_with_batch(self._static_batch(), size) for size in nest.flatten(output_size)]
        types = self._output_types(output_size, state)
        output_arrays = tuple(self._array(dtype, shape) for dtype, shape in zip(types, shapes, strict=True))
        flat_inputs = nest.flatten(self._inputs)
        projected = projected_sequence(self._cell, flat_inputs, state)
        if projected is not None:
            flat_inputs = projected.parts
        input_arrays = [self._array(tensor.dtype, tensor.shape[1:]).unstack(tensor) for tensor in flat_inputs]
        if self._lengths is not None:
            self._zero_output = [
                zeros(sizes_with_batch(self._batch_size, size), dtype=dtype)
                for size, dtype in zip(nest.flatten(output_size), types, strict=True)
            ]
        time = constant(0, dtype="int32", name="time")
        bound = self._bound()

        def body(time: Any, arrays: Any, state: Any) -> Any:
            step_inputs: Any = [array.read(time) for array in input_arrays]
            if projected is not None:
                step_inputs = ProjectedInputs(step_inputs, projected.recurrent_kernels)
            else:
                step_inputs = nest.pack_sequence_as(self._inputs, step_inputs)
            output, new_state = self._step(time, step_inputs, state)
            flat = nest.flatten(output)
            if len(flat) != len(arrays):
                raise ValueError(f"The cell returned {len(flat)} outputs, but its output_size has {len(arrays)}.")
            written = tuple(array.write(time, value) for array, value in zip(arrays, flat, strict=True))
            return apply_one("AddV2", time, 1, name="add"), written, new_state

        _, output_arrays, final_state = while_loop(
            lambda time, *_: apply_one("Less", time, bound),
            body,
            (time, output_arrays, state),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
        )
        outputs = [array.stack() for array in output_arrays]
        for value, shape in zip(outputs, shapes, strict=True):
            value.set_shape(TensorShape([self._steps if isinstance(self._steps, int) else None]).concatenate(shape))
        return nest.pack_sequence_as(output_size, outputs), final_state

    def _static_batch(self) -> int | None:
        return self._batch_size if isinstance(self._batch_size, int) else None

    def _output_types(self, output_size: Any, state: Any) -> list[Any]:
        count = len(nest.flatten(output_size))
        if self._dtype is not None and not nest.is_nested(self._dtype):
            return [self._dtype] * count
        if self._dtype is not None:
            return list(nest.flatten(self._dtype))
        found = {part.dtype.base_dtype for part in nest.flatten(state)}
        if len(found) != 1:
            raise ValueError(
                "State has tensors of different inferred_dtypes. Unable to infer a single representative dtype: "
                f"{found}"
            )
        return [found.pop()] * count

    def _bound(self) -> Any:
        """The number of iterations: up to the end of the longest sequence."""
        if self._lengths is None:
            return convert_to_tensor(self._steps)
        with name_scope("bound"):
            longest = apply_one("Maximum", 1, apply_one("Max", self._lengths, [0]))
            return apply_one("Minimum", self._steps, longest)

    def _step(self, time: Any, inputs: Any, state: Any) -> Any:
        output, new_state = self._cell(inputs, state)
        checked_state(state, new_state)
        if self._lengths is None:
            return output, new_state
        finished = apply_one("GreaterEqual", time, self._lengths)
        zero_output = nest.pack_sequence_as(output, self._zero_output)
        return copied_through(finished, zero_output, output), copied_through(finished, state, new_state)


@export("nn.bidirectional_dynamic_rnn", "contrib.rnn.bidirectional_dynamic_rnn")
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> Any:
    """Applies one cell forward and another one backward to a batch of sequences.

    Args:
        cell_fw: The cell that begins with the first step.
        cell_bw: The cell that begins with the last.
        inputs: A tensor [batch, time, ...], or a structure of them.
        sequence_length: The length of each sequence of the batch.
        initial_state_fw: The first state of the forward cell; zeros if None.
        initial_state_bw: The first state of the backward cell; zeros if None.
        dtype: The type of the first states.
        parallel_iterations: How many steps may be under way at the same time; 32 if None.
        swap_memory: Accepted for compatibility.
        time_major: Whether inputs and outputs are [time, batch, ...] instead.
        scope: A variable scope; "bidirectional_rnn" if None.

    Returns:
        The pair of outputs, and the pair of last states.
    """
    assert_like_rnn_cell("cell_fw", cell_fw)
    assert_like_rnn_cell("cell_bw", cell_bw)
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def backward(tensor: Any) -> Any:
        if sequence_length is None:
            return reverse(tensor, [time_axis])
        return reverse_sequence(tensor, sequence_length, time_axis, batch_axis)

    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw_scope:
            output_fw, state_fw = dynamic_rnn(
                cell_fw, inputs, sequence_length, initial_state_fw, dtype, parallel_iterations, swap_memory, time_major,
                fw_scope,
            )  # fmt: skip
        with variable_scope("bw") as bw_scope:
            reversed_inputs = nest.map_structure(backward, inputs)
            reversed_output, state_bw = dynamic_rnn(
                cell_bw, reversed_inputs, sequence_length, initial_state_bw, dtype, parallel_iterations, swap_memory,
                time_major, bw_scope,
            )  # fmt: skip
    return (output_fw, nest.map_structure(backward, reversed_output)), (state_fw, state_bw)
