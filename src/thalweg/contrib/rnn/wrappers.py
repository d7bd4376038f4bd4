"""Cells around cells: projections, embeddings, attention, bidirectional grids; and convolutional LSTMs."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.rnn.linear import linear
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export
from thalweg.rnn.cell_base import RNNCell, assert_like_rnn_cell
from thalweg.rnn.lstm_cells import LSTMStateTuple


class _Wrapper(RNNCell):
    """A cell around another one, with its sizes."""

    def __init__(self, cell: Any, reuse: Any = None) -> None:
        super().__init__(_reuse=reuse)
        assert_like_rnn_cell("cell", cell)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        """The sizes of the inner state."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """The size of the inner output."""
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The inner zero state."""
        return self._cell.zero_state(batch_size, dtype)


@export("contrib.rnn.InputProjectionWrapper")
class InputProjectionWrapper(_Wrapper):
    """Multiplies the input by a matrix before the cell."""

    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None, reuse: Any = None
    ) -> None:
        """Takes the cell and the size of the projected input."""
        super().__init__(cell, reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        projected = linear(inputs, self._num_proj, True)
        return self._cell(projected if self._activation is None else self._activation(projected), state)


@export("contrib.rnn.OutputProjectionWrapper")
class OutputProjectionWrapper(_Wrapper):
    """Multiplies the output by a matrix after the cell."""

    def __init__(self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None) -> None:
        """Takes the cell and the size of the output.

        Raises:
            ValueError: If the size is not positive.
        """
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: {output_size}.")
        self._size, self._activation = output_size, activation

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        return self._size

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        output, new_state = self._cell(inputs, state)
        projected = linear(output, self._size, True)
        return projected if self._activation is None else self._activation(projected), new_state


@export("contrib.rnn.EmbeddingWrapper")
class EmbeddingWrapper(_Wrapper):
    """Looks the input symbols up in an embedding before the cell."""

    def __init__(
        self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None, reuse: Any = None
    ) -> None:
        """Takes the cell, the number of symbols, and the size of an embedding.

        Raises:
            ValueError: If a size is not positive.
        """
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, {embedding_size}."
            )
        self._classes, self._size, self._initializer = embedding_classes, embedding_size, initializer

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        with tf.device("/cpu:0"):
            initializer = self._initializer or tf.get_variable_scope().initializer
            if not initializer:
                initializer = tf.random_uniform_initializer(-(3.0**0.5), 3.0**0.5)
            first = nest.flatten(state)[0]
            table = tf.get_variable("embedding", [self._classes, self._size], first.dtype, initializer)
            embedded = tf.nn.embedding_lookup(table, tf.reshape(inputs, [-1]))
        return self._cell(embedded, state)


@export("contrib.rnn.AttentionCellWrapper")
class AttentionCellWrapper(_Wrapper):
    """Attends to the outputs of the last `attn_length` steps (Cheng et al., 2016)."""

    def __init__(
        self, cell: Any, attn_length: int, attn_size: int | None = None, attn_vec_size: int | None = None,
        input_size: int | None = None, state_is_tuple: bool = True, reuse: Any = None,
    ) -> None:  # fmt: skip
        """Takes the cell, the length of the window, and the sizes of attention.

        Raises:
            ValueError: If the window is empty.
        """
        super().__init__(cell, reuse)
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._attn_length, self._attn_size = attn_length, cell.output_size if attn_size is None else attn_size
        self._attn_vec_size = self._attn_size if attn_vec_size is None else attn_vec_size
        self._input_size, self._state_is_tuple = input_size, state_is_tuple

    @property
    def state_size(self) -> Any:
        """The inner state, the attention, and the window."""
        size = (self._cell.state_size, self._attn_size, self._attn_size * self._attn_length)
        return size if self._state_is_tuple else sum(nest.flatten(size))

    @property
    def output_size(self) -> Any:
        """The size of the attention."""
        return self._attn_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros."""
        return RNNCell.zero_state(self, batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        if self._state_is_tuple:
            inner, attns, window = state
        else:
            sizes = [self._cell.state_size, self._attn_size, self._attn_size * self._attn_length]
            inner, attns, window = tf.split(state, sizes, 1)
        window = tf.reshape(window, [-1, self._attn_length, self._attn_size])
        size = self._input_size or inputs.shape.as_list()[1]
        joined = linear([inputs, attns], size, True)
        output, new_inner = self._cell(joined, inner)
        query = tf.concat(nest.flatten(new_inner), 1) if self._state_is_tuple else new_inner
        new_attns, new_window = self._attend(query, window)
        with tf.variable_scope("attn_output_projection"):
            result = linear([output, new_attns], self._attn_size, True)
        new_window = tf.concat([new_window, tf.expand_dims(result, 1)], 1)
        new_window = tf.reshape(new_window, [-1, self._attn_length * self._attn_size])
        new_state = (new_inner, new_attns, new_window)
        return result, new_state if self._state_is_tuple else tf.concat(nest.flatten(new_state), 1)

    def _attend(self, query: Any, window: Any) -> tuple[Any, Any]:
        with tf.variable_scope("attention"):
            k = tf.get_variable("attn_w", [1, 1, self._attn_size, self._attn_vec_size])
            v = tf.get_variable("attn_v", [self._attn_vec_size])
            hidden = tf.reshape(window, [-1, self._attn_length, 1, self._attn_size])
            features = tf.nn.conv2d(hidden, k, [1, 1, 1, 1], "SAME")
            y = tf.reshape(linear(query, self._attn_vec_size, True), [-1, 1, 1, self._attn_vec_size])
            weights = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(features + y), [2, 3]))
            attended = tf.reduce_sum(tf.reshape(weights, [-1, self._attn_length, 1, 1]) * hidden, [1, 2])
            return tf.reshape(attended, [-1, self._attn_size]), window[:, 1:]


@export("contrib.rnn.HighwayWrapper")
class HighwayWrapper(_Wrapper):
    """Mixes the input into the output by a learned gate (Srivastava et al., 2015)."""

    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        """Takes the cell, whether the gates sum to one, and the first bias of the carry gate."""
        super().__init__(cell)
        self._coupled, self._carry_bias_init = couple_carry_transform_gates, carry_bias_init

    def _gate(self, x: Any, name: str, bias: float) -> Any:
        with tf.name_scope(name):
            size = x.shape.as_list()[-1]
            weight = tf.get_variable(f"{name}_w", [size, size])
            offset = tf.get_variable(f"{name}_b", [size], initializer=tf.constant_initializer(bias))
            return tf.sigmoid(tf.nn.xw_plus_b(x, weight, offset))

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Does one step. Variables are made in the scope of the caller, as TensorFlow's are."""
        with tf.variable_scope(scope or tf.get_variable_scope()):
            return self.call(inputs, state)

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        output, new_state = self._cell(inputs, state)
        carry = self._gate(inputs, "carry", self._carry_bias_init)
        transform = 1 - carry if self._coupled else self._gate(inputs, "transform", -self._carry_bias_init)
        return inputs * carry + output * transform, new_state


@export("contrib.rnn.ConvLSTMCell")
class ConvLSTMCell(RNNCell):
    """An LSTM of images, with convolutions in place of products (Shi et al., 2015)."""

    def __init__(
        self, conv_ndims: int, input_shape: Any, output_channels: int, kernel_shape: Any, use_bias: bool = True,
        skip_connection: bool = False, forget_bias: float = 1.0, initializers: Any = None, name: str = "conv_lstm_cell",
    ) -> None:  # fmt: skip
        """Takes the number of spatial axes, the shape of an input, the channels of the output and the kernel.

        Raises:
            ValueError: If shape and axes do not fit.
        """
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._input_shape, self._channels, self._kernel_shape = list(input_shape), output_channels, list(kernel_shape)
        self._use_bias, self._skip, self._forget_bias = use_bias, skip_connection, forget_bias

    @property
    def output_size(self) -> Any:
        """The shape of an output."""
        channels = self._channels + (self._input_shape[-1] if self._skip else 0)
        return tf.TensorShape([*self._input_shape[:-1], channels])

    @property
    def state_size(self) -> Any:
        """The shapes of c and h."""
        shape = tf.TensorShape([*self._input_shape[:-1], self._channels])
        return LSTMStateTuple(shape, shape)

    def call(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Does one step."""
        c, h = state
        args = tf.concat([inputs, h], -1)
        shape = [*self._kernel_shape, args.shape.as_list()[-1], 4 * self._channels]
        kernel = tf.get_variable("kernel", shape, dtype=args.dtype)
        gates = tf.nn.convolution(args, kernel, "SAME")
        if self._use_bias:
            bias = tf.get_variable("biases", [4 * self._channels], args.dtype, tf.constant_initializer(0.0))
            gates = gates + bias
        i, j, f, o = tf.split(gates, 4, axis=-1)
        new_c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        new_h = tf.tanh(new_c) * tf.sigmoid(o)
        output = tf.concat([new_h, inputs], -1) if self._skip else new_h
        return output, LSTMStateTuple(new_c, new_h)


def _fixed_dims(dims: int) -> Any:
    class Cell(ConvLSTMCell):
        def __init__(self, name: str = f"conv_{dims}d_lstm_cell", **kwargs: Any) -> None:
            super().__init__(conv_ndims=dims, name=name, **kwargs)

    Cell.__name__ = Cell.__qualname__ = f"Conv{dims}DLSTMCell"
    Cell.__doc__ = f"A ConvLSTMCell of {dims} spatial axes."
    return export(f"contrib.rnn.Conv{dims}DLSTMCell")(Cell)


Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = _fixed_dims(1), _fixed_dims(2), _fixed_dims(3)


@export("contrib.rnn.CompiledWrapper")
class CompiledWrapper(_Wrapper):
    """The cell as it is: every step is compiled here."""

    def __init__(self, cell: Any, compile_stateful: bool = False) -> None:
        """Takes the cell."""
        super().__init__(cell)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Does one step."""
        return self._cell(inputs, state, scope)
