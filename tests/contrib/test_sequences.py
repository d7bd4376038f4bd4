"""Cells, fused loops, decoders and random fields of contrib: names, shapes, values against NumPy and brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf

rnn: Any = tf.contrib.rnn
crf: Any = tf.contrib.crf
seq2seq: Any = tf.contrib.seq2seq
legacy: Any = tf.contrib.legacy_seq2seq


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


CELLS = {
    "LSTMBlockCell": ("lstm_cell", ["kernel", "bias"]),
    "GRUBlockCellV2": ("gru_cell", ["gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"]),
    "LayerNormBasicLSTMCell": ("layer_norm_basic_lstm_cell", [
        "kernel", *(f"{gate}/{p}"
            for gate in ("input", "transform", "forget", "output", "state") for p in ("gamma", "beta")),
    ]),
    "CoupledInputForgetGateLSTMCell": ("coupled_input_forget_gate_lstm_cell", ["W_0", "B"]),
    "UGRNNCell": ("ugrnn_cell", ["kernel", "bias"]),
    "NASCell": ("nas_cell", ["recurrent_kernel", "kernel"]),
}  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_has_tensorflows_variables_and_gradients(cell: str) -> None:
    outputs, state = tf.nn.dynamic_rnn(getattr(rnn, cell)(6), tf.ones([3, 5, 4]), dtype=tf.float32)
    name, parts = CELLS[cell]
    assert [v.op.name for v in tf.global_variables()] == [f"rnn/{name}/{part}" for part in parts]
    gradients = tf.gradients(outputs, tf.trainable_variables())
    assert all(g is not None for g in gradients)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        values, _ = sess.run([outputs, state])
    assert values.shape == (3, 5, 6) and np.isfinite(values).all()


def test_block_cells_compute_what_the_plain_ones_do() -> None:
    x = tf.constant(np.random.RandomState(0).randn(2, 4, 3).astype(np.float32))
    results = []
    for scope, cell in (("a", rnn.LSTMBlockCell(5)), ("b", tf.nn.rnn_cell.LSTMCell(5, name="lstm_cell"))):
        with tf.variable_scope(scope, initializer=tf.random_uniform_initializer(-1, 1, seed=3)):
            results.append(tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)[0])
    with tf.variable_scope("c", initializer=tf.random_uniform_initializer(-1, 1, seed=3)):
        results.append(
            tf.transpose(rnn.LSTMBlockFusedCell(5)(tf.transpose(x, [1, 0, 2]), dtype=tf.float32)[0], [1, 0, 2])
        )
    assert [v.op.name for v in tf.global_variables("c/")] == ["c/lstm_fused_cell/kernel", "c/lstm_fused_cell/bias"]
    kernels = [v for v in tf.global_variables() if v.op.name.endswith("kernel")]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for kernel in kernels[1:]:
            sess.run(tf.assign(kernel, kernels[0]))
        first, *others = sess.run(results)
    for other in others:
        np.testing.assert_allclose(first, other, rtol=1e-5, atol=1e-6)


def test_wrappers_around_cells() -> None:
    x = tf.ones([3, 5, 4])
    wrapped = {
        "attention": (rnn.AttentionCellWrapper(rnn.BasicLSTMCell(6), 3), 6),
        "input": (rnn.InputProjectionWrapper(rnn.GRUCell(6), 7), 6),
        "output": (rnn.OutputProjectionWrapper(rnn.GRUCell(6), 2), 2),
        "highway": (rnn.HighwayWrapper(rnn.GRUCell(4)), 4),
    }
    for scope, (cell, size) in wrapped.items():
        with tf.variable_scope(scope):
            assert tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)[0].shape.as_list() == [3, 5, size]
    with tf.variable_scope("conv"):
        images = tf.zeros([2, 5, 4, 4, 1])
        outputs, _ = tf.nn.dynamic_rnn(rnn.ConvLSTMCell(2, [4, 4, 1], 3, [3, 3]), images, dtype=tf.float32)
        assert outputs.shape.as_list() == [2, 5, 4, 4, 3]
    with pytest.raises(ValueError, match="output_size must be > 0"):
        rnn.OutputProjectionWrapper(rnn.GRUCell(6), 0)
    with pytest.raises(ValueError, match="greater than zero"):
        rnn.AttentionCellWrapper(rnn.GRUCell(6), 0)


def test_stacked_bidirectional_layers() -> None:
    cells = [rnn.GRUCell(3), rnn.GRUCell(4)], [rnn.GRUCell(3), rnn.GRUCell(4)]
    outputs, fw, bw = rnn.stack_bidirectional_dynamic_rnn(*cells, tf.ones([2, 5, 4]), dtype=tf.float32)
    assert outputs.shape.as_list() == [2, 5, 8] and len(fw) == len(bw) == 2
    assert (
        tf.global_variables()[0].op.name == "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/gru_cell/gates/kernel"
    )
    with pytest.raises(ValueError, match="same depth"):
        rnn.stack_bidirectional_dynamic_rnn([rnn.GRUCell(3)], cells[1], tf.ones([2, 5, 4]), dtype=tf.float32)


def test_random_fields_agree_with_all_sequences() -> None:
    random = np.random.RandomState(0)
    scores, transitions = random.randn(2, 4, 3).astype(np.float32), random.randn(3, 3).astype(np.float32)
    tags, lengths = random.randint(0, 3, [2, 4]).astype(np.int32), np.array([4, 2], np.int32)

    def score(i: int, sequence: Any) -> float:
        pairs = itertools.pairwise(sequence)
        return sum(scores[i, t, tag] for t, tag in enumerate(sequence)) + sum(transitions[a, b] for a, b in pairs)

    likelihood, _ = crf.crf_log_likelihood(scores, tags, lengths, tf.constant(transitions))
    decoded, best = crf.crf_decode(scores, tf.constant(transitions), lengths)
    with tf.Session() as sess:
        likelihood, decoded, best = sess.run([likelihood, decoded, best])
    for i, n in enumerate(lengths):
        every = {s: score(i, s) for s in itertools.product(range(3), repeat=int(n))}
        norm = np.log(np.sum(np.exp(list(every.values()))))
        np.testing.assert_allclose(likelihood[i], score(i, tags[i, :n]) - norm, rtol=1e-4)
        winner = max(every, key=lambda s: every[s])
        assert tuple(decoded[i, :n]) == winner and (decoded[i, n:] == 0).all()
        np.testing.assert_allclose(best[i], every[winner], rtol=1e-5)
        sequence, value = crf.viterbi_decode(scores[i, :n], transitions)
        assert tuple(sequence) == winner and value == pytest.approx(every[winner], rel=1e-5)


def test_a_beam_as_wide_as_all_sequences_finds_the_best() -> None:
    vocabulary, steps, end = 3, 3, 2
    table = np.random.RandomState(2).randn(vocabulary, vocabulary).astype(np.float32)

    class Markov(tf.nn.rnn_cell.RNNCell):  # type: ignore[misc]
        """The next logits depend on the symbol before only."""

        state_size = output_size = vocabulary

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            return tf.matmul(inputs, table), state

    width = 9
    decoder = seq2seq.BeamSearchDecoder(
        Markov(), tf.eye(vocabulary), tf.constant([0, 1]), end, tf.zeros([2 * width, vocabulary]), width
    )
    outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=steps)
    with tf.Session() as sess:
        ids, log_probs = sess.run([outputs.predicted_ids, state.log_probs])
    probabilities = table - np.log(np.exp(table).sum(1, keepdims=True))
    for i, start in enumerate((0, 1)):
        found = {}
        for sequence in itertools.product(range(vocabulary), repeat=steps):
            cut = sequence[: sequence.index(end) + 1] if end in sequence else sequence
            found[cut] = sum(probabilities[a, b] for a, b in zip((start, *cut[:-1]), cut, strict=True))
        best = max(found, key=lambda s: found[s])
        assert tuple(ids[i, : len(best), 0]) == best and (ids[i, len(best) :, 0] == end).all()
        np.testing.assert_allclose(log_probs[i, 0], found[best], rtol=1e-4)
        assert (np.diff(log_probs[i]) <= 1e-6).all()


def test_gather_tree_follows_parents_and_fills_up() -> None:
    ids = np.array([[[1, 2]], [[3, 4]], [[5, 9]]], np.int32)
    parents = np.array([[[0, 0]], [[1, 0]], [[1, 0]]], np.int32)
    with tf.Session() as sess:
        found = sess.run(seq2seq.gather_tree(ids, parents, [3], 9))
    assert found[:, 0, 0].tolist() == [1, 4, 5] and found[:, 0, 1].tolist() == [2, 3, 9]


def test_legacy_models_train_in_buckets() -> None:
    places = [tf.placeholder(tf.int32, [None]) for _ in range(8)]
    weights = [tf.placeholder(tf.float32, [None]) for _ in range(4)]

    def model(encoder: Any, decoder: Any) -> Any:
        return legacy.embedding_attention_seq2seq(encoder, decoder, rnn.GRUCell(6), 10, 11, 4)

    outputs, losses = legacy.model_with_buckets(places[:4], places[4:], places[4:], weights, [(2, 2), (4, 4)], model)
    assert [len(each) for each in outputs] == [2, 4]
    scope = "embedding_attention_seq2seq"
    decoder = f"{scope}/embedding_attention_decoder/attention_decoder"
    names = [v.op.name for v in tf.global_variables()]
    assert f"{scope}/rnn/embedding_wrapper/embedding" in names and f"{decoder}/AttnW_0" in names
    assert f"{decoder}/Attention_0/kernel" in names and f"{decoder}/AttnOutputProjection/bias" in names
    train = tf.train.AdamOptimizer(0.1).minimize(losses[1])
    feed = {**{place: [1, 2] for place in places}, **{weight: [1.0, 1.0] for weight in weights}}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        first = sess.run(losses[1], feed)
        for _ in range(10):
            sess.run(train, feed)
        assert sess.run(losses[1], feed) < first
    with pytest.raises(ValueError, match="must be at least that of last bucket"):
        legacy.model_with_buckets(places[:1], places[4:], places[4:], weights, [(2, 2)], model)


def test_a_tensor_chooses_whether_outputs_are_fed_back() -> None:
    inputs = [tf.constant([1, 2]) for _ in range(3)]
    feed = tf.placeholder(tf.bool, [])
    outputs, state = legacy.embedding_rnn_seq2seq(
        inputs, inputs, rnn.BasicLSTMCell(4), 5, 6, 3, feed_previous=feed, dtype=tf.float32
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        given, fed = (sess.run([*outputs, *state], {feed: value}) for value in (False, True))
    np.testing.assert_allclose(given[0], fed[0])
    assert not np.allclose(given[2], fed[2]) or not np.allclose(given[1], fed[1])


@pytest.mark.parametrize("layer", ["CudnnLSTM", "CudnnGRU", "CudnnRNNTanh", "CudnnRNNRelu"])
def test_cudnn_layers_run_on_the_cpu(layer: str) -> None:
    cudnn = getattr(tf.contrib.cudnn_rnn, layer)(2, 4, direction="bidirectional")
    outputs, states = cudnn(tf.ones([5, 3, 6]))
    assert outputs.shape.as_list() == [5, 3, 8]
    assert all(state.shape.as_list() == [4, 3, 4] for state in states) and len(states) == (
        2 if layer == "CudnnLSTM" else 1
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        whole, last = sess.run([outputs, states[0]])
    np.testing.assert_allclose(whole[-1, :, :4], last[2], rtol=1e-5)
    np.testing.assert_allclose(whole[0, :, 4:], last[3], rtol=1e-5)
