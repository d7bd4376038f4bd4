"""CudnnLSTM, CudnnGRU and the plain cells: layers of whole sequences with cuDNN's equations, computed by ordinary ops.

Weights and biases are kept per gate as 'cudnn_compatible' cells do; the variables are named `opaque_kernel` parts here:
`<name>/layer_0/direction_0/w_0` and so on, so checkpoints of Thalweg's own fit. cuDNN's opaque buffer is not read.
"""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.rnn.cells import LSTMBlockCell
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.rnn.cell_base import LayerRNNCell
from thalweg.rnn.cells import BasicRNNCell

CUDNN_RNN_UNIDIRECTION = "unidirectional"
CUDNN_RNN_BIDIRECTION = "bidirectional"
CUDNN_INPUT_LINEAR_MODE = "linear_input"
for _name in ("CUDNN_RNN_UNIDIRECTION", "CUDNN_RNN_BIDIRECTION", "CUDNN_INPUT_LINEAR_MODE"):
    export_value(globals()[_name], f"contrib.cudnn_rnn.{_name}")


@export("contrib.cudnn_rnn.CudnnCompatibleLSTMCell")
class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """An LSTM cell with cuDNN's equations: no bias of the forget gate, no clipping, no peepholes."""

    def __init__(
        self, num_units: int, reuse: Any = None, name: str = "cudnn_compatible_lstm_cell", **kwargs: Any
    ) -> None:
        """Takes the size."""
        super().__init__(num_units, forget_bias=0, cell_clip=None, use_peephole=False, reuse=reuse, name=name, **kwargs)


@export("contrib.cudnn_rnn.CudnnCompatibleGRUCell")
class CudnnCompatibleGRUCell(LayerRNNCell):
    """A GRU cell with cuDNN's equations: the reset gate is applied after the product, which has a bias of its own."""

    def __init__(
        self, num_units: int, reuse: Any = None, kernel_initializer: Any = None, name: str | None = None, **kwargs: Any
    ) -> None:
        """Takes the size."""
        super().__init__(_reuse=reuse, name=name, **kwargs)
        self._num_units, self._initializer = num_units, kernel_initializer

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Creates the kernels and biases of the gates, and of the candidate's two products."""
        size, depth, first = self._num_units, self._input_depth(inputs_shape), self._initializer
        zeros = tf.zeros_initializer()
        self._gate_kernel = self.add_weight("gates/kernel", [depth + size, 2 * size], initializer=first)
        self._gate_bias = self.add_weight("gates/bias", [2 * size], initializer=tf.constant_initializer(1.0))
        self._input_kernel = self.add_weight("candidate/input_projection/kernel", [depth, size], initializer=first)
        self._hidden_kernel = self.add_weight("candidate/hidden_projection/kernel", [size, size], initializer=first)
        self._input_bias = self.add_weight("candidate/input_projection/bias", [size], initializer=zeros)
        self._hidden_bias = self.add_weight("candidate/hidden_projection/bias", [size], initializer=zeros)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel), self._gate_bias)
        r, u = tf.split(tf.sigmoid(gates), 2, axis=1)
        of_input = tf.nn.bias_add(tf.matmul(inputs, self._input_kernel), self._input_bias)
        of_state = tf.nn.bias_add(tf.matmul(state, self._hidden_kernel), self._hidden_bias)
        new = (1 - u) * tf.tanh(of_input + r * of_state) + u * state
        return new, new


class _CudnnRNN(tf.layers.Layer):
    """Layers of cells over time-major sequences [time, batch, size], one or both directions."""

    _has_memory = False

    def __init__(
        self, num_layers: int, num_units: int, input_mode: str = CUDNN_INPUT_LINEAR_MODE,
        direction: str = CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0, seed: int | None = None, dtype: Any = tf.float32,
        kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the numbers of layers and units, the direction, and the dropout between layers.

        Raises:
            ValueError: If the direction is unknown.
        """
        super().__init__(dtype=dtype, name=name)
        if direction not in (CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION):
            raise ValueError(
                f"direction must be {CUDNN_RNN_UNIDIRECTION!r} or {CUDNN_RNN_BIDIRECTION!r}, not {direction!r}"
            )
        self.num_layers, self.num_units, self.direction, self._dropout = num_layers, num_units, direction, dropout
        self.num_dirs = 2 if direction == CUDNN_RNN_BIDIRECTION else 1
        self._seed, self._initializer = seed, kernel_initializer
        self._cells = [[self._cell() for _ in range(self.num_dirs)] for _ in range(num_layers)]

    def _cell(self) -> Any:
        raise NotImplementedError

    def _state(self, given: Any, index: int) -> Any:
        return given[index]

    def state_shape(self, batch_size: int) -> Any:
        """The shapes of the states."""
        shape = [self.num_layers * self.num_dirs, batch_size, self.num_units]
        return (shape, shape) if self._has_memory else (shape,)

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: Any = True,
    ) -> Any:
        """Outputs, and the last states [layers * directions, batch, units]."""
        x = inputs if time_major else tf.transpose(inputs, [1, 0, 2])
        finals = []
        for i, cells in enumerate(self._cells):
            outputs = []
            for d, cell in enumerate(cells):
                with tf.variable_scope(f"layer_{i}/direction_{d}", initializer=self._initializer):
                    first = None if initial_state is None else self._state(initial_state, i * self.num_dirs + d)
                    out, last = tf.nn.dynamic_rnn(
                        cell, self._turned(x, d, sequence_lengths), sequence_lengths, first,
                        None if first is not None else x.dtype, time_major=True,
                    )  # fmt: skip
                outputs.append(self._turned(out, d, sequence_lengths))
                finals.append(last)
            x = outputs[0] if len(outputs) == 1 else tf.concat(outputs, 2)
            if self._dropout and i + 1 < self.num_layers:
                x = tf.layers.dropout(x, self._dropout, seed=self._seed, training=training)
        return x if time_major else tf.transpose(x, [1, 0, 2]), self._joined(finals)

    def _turned(self, x: Any, direction: int, lengths: Any) -> Any:
        if direction == 0:
            return x
        return tf.reverse(x, [0]) if lengths is None else tf.reverse_sequence(x, lengths, 0, batch_axis=1)

    def _joined(self, finals: list[Any]) -> Any:
        return (tf.stack(finals),)


@export("contrib.cudnn_rnn.CudnnLSTM")
class CudnnLSTM(_CudnnRNN):
    """Layers of LSTMs; the state is (h, c)."""

    _has_memory = True

    def _cell(self) -> Any:
        return CudnnCompatibleLSTMCell(self.num_units)

    def _state(self, given: Any, index: int) -> Any:
        h, c = given
        return tf.nn.rnn_cell.LSTMStateTuple(c[index], h[index])

    def _joined(self, finals: list[Any]) -> Any:
        return tf.stack([state.h for state in finals]), tf.stack([state.c for state in finals])


@export("contrib.cudnn_rnn.CudnnGRU")
class CudnnGRU(_CudnnRNN):
    """Layers of GRUs; the state is (h,)."""

    def _cell(self) -> Any:
        return CudnnCompatibleGRUCell(self.num_units)

    def _state(self, given: Any, index: int) -> Any:
        return given[0][index]


@export("contrib.cudnn_rnn.CudnnRNNTanh")
class CudnnRNNTanh(CudnnGRU):
    """Layers of plain cells with tanh."""

    def _cell(self) -> Any:
        return BasicRNNCell(self.num_units)


@export("contrib.cudnn_rnn.CudnnRNNRelu")
class CudnnRNNRelu(CudnnGRU):
    """Layers of plain cells with rectified linear units."""

    def _cell(self) -> Any:
        return BasicRNNCell(self.num_units, activation=tf.nn.relu)
