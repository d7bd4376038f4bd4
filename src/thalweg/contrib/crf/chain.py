"""Linear-chain conditional random fields (Lafferty et al., 2001): likelihood, forward and backward, decoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _lengths(sequence_lengths: Any) -> Any:
    return tf.cast(tf.convert_to_tensor(sequence_lengths), tf.int32)


def _mask(sequence_lengths: Any, size: Any) -> Any:
    return tf.sequence_mask(_lengths(sequence_lengths), size, dtype=tf.float32)


@export("contrib.crf.crf_unary_score")
def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sum of the scores of a sequence's tags: [batch]."""
    inputs = tf.convert_to_tensor(inputs)
    chosen = tf.reduce_sum(inputs * tf.one_hot(tag_indices, tf.shape(inputs)[2], dtype=inputs.dtype), 2)
    return tf.reduce_sum(chosen * _mask(sequence_lengths, tf.shape(inputs)[1]), 1)


@export("contrib.crf.crf_binary_score")
def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sum of the scores of a sequence's transitions: [batch]."""
    tag_indices = tf.convert_to_tensor(tag_indices)
    pairs = tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], axis=2)
    scores = tf.gather_nd(transition_params, pairs)
    steps = tf.maximum(_lengths(sequence_lengths) - 1, 0)
    return tf.reduce_sum(scores * tf.sequence_mask(steps, tf.shape(scores)[1], dtype=tf.float32), 1)


@export("contrib.crf.crf_sequence_score")
def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The score of each sequence of tags, without normalization: [batch]."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    score = unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)
    return tf.where(tf.less_equal(_lengths(sequence_lengths), 0), tf.zeros_like(score), score)


@export("contrib.crf.crf_multitag_sequence_score")
def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The log of the sum of the exponential scores of all sequences that the bitmap allows."""
    allowed = tf.where(tag_bitmap, inputs, tf.fill(tf.shape(inputs), float("-inf")))
    return crf_log_norm(allowed, sequence_lengths, transition_params)


def _alphas(inputs: Any, sequence_lengths: Any, transition_params: Any, combine: Any) -> Any:
    """The values of the last valid step of a recursion over the steps: [batch, tags]."""
    lengths = _lengths(sequence_lengths)
    steps = tf.transpose(inputs, [1, 0, 2])
    number = tf.range(1, tf.shape(steps)[0])

    def step(alphas: Any, given: Any) -> Any:
        scores, time = given
        new = combine(tf.expand_dims(alphas, 2) + tf.expand_dims(transition_params, 0)) + scores
        return tf.where(tf.less(time, lengths), new, alphas)

    every = tf.scan(step, (steps[1:], number), initializer=steps[0])
    return tf.cond(tf.greater(tf.shape(steps)[0], 1), lambda: every[-1], lambda: steps[0])


@export("contrib.crf.crf_log_norm")
def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The log of the normalization over all sequences of tags: [batch]."""
    inputs = tf.convert_to_tensor(inputs)
    alphas = _alphas(inputs, sequence_lengths, transition_params, lambda x: tf.reduce_logsumexp(x, 1))
    norm = tf.reduce_logsumexp(alphas, 1)
    return tf.where(tf.less_equal(_lengths(sequence_lengths), 0), tf.zeros_like(norm), norm)


@export("contrib.crf.crf_log_likelihood")
def crf_log_likelihood(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None) -> Any:
    """The log-likelihood of sequences of tags, and the transitions.

    Args:
        inputs: Scores [batch, length, tags].
        tag_indices: The tags [batch, length].
        sequence_lengths: The valid lengths [batch].
        transition_params: Scores [tags, tags]; a variable 'transitions' if None.

    Returns:
        The log-likelihood [batch], and the transitions.
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        tags = inputs.shape.as_list()[2]
        if tags is None:
            raise ValueError("The number of tags, inputs.shape[2], has to be known")
        transition_params = tf.get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


@export("contrib.crf.viterbi_decode")
def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """The best sequence of tags for scores [length, tags] in arrays, and its score.

    Example:
        >>> tf.contrib.crf.viterbi_decode(np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros([2, 2]))[0]
        [0, 1]
    """
    trellis = np.zeros_like(score)
    pointers = np.zeros_like(score, dtype=np.int32)
    trellis[0] = score[0]
    for t in range(1, score.shape[0]):
        reached = np.expand_dims(trellis[t - 1], 1) + transition_params
        trellis[t] = score[t] + np.max(reached, 0)
        pointers[t] = np.argmax(reached, 0)
    tags = [int(np.argmax(trellis[-1]))]
    for pointer in reversed(pointers[1:]):
        tags.append(int(pointer[tags[-1]]))
    tags.reverse()
    return tags, np.max(trellis[-1])


@export("contrib.crf.crf_decode")
def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The best sequences of tags [batch, length], zeros beyond their end, and their scores [batch]."""
    potentials = tf.convert_to_tensor(potentials)
    lengths = _lengths(sequence_length)
    steps = tf.transpose(potentials, [1, 0, 2])
    size = tf.shape(steps)[0]
    tags = tf.shape(potentials)[2]
    identity = tf.tile(tf.expand_dims(tf.range(tags), 0), [tf.shape(potentials)[0], 1])

    def forward(state: Any, given: Any) -> Any:
        scores, time = given
        reached = tf.expand_dims(state[0], 2) + tf.expand_dims(transition_params, 0)
        valid = tf.less(time, lengths)
        new = tf.where(valid, tf.reduce_max(reached, 1) + scores, state[0])
        return new, tf.where(valid, tf.argmax(reached, 1, output_type=tf.int32), identity)

    def several() -> Any:
        values, pointers = tf.scan(forward, (steps[1:], tf.range(1, size)), initializer=(steps[0], identity))
        last = tf.argmax(values[-1], 1, output_type=tf.int32)

        def backward(tag: Any, pointer: Any) -> Any:
            return tf.reduce_sum(pointer * tf.one_hot(tag, tags, dtype=tf.int32), 1)

        before = tf.scan(backward, pointers, initializer=last, reverse=True)
        return tf.transpose(tf.concat([before, tf.expand_dims(last, 0)], 0)), tf.reduce_max(values[-1], 1)

    def single() -> Any:
        return tf.expand_dims(tf.argmax(steps[0], 1, output_type=tf.int32), 1), tf.reduce_max(steps[0], 1)

    decoded, best = tf.cond(tf.greater(size, 1), several, single)
    decoded *= tf.sequence_mask(lengths, size, dtype=tf.int32)
    decoded.set_shape(potentials.shape[:2])
    return decoded, best
