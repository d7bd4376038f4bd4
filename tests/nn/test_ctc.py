"""nn.ctc_loss_v2 equals nn.ctc_loss with classes moved; collapse_repeated; the decoders on long inputs."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf

_X = np.random.default_rng(3).normal(size=(6, 3, 5)).astype("f")
_ROWS = [[1, 3, 3], [4], [2, 1]]
_LENGTHS = [6, 4, 5]


def _sparse(rows: list[list[int]]) -> tf.SparseTensor:
    places = [(b, i) for b, row in enumerate(rows) for i in range(len(row))]
    return tf.SparseTensor(np.array(places, np.int64), np.array([v for r in rows for v in r], np.int32), [3, 3])


@pytest.mark.parametrize("blank", [0, 2, 4, -1, -5, None])
def test_any_class_can_be_the_blank(blank: int | None) -> None:
    place = (0 if blank is None else blank) % 5
    rows = [[v for v in row if v != place] for row in _ROWS]
    dense = np.zeros((3, 4), np.int32)
    for b, row in enumerate(rows):
        dense[b, : len(row)] = row
    order = [k for k in range(5) if k != place] + [place]
    moved = [[order.index(v) for v in row] for row in rows]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(_X)
        wanted = tf.nn.ctc_loss(_sparse(moved), tf.constant(_X[..., order]), _LENGTHS)
        losses = [tf.nn.ctc_loss_v2(dense, x, [len(r) for r in rows], _LENGTHS, blank_index=blank)]
        losses.append(
            tf.nn.ctc_loss_v2(
                dense, tf.transpose(x, [1, 0, 2]), [len(r) for r in rows], _LENGTHS, False, blank_index=blank
            )
        )
        if blank is not None:
            losses.append(tf.nn.ctc_loss_v2(_sparse(rows), x, None, _LENGTHS, blank_index=blank))
        expected, *values = session.run([wanted, *losses])
        for value in values:
            np.testing.assert_allclose(value, expected, 1e-5)
        slope = session.run(tf.gradients(losses[0], x)[0])
        np.testing.assert_allclose(slope.sum(-1), 0, atol=1e-5)


def test_wrong_arguments_are_refused() -> None:
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="blank_index"):
            tf.nn.ctc_loss_v2(_sparse(_ROWS), _X, None, _LENGTHS)
        with pytest.raises(ValueError, match="blank_index"):
            tf.nn.ctc_loss_v2(np.zeros((3, 2), "i4"), _X, [1, 1, 1], _LENGTHS, blank_index=5)
        with pytest.raises(ValueError, match="label_length"):
            tf.nn.ctc_loss_v2(np.zeros((3, 2), "i4"), _X, None, _LENGTHS)
        with pytest.raises(TypeError, match="SparseTensor"):
            tf.nn.ctc_loss(np.zeros((3, 2), "i4"), _X, _LENGTHS)
        with pytest.raises(ValueError, match="both"):
            tf.nn.ctc_loss(_sparse(_ROWS), _X, _LENGTHS, logits=_X)


@pytest.mark.parametrize("known", [True, False])
def test_equal_neighbours_are_merged(known: bool) -> None:
    rows = np.array([[1, 1, 2, 2], [3, 3, 3, 3], [4, 4, 5, 4], [6, 7, 8, 9]], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        labels = tf.placeholder(tf.int32, rows.shape if known else [None, None])
        lengths = tf.placeholder(tf.int32, [None])
        merged = tf.nn.collapse_repeated(labels, lengths)
        values, number = session.run(merged, {labels: rows, lengths: [4, 4, 4, 1]})
        assert values.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 4], [6, 0, 0]]
        assert number.tolist() == [2, 1, 3, 1]
        values, number = session.run(merged, {labels: rows, lengths: [0, 0, 0, 0]})
        assert values.shape == (4, 0) and number.tolist() == [0] * 4


def test_a_narrow_beam_follows_a_clear_signal() -> None:
    said = [0, 0, 3, 0, 1, 1, 2, 3] * 5
    x = np.repeat((np.eye(4, dtype="f")[said] * 9)[:, None], 2, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        greedy, _ = tf.nn.ctc_greedy_decoder(x, [40, 40])
        beam, score = tf.nn.ctc_beam_search_decoder_v2(x, [40, 16], beam_width=3)
        found, wide, scores = session.run([greedy[0], beam[0], score])
    assert found.values[: found.values.size // 2].tolist() == [0, 0, 1, 2] * 5
    assert wide.values.tolist() == [0, 0, 1, 2] * 5 + [0, 0, 1, 2] * 2
    assert (scores < 0).all() and (scores > -1).all()


def test_inputs_that_are_not_numbers_end_in_a_result_or_an_error() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        for value in (np.nan, np.inf, -np.inf):
            x = np.full((5, 1, 4), value, "f")
            session.run(tf.nn.ctc_loss(tf.SparseTensor([[0, 0]], np.array([1], np.int32), [1, 1]), x, [5]))
            session.run(tf.nn.ctc_greedy_decoder(x, [5])[1])
            session.run(tf.nn.ctc_beam_search_decoder(x, [5], beam_width=5)[1])


def test_the_different_labels_of_rows() -> None:
    unique, idx = tf.nn.ctc_unique_labels(tf.constant([[1, 2, 0], [3, 0, 0], [4, 4, 2]]))
    with tf.Session() as session:
        found = session.run([unique, idx])
    assert found[0].tolist() == [[1, 2, 0], [3, 0, 0], [4, 2, 0]]
    assert found[1].tolist() == [[0, 1, 2], [0, 1, 1], [0, 0, 1]]
