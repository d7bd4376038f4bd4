"""Attention, decoders, helpers and sequence losses, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

s2s = tf.contrib.seq2seq
cells = tf.nn.rnn_cell
MEMORY = np.random.RandomState(0).randn(2, 5, 3).astype(np.float32)
QUERY = np.random.RandomState(1).randn(2, 4).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def evaluate(value: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(value, feed)


def variable(name: str) -> Any:
    return next(v for v in tf.global_variables() if v.op.name.endswith(name))


def test_luong_attention_is_a_softmax_of_products() -> None:
    mechanism = s2s.LuongAttention(4, MEMORY, memory_sequence_length=[5, 2])
    alignments, state = mechanism(tf.constant(QUERY), state=None)
    assert alignments.shape.as_list() == [2, 5]
    assert state is alignments
    got, kernel = evaluate([alignments, variable("memory_layer/kernel")])
    expected = np.einsum("bts,su,bu->bt", MEMORY, kernel, QUERY)
    expected[1, 2:] = -np.inf
    np.testing.assert_allclose(got, softmax(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_bahdanau_attention_adds_before_it_scores(normalize: bool) -> None:
    mechanism = s2s.BahdanauAttention(6, MEMORY, normalize=normalize)
    alignments, _ = mechanism(tf.constant(QUERY), state=None)
    names = ("memory_layer/kernel", "query_layer/kernel", "bahdanau_attention/attention_v")
    got, memory, query, v = evaluate([alignments, *(variable(name) for name in names)])
    if normalize:
        v = v / np.linalg.norm(v) * np.sqrt(1 / 6)
    expected = np.tanh(MEMORY @ memory + (QUERY @ query)[:, None]) @ v
    np.testing.assert_allclose(got, softmax(expected), rtol=1e-4, atol=1e-6)


def wrapped(history: bool = False, **options: Any) -> Any:
    mechanism = s2s.LuongAttention(4, tf.constant(MEMORY), memory_sequence_length=[5, 2])
    return s2s.AttentionWrapper(cells.LSTMCell(4), mechanism, 6, alignment_history=history, **options)


def test_attention_wrapper_in_a_loop() -> None:
    cell = wrapped()
    outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([2, 3, 7]), dtype=tf.float32)
    assert outputs.shape.as_list() == [2, 3, 6]
    assert sorted(v.op.name for v in tf.global_variables()) == [
        "memory_layer/kernel", "rnn/attention_wrapper/attention_layer/kernel",
        "rnn/attention_wrapper/lstm_cell/bias", "rnn/attention_wrapper/lstm_cell/kernel",
    ]  # fmt: skip
    gradients = tf.gradients(tf.reduce_sum(outputs), tf.trainable_variables())
    value, final, slopes = evaluate([outputs, state, gradients])
    np.testing.assert_array_equal(value[:, -1], final.attention)
    assert final.time == 3
    assert not final.alignments[1, 2:].any()
    assert all(np.abs(slope).sum() > 0 for slope in slopes)


def test_several_mechanisms_and_a_given_first_state() -> None:
    mechanisms = [s2s.LuongAttention(4, tf.constant(MEMORY)), s2s.BahdanauAttention(5, tf.constant(MEMORY))]
    cell = s2s.AttentionWrapper(
        cells.GRUCell(4), mechanisms, attention_layer_size=[2, 3], output_attention=False,
        initial_cell_state=tf.ones([2, 4]),
    )  # fmt: skip
    assert cell.output_size == 4
    state = cell.zero_state(2, tf.float32)
    output, after = cell(tf.ones([2, 3]), state)
    assert after.attention.shape.as_list() == [2, 5]
    assert len(after.alignments) == 2
    assert evaluate([state.cell_state, output])[0].sum() == 8


def test_training_decoder_feeds_what_it_is_given() -> None:
    inputs = np.random.RandomState(2).randn(2, 4, 3).astype(np.float32)
    cell = cells.GRUCell(5)
    helper = s2s.TrainingHelper(tf.constant(inputs), [4, 2])
    decoder = s2s.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), tf.layers.Dense(6, name="out"))
    outputs, state, lengths = s2s.dynamic_decode(decoder, impute_finished=True)
    with tf.variable_scope("decoder", reuse=True):
        expected, expected_state = tf.nn.dynamic_rnn(
            cells.GRUCell(5), tf.constant(inputs), [4, 2], dtype=tf.float32, scope=tf.get_variable_scope()
        )
    kernel = variable("out/kernel")
    got, ids, last, ends, plain, plain_state, matrix = evaluate(
        [outputs.rnn_output, outputs.sample_id, state, lengths, expected, expected_state, kernel]
    )
    np.testing.assert_array_equal(ends, [4, 2])
    np.testing.assert_allclose(got, plain @ matrix, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, plain_state, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(ids[0], got[0].argmax(-1))
    assert next(v.op.name for v in tf.global_variables()) == "decoder/gru_cell/gates/kernel"


def test_greedy_decoding_feeds_back_and_ends() -> None:
    class Next(cells.RNNCell):
        """Counts: the logits name the successor of the input."""

        state_size = 1
        output_size = 5

        def call(self, inputs: Any, state: Any) -> Any:
            return tf.one_hot(tf.cast(inputs[:, 0], tf.int32) + 1, 5), state

    embedding = tf.constant([[0.0], [1.0], [2.0], [3.0], [4.0]])
    helper = s2s.GreedyEmbeddingHelper(embedding, [0, 2], end_token=3)
    decoder = s2s.BasicDecoder(Next(), helper, tf.zeros([2, 1]))
    outputs, _, lengths = s2s.dynamic_decode(decoder, maximum_iterations=10)
    ids, ends = evaluate([outputs.sample_id, lengths])
    np.testing.assert_array_equal(ids[0], [1, 2, 3])
    np.testing.assert_array_equal(ends, [3, 1])
    outputs, _, lengths = s2s.dynamic_decode(decoder, maximum_iterations=2, output_time_major=True)
    ids, ends = evaluate([outputs.sample_id, lengths])
    assert ids.shape == (2, 2)
    np.testing.assert_array_equal(ends, [2, 1])


def test_decoding_with_attention_and_history() -> None:
    cell = wrapped(history=True)
    helper = s2s.TrainingHelper(tf.ones([2, 3, 7]), [3, 3])
    decoder = s2s.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
    outputs, state, _ = s2s.dynamic_decode(decoder)
    history = state.alignment_history.stack()
    loss = s2s.sequence_loss(outputs.rnn_output, tf.zeros([2, 3], tf.int32), tf.ones([2, 3]))
    gradients = tf.gradients(loss, tf.trainable_variables())
    values, _ = evaluate([history, gradients])
    assert values.shape == (3, 2, 5)
    np.testing.assert_allclose(values.sum(-1), 1, rtol=1e-5)


def test_sequence_loss_averages() -> None:
    logits = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
    targets = np.array([[0, 1, 2], [3, 0, 0]])
    weights = np.array([[1, 1, 1], [1, 0, 0]], np.float32)
    cross = -np.log(softmax(logits))[np.arange(2)[:, None], np.arange(3), targets] * weights
    for time, batch, expected in (
        (True, True, cross.sum() / 4), (False, False, cross), (True, False, cross.sum(1) / [3, 1]),
        (False, True, cross.sum(0) / [2, 1, 1]),
    ):  # fmt: skip
        loss = s2s.sequence_loss(tf.constant(logits), tf.constant(targets), tf.constant(weights), time, batch)
        np.testing.assert_allclose(evaluate(loss), expected, rtol=1e-4)
    with pytest.raises(ValueError, match="rank 3"):
        s2s.sequence_loss(tf.zeros([2, 3]), tf.constant(targets), tf.constant(weights))


def test_tile_batch() -> None:
    unknown = tf.placeholder(tf.float32, [2, None])
    tiled = s2s.tile_batch((tf.constant([[1, 2], [3, 4]]), unknown), 2)
    first, second = evaluate(tiled, {unknown: [[5], [6]]})
    np.testing.assert_array_equal(first, [[1, 2], [1, 2], [3, 4], [3, 4]])
    np.testing.assert_array_equal(second, [[5], [5], [6], [6]])
    assert tiled[1].shape.as_list() == [4, None]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="inner dimensions"):
        s2s.LuongAttention(3, MEMORY)(tf.constant(QUERY), state=None)
    with pytest.raises(ValueError, match="one integer per"):
        s2s.AttentionWrapper(cells.GRUCell(4), [s2s.LuongAttention(4, MEMORY)], [1, 2])
    with pytest.raises(TypeError, match="Decoder"):
        s2s.dynamic_decode(3)
    with pytest.raises(ValueError, match="vector"):
        s2s.TrainingHelper(tf.zeros([2, 3, 4]), 3)
    with pytest.raises(ValueError, match="scalar"):
        s2s.GreedyEmbeddingHelper(tf.zeros([3, 2]), [0], [1])
