"""Monotonic attention: probabilities step by step, the mechanisms in a wrapped cell, and beams along their parents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

seq2seq: Any = tf.contrib.seq2seq
RNG = np.random.default_rng(2)


def _stops(p: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """The definition: from where it was, the reader goes on as long as it does not stop."""
    out = np.zeros_like(p)
    for row in range(len(p)):
        for start in range(p.shape[1]):
            going = previous[row, start]
            for position in range(start, p.shape[1]):
                out[row, position] += going * p[row, position]
                going *= 1 - p[row, position]
    return out


@pytest.mark.parametrize("mode", ["recursive", "parallel"])
def test_probabilities_follow_the_definition(mode: str) -> None:
    p, previous = RNG.uniform(0.1, 0.9, (2, 5)), RNG.dirichlet(np.ones(5), 2)
    with tf.Session() as session:
        found = session.run(seq2seq.monotonic_attention(p, previous, mode))
    np.testing.assert_allclose(found, _stops(p, previous))


def test_hard_attention_stops_at_the_next_position() -> None:
    p, previous = np.array([[1.0, 0.0, 1.0, 1.0]]), np.array([[0.0, 1.0, 0.0, 0.0]])
    with tf.Session() as session:
        assert session.run(seq2seq.monotonic_attention(p, previous, "hard")).tolist() == [[0.0, 0.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match="mode must be"):
        seq2seq.monotonic_attention(p, previous, "other")


@pytest.mark.parametrize("kind", ["BahdanauMonotonicAttention", "LuongMonotonicAttention"])
def test_mechanisms_in_a_cell(kind: str) -> None:
    memory = tf.constant(RNG.normal(size=(2, 4, 3)).astype(np.float32))
    mechanism = getattr(seq2seq, kind)(5, memory, [4, 2], score_bias_init=-1.0)
    cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(5), mechanism, 5, alignment_history=True)
    state = cell.zero_state(2, tf.float32)
    first = state.alignments
    _, state = cell(tf.ones([2, 3]), state)
    _, state = cell(tf.ones([2, 3]), state)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        start, later, bias = session.run([first, state.alignments, [
            v for v in tf.trainable_variables() if v.op.name.endswith("attention_score_bias")
        ]])  # fmt: skip
    assert start.tolist() == [[1, 0, 0, 0]] * 2
    assert (later[1, 2:] == 0).all() and (later >= 0).all() and (later.sum(-1) < 1).all() and later[0, :3].all()
    assert bias == [-1.0]
    scope = "bahdanau_monotonic_attention" if kind.startswith("Bahdanau") else "luong_monotonic_attention"
    assert any(f"/{scope}/attention_score_bias" in v.op.name for v in tf.trainable_variables())


def test_values_of_beams_follow_their_parents() -> None:
    parents = np.array([[[0, 0]], [[0, 1]], [[1, 0]]], np.int32)
    values = np.arange(6.0).reshape(3, 1, 2)
    with tf.Session() as session:
        found = session.run(seq2seq.gather_tree_from_array(tf.constant(values), parents, [[3, 3]]))
    # The first final beam was beam 1 in both steps before, the second beam 0.
    assert found[:, 0].tolist() == [[1.0, 0.0], [3.0, 2.0], [4.0, 5.0]]
