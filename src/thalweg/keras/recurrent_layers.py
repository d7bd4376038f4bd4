"""tf.keras.layers: recurrent cells, layers that run them over the steps of sequences, and wrappers."""

from __future__ import annotations

import copy
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras import activation_functions
from thalweg.keras.backend_state import get_session
from thalweg.keras.core_layers import choose
from thalweg.keras.initializer_classes import initializer_of
from thalweg.keras.layer_base import Layer
from thalweg.keras.public_names import tf
from thalweg.keras.recurrence import rnn
from thalweg.keras.regularizers_and_constraints import constraints, regularizer_of


class _Cell(Layer):
    """What all cells have: a kernel of the input, one of the state, and a bias, for several gates."""

    gates = 1
    default_recurrent_activation: Any = None

    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = None, use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
        bias_regularizer: Any = None, kernel_constraint: Any = None, recurrent_constraint: Any = None,
        bias_constraint: Any = None, dropout: float = 0.0, recurrent_dropout: float = 0.0, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the size of the state, the activations, and how variables are made."""
        kwargs.pop("implementation", None)
        super().__init__(**kwargs)
        self.units, self.use_bias = units, use_bias
        self.activation = activation_functions.get(activation)
        self.recurrent_activation = activation_functions.get(recurrent_activation or self.default_recurrent_activation)
        self.kernel_initializer = initializer_of(kernel_initializer)
        self.recurrent_initializer = initializer_of(recurrent_initializer)
        self.bias_initializer = initializer_of(bias_initializer)
        self.kernel_regularizer = regularizer_of(kernel_regularizer)
        self.recurrent_regularizer = regularizer_of(recurrent_regularizer)
        self.bias_regularizer = regularizer_of(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.recurrent_constraint = constraints.get(recurrent_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.dropout, self.recurrent_dropout = min(1.0, max(0.0, dropout)), min(1.0, max(0.0, recurrent_dropout))
        self.state_size: Any = units
        self.output_size = units
        self._masks: dict[str, Any] = {}

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and the bias."""
        width = self.units * self.gates
        self.kernel = self.add_weight(
            "kernel", (int(input_shape[-1]), width), initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint,
        )  # fmt: skip
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", (self.units, width), initializer=self.recurrent_initializer,
            regularizer=self.recurrent_regularizer, constraint=self.recurrent_constraint,
        )  # fmt: skip
        self.bias = self.add_weight(
            "bias", self._bias_shape(), initializer=self._bias_start(), regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        ) if self.use_bias else None  # fmt: skip
        super().build(input_shape)

    def _bias_shape(self) -> tuple[int, ...]:
        return (self.units * self.gates,)

    def _bias_start(self) -> Any:
        return self.bias_initializer

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros."""
        size = tf.shape(inputs)[0] if inputs is not None else batch_size
        kind = inputs.dtype if inputs is not None else dtype
        sizes = self.state_size if isinstance(self.state_size, (list, tuple)) else [self.state_size]
        states = [tf.zeros(tf.stack([size, width]), kind) for width in sizes]
        return states if isinstance(self.state_size, (list, tuple)) else states[0]

    def prepare_masks(self, inputs: Any, training: Any) -> None:
        """Draws the dropout masks of one sequence, outside of its loop."""
        self._masks = {}
        for name, rate, width in (
            ("in", self.dropout, inputs.shape[-1]),
            ("state", self.recurrent_dropout, self.units),
        ):
            if rate:
                ones = tf.ones(tf.stack([tf.shape(inputs)[0], int(width)]), inputs.dtype)
                self._masks[name] = choose(training, lambda o=ones, r=rate: tf.nn.dropout(o, rate=r), lambda o=ones: o)

    def _dropped(self, name: str, value: Any) -> Any:
        return value * self._masks[name] if name in self._masks else value


@export("keras.layers.SimpleRNNCell")
class SimpleRNNCell(_Cell):
    """activation(x @ kernel + state @ recurrent_kernel + bias)."""

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of all cells but `recurrent_activation`."""
        super().__init__(units, activation, None, use_bias, *args, **kwargs)

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step: the output, and the new states."""
        state = states[0] if isinstance(states, (list, tuple)) else states
        total = tf.matmul(self._dropped("in", inputs), self.kernel)
        if self.bias is not None:
            total = tf.nn.bias_add(total, self.bias)
        output = self.activation(total + tf.matmul(self._dropped("state", state), self.recurrent_kernel))
        return output, [output]


@export("keras.layers.GRUCell")
class GRUCell(_Cell):
    """The gated recurrent unit."""

    gates = 3
    default_recurrent_activation = "hard_sigmoid"

    def __init__(self, units: int, *args: Any, reset_after: bool = False, **kwargs: Any) -> None:
        """Takes the arguments of all cells, and whether the reset gate acts behind the product, as in cuDNN."""
        self.reset_after = reset_after
        super().__init__(units, *args, **kwargs)

    def _bias_shape(self) -> tuple[int, ...]:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step: the output, and the new states."""
        state = states[0] if isinstance(states, (list, tuple)) else states
        inner = self._dropped("state", state)
        x = tf.matmul(self._dropped("in", inputs), self.kernel)
        if self.bias is not None:
            x = tf.nn.bias_add(x, self.bias[0] if self.reset_after else self.bias)
        xz, xr, xh = tf.split(x, 3, axis=1)
        if self.reset_after:
            h = tf.matmul(inner, self.recurrent_kernel)
            if self.bias is not None:
                h = tf.nn.bias_add(h, self.bias[1])
            hz, hr, hh = tf.split(h, 3, axis=1)
            z, r = self.recurrent_activation(xz + hz), self.recurrent_activation(xr + hr)
            candidate = self.activation(xh + r * hh)
        else:
            hz, hr = tf.split(tf.matmul(inner, self.recurrent_kernel[:, : 2 * self.units]), 2, axis=1)
            z, r = self.recurrent_activation(xz + hz), self.recurrent_activation(xr + hr)
            candidate = self.activation(xh + tf.matmul(r * inner, self.recurrent_kernel[:, 2 * self.units :]))
        output = z * state + (1 - z) * candidate
        return output, [output]


@export("keras.layers.LSTMCell")
class LSTMCell(_Cell):
    """The long short-term memory."""

    gates = 4
    default_recurrent_activation = "hard_sigmoid"

    def __init__(self, units: int, *args: Any, unit_forget_bias: bool = True, **kwargs: Any) -> None:
        """Takes the arguments of all cells, and whether the bias of the forget gate starts at one."""
        self.unit_forget_bias = unit_forget_bias
        super().__init__(units, *args, **kwargs)
        self.state_size = [units, units]

    def _bias_start(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def start(shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
            size = (self.units,)
            other = self.bias_initializer
            return tf.concat(
                [other(size, dtype=dtype), tf.ones(size, dtype), other((2 * self.units,), dtype=dtype)], axis=0
            )

        return start

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step: the output, and the new states."""
        h, c = states
        total = tf.matmul(self._dropped("in", inputs), self.kernel)
        total += tf.matmul(self._dropped("state", h), self.recurrent_kernel)
        if self.bias is not None:
            total = tf.nn.bias_add(total, self.bias)
        i, f, g, o = tf.split(total, 4, axis=1)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]


@export("keras.layers.StackedRNNCells")
class StackedRNNCells(Layer):
    """Cells one above the other, as one."""

    def __init__(self, cells: Any, **kwargs: Any) -> None:
        """Takes the cells, lowest first."""
        super().__init__(**kwargs)
        self.cells = list(cells)
        self.state_size = tuple(cell.state_size for cell in self.cells)
        self.output_size = getattr(self.cells[-1], "output_size", None)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """The initial states of all cells."""
        return [cell.get_initial_state(inputs, batch_size, dtype) for cell in self.cells]

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """One step: the output, and the new states."""
        new = []
        for cell, state in zip(self.cells, states, strict=True):
            inputs, state = cell(inputs, state)
            new.append(state)
        return inputs, new


@export("keras.layers.RNN")
class RNN(Layer):
    """Runs a cell over the steps of sequences [batch, steps, ...]."""

    def __init__(
        self, cell: Any, return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False,
        stateful: bool = False, unroll: bool = False, time_major: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes a cell or a list of cells, and what a call returns."""
        if kwargs.get("input_length") is not None or kwargs.get("input_dim") is not None:
            kwargs["input_shape"] = (kwargs.pop("input_length", None), kwargs.pop("input_dim", None))
        super().__init__(**kwargs)
        self.cell = StackedRNNCells(cell) if isinstance(cell, (list, tuple)) else cell
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        self.stateful, self.unroll, self.time_major, self.supports_masking = stateful, unroll, time_major, True
        self.states: Any = None

    def build(self, input_shape: Any) -> None:
        """Creates the variables of the cell, and those of kept states."""
        shape = input_shape[0] if isinstance(input_shape, (list, tuple)) else input_shape
        if not isinstance(self.cell, StackedRNNCells) and not self.cell.built:
            self.cell._dtype = self.cell._dtype or self._dtype
            self.cell.build(tf.TensorShape([shape[1 if self.time_major else 0], *shape[2:]]))
            self.cell.built = True
        if self.stateful:
            batch = tf.TensorShape(shape).as_list()[0]
            if batch is None:
                raise ValueError("If a RNN is stateful, it needs to know its batch size: give batch_input_shape.")
            sizes = tf.nest.flatten(self.cell.state_size)
            self.states = [self.add_weight(f"state_{i}", (batch, size), initializer="zeros", trainable=False)
                           for i, size in enumerate(sizes)]  # fmt: skip
        super().build(input_shape)

    def reset_states(self, states: Any = None) -> None:
        """Sets the kept states to zeros, or to values."""
        for variable, value in zip(self.states or (), states or [0] * len(self.states or ()), strict=True):
            variable.load(value + tf.zeros(variable.shape).eval(session=get_session()), get_session())

    def __call__(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> Any:
        """Runs over sequences; a list of inputs holds the initial states behind the sequences."""
        if initial_state is not None:
            inputs = [inputs, *(initial_state if isinstance(initial_state, (list, tuple)) else [initial_state])]
        return super().__call__(inputs, **kwargs)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """That of the input, if sequences are returned."""
        first = mask[0] if isinstance(mask, (list, tuple)) else mask
        return first if self.return_sequences else None

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """Runs the cell."""
        states = None
        if isinstance(inputs, (list, tuple)):
            inputs, *states = inputs
            mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        if self.time_major:
            inputs = tf.transpose(inputs, [1, 0, *range(2, inputs.shape.ndims)])
        if states is None or not states:
            states = self.states if self.stateful else self._start(inputs)
        states = tf.nest.pack_sequence_as(self._structure(), tf.nest.flatten(list(states)))
        for cell in self.cell.cells if isinstance(self.cell, StackedRNNCells) else [self.cell]:
            if isinstance(cell, _Cell):
                cell._masks = {}
                if cell.dropout or cell.recurrent_dropout:
                    cell.prepare_masks(inputs[:, 0], training)
        last, outputs, new = rnn(self._step, inputs, states, self.go_backwards, mask, unroll=self.unroll)
        flat = tf.nest.flatten(new)
        if self.stateful:
            self.add_update([old.assign(value) for old, value in zip(self.states, flat, strict=True)], inputs)
        result = outputs if self.return_sequences else last
        if self.return_sequences and self.time_major:
            result = tf.transpose(result, [1, 0, *range(2, result.shape.ndims)])
        return [result, *flat] if self.return_state else result

    def _structure(self) -> Any:
        size = self.cell.state_size
        return list(size) if isinstance(size, (list, tuple)) else [size]

    def _start(self, inputs: Any) -> Any:
        if hasattr(self.cell, "get_initial_state"):
            found = self.cell.get_initial_state(inputs=inputs, batch_size=None, dtype=inputs.dtype)
            return found if isinstance(found, (list, tuple)) else [found]
        return tf.nest.map_structure(
            lambda size: tf.zeros(tf.stack([tf.shape(inputs)[0], size]), inputs.dtype), self._structure()
        )

    def _step(self, inputs: Any, states: Any) -> Any:
        given = states[0] if len(states) == 1 and not isinstance(self.cell.state_size, (list, tuple)) else states
        cell_call = self.cell.call if isinstance(self.cell, _Cell) else self.cell
        output, new = cell_call(inputs, given if not isinstance(self.cell, _Cell) else states)
        return output, list(new) if isinstance(new, (list, tuple)) else [new]


def _export_layers_of_cells() -> None:
    own = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major")
    base = ("name", "trainable", "dtype", "input_shape", "batch_input_shape", "input_dim", "input_length",
            "activity_regularizer", "weights", "batch_size")  # fmt: skip
    for name, cell in (("SimpleRNN", SimpleRNNCell), ("GRU", GRUCell), ("LSTM", LSTMCell)):

        def __init__(self: Any, units: int, *args: Any, cell: Any = cell, **kwargs: Any) -> None:
            rest = {key: kwargs.pop(key) for key in (*own, *base) if key in kwargs}
            inner = {"dtype": rest["dtype"]} if "dtype" in rest else {}
            RNN.__init__(self, cell(units, *args, **kwargs, **inner), **rest)

        def attribute(self: Any, key: str) -> Any:
            if key.startswith("_") or key == "cell" or "cell" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")
            return getattr(self.cell, key)

        members = {"__init__": __init__, "__getattr__": attribute, "__doc__": cell.__doc__, "__module__": __name__}
        export(f"keras.layers.{name}")(type(name, (RNN,), members))


_export_layers_of_cells()


@export("keras.layers.Wrapper")
class Wrapper(Layer):
    """A layer around another one."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        """Takes the inner layer."""
        super().__init__(**kwargs)
        self.layer = layer


@export("keras.layers.TimeDistributed")
class TimeDistributed(Wrapper):
    """A layer for every step of sequences."""

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Applies it to all steps at once."""
        sizes = tf.shape(inputs)
        known = inputs.shape.as_list()
        flat = tf.reshape(inputs, tf.concat([[-1], sizes[2:]], axis=0))
        flat.set_shape([None, *known[2:]])
        result = self.layer(flat)
        out = tf.reshape(result, tf.concat([sizes[:2], tf.shape(result)[1:]], axis=0))
        out.set_shape([*known[:2], *result.shape.as_list()[1:]])
        return out


@export("keras.layers.Bidirectional")
class Bidirectional(Wrapper):
    """A recurrent layer forwards, and another one backwards."""

    def __init__(self, layer: Any, merge_mode: Any = "concat", weights: Any = None, backward_layer: Any = None,
                 **kwargs: Any) -> None:  # fmt: skip
        """Takes the layer, and 'sum', 'mul', 'concat', 'ave' or None."""
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError("Invalid merge mode. Merge mode should be one of {'sum', 'mul', 'ave', 'concat', None}")
        if layer._batch_input_shape is not None:
            kwargs.setdefault("batch_input_shape", layer._batch_input_shape)
        super().__init__(layer, weights=weights, **kwargs)
        self.merge_mode = merge_mode
        self.forward_layer = layer
        self.backward_layer = backward_layer or copy.deepcopy(layer)
        if backward_layer is None:
            self.backward_layer.go_backwards = not layer.go_backwards
        self.backward_layer._name = f"backward_{layer.name}"
        self.forward_layer._name = f"forward_{layer.name}"
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state
        self.supports_masking = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """That of the input, if sequences are returned."""
        return mask if self.return_sequences else None

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """Runs both."""
        forward, backward = self.forward_layer(inputs, mask=mask), self.backward_layer(inputs, mask=mask)
        states: list[Any] = []
        if self.return_state:
            states = [*forward[1:], *backward[1:]]
            forward, backward = forward[0], backward[0]
        if self.return_sequences:
            backward = tf.reverse(backward, axis=[1])
        merged = _merged(self.merge_mode, forward, backward)
        if not states:
            return merged
        return [*(merged if isinstance(merged, list) else [merged]), *states]


def _merged(mode: Any, forward: Any, backward: Any) -> Any:
    if mode == "concat":
        return tf.concat([forward, backward], axis=-1)
    if mode == "mul":
        return forward * backward
    if mode is None:
        return [forward, backward]
    return forward + backward if mode == "sum" else (forward + backward) / 2
