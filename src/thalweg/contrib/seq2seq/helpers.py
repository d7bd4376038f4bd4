"""Further helpers of decoders: CustomHelper, InferenceHelper, and scheduled sampling (Bengio et al., 2015)."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export
from thalweg.seq2seq.decoder_inputs import Helper, TrainingHelper


@export("contrib.seq2seq.CustomHelper")
class CustomHelper(Helper):
    """A helper of three functions."""

    def __init__(
        self,
        initialize_fn: Any,
        sample_fn: Any,
        next_inputs_fn: Any,
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        """Takes the functions, and shape and type of the samples (int32 scalars)."""
        self._initialize_fn, self._sample_fn, self._next_inputs_fn = initialize_fn, sample_fn, next_inputs_fn
        self._batch_size: Any = None
        self._shape = tf.TensorShape(sample_ids_shape or [])
        self._dtype = sample_ids_dtype or tf.int32

    @property
    def batch_size(self) -> Any:
        """The number of sequences, after `initialize`."""
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        """The shape of a sample."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """The type of a sample."""
        return self._dtype

    def initialize(self, name: str | None = None) -> Any:
        """Calls the function."""
        with tf.name_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Calls the function."""
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """Calls the function."""
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


@export("contrib.seq2seq.InferenceHelper")
class InferenceHelper(Helper):
    """Feeds samples of any kind back, until a function says that a sequence is at its end."""

    def __init__(
        self,
        sample_fn: Any,
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Any,
        next_inputs_fn: Any = None,
    ) -> None:
        """Takes functions of outputs and of samples, shape and type of a sample, and the first inputs."""
        self._sample_fn, self._end_fn, self._next_inputs_fn = sample_fn, end_fn, next_inputs_fn
        self._sample_shape, self._sample_dtype = tf.TensorShape(sample_shape), sample_dtype
        self._start_inputs = tf.convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = tf.shape(start_inputs)[0]

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        """The shape of a sample."""
        return self._sample_shape

    @property
    def sample_ids_dtype(self) -> Any:
        """The type of a sample."""
        return self._sample_dtype

    def initialize(self, name: str | None = None) -> Any:
        """Nothing is finished; the first inputs."""
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Calls the function."""
        return self._sample_fn(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """The samples, or what a function makes of them."""
        following = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), following, state


def _coins(probability: Any, shape: Any, seed: Any) -> Any:
    return tf.less(tf.random_uniform(shape, seed=seed), probability)


@export("contrib.seq2seq.ScheduledEmbeddingTrainingHelper")
class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Takes a sampled symbol in place of the given input with some probability."""

    def __init__(
        self, inputs: Any, sequence_length: Any, embedding: Any, sampling_probability: Any, time_major: bool = False,
        seed: int | None = None, scheduling_seed: int | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the inputs, the embedding (or a function of symbols), and the probability."""
        super().__init__(inputs, sequence_length, time_major, name)
        self._embed = embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)
        self._probability, self._seed, self._scheduling_seed = sampling_probability, seed, scheduling_seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """A symbol drawn of the outputs where one is taken, else -1."""
        drawn = tf.reshape(tf.multinomial(outputs, 1, seed=self._seed, output_dtype=tf.int32), [-1])
        chosen = _coins(self._probability, tf.shape(drawn), self._scheduling_seed)
        return tf.where(chosen, drawn, tf.fill(tf.shape(drawn), -1))

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None) -> Any:
        """The given inputs, with embeddings of sampled symbols in their place."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)

        def mixed() -> Any:
            return tf.where(sample_ids >= 0, self._embed(tf.maximum(sample_ids, 0)), given)

        return finished, tf.cond(tf.reduce_all(finished), lambda: given, mixed), state


@export("contrib.seq2seq.ScheduledOutputTrainingHelper")
class ScheduledOutputTrainingHelper(TrainingHelper):
    """Takes the output in place of the given input with some probability."""

    def __init__(
        self, inputs: Any, sequence_length: Any, sampling_probability: Any, time_major: bool = False,
        seed: int | None = None, next_inputs_fn: Any = None, auxiliary_inputs: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the inputs, the probability, and a function that makes an input of an output."""
        if auxiliary_inputs is not None:
            inputs = nest.map_structure(lambda a, b: tf.concat((a, b), -1), inputs, auxiliary_inputs)
        super().__init__(inputs, sequence_length, time_major, name)
        self._probability, self._seed, self._next_inputs_fn = sampling_probability, seed, next_inputs_fn

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """1 where the output is taken, else 0."""
        return tf.cast(_coins(self._probability, [self.batch_size], self._seed), tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None) -> Any:
        """The given inputs, with outputs in their place where they are taken."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)

        def mixed() -> Any:
            made = outputs if self._next_inputs_fn is None else self._next_inputs_fn(outputs)
            return tf.where(tf.cast(sample_ids, tf.bool), made, given)

        return finished, tf.cond(tf.reduce_all(finished), lambda: given, mixed), state
