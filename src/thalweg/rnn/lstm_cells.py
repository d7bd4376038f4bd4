"""Long short-term memory cells (Hochreiter and Schmidhuber, 1997): BasicLSTMCell, and LSTMCell with all options."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.layers.input_spec import InputSpec
from thalweg.ops.math.clip import clip_by_value
from thalweg.ops.math.transcendental import tanh
from thalweg.rnn.cell_base import LayerRNNCell, WholeSequence, joined, linear, project, weight
from thalweg.state.initializers import Zeros
from thalweg.state.partitioners import fixed_size_partitioner


@export("nn.rnn_cell.LSTMStateTuple", "contrib.rnn.LSTMStateTuple")
class LSTMStateTuple(namedtuple("LSTMStateTuple", ("c", "h"))):
    """The state of an LSTM: the cells `c` and the output `h`."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of both.

        Raises:
            TypeError: If they differ.
        """
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


class _LSTM(LayerRNNCell):
    """What both cells share: the parts of the state, and the gates."""

    _state_is_tuple: bool
    _num_units: int
    _forget_bias: float
    _activation: Any

    def _parts(self, state: Any, sizes: list[int]) -> Any:
        if self._state_is_tuple:
            return state
        if sizes[0] == sizes[1]:
            return apply_list("Split", 1, state, num_split=2, name="split")
        return apply_list("SplitV", state, sizes, 1, num_split=2, name="split")

    def _packed(self, c: Any, h: Any) -> Any:
        return LSTMStateTuple(c, h) if self._state_is_tuple else joined(c, h)

    def _gates(self, inputs: Any, h: Any, kernel: Any, bias: Any) -> Any:
        """Input gate, new input, forget gate and output gate, before their activations."""
        return apply_list("Split", 1, linear(inputs, h, kernel, bias), num_split=4, name="split")


@export("nn.rnn_cell.BasicLSTMCell", "contrib.rnn.BasicLSTMCell")
class BasicLSTMCell(_LSTM):
    """An LSTM without peepholes, projection and clipping."""

    _projects_inputs = True

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Describes the cell.

        Args:
            num_units: The size of the state's parts.
            forget_bias: Added to the forget gate, so that nothing is forgotten at first.
            state_is_tuple: Whether the state is an LSTMStateTuple, or one tensor with c and h side by side.
            activation: Of input and output; tanh if None.
            reuse: Whether variables are found instead of created.
            name: The cell's name.
            dtype: The type of the variables; that of the first input if None.
            **kwargs: For Layer.
        """
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation or tanh

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units) if self._state_is_tuple else 2 * self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Creates kernel and bias."""
        rows = self._input_depth(inputs_shape) + self._num_units
        self._kernel = self.add_weight("kernel", shape=[rows, 4 * self._num_units])
        self._bias = self.add_weight("bias", shape=[4 * self._num_units], initializer=Zeros())
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        if isinstance(inputs, WholeSequence):
            return project(inputs, [self._kernel], [self._bias])
        c, h = self._parts(state, [self._num_units] * 2)
        i, j, f, o = self._gates(inputs, h, self._kernel, self._bias)
        forget = apply_one("Sigmoid", apply_one("AddV2", f, self._forget_bias, name="Add"))
        kept = apply_one("Mul", c, forget)
        added = apply_one("Mul", apply_one("Sigmoid", i), self._activation(j))
        new_c = apply_one("AddV2", kept, added, name="Add")
        new_h = apply_one("Mul", self._activation(new_c), apply_one("Sigmoid", o))
        return new_h, self._packed(new_c, new_h)


@export("nn.rnn_cell.LSTMCell", "contrib.rnn.LSTMCell")
class LSTMCell(_LSTM):
    """An LSTM with optional peepholes, clipping and a projection of the output (Sak et al., 2014)."""

    _projects_inputs = True

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Describes the cell.

        Args:
            num_units: The number of memory cells.
            use_peepholes: Whether the gates look at the memory cells.
            cell_clip: Memory cells are kept within this of zero.
            initializer: Of kernels and peepholes.
            num_proj: The size that the output is projected to; no projection if None.
            proj_clip: Projected outputs are kept within this of zero.
            num_unit_shards: Into how many parts the kernel is cut.
            num_proj_shards: Into how many parts the projection is cut.
            forget_bias: Added to the forget gate.
            state_is_tuple: Whether the state is an LSTMStateTuple, or one tensor with c and h side by side.
            activation: Of input and output; tanh if None.
            reuse: Whether variables are found instead of created.
            name: The cell's name.
            dtype: The type of the variables; that of the first input if None.
            **kwargs: For Layer.
        """
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation or tanh

    @property
    def state_size(self) -> Any:
        """The sizes of c and h."""
        size = self.output_size
        return LSTMStateTuple(self._num_units, size) if self._state_is_tuple else self._num_units + size

    @property
    def output_size(self) -> Any:
        """The size of the projection, if there is one, or the number of units."""
        return self._num_units if self._num_proj is None else self._num_proj

    def build(self, inputs_shape: Any) -> None:
        """Creates kernel, bias, peepholes and projection."""
        rows = self._input_depth(inputs_shape) + self.output_size
        self._kernel = self.add_weight(
            "kernel", shape=[rows, 4 * self._num_units], initializer=self._initializer,
            partitioner=_partitioner(self._num_unit_shards),
        )  # fmt: skip
        self._bias = self.add_weight("bias", shape=[4 * self._num_units], initializer=Zeros())
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_weight(name, shape=[self._num_units], initializer=self._initializer)
                for name in ("w_f_diag", "w_i_diag", "w_o_diag")
            )
        if self._num_proj is not None:
            self._projection = self.add_weight(
                "projection/kernel", shape=[self._num_units, self._num_proj], initializer=self._initializer,
                partitioner=_partitioner(self._num_proj_shards),
            )  # fmt: skip
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        if isinstance(inputs, WholeSequence):
            return project(inputs, [self._kernel], [self._bias])
        c_before, h_before = self._parts(state, [self._num_units, self.output_size])
        i, j, f, o = self._gates(inputs, h_before, self._kernel, self._bias)
        forget = apply_one("AddV2", f, self._forget_bias, name="add")
        if self._use_peepholes:
            forget = forget + weight(self._w_f_diag) * c_before
            i = i + weight(self._w_i_diag) * c_before
        c = apply_one("Sigmoid", forget) * c_before + apply_one("Sigmoid", i) * self._activation(j)
        if self._cell_clip is not None:
            c = clip_by_value(c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + weight(self._w_o_diag) * c
        h = apply_one("Sigmoid", o) * self._activation(c)
        if self._num_proj is not None:
            h = apply_one("MatMul", h, weight(self._projection))
            if self._proj_clip is not None:
                h = clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, self._packed(c, h)


def _partitioner(shards: int | None) -> Any:
    return None if shards is None else fixed_size_partitioner(shards)
