"""Helpers of a decoder: they sample its outputs and choose its next inputs."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.transpose import transpose
from thalweg.ops.nn.embedding import embedding_lookup
from thalweg.ops.random.distributions import multinomial
from thalweg.ops.state.tensor_array import TensorArray
from thalweg.rnn.steps import batch_size_of


@export("contrib.seq2seq.Helper")
class Helper:
    """The interface that BasicDecoder uses."""

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        raise NotImplementedError

    @property
    def sample_ids_shape(self) -> Any:
        """The shape of a sample, without the batch axis."""
        return TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """The type of a sample."""
        return dtypes.int32

    def initialize(self, name: str | None = None) -> Any:
        """Which sequences are finished before the first step, and the first inputs."""
        raise NotImplementedError

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Samples the outputs: the index of the largest."""
        return apply_one("ArgMax", outputs, -1, output_type=dtypes.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """Which sequences are finished, the next inputs, and the next state."""
        raise NotImplementedError


@export("contrib.seq2seq.TrainingHelper")
class TrainingHelper(Helper):
    """Feeds given sequences, independent of the decoder's outputs (teacher forcing)."""

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None) -> None:
        """Takes the inputs [batch, time, ...] ([time, batch, ...] if `time_major`) and the length of each sequence."""
        with name_scope(name, "TrainingHelper", [sequence_length, *nest.flatten(inputs)]):
            flat: list[Any] = [convert_to_tensor(tensor, name="inputs") for tensor in nest.flatten(inputs)]
            if not time_major:
                flat = [transpose(tensor, [1, 0, *range(2, tensor.shape.ndims)]) for tensor in flat]
            self._arrays = [_unstacked(tensor) for tensor in flat]
            self._structure = inputs
            self._sequence_length = convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.ndims != 1:
                raise ValueError(
                    f"Expected sequence_length to be a vector, but received shape: {self._sequence_length.shape}"
                )
            self._zero_inputs = [apply_one("ZerosLike", tensor[0, :]) for tensor in flat]
            self._batch_size = batch_size_of([self._sequence_length], 0)

    @property
    def inputs(self) -> Any:
        """The inputs as they were given."""
        return self._structure

    @property
    def sequence_length(self) -> Any:
        """The lengths."""
        return self._sequence_length

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self._batch_size

    def _read(self, time: Any, all_finished: Any) -> Any:
        flat = cond(
            all_finished,
            lambda: [apply_one("Identity", zero) for zero in self._zero_inputs],
            lambda: [array.read(time) for array in self._arrays],
        )
        flat = list(flat) if isinstance(flat, (list, tuple)) else [flat]
        for value, zero in zip(flat, self._zero_inputs, strict=True):
            value.set_shape(zero.shape)
        return nest.pack_sequence_as(self._structure, flat)

    def initialize(self, name: str | None = None) -> Any:
        """Empty sequences are finished; returns the inputs of the first step."""
        with name_scope(name, "TrainingHelperInitialize"):
            finished = apply_one("Equal", 0, self._sequence_length)
            return finished, self._read(0, apply_one("All", finished, [0]))

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None) -> Any:
        """The inputs of the next step, or zeros when all sequences are finished."""
        with name_scope(name, "TrainingHelperNextInputs", [time]):
            next_time = time + 1
            finished = apply_one("GreaterEqual", next_time, self._sequence_length)
            return finished, self._read(next_time, apply_one("All", finished, [0])), state


def _unstacked(tensor: Any) -> TensorArray:
    sizes = tensor.shape.as_list()
    count = sizes[0] if sizes[0] is not None else batch_size_of([tensor], 0)
    array = TensorArray(tensor.dtype, size=count, element_shape=tensor.shape[1:], clear_after_read=False)
    return array.unstack(tensor)


@export("contrib.seq2seq.GreedyEmbeddingHelper")
class GreedyEmbeddingHelper(Helper):
    """Feeds back the embedding of the most probable id."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        """Describes the helper.

        Args:
            embedding: A matrix of embeddings, or a function of a vector of ids.
            start_tokens: The ids before the first step, one per sequence.
            end_token: The id that ends a sequence.

        Raises:
            ValueError: If `start_tokens` is not a vector or `end_token` not a scalar.
        """
        self._embedding = embedding if callable(embedding) else lambda ids: embedding_lookup(embedding, ids)
        self._start_tokens = convert_to_tensor(start_tokens, dtype="int32", name="start_tokens")
        self._end_token = convert_to_tensor(end_token, dtype="int32", name="end_token")
        if self._start_tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._batch_size = batch_size_of([self._start_tokens], 0)
        self._start_inputs = self._embedding(self._start_tokens)

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self._batch_size

    def initialize(self, name: str | None = None) -> Any:
        """No sequence is finished; the first inputs are the embeddings of the start tokens."""
        sizes = (
            [self._batch_size] if isinstance(self._batch_size, int) else apply_one("Pack", [self._batch_size], axis=0)
        )
        return apply_one("Fill", sizes, False), self._start_inputs

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """The embeddings of the sampled ids."""
        finished = apply_one("Equal", sample_ids, self._end_token)
        next_inputs = cond(
            apply_one("All", finished, [0]), lambda: apply_one("Identity", self._start_inputs),
            lambda: self._embedding(sample_ids),
        )  # fmt: skip
        next_inputs.set_shape(self._start_inputs.shape)
        return finished, next_inputs, state


@export("contrib.seq2seq.SampleEmbeddingHelper")
class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Feeds back the embedding of a random id, drawn by softmax of the outputs."""

    def __init__(
        self, embedding: Any, start_tokens: Any, end_token: Any, softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:  # fmt: skip
        """As for GreedyEmbeddingHelper; outputs are divided by the temperature."""
        super().__init__(embedding, start_tokens, end_token)
        self._temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """A random index per sequence."""
        logits = outputs if self._temperature is None else outputs / self._temperature
        chosen = multinomial(logits, 1, seed=self._seed, output_dtype=dtypes.int32)
        return apply_one("Squeeze", chosen, squeeze_dims=[1])
