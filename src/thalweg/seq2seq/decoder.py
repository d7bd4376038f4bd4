"""Decoders: networks that produce a sequence step by step, and the loop that runs them."""

from __future__ import annotations

import contextlib
from collections import namedtuple
from typing import Any

from thalweg.control_flow.while_loop import while_loop
from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import constant
from thalweg.ops.array.filling import zeros
from thalweg.ops.array.transpose import transpose
from thalweg.ops.state.tensor_array import TensorArray
from thalweg.rnn.cell_base import assert_like_rnn_cell, sizes_with_batch, static_sizes_with_batch
from thalweg.rnn.steps import copied_through
from thalweg.state.variable_scope import variable_scope


@export("contrib.seq2seq.Decoder")
class Decoder:
    """The interface that `dynamic_decode` runs."""

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The sizes of a step's outputs, without the batch axis."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """The types of a step's outputs."""
        raise NotImplementedError

    def initialize(self, name: str | None = None) -> Any:
        """Which sequences are finished before the first step, the first inputs, and the first state."""
        raise NotImplementedError

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Outputs, next state, next inputs, and which sequences are finished."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """The outputs and state after the last step; subclasses may change them."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether the `finished` of `step` includes the sequences that ended in earlier steps."""
        return False


@export("contrib.seq2seq.BasicDecoderOutput")
class BasicDecoderOutput(namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))):
    """The output of a BasicDecoder in a step: the network's output, and the id sampled of it."""

    __slots__ = ()


@export("contrib.seq2seq.BasicDecoder")
class BasicDecoder(Decoder):
    """A recurrent cell, a helper that chooses its inputs, and optionally a layer on its outputs."""

    def __init__(self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None) -> None:
        """Takes the cell, the Helper, the first state, and the layer."""
        assert_like_rnn_cell("cell", cell)
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        """The sizes of outputs and samples."""
        size = self._cell.output_size
        if self._output_layer is not None:
            shape = TensorShape([None, *TensorShape(size).as_list()] if isinstance(size, TensorShape) else [None, size])
            size = self._output_layer.compute_output_shape(shape)[1:]
        return BasicDecoderOutput(size, self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        """The types of outputs and samples."""
        dtype = nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(
            nest.map_structure(lambda _: dtype, self._cell.output_size), self._helper.sample_ids_dtype
        )

    def initialize(self, name: str | None = None) -> Any:
        """The finished flags and first inputs of the helper, and the first state."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Does one step of the cell; the helper samples its output and chooses the next inputs."""
        with name_scope(name, "BasicDecoderStep", [time, *nest.flatten(inputs)]):
            outputs, cell_state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            chosen = self._helper.sample(time=time, outputs=outputs, state=cell_state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=outputs, state=cell_state, sample_ids=chosen
            )
        return BasicDecoderOutput(outputs, chosen), next_state, next_inputs, finished


@export("contrib.seq2seq.dynamic_decode")
def dynamic_decode(
    decoder: Any,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> Any:
    """Runs a decoder until all sequences are finished.

    Args:
        decoder: A Decoder.
        output_time_major: Whether outputs are [time, batch, ...] instead of [batch, time, ...].
        impute_finished: Whether finished sequences keep their state and get zeros as outputs.
        maximum_iterations: The largest number of steps.
        parallel_iterations: How many steps may be under way at the same time.
        swap_memory: Accepted for compatibility.
        scope: A variable scope; "decoder" if None.

    Returns:
        The outputs, the last state, and the length of each sequence.

    Raises:
        TypeError: If `decoder` is not a Decoder.
        ValueError: If `maximum_iterations` is not a scalar.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with variable_scope(scope, "decoder"):
        if maximum_iterations is not None:
            maximum_iterations = convert_to_tensor(maximum_iterations, dtype="int32", name="maximum_iterations")
            if maximum_iterations.shape.ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        zero_outputs = nest.map_structure(
            lambda size, dtype: zeros(sizes_with_batch(decoder.batch_size, _as_size(size)), dtype=dtype),
            decoder.output_size, decoder.output_dtype, check_types=False,
        )  # fmt: skip
        arrays = nest.map_structure(
            lambda size, dtype: TensorArray(
                dtype, size=0, dynamic_size=True,
                element_shape=static_sizes_with_batch(decoder.batch_size, _as_size(size)),
            ),
            decoder.output_size, decoder.output_dtype, check_types=False,
        )  # fmt: skip
        lengths = apply_one("Cast", apply_one("ZerosLike", apply_one("Cast", finished, DstT="int32")), DstT="int32")
        if maximum_iterations is not None:
            finished = apply_one("LogicalOr", finished, apply_one("GreaterEqual", 0, maximum_iterations))

        def body(time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
            outputs, new_state, next_inputs, says_finished = decoder.step(time, inputs, state)
            next_time = apply_one("AddV2", time, 1, name="add")
            ended = says_finished
            if not decoder.tracks_own_finished:
                ended = apply_one("LogicalOr", says_finished, finished)
            if maximum_iterations is not None:
                ended = apply_one("LogicalOr", ended, apply_one("GreaterEqual", next_time, maximum_iterations))
            still = apply_one("Fill", apply_one("Shape", lengths), next_time)
            new_lengths = apply_one("Select", finished, lengths, still)
            new_lengths.set_shape(lengths.shape)
            nest.assert_same_structure(state, new_state)
            nest.assert_same_structure(zero_outputs, outputs)
            if impute_finished:
                outputs = copied_through(finished, zero_outputs, outputs)
                new_state = copied_through(finished, state, new_state)
            written = nest.map_structure(lambda array, value: array.write(time, value), arrays, outputs)
            return next_time, written, new_state, next_inputs, ended, new_lengths

        _, arrays, final_state, _, _, lengths = while_loop(
            lambda time, arrays, state, inputs, finished, lengths: apply_one(
                "LogicalNot", apply_one("All", finished, list(range(finished.shape.ndims or 1)))
            ),
            body,
            (constant(0, dtype="int32", name="time"), arrays, state, inputs, finished, lengths),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
        )
        outputs = nest.map_structure(lambda array: array.stack(), arrays)
        with contextlib.suppress(NotImplementedError):
            outputs, final_state = decoder.finalize(outputs, final_state, lengths)
        if not output_time_major:
            outputs = nest.map_structure(lambda value: transpose(value, [1, 0, *range(2, value.shape.ndims)]), outputs)
        return outputs, final_state, lengths


def _as_size(size: Any) -> Any:
    return size if isinstance(size, TensorShape) else TensorShape([size])
