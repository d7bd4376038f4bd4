"""Cells of tf.contrib.rnn with the structure of an LSTM or a GRU: normalized, coupled, in blocks, and others."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.contrib.rnn.linear import linear
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.rnn.cell_base import LayerRNNCell, RNNCell
from thalweg.rnn.lstm_cells import LSTMStateTuple

tanh = tf.tanh
export_value(LayerRNNCell, "contrib.rnn.LayerRNNCell")


@export("contrib.rnn.LSTMBlockCell")
class LSTMBlockCell(LayerRNNCell):
    """An LSTM with the variables of the fused kernels: gates i, c, f, o; optional peepholes and clipping."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False,
        dtype: Any = None, reuse: Any = None, name: str = "lstm_cell",
    ) -> None:  # fmt: skip
        """Takes the size, the bias of the forget gate, the limit of the memory, and whether gates see the memory."""
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units, self._forget_bias, self._use_peephole = num_units, forget_bias, use_peephole
        self._cell_clip = -1 if cell_clip is None else cell_clip

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Creates kernel, bias and peepholes."""
        rows = self._input_depth(inputs_shape) + self._num_units
        self._kernel = self.add_weight("kernel", [rows, self._num_units * 4])
        self._bias = self.add_weight("bias", [self._num_units * 4], initializer=tf.constant_initializer(0.0))
        if self._use_peephole:
            self._w_i_diag, self._w_f_diag, self._w_o_diag = (
                self.add_weight(name, [self._num_units]) for name in ("w_i_diag", "w_f_diag", "w_o_diag")
            )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        if len(state) != 2:
            raise ValueError("Expecting state to be a tuple with length 2.")
        c, h = state
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(gates, 4, axis=1)
        if self._use_peephole:
            i, f = i + self._w_i_diag * c, f + self._w_f_diag * c
        new_c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tanh(j)
        if self._cell_clip > 0:
            new_c = tf.clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        if self._use_peephole:
            o = o + self._w_o_diag * new_c
        new_h = tf.sigmoid(o) * tanh(new_c)
        return new_h, LSTMStateTuple(new_c, new_h)


@export("contrib.rnn.GRUBlockCellV2", "contrib.rnn.GRUBlockCell")
class GRUBlockCellV2(LayerRNNCell):
    """A GRU with the variables of the fused kernels: 'gates/kernel' and 'candidate/kernel'."""

    def __init__(
        self, num_units: Any = None, cell_size: Any = None, reuse: Any = None, name: str = "gru_cell", dtype: Any = None
    ) -> None:
        """Takes the size."""
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._cell_size = cell_size if num_units is None else num_units

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._cell_size

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._cell_size

    def build(self, inputs_shape: Any) -> None:
        """Creates the kernels and biases of the gates and of the candidate."""
        rows, size = self._input_depth(inputs_shape) + self._cell_size, self._cell_size
        ones, zeros = tf.constant_initializer(1.0), tf.constant_initializer(0.0)
        self._gate_kernel = self.add_weight("gates/kernel", [rows, size * 2])
        self._gate_bias = self.add_weight("gates/bias", [size * 2], initializer=ones)
        self._candidate_kernel = self.add_weight("candidate/kernel", [rows, size])
        self._candidate_bias = self.add_weight("candidate/bias", [size], initializer=zeros)
        self.built = True

    def call(self, inputs: Any, h_prev: Any) -> Any:
        """Does one step."""
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h_prev], 1), self._gate_kernel), self._gate_bias)
        r, u = tf.split(tf.sigmoid(gates), 2, axis=1)
        product = tf.matmul(tf.concat([inputs, r * h_prev], 1), self._candidate_kernel)
        new = u * h_prev + (1 - u) * tanh(tf.nn.bias_add(product, self._candidate_bias))
        return new, new


@export("contrib.rnn.LayerNormBasicLSTMCell")
class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM with layer normalization of the gates and dropout of the new input."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, input_size: Any = None, activation: Any = tf.tanh,
        layer_norm: bool = True, norm_gain: float = 1.0, norm_shift: float = 0.0, dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None, reuse: Any = None,
    ) -> None:  # fmt: skip
        """Takes the size, the activation, and the options of normalization and dropout."""
        super().__init__(_reuse=reuse)
        self._num_units, self._forget_bias, self._activation = num_units, forget_bias, activation
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def _norm(self, x: Any, scope: str) -> Any:
        shape = x.shape[-1:]
        # The variables first, so that layer_norm finds them with these values.
        with tf.variable_scope(scope):
            tf.get_variable("gamma", shape=shape, initializer=tf.constant_initializer(self._norm_gain))
            tf.get_variable("beta", shape=shape, initializer=tf.constant_initializer(self._norm_shift))
        return tf.contrib.layers.layer_norm(x, reuse=True, scope=scope)

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        c, h = state
        args = tf.concat([inputs, h], 1)
        kernel = tf.get_variable("kernel", [args.shape.as_list()[-1], 4 * self._num_units], dtype=args.dtype)
        gates = tf.matmul(args, kernel)
        if not self._layer_norm:
            gates = tf.nn.bias_add(gates, tf.get_variable("bias", [4 * self._num_units], dtype=args.dtype))
        i, j, f, o = tf.split(gates, 4, axis=1)
        if self._layer_norm:
            i, j, f, o = (
                self._norm(gate, n) for gate, n in ((i, "input"), (j, "transform"), (f, "forget"), (o, "output"))
            )
        g = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            g = tf.nn.dropout(g, self._keep_prob, seed=self._seed)
        new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * g
        if self._layer_norm:
            new_c = self._norm(new_c, "state")
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


@export("contrib.rnn.CoupledInputForgetGateLSTMCell")
class CoupledInputForgetGateLSTMCell(RNNCell):
    """An LSTM whose input gate is one minus the forget gate (Greff et al., 2015)."""

    def __init__(
        self, num_units: int, use_peepholes: bool = False, initializer: Any = None, num_proj: int | None = None,
        proj_clip: float | None = None, num_unit_shards: int = 1, num_proj_shards: int = 1, forget_bias: float = 1.0,
        state_is_tuple: bool = True, activation: Any = tf.tanh, reuse: Any = None, layer_norm: bool = False,
        norm_gain: float = 1.0, norm_shift: float = 0.0,
    ) -> None:  # fmt: skip
        """Takes the options of LSTMCell."""
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._initializer = num_units, use_peepholes, initializer
        self._num_proj, self._proj_clip, self._forget_bias = num_proj, proj_clip, forget_bias
        self._state_is_tuple, self._activation = state_is_tuple, activation

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        size = self.output_size
        return LSTMStateTuple(self._num_units, size) if self._state_is_tuple else self._num_units + size

    @property
    def output_size(self) -> Any:
        """The size of the projection, if there is one, or the number of units."""
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        units = self._num_units
        c, h = state if self._state_is_tuple else tf.split(state, [units, self.output_size], 1)
        args = tf.concat([inputs, h], 1)
        kernel = tf.get_variable("W_0", [args.shape.as_list()[-1], 3 * units], args.dtype, self._initializer)
        bias = tf.get_variable("B", [3 * units], args.dtype, tf.zeros_initializer())
        j, f, o = tf.split(tf.nn.bias_add(tf.matmul(args, kernel), bias), 3, axis=1)
        if self._use_peepholes:
            f = f + tf.get_variable("W_F_diag", [units], args.dtype, self._initializer) * c
        forget = tf.sigmoid(f + self._forget_bias)
        new_c = forget * c + (1 - forget) * self._activation(j)
        if self._use_peepholes:
            o = o + tf.get_variable("W_O_diag", [units], args.dtype, self._initializer) * new_c
        new_h = tf.sigmoid(o) * self._activation(new_c)
        if self._num_proj is not None:
            new_h = tf.matmul(new_h, tf.get_variable("W_P_0", [units, self._num_proj], args.dtype, self._initializer))
            if self._proj_clip is not None:
                new_h = tf.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else tf.concat([new_c, new_h], 1)


@export("contrib.rnn.UGRNNCell")
class UGRNNCell(RNNCell):
    """One gate between the state and a candidate (Collins et al., 2016)."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Any = tf.tanh,
        reuse: Any = None,
    ) -> None:
        """Takes the size."""
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer, self._forget_bias, self._activation = (
            num_units,
            initializer,
            forget_bias,
            activation,
        )

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gate, candidate = tf.split(linear([inputs, state], 2 * self._num_units, True), 2, axis=1)
        gate = tf.sigmoid(gate + self._forget_bias)
        new = gate * state + (1 - gate) * self._activation(candidate)
        return new, new


@export("contrib.rnn.IntersectionRNNCell")
class IntersectionRNNCell(RNNCell):
    """Gates of depth and of time (Collins et al., 2016)."""

    def __init__(
        self, num_units: int, num_in_proj: int | None = None, initializer: Any = None, forget_bias: float = 1.0,
        y_activation: Any = tf.nn.relu, reuse: Any = None,
    ) -> None:  # fmt: skip
        """Takes the size, and the size that the input is projected to."""
        super().__init__(_reuse=reuse)
        self._num_units, self._num_input_proj, self._initializer = num_units, num_in_proj, initializer
        self._forget_bias, self._y_activation = forget_bias, y_activation

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        size = inputs.shape.as_list()[1]
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            if size != self._num_units:
                if not self._num_input_proj:
                    raise ValueError(
                        "Must have input size == output size for Intersection RNN. "
                        "To fix, num_in_proj should be set to num_units at cell init."
                    )
                with tf.variable_scope("in_projection"):
                    inputs = linear(inputs, self._num_units, True)
            joined = linear([inputs, state], 4 * self._num_units, True)
        time_gate, s, depth_gate, y = tf.split(joined, 4, axis=1)
        time_gate, depth_gate = tf.sigmoid(time_gate + self._forget_bias), tf.sigmoid(depth_gate + self._forget_bias)
        new_y = depth_gate * inputs + (1 - depth_gate) * self._y_activation(y)
        return new_y, time_gate * state + (1 - time_gate) * tanh(s)


@export("contrib.rnn.NASCell")
class NASCell(LayerRNNCell):
    """The cell that a search found (Zoph and Le, 2016)."""

    def __init__(
        self, num_units: int, num_proj: int | None = None, use_bias: bool = False, reuse: Any = None, **kwargs: Any
    ) -> None:
        """Takes the size, and the size of the projected output."""
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units, self._num_proj, self._use_bias = num_units, num_proj, use_bias

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        return self._num_proj or self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Creates the kernels."""
        size = self._input_depth(inputs_shape)
        self._recurrent_kernel = self.add_weight("recurrent_kernel", [self.output_size, 8 * self._num_units])
        self._kernel = self.add_weight("kernel", [size, 8 * self._num_units])
        if self._use_bias:
            self._bias = self.add_weight("bias", [8 * self._num_units], initializer=tf.zeros_initializer())
        if self._num_proj is not None:
            self._projection = self.add_weight("projection_weights", [self._num_units, self._num_proj])
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        c, m = state
        of_inputs = tf.matmul(inputs, self._kernel)
        of_state = tf.matmul(m, self._recurrent_kernel)
        if self._use_bias:
            of_state = tf.nn.bias_add(of_state, self._bias)
        x, s = tf.split(of_inputs, 8, axis=1), tf.split(of_state, 8, axis=1)
        relu, sigmoid = tf.nn.relu, tf.sigmoid
        layer1 = [
            sigmoid(x[0] + s[0]), relu(x[1] + s[1]), sigmoid(x[2] + s[2]), relu(x[3] * s[3]), tanh(x[4] + s[4]),
            sigmoid(x[5] + s[5]), tanh(x[6] + s[6]), sigmoid(x[7] + s[7]),
        ]  # fmt: skip
        first = tanh(layer1[0] * layer1[1])
        second, third, fourth = tanh(layer1[2] + layer1[3]), tanh(layer1[4] * layer1[5]), sigmoid(layer1[6] + layer1[7])
        new_c = tanh(first + c) * second
        new_m = tanh(new_c * tanh(third + fourth))
        if self._num_proj is not None:
            new_m = tf.matmul(new_m, self._projection)
        return new_m, LSTMStateTuple(new_c, new_m)


@export("contrib.rnn.PhasedLSTMCell")
class PhasedLSTMCell(RNNCell):
    """An LSTM whose units open by the time of the input (Neil et al., 2016); inputs are (time, features)."""

    def __init__(
        self, num_units: int, use_peepholes: bool = False, leak: float = 0.001, ratio_on: float = 0.1,
        trainable_ratio_on: bool = True, period_init_min: float = 1.0, period_init_max: float = 1000.0,
        reuse: Any = None,
    ) -> None:  # fmt: skip
        """Takes the size, the leak outside of the open phase, and the first periods."""
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._leak, self._ratio_on = num_units, use_peepholes, leak, ratio_on
        self._trainable_ratio_on = trainable_ratio_on
        self._periods = (period_init_min, period_init_max)

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        time, x = inputs
        c, h = state
        args = [x, h, *([c] if self._use_peepholes else [])]
        with tf.variable_scope("mask_gates"):
            input_gate, forget_gate = tf.split(tf.sigmoid(linear(args, 2 * self._num_units, True)), 2, axis=1)
        with tf.variable_scope("new_input"):
            new_input = tanh(linear([x, h], self._num_units, True))
        new_c = c * forget_gate + input_gate * new_input
        with tf.variable_scope("output_gate"):
            gate_args = [x, h, *([new_c] if self._use_peepholes else [])]
            output_gate = tf.sigmoid(linear(gate_args, self._num_units, True))
        new_h = tanh(new_c) * output_gate
        shape, kind = [self._num_units], x.dtype
        low, high = (float(tf_log) for tf_log in _logs(*self._periods))
        period = tf.exp(tf.get_variable("period", shape, kind, tf.random_uniform_initializer(low, high)))
        phase = tf.get_variable("phase", shape, kind, tf.random_uniform_initializer(0.0, 1.0)) * period
        ratio = tf.get_variable(
            "ratio_on", shape, kind, tf.constant_initializer(self._ratio_on), trainable=self._trainable_ratio_on
        )
        cycle = tf.mod(tf.cast(time, kind) - phase, period) / period
        up = 2.0 * cycle / ratio
        gate = tf.where(cycle < ratio, 2.0 - up, self._leak * cycle)
        gate = tf.where(cycle < 0.5 * ratio, up, gate)
        new_c = gate * new_c + (1 - gate) * c
        new_h = gate * new_h + (1 - gate) * h
        return new_h, LSTMStateTuple(new_c, new_h)


def _logs(*values: float) -> list[float]:
    import math

    return [math.log(value) for value in values]
