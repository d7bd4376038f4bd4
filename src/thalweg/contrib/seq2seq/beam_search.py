"""BeamSearchDecoder: keeps the most likely beginnings of each sequence."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export
from thalweg.rnn.cell_base import assert_like_rnn_cell
from thalweg.seq2seq.decoder import Decoder


@export("contrib.seq2seq.BeamSearchDecoderState")
class BeamSearchDecoderState(
    namedtuple(
        "BeamSearchDecoderState", ("cell_state", "log_probs", "finished", "lengths", "accumulated_attention_probs")
    )
):
    """The state of the cell, and log-probability, end and length of each beam."""

    __slots__ = ()


@export("contrib.seq2seq.BeamSearchDecoderOutput")
class BeamSearchDecoderOutput(namedtuple("BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))):
    """Scores, symbols, and the beams that each beam continues."""

    __slots__ = ()


@export("contrib.seq2seq.FinalBeamSearchDecoderOutput")
class FinalBeamSearchDecoderOutput(
    namedtuple("FinalBeamSearchDecoderOutput", ("predicted_ids", "beam_search_decoder_output"))
):
    """The sequences [batch, time, beams], best first, and the outputs of the steps."""

    __slots__ = ()


def _gather(values: Any, indices: Any) -> Any:
    """Rows of the second axis, for each entry of the first: [batch, n, ...] by [batch, m]."""
    batch, size = tf.shape(values)[0], tf.shape(values)[1]
    flat = tf.reshape(values, tf.concat([[batch * size], tf.shape(values)[2:]], 0))
    offsets = tf.expand_dims(tf.range(batch) * size, 1)
    gathered = tf.gather(flat, indices + offsets)
    gathered.set_shape(indices.shape.concatenate(values.shape[2:]))
    return gathered


@export("contrib.seq2seq.gather_tree")
def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: str | None = None
) -> Any:
    """Follows the parents of beams from the last step back: whole sequences [time, batch, beams].

    After its first end token, a sequence has end tokens only.
    """
    with tf.name_scope(name, "GatherTree", [step_ids, parent_ids]):
        step_ids, parent_ids = tf.convert_to_tensor(step_ids, tf.int32), tf.convert_to_tensor(parent_ids, tf.int32)
        times = tf.range(tf.shape(step_ids)[0])
        beams = tf.tile(tf.expand_dims(tf.range(tf.shape(step_ids)[2]), 0), [tf.shape(step_ids)[1], 1])
        limits = tf.expand_dims(tf.convert_to_tensor(max_sequence_lengths, tf.int32), 1)
        ends = tf.fill(tf.shape(beams), tf.convert_to_tensor(end_token, tf.int32))

        def back(state: Any, given: Any) -> Any:
            beam, _ = state
            ids, parents, time = given
            valid = tf.logical_and(tf.less(time, limits), tf.fill(tf.shape(beam), True))
            return tf.where(valid, _gather(parents, beam), beam), tf.where(valid, _gather(ids, beam), ends)

        _, found = tf.scan(back, (step_ids, parent_ids, times), initializer=(beams, ends), reverse=True)
        ended = tf.cumsum(tf.cast(tf.equal(found, end_token), tf.int32), axis=0, exclusive=True)
        result = tf.where(ended > 0, tf.fill(tf.shape(found), tf.convert_to_tensor(end_token, tf.int32)), found)
        result.set_shape(step_ids.shape)
        return result


@export("contrib.seq2seq.hardmax")
def hardmax(logits: Any, name: str | None = None) -> Any:
    """Ones at the largest elements of the last axis, zeros elsewhere."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits, name="logits")
        return tf.one_hot(tf.argmax(logits, -1), tf.shape(logits)[-1], dtype=logits.dtype)


@export("contrib.seq2seq.BeamSearchDecoder")
class BeamSearchDecoder(Decoder):
    """A decoder that keeps `beam_width` beginnings of each sequence.

    The first state (and the memory of attention) has to be tiled: `tf.contrib.seq2seq.tile_batch`.
    """

    def __init__(
        self, cell: Any, embedding: Any, start_tokens: Any, end_token: Any, initial_state: Any, beam_width: int,
        output_layer: Any = None, length_penalty_weight: float = 0.0, coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:  # fmt: skip
        """Takes the cell, the embedding (or a function of symbols), the symbols, and the options of the search.

        Raises:
            ValueError: If start tokens are no vector, or a coverage penalty is asked for.
        """
        assert_like_rnn_cell("cell", cell)
        if coverage_penalty_weight:
            raise ValueError("coverage_penalty_weight is not supported: pass 0.0")
        self._cell, self._layer, self._width = cell, output_layer, beam_width
        self._embed = embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)
        self._start_tokens = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
        if self._start_tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._end_token = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._batch = tf.size(self._start_tokens)
        self._weight = length_penalty_weight
        self._initial = nest.map_structure(self._split, initial_state)

    def _split(self, value: Any) -> Any:
        """[batch * beams, ...] as [batch, beams, ...]; TensorArrays and scalars as they are."""
        if isinstance(value, tf.TensorArray) or value.shape.ndims in (None, 0):
            return value
        result = tf.reshape(value, tf.concat([[self._batch, self._width], tf.shape(value)[1:]], 0))
        known = self._start_tokens.shape.as_list()[0]
        result.set_shape([known, self._width, *value.shape.as_list()[1:]])
        return result

    def _merge(self, value: Any) -> Any:
        if isinstance(value, tf.TensorArray) or value.shape.ndims in (None, 0, 1):
            return value
        result = tf.reshape(value, tf.concat([[self._batch * self._width], tf.shape(value)[2:]], 0))
        known = self._start_tokens.shape.as_list()[0]
        result.set_shape([None if known is None else known * self._width, *value.shape.as_list()[2:]])
        return result

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self._batch

    @property
    def tracks_own_finished(self) -> bool:
        """Beams are exchanged, so the decoder itself knows which are finished."""
        return True

    @property
    def output_size(self) -> Any:
        """One number per beam."""
        size = tf.TensorShape([self._width])
        return BeamSearchDecoderOutput(size, size, size)

    @property
    def output_dtype(self) -> Any:
        """Scores, symbols, parents."""
        dtype = next(v.dtype for v in nest.flatten(self._initial) if v.dtype.is_floating)
        return BeamSearchDecoderOutput(dtype, tf.int32, tf.int32)

    def initialize(self, name: str | None = None) -> Any:
        """The embedded start tokens; only the first beam counts, since all are the same."""
        ids = tf.tile(tf.expand_dims(self._start_tokens, 1), [1, self._width])
        finished = tf.one_hot(
            tf.zeros([self._batch], tf.int32), self._width, on_value=False, off_value=True, dtype=tf.bool
        )
        dtype = self.output_dtype.scores
        log_probs = tf.one_hot(
            tf.zeros([self._batch], tf.int32), self._width, on_value=tf.constant(0.0, dtype),
            off_value=tf.constant(float("-inf"), dtype), dtype=dtype,
        )  # fmt: skip
        lengths = tf.zeros([self._batch, self._width], tf.int64)
        return finished, self._embed(ids), BeamSearchDecoderState(self._initial, log_probs, finished, lengths, ())

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Continues every beam by every symbol, and keeps the best."""
        with tf.name_scope(name, "BeamSearchDecoderStep", [time]):
            merged_inputs = nest.map_structure(self._merge, inputs)
            cell_outputs, cell_state = self._cell(merged_inputs, nest.map_structure(self._merge, state.cell_state))
            if self._layer is not None:
                cell_outputs = self._layer(cell_outputs)
            logits, cell_state = self._split(cell_outputs), nest.map_structure(self._split, cell_state)
            return self._advance(logits, cell_state, state)

    def _advance(self, logits: Any, cell_state: Any, state: Any) -> Any:
        vocabulary = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        steps = tf.nn.log_softmax(logits)
        # A finished beam goes on with the end token, at no cost.
        stay = tf.one_hot(
            tf.fill(tf.shape(state.finished), self._end_token), vocabulary, on_value=tf.constant(0.0, steps.dtype),
            off_value=tf.constant(steps.dtype.min, steps.dtype), dtype=steps.dtype,
        )  # fmt: skip
        done = tf.tile(tf.expand_dims(state.finished, 2), [1, 1, vocabulary])
        total = tf.expand_dims(state.log_probs, 2) + tf.where(done, stay, steps)
        ending = tf.one_hot(self._end_token, vocabulary, on_value=0, off_value=1, dtype=tf.int64)
        adding = tf.expand_dims(tf.cast(tf.logical_not(state.finished), tf.int64), 2) * ending
        lengths = tf.expand_dims(state.lengths, 2) + adding
        scores = total
        if self._weight:
            scores = total / tf.pow((5.0 + tf.cast(lengths, total.dtype)) / 6.0, self._weight)
        best, index = tf.nn.top_k(tf.reshape(scores, [self._batch, -1]), self._width)
        best.set_shape([self._start_tokens.shape.as_list()[0], self._width])
        index.set_shape(best.shape)
        parents, ids = tf.floordiv(index, vocabulary), tf.floormod(index, vocabulary)
        log_probs = _gather(tf.reshape(total, [self._batch, -1]), index)
        was_finished = _gather(state.finished, parents)
        finished = tf.logical_or(was_finished, tf.equal(ids, self._end_token))
        counted = _gather(state.lengths, parents) + tf.cast(tf.logical_not(was_finished), tf.int64)

        def reorder(value: Any) -> Any:
            if isinstance(value, tf.TensorArray) or value.shape.ndims in (None, 0, 1):
                return value
            return _gather(value, parents)

        new_state = BeamSearchDecoderState(
            nest.map_structure(reorder, cell_state), log_probs, finished, counted, state.accumulated_attention_probs
        )
        following = tf.cond(
            tf.reduce_all(finished), lambda: self._embed(tf.fill(tf.shape(ids), self._start_tokens[0])),
            lambda: self._embed(ids),
        )  # fmt: skip
        return BeamSearchDecoderOutput(best, ids, parents), new_state, following, finished

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Whole sequences of the beams."""
        longest = tf.cast(tf.reduce_max(final_state.lengths, 1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        return FinalBeamSearchDecoderOutput(predicted_ids=ids, beam_search_decoder_output=outputs), final_state


@export("contrib.seq2seq.gather_tree_from_array")
def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> Any:
    """The values of beams `[time, batch, beam, ...]` in the order of the final beams, along their parents."""
    sizes = tf.shape(parent_ids)
    time, batch, width = (sizes[i] for i in range(3))
    beams = tf.tile(tf.range(width)[None, None, :], [time, batch, 1])
    longest = tf.cast(tf.reduce_max(sequence_length, 1), tf.int32)
    order = gather_tree(beams, parent_ids, longest, width + 1)
    inside = tf.transpose(tf.sequence_mask(sequence_length, time), [2, 0, 1])
    order = tf.where(inside, order, beams)
    steps = tf.tile(tf.range(time)[:, None, None], [1, batch, width])
    rows = tf.tile(tf.range(batch)[None, :, None], [time, 1, width])
    found = tf.gather_nd(t, tf.stack([steps, rows, order], -1))
    found.set_shape(t.shape)
    return found
