"""AttentionWrapper: a recurrent cell that looks into one or several memories at each step."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor_shape import TensorShape
from thalweg.layers.core import Dense
from thalweg.ops.array.filling import zeros
from thalweg.ops.array.joining import concat
from thalweg.ops.math.matmul import matmul
from thalweg.ops.state.tensor_array import TensorArray
from thalweg.rnn.cell_base import RNNCell, assert_like_rnn_cell, zero_state_tensors


@export("contrib.seq2seq.AttentionWrapperState")
class AttentionWrapperState(
    namedtuple(
        "AttentionWrapperState",
        ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state"),
    )
):
    """The state: of the cell, the last attention, the number of steps, the last alignments, and their history."""

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """A state with some fields replaced; new tensors get the static shapes of the old ones."""

        def with_shape(old: Any, new: Any) -> Any:
            if hasattr(old, "shape") and hasattr(new, "set_shape"):
                new.set_shape(old.shape)
            return new

        given = {
            key: nest.map_structure(with_shape, getattr(self, key), value, check_types=False)
            for key, value in kwargs.items()
        }
        return self._replace(**given)


@export("contrib.seq2seq.AttentionWrapper")
class AttentionWrapper(RNNCell):
    """Feeds the attention of the last step to a cell as further input, and computes a new one from its output."""

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Any = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Any = None,
        dtype: Any = None,
    ) -> None:
        """Describes the cell.

        Args:
            cell: The cell inside.
            attention_mechanism: An AttentionMechanism, or a list of them.
            attention_layer_size: The size that output and context are projected to; or a list, one for each. None: the
                attention is the context.
            alignment_history: Whether the alignments of all steps are kept, in a TensorArray.
            cell_input_fn: Makes the input of the cell of (inputs, attention); concatenates them if None.
            output_attention: Whether the output is the attention, or the output of the cell.
            initial_cell_state: What `zero_state` gives for the cell.
            name: The cell's name.
            attention_layer: A layer (or a list) for the projection, instead of `attention_layer_size`.
            attention_fn: Computes (attention, alignments, next state) of (mechanism, output, state, layer).
            dtype: The type of the projection.

        Raises:
            ValueError: If sizes and mechanisms are not equally many, or a layer and a size are both given.
        """
        super().__init__(name=name, dtype=dtype)
        assert_like_rnn_cell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._mechanisms = list(attention_mechanism) if self._is_multi else [attention_mechanism]
        if cell_input_fn is not None and not callable(cell_input_fn):
            raise TypeError(f"cell_input_fn must be callable, saw type: {type(cell_input_fn).__name__}")
        if attention_layer is not None and attention_layer_size is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        self._layers: list[Any] = [None] * len(self._mechanisms)
        if attention_layer_size is not None:
            sizes = attention_layer_size if isinstance(attention_layer_size, (list, tuple)) else [attention_layer_size]
            self._layers = [Dense(size, name="attention_layer", use_bias=False, dtype=dtype) for size in sizes]
        elif attention_layer is not None:
            self._layers = list(attention_layer) if isinstance(attention_layer, (list, tuple)) else [attention_layer]
        if len(self._layers) != len(self._mechanisms):
            raise ValueError(
                f"If provided, attention_layer_size must contain exactly one integer per attention_mechanism, saw: "
                f"{len(self._layers)} vs {len(self._mechanisms)}"
            )
        self._attention_layer_size = sum(
            _output_size(layer, mechanism) for layer, mechanism in zip(self._layers, self._mechanisms, strict=True)
        )
        self._cell = cell
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: concat([inputs, attention], -1))
        self._attention_fn = attention_fn or compute_attention
        self._output_attention = output_attention
        self._alignment_history = alignment_history
        self._initial_cell_state = initial_cell_state

    def _one_or_all(self, values: list[Any]) -> Any:
        return tuple(values) if self._is_multi else values[0]

    @property
    def output_size(self) -> Any:
        """The size of the attention, or of the cell's output."""
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        """The sizes of the parts of an AttentionWrapperState."""
        sizes = self._one_or_all([mechanism.alignments_size for mechanism in self._mechanisms])
        return AttentionWrapperState(
            cell_state=self._cell.state_size, time=TensorShape([]), attention=self._attention_layer_size,
            alignments=sizes, attention_state=self._one_or_all([m.state_size for m in self._mechanisms]),
            alignment_history=sizes if self._alignment_history else self._one_or_all([()] * len(self._mechanisms)),
        )  # fmt: skip

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """The state before the first step."""
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            else:
                cell_state = nest.map_structure(lambda part: apply_one("Identity", part), cell_state)
            alignments = [mechanism.initial_alignments(batch_size, dtype) for mechanism in self._mechanisms]
            history: list[Any] = [
                TensorArray(dtype, size=0, dynamic_size=True, element_shape=one.shape)
                if self._alignment_history
                else ()
                for one in alignments
            ]
            return AttentionWrapperState(
                cell_state=cell_state, time=zeros([], dtype="int32"),
                attention=zero_state_tensors(self._attention_layer_size, batch_size, dtype),
                alignments=self._one_or_all(alignments),
                attention_state=self._one_or_all([m.initial_state(batch_size, dtype) for m in self._mechanisms]),
                alignment_history=self._one_or_all(history),
            )  # fmt: skip

    def call(self, inputs: Any, state: Any) -> Any:
        """Does one step."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(f"Expected state to be instance of AttentionWrapperState. Received type {type(state)}.")
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        states, histories = (
            list(part) if self._is_multi else [part] for part in (state.attention_state, state.alignment_history)
        )
        attentions, all_alignments, next_states, next_histories = [], [], [], []
        for i, mechanism in enumerate(self._mechanisms):
            attention, alignments, next_state = self._attention_fn(mechanism, output, states[i], self._layers[i])
            attentions.append(attention)
            all_alignments.append(alignments)
            next_states.append(next_state)
            next_histories.append(histories[i].write(state.time, alignments) if self._alignment_history else ())
        attention = attentions[0] if len(attentions) == 1 else concat(attentions, 1)
        next_wrapper_state = AttentionWrapperState(
            cell_state=cell_state, time=state.time + 1, attention=attention,
            alignments=self._one_or_all(all_alignments), attention_state=self._one_or_all(next_states),
            alignment_history=self._one_or_all(next_histories),
        )  # fmt: skip
        return (attention if self._output_attention else output), next_wrapper_state


def compute_attention(mechanism: Any, output: Any, state: Any, layer: Any) -> Any:
    """The attention for an output of the cell, the alignments, and the next state of the mechanism."""
    alignments, next_state = mechanism(output, state=state)
    context = matmul(apply_one("ExpandDims", alignments, 1), mechanism.values)
    context = apply_one("Squeeze", context, squeeze_dims=[1])
    attention = context if layer is None else layer(concat([output, context], 1))
    return attention, alignments, next_state


def _output_size(layer: Any, mechanism: Any) -> int:
    if layer is None:
        return int(mechanism.values.shape.as_list()[-1])
    if hasattr(layer, "units"):
        return int(layer.units)
    return int(layer.compute_output_shape([None, mechanism.values.shape.as_list()[-1]]).as_list()[-1])
