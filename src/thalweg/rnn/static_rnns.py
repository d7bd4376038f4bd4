"""Recurrent networks unrolled in the graph: static_rnn and its relatives."""

from __future__ import annotations

from typing import Any

from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import control_dependencies
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.array.filling import zeros
from thalweg.ops.array.joining import concat, stack, unstack
from thalweg.ops.array.reversing import reverse_sequence
from thalweg.rnn.cell_base import ProjectedInputs, assert_like_rnn_cell, projected_sequence, sizes_with_batch
from thalweg.rnn.steps import batch_size_of, checked_lengths, copied_through, first_state
from thalweg.state.variable_scope import variable_scope


@export("nn.static_rnn", "contrib.rnn.static_rnn")
def static_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> Any:
    """Applies a cell to a list of inputs, one after the other, as one unrolled graph.

    Args:
        cell: An RNNCell.
        inputs: One tensor [batch, size] (or structure of them) per step.
        initial_state: The first state; zeros if None.
        dtype: The type of the first state, if there is no `initial_state`.
        sequence_length: The length of each sequence of the batch. Past it, outputs are zero and the state stays.
        scope: A variable scope; "rnn" if None.

    Returns:
        The list of outputs, and the last state.

    Raises:
        TypeError: If `cell` is not a cell or `inputs` not a list.
        ValueError: If there are no inputs, or no way to know the first state.

    Example:
        >>> cell = tf.nn.rnn_cell.GRUCell(5)
        >>> outputs, state = tf.nn.static_rnn(cell, [tf.zeros([2, 3])] * 4, dtype=tf.float32)
        >>> len(outputs), outputs[0].shape.as_list()
        (4, [2, 5])
    """
    assert_like_rnn_cell("cell", cell)
    if not nest.is_nested(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    outputs: list[Any] = []
    with variable_scope(scope or "rnn") as opened:
        first = nest.flatten(inputs[0])
        for tensor in first:
            if tensor.shape.ndims is not None and any(size is None for size in tensor.shape.as_list()[1:]):
                raise ValueError(f"Input size (dimension 1 of inputs) must be accessible via shape inference: {tensor}")
        batch_size = batch_size_of(nest.flatten(inputs), 0)
        state = first_state(cell, initial_state, batch_size, dtype)
        lengths = None if sequence_length is None else checked_lengths(sequence_length, batch_size)
        zero_output: Any = None
        for time, step_input in enumerate(_projected_steps(cell, inputs, state)):
            if time > 0:
                opened.reuse_variables()
            output, new_state = cell(step_input, state)
            if lengths is not None:
                if zero_output is None:
                    zero_output = _zero_outputs(cell, output, batch_size)
                finished = apply_one("LessEqual", lengths, time)
                output = copied_through(finished, zero_output, output)
                new_state = copied_through(finished, state, new_state)
            outputs.append(output)
            state = new_state
    return outputs, state


def _projected_steps(cell: Any, inputs: Any, state: Any) -> Any:
    """The inputs, projected all at once if the cell can do that."""
    if len(inputs) < 2 or any(nest.is_nested(step) or not step.shape.is_fully_defined() for step in inputs):
        return inputs
    projected = projected_sequence(cell, [stack(inputs)], state)
    if projected is None:
        return inputs
    columns = [unstack(part, num=len(inputs)) for part in projected.parts]
    return [ProjectedInputs(list(parts), projected.recurrent_kernels) for parts in zip(*columns, strict=True)]


def _zero_outputs(cell: Any, output: Any, batch_size: Any) -> Any:
    """Zeros in the shape of the output, for steps past the end of a sequence."""
    sizes = nest.flatten(cell.output_size)
    return nest.pack_sequence_as(
        output,
        [
            zeros(sizes_with_batch(batch_size, size), dtype=tensor.dtype)
            for size, tensor in zip(sizes, nest.flatten(output), strict=True)
        ],
    )


@export("nn.static_state_saving_rnn", "contrib.rnn.static_state_saving_rnn")
def static_state_saving_rnn(
    cell: Any, inputs: Any, state_saver: Any, state_name: Any, sequence_length: Any = None, scope: Any = None
) -> Any:
    """As static_rnn, with the state taken from an object and given back to it.

    Args:
        cell: An RNNCell.
        inputs: One tensor [batch, size] per step.
        state_saver: Has `state(name)`, which returns a tensor, and `save_state(name, tensor)`, which returns an op.
        state_name: A name; for a cell whose state has parts, a tuple of names.
        sequence_length: The length of each sequence of the batch.
        scope: A variable scope; "rnn" if None.

    Returns:
        The list of outputs, and the last state. Both come after the state was saved.

    Raises:
        ValueError: If names and state do not fit each other.
    """
    state_size = cell.state_size
    if nest.is_nested(state_size) != nest.is_nested(state_name):
        raise ValueError(f"state_name should be the same structure as cell.state_size: {state_name!r}, {state_size!r}")
    names = nest.flatten(state_name)
    if len(names) != len(nest.flatten(state_size)):
        raise ValueError(f"#elems(state_name) != #elems(state_size): {len(names)} vs. {state_size}")
    initial = nest.pack_sequence_as(state_size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, initial, sequence_length=sequence_length, scope=scope)
    saved = [state_saver.save_state(name, part) for name, part in zip(names, nest.flatten(state), strict=True)]
    with control_dependencies(saved):
        outputs[-1] = nest.map_structure(lambda tensor: apply_one("Identity", tensor), outputs[-1])
        state = nest.map_structure(lambda tensor: apply_one("Identity", tensor), state)
    return outputs, state


@export("nn.static_bidirectional_rnn", "contrib.rnn.static_bidirectional_rnn")
def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> Any:
    """Applies one cell forward and another one backward to a list of inputs.

    Args:
        cell_fw: The cell that begins with the first input.
        cell_bw: The cell that begins with the last.
        inputs: One tensor [batch, size] per step.
        initial_state_fw: The first state of the forward cell; zeros if None.
        initial_state_bw: The first state of the backward cell; zeros if None.
        dtype: The type of the first states.
        sequence_length: The length of each sequence of the batch.
        scope: A variable scope; "bidirectional_rnn" if None.

    Returns:
        The list of outputs, both directions side by side, and the two last states.
    """
    assert_like_rnn_cell("cell_fw", cell_fw)
    assert_like_rnn_cell("cell_bw", cell_bw)
    if not nest.is_nested(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw_scope:
            output_fw, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=fw_scope)
        with variable_scope("bw") as bw_scope:
            backward = _reversed(inputs, sequence_length)
            output_bw, state_bw = static_rnn(
                cell_bw, backward, initial_state_bw, dtype, sequence_length, scope=bw_scope
            )
    output_bw = _reversed(output_bw, sequence_length)
    outputs = []
    for fw, bw in zip(output_fw, output_bw, strict=True):
        pairs = zip(nest.flatten(fw), nest.flatten(bw), strict=True)
        outputs.append(nest.pack_sequence_as(fw, [concat([a, b], 1) for a, b in pairs]))
    return outputs, state_fw, state_bw


def _reversed(sequence: Any, lengths: Any) -> list[Any]:
    if lengths is None:
        return list(reversed(sequence))
    columns = zip(*(nest.flatten(step) for step in sequence), strict=True)
    flipped = [unstack(reverse_sequence(stack(column), lengths, 0, 1), num=len(sequence)) for column in columns]
    return [
        nest.pack_sequence_as(step, list(parts))
        for step, parts in zip(sequence, zip(*flipped, strict=True), strict=True)
    ]
