"""Loops over cells: stacks of bidirectional layers, fused cells, and time-major functions."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.rnn.cells import LSTMBlockCell
from thalweg.graph.definitions.op_registry import export
from thalweg.rnn.lstm_cells import LSTMStateTuple


def _checked(cells_fw: Any, cells_bw: Any) -> None:
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"Must specify at least one cell in {name}, as a list.")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")


@export("contrib.rnn.stack_bidirectional_dynamic_rnn")
def stack_bidirectional_dynamic_rnn(
    cells_fw: Any, cells_bw: Any, inputs: Any, initial_states_fw: Any = None, initial_states_bw: Any = None,
    dtype: Any = None, sequence_length: Any = None, parallel_iterations: int | None = None, time_major: bool = False,
    scope: Any = None, swap_memory: bool = False,
) -> Any:  # fmt: skip
    """Bidirectional layers, each on the joined outputs of the one before: outputs and both directions' states."""
    _checked(cells_fw, cells_bw)
    states_fw, states_bw = [], []
    previous = inputs
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (cell_fw, cell_bw) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with tf.variable_scope(f"cell_{i}"):
                outputs, (state_fw, state_bw) = tf.nn.bidirectional_dynamic_rnn(
                    cell_fw, cell_bw, previous, initial_state_fw=initial_states_fw[i] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[i] if initial_states_bw else None,
                    sequence_length=sequence_length, parallel_iterations=parallel_iterations, dtype=dtype,
                    swap_memory=swap_memory, time_major=time_major,
                )  # fmt: skip
                previous = tf.concat(outputs, 2)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return previous, tuple(states_fw), tuple(states_bw)


@export("contrib.rnn.stack_bidirectional_rnn")
def stack_bidirectional_rnn(
    cells_fw: Any, cells_bw: Any, inputs: Any, initial_states_fw: Any = None, initial_states_bw: Any = None,
    dtype: Any = None, sequence_length: Any = None, scope: Any = None,
) -> Any:  # fmt: skip
    """The same of a list of inputs, unrolled."""
    _checked(cells_fw, cells_bw)
    states_fw, states_bw = [], []
    previous = inputs
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (cell_fw, cell_bw) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with tf.variable_scope(f"cell_{i}"):
                previous, state_fw, state_bw = tf.nn.static_bidirectional_rnn(
                    cell_fw, cell_bw, previous, initial_states_fw[i] if initial_states_fw else None,
                    initial_states_bw[i] if initial_states_bw else None, sequence_length=sequence_length, dtype=dtype,
                )  # fmt: skip
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return previous, tuple(states_fw), tuple(states_bw)


@export("contrib.rnn.FusedRNNCell")
class FusedRNNCell:
    """A cell that takes a whole sequence: `outputs, state = cell(inputs, initial_state, dtype, sequence_length)`."""

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> Any:
        """Runs over inputs [time, batch, size]."""
        raise NotImplementedError


@export("contrib.rnn.FusedRNNCellAdaptor")
class FusedRNNCellAdaptor(FusedRNNCell):
    """A cell as a FusedRNNCell."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        """Takes the cell, and whether a loop or unrolled steps run it."""
        self._cell, self._dynamic = cell, use_dynamic_rnn

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> Any:
        """Runs over inputs [time, batch, size]."""
        if self._dynamic:
            return tf.nn.dynamic_rnn(
                self._cell, inputs, sequence_length, initial_state, dtype, time_major=True, scope=scope
            )
        is_list = isinstance(inputs, list)
        steps = inputs if is_list else tf.unstack(inputs)
        outputs, state = tf.nn.static_rnn(self._cell, steps, initial_state, dtype, sequence_length, scope)
        return outputs if is_list else tf.stack(outputs), state


@export("contrib.rnn.TimeReversedFusedRNN")
class TimeReversedFusedRNN(FusedRNNCell):
    """A FusedRNNCell that runs from the end of each sequence."""

    def __init__(self, cell: FusedRNNCell) -> None:
        """Takes the cell."""
        self._cell = cell

    def _reverse(self, x: Any, lengths: Any) -> Any:
        return tf.reverse(x, [0]) if lengths is None else tf.reverse_sequence(x, lengths, 0, batch_axis=1)

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> Any:
        """Runs over inputs [time, batch, size]."""
        outputs, state = self._cell(
            self._reverse(inputs, sequence_length), initial_state, dtype, sequence_length, scope
        )
        return self._reverse(outputs, sequence_length), state


@export("contrib.rnn.LSTMBlockFusedCell")
class LSTMBlockFusedCell(FusedRNNCell):
    """An LSTMBlockCell over a whole sequence, with the variables 'kernel' and 'bias' in the scope 'lstm_fused_cell'."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False,
        reuse: Any = None, dtype: Any = None, name: str = "lstm_fused_cell",
    ) -> None:  # fmt: skip
        """Takes the arguments of LSTMBlockCell."""
        self._cell = LSTMBlockCell(num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name)
        self._name = name

    @property
    def num_units(self) -> int:
        """The number of units."""
        return int(self._cell._num_units)

    @property
    def trainable_variables(self) -> Any:
        """The variables, after the first call."""
        return self._cell.trainable_variables

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> Any:
        """Runs over inputs [time, batch, size]; the state is an LSTMStateTuple."""
        is_list = isinstance(inputs, list)
        x = tf.stack(inputs) if is_list else tf.convert_to_tensor(inputs)
        if initial_state is None and dtype is None:
            raise ValueError("Either initial_state or dtype needs to be specified")
        if initial_state is not None:
            initial_state = LSTMStateTuple(*initial_state)
        # `dynamic_rnn` opens no scope of its own: the names are those of the fused cell.
        with tf.variable_scope(scope or tf.get_variable_scope(), auxiliary_name_scope=False) as sc:
            outputs, state = tf.nn.dynamic_rnn(
                self._cell, x, sequence_length, initial_state, dtype, time_major=True, scope=sc
            )
        return tf.unstack(outputs) if is_list else outputs, state


@export("contrib.rnn.transpose_batch_time")
def transpose_batch_time(x: Any) -> Any:
    """Exchanges the first two axes."""
    x = tf.convert_to_tensor(x)
    rank = x.shape.ndims
    if rank is None:
        return tf.transpose(x, tf.concat([[1, 0], tf.range(2, tf.rank(x))], axis=0))
    return x if rank < 2 else tf.transpose(x, [1, 0, *range(2, rank)])


@export("contrib.rnn.best_effort_input_batch_size")
def best_effort_input_batch_size(flat_input: Any) -> Any:
    """The static batch size of time-major inputs, or the dynamic one."""
    for tensor in flat_input:
        if tensor.shape.ndims is not None and tensor.shape.ndims > 1 and tensor.shape.as_list()[1] is not None:
            return tensor.shape.as_list()[1]
    return tf.shape(flat_input[0])[1]
