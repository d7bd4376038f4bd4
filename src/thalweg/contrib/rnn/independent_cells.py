"""Cells whose units do not see each other's states: IndRNN, IndyGRU, IndyLSTM, SRU; and the LSTM of groups."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.rnn.linear import linear
from thalweg.graph.definitions.op_registry import export
from thalweg.rnn.cell_base import LayerRNNCell, RNNCell
from thalweg.rnn.lstm_cells import LSTMStateTuple


def _input_size(shape: Any) -> int:
    """The size of inputs.

    Raises:
        ValueError: If it is not known.
    """
    size: int | None = tf.TensorShape(shape)[-1].value
    if size is None:
        raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shape}")
    return size


class _IndependentCell(LayerRNNCell):
    """What such cells share: options, and weights of states that are rows instead of matrices."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, kernel_initializer: Any = None,
        bias_initializer: Any = None, name: str | None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units = num_units
        self._activation = activation or tf.tanh
        self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def _row(self, name: str, size: int) -> Any:
        """The weights of the states: each unit's own."""
        initializer = self._kernel_initializer or tf.random_uniform_initializer(-1.0, 1.0)
        return self.add_variable(name, shape=[1, size], initializer=initializer)


@export("contrib.rnn.IndRNNCell")
class IndRNNCell(_IndependentCell):
    """`activation(x W + h * u + b)` (Li et al., 2018)."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None
    ) -> None:
        """Takes the number of units."""
        super().__init__(num_units, activation, reuse, name=name, dtype=dtype)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        n = self._num_units
        self._kernel_w = self.add_variable("kernel_w", shape=[_input_size(inputs_shape), n])
        self._kernel_u = self._row("kernel_u", n)
        self._bias = self.add_variable("bias", shape=[n], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        output = self._activation(
            tf.nn.bias_add(tf.matmul(inputs, self._kernel_w) + state * self._kernel_u, self._bias)
        )
        return output, output


@export("contrib.rnn.IndyGRUCell")
class IndyGRUCell(_IndependentCell):
    """A GRU of independent units (Gonnet and Deselaers, 2018)."""

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        size, n = _input_size(inputs_shape), self._num_units
        kernel, bias = self._kernel_initializer, self._bias_initializer
        self._gates_w = self.add_variable("gates/kernel_w", shape=[size, 2 * n], initializer=kernel)
        self._gates_u = self._row("gates/kernel_u", 2 * n)
        self._gates_bias = self.add_variable(
            "gates/bias", shape=[2 * n], initializer=bias if bias is not None else tf.constant_initializer(1.0)
        )
        self._candidate_w = self.add_variable("candidate/kernel", shape=[size, n], initializer=kernel)
        self._candidate_u = self._row("candidate/kernel_u", n)
        self._candidate_bias = self.add_variable(
            "candidate/bias", shape=[n], initializer=bias if bias is not None else tf.zeros_initializer()
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        gates = tf.matmul(inputs, self._gates_w) + tf.concat([state, state], 1) * self._gates_u
        r, u = tf.split(tf.sigmoid(tf.nn.bias_add(gates, self._gates_bias)), 2, axis=1)
        candidate = tf.matmul(inputs, self._candidate_w) + r * state * self._candidate_u
        output = u * state + (1 - u) * self._activation(tf.nn.bias_add(candidate, self._candidate_bias))
        return output, output


@export("contrib.rnn.IndyLSTMCell")
class IndyLSTMCell(_IndependentCell):
    """An LSTM of independent units (Gonnet and Deselaers, 2018)."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, activation: Any = None, reuse: Any = None,
        kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        """Takes the number of units, and what is added to the bias of the forget gates."""
        super().__init__(num_units, activation, reuse, kernel_initializer, bias_initializer, name, dtype)
        self._forget_bias = forget_bias

    @property
    def state_size(self) -> Any:
        """The sizes of cell state and output."""
        return LSTMStateTuple(self._num_units, self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        n, bias = self._num_units, self._bias_initializer
        self._kernel_w = self.add_variable(
            "kernel_w", shape=[_input_size(inputs_shape), 4 * n], initializer=self._kernel_initializer
        )
        self._kernel_u = self._row("kernel_u", 4 * n)
        self._bias = self.add_variable(
            "bias", shape=[4 * n], initializer=bias if bias is not None else tf.zeros_initializer()
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        c, h = state
        gates = tf.matmul(inputs, self._kernel_w) + tf.tile(h, [1, 4]) * self._kernel_u
        i, j, f, o = tf.split(tf.nn.bias_add(gates, self._bias), 4, axis=1)
        new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


@export("contrib.rnn.SRUCell")
class SRUCell(_IndependentCell):
    """The simple recurrent unit (Lei et al., 2017)."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None, **kwargs: Any
    ) -> None:
        """Takes the number of units."""
        super().__init__(num_units, activation, reuse, name=name, dtype=kwargs.get("dtype"))

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        n = self._num_units
        self._kernel = self.add_variable("kernel", shape=[_input_size(inputs_shape), 4 * n])
        self._bias = self.add_variable("bias", shape=[2 * n], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        x, f, r, highway = tf.split(tf.matmul(inputs, self._kernel), 4, axis=1)
        f, r = tf.split(tf.sigmoid(tf.nn.bias_add(tf.concat([f, r], 1), self._bias)), 2, axis=1)
        c = f * state + (1.0 - f) * x
        return r * self._activation(c) + (1.0 - r) * highway, c


@export("contrib.rnn.GLSTMCell")
class GLSTMCell(RNNCell):
    """An LSTM whose units are cut into groups, each with its part of the input (Kuchaiev and Ginsburg, 2017)."""

    def __init__(
        self, num_units: int, initializer: Any = None, num_proj: int | None = None, number_of_groups: int = 1,
        forget_bias: float = 1.0, activation: Any = tf.tanh, reuse: Any = None,
    ) -> None:  # fmt: skip
        """Takes the number of units, of outputs if they are projected, and of groups.

        Raises:
            ValueError: If units or outputs cannot be cut into the groups.
        """
        super().__init__(_reuse=reuse)
        outputs = num_proj or num_units
        if num_units % number_of_groups or outputs % number_of_groups:
            raise ValueError(f"num_units ({num_units}) and num_proj ({num_proj}) must be divisible by number_of_groups")
        self._num_units, self._num_proj, self._groups = num_units, num_proj, number_of_groups
        self._initializer, self._forget_bias, self._activation = initializer, forget_bias, activation
        self._outputs = outputs

    @property
    def state_size(self) -> Any:
        """The sizes of cell state and output."""
        return LSTMStateTuple(self._num_units, self._outputs)

    @property
    def output_size(self) -> Any:
        """The number of outputs."""
        return self._outputs

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step.

        Raises:
            ValueError: If the inputs cannot be cut into the groups.
        """
        c_before, m_before = state
        if _input_size(inputs.shape) % self._groups:
            raise ValueError(f"inputs of shape {inputs.shape} cannot be cut into {self._groups} groups")
        parts: list[list[Any]] = [[], [], [], []]
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            slices = zip(tf.split(inputs, self._groups, 1), tf.split(m_before, self._groups, 1), strict=True)
            for group, both in enumerate(slices):
                with tf.variable_scope(f"group{group}"):
                    gates = linear(list(both), 4 * self._num_units // self._groups, False)
                for part, value in zip(parts, tf.split(gates, 4, axis=1), strict=True):
                    part.append(value)
            i, j, f, o = (
                tf.nn.bias_add(
                    tf.concat(part, 1),
                    tf.get_variable(f"bias_{name}", [self._num_units], initializer=tf.zeros_initializer()),
                )
                for name, part in zip("ijfo", parts, strict=True)
            )
            c = tf.sigmoid(f + self._forget_bias) * c_before + tf.sigmoid(i) * tf.tanh(j)
            m = tf.sigmoid(o) * self._activation(c)
            if self._num_proj is not None:
                with tf.variable_scope("projection"):
                    m = linear(m, self._num_proj, False)
        return m, LSTMStateTuple(c, m)
