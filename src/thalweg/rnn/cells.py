"""Simple recurrent cells: BasicRNNCell and GRUCell."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.layers.input_spec import InputSpec
from thalweg.ops.math.transcendental import tanh
from thalweg.rnn.cell_base import LayerRNNCell, WholeSequence, linear, project
from thalweg.state.initializers import Constant, Zeros


@export("nn.rnn_cell.BasicRNNCell", "contrib.rnn.BasicRNNCell")
class BasicRNNCell(LayerRNNCell):
    """`output = next_state = activation([inputs, state] @ kernel + bias)`."""

    _projects_inputs = True

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Takes the size of the state, the activation (tanh), and whether variables are found instead of created."""
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = activation or tanh

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Creates kernel and bias."""
        depth = self._input_depth(inputs_shape)
        self._kernel = self.add_weight("kernel", shape=[depth + self._num_units, self._num_units])
        self._bias = self.add_weight("bias", shape=[self._num_units], initializer=Zeros())
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        if isinstance(inputs, WholeSequence):
            return project(inputs, [self._kernel], [self._bias])
        output = self._activation(linear(inputs, state, self._kernel, self._bias))
        return output, output


@export("nn.rnn_cell.GRUCell", "contrib.rnn.GRUCell")
class GRUCell(LayerRNNCell):
    """The gated recurrent unit (Cho et al., 2014)."""

    _projects_inputs = True

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Describes the cell.

        Args:
            num_units: The size of the state.
            activation: Of the candidate state; tanh if None.
            reuse: Whether variables are found instead of created.
            kernel_initializer: Of both kernels.
            bias_initializer: Of both biases; by default ones for the gates and zeros for the candidate.
            name: The cell's name.
            dtype: The type of the variables; that of the first input if None.
            **kwargs: For Layer.
        """
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = activation or tanh
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Creates the kernels and biases of the gates and of the candidate."""
        rows = self._input_depth(inputs_shape) + self._num_units
        given = self._bias_initializer
        self._gate_kernel = self.add_weight(
            "gates/kernel", shape=[rows, 2 * self._num_units], initializer=self._kernel_initializer
        )
        self._gate_bias = self.add_weight(
            "gates/bias", shape=[2 * self._num_units], initializer=Constant(1.0) if given is None else given
        )
        self._candidate_kernel = self.add_weight(
            "candidate/kernel", shape=[rows, self._num_units], initializer=self._kernel_initializer
        )
        self._candidate_bias = self.add_weight(
            "candidate/bias", shape=[self._num_units], initializer=Zeros() if given is None else given
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        if isinstance(inputs, WholeSequence):
            kernels = [self._gate_kernel, self._candidate_kernel]
            return project(inputs, kernels, [self._gate_bias, self._candidate_bias])
        gates = apply_one("Sigmoid", linear(inputs, state, self._gate_kernel, self._gate_bias))
        reset, update = apply_list("Split", 1, gates, num_split=2, name="split")
        reset_state = apply_one("Mul", reset, state, name="mul")
        candidate = self._activation(linear(inputs, reset_state, self._candidate_kernel, self._candidate_bias, 1))
        kept = apply_one("Mul", update, state, name="mul")
        output = kept + (1.0 - update) * candidate
        return output, output
