"""raw_rnn: a recurrent network in which a function chooses the inputs, states and outputs of each step."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.while_loop import while_loop
from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import constant
from thalweg.ops.array.filling import zeros
from thalweg.ops.state.tensor_array import TensorArray
from thalweg.rnn.cell_base import assert_like_rnn_cell, sizes_with_batch, static_sizes_with_batch
from thalweg.rnn.steps import batch_size_of, copied_through
from thalweg.state.variable_scope import variable_scope


@export("nn.raw_rnn", "contrib.rnn.raw_rnn")
def raw_rnn(
    cell: Any, loop_fn: Any, parallel_iterations: int | None = None, swap_memory: bool = False, scope: Any = None
) -> Any:
    """Applies a cell in a loop; a function chooses the next inputs, the next state, the outputs, and the end.

    Args:
        cell: An RNNCell.
        loop_fn: Takes `(time, cell_output, cell_state, loop_state)`; returns `(finished, next_input, next_cell_state,
            emit_output, next_loop_state)`. `finished` is a bool per sequence. The first call, with None for all but
            `time`, returns the first input and state, and as `emit_output` the structure of the outputs: tensors
            without the batch axis, or None for outputs like the cell's.
        parallel_iterations: How many steps may be under way at the same time; 32 if None.
        swap_memory: Accepted for compatibility.
        scope: A variable scope; "rnn" if None.

    Returns:
        The TensorArrays with the outputs, the last state, and the last loop state.

    Raises:
        TypeError: If `cell` is not a cell or `loop_fn` not a function.
    """
    assert_like_rnn_cell("cell", cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with variable_scope(scope or "rnn"):
        time = constant(0, dtype="int32", name="time")
        finished, next_input, state, emitted, loop_state = loop_fn(time, None, None, None)
        finished = convert_to_tensor(finished, dtype="bool")
        has_loop_state = loop_state is not None
        loop_state = loop_state if has_loop_state else constant(0, dtype="int32")
        next_input = nest.map_structure(convert_to_tensor, next_input)
        state = nest.map_structure(_as_tensor, state)
        batch_size = batch_size_of(nest.flatten(next_input), 0)
        structure, sizes, types = _emitted(emitted, cell, state)
        arrays = nest.pack_sequence_as(
            structure,
            [
                TensorArray(
                    dtype, size=0, dynamic_size=True,
                    element_shape=static_sizes_with_batch(batch_size if isinstance(batch_size, int) else None, size),
                )
                for size, dtype in zip(sizes, types, strict=True)
            ],
        )  # fmt: skip
        zero_output = nest.pack_sequence_as(
            structure,
            [zeros(sizes_with_batch(batch_size, size), dtype=dtype) for size, dtype in zip(sizes, types, strict=True)],
        )

        def body(time: Any, finished: Any, current: Any, arrays: Any, state: Any, loop_state: Any) -> Any:
            output, cell_state = cell(current, state)
            nest.assert_same_structure(state, cell_state)
            next_time = apply_one("AddV2", time, 1, name="add")
            says_finished, following, next_state, emit, next_loop_state = loop_fn(
                next_time, output, cell_state, loop_state if has_loop_state else None
            )
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(current, following)
            nest.assert_same_structure(structure, emit)
            emit = copied_through(finished, zero_output, emit)
            next_state = copied_through(finished, state, next_state)
            written = [
                array.write(time, value) for array, value in zip(nest.flatten(arrays), nest.flatten(emit), strict=True)
            ]
            still = apply_one("LogicalOr", finished, says_finished)
            if next_loop_state is None:
                next_loop_state = loop_state
            return next_time, still, following, nest.pack_sequence_as(structure, written), next_state, next_loop_state

        result = while_loop(
            lambda time, finished, *_: apply_one("LogicalNot", apply_one("All", finished, [0])),
            body,
            (time, finished, next_input, arrays, state, loop_state),
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory,
        )
        _, _, _, arrays, final_state, final_loop_state = result
        return arrays, final_state, final_loop_state if has_loop_state else None


def _as_tensor(value: Any) -> Any:
    return value if isinstance(value, TensorArray) else convert_to_tensor(value)


def _emitted(emitted: Any, cell: Any, state: Any) -> tuple[Any, list[Any], list[Any]]:
    """The structure, sizes (without the batch axis) and types of the outputs."""
    if emitted is None:
        sizes = nest.flatten(cell.output_size)
        return cell.output_size, sizes, [nest.flatten(state)[0].dtype] * len(sizes)
    tensors = [convert_to_tensor(value) for value in nest.flatten(emitted)]
    shapes: list[Any] = [
        tensor.shape if tensor.shape.is_fully_defined() else apply_one("Shape", tensor) for tensor in tensors
    ]
    return emitted, [TensorShape(s) if isinstance(s, TensorShape) else s for s in shapes], [t.dtype for t in tensors]
