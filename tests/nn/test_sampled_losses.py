"""Candidate samplers draw TensorFlow's streams, and the losses over samples equal NumPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.composite import IndexedSlices

# What TensorFlow draws in two steps with tf.set_random_seed(1) and seed=2, and the counts that it expects in the second
# step for the true classes (0, 3, 8, 7) and for the sampled ones.
_STREAMS = [
    ("log_uniform", True, [[13, 108, 22, 14, 24235, 6543], [1725, 2, 4700, 32, 28112, 9]],
     [0.392471, 0.126347, 0.0596568, 0.0666907],
     [0.000327956, 0.16289, 0.000120433, 0.0169032, 2.01404e-05, 0.0539662]),
    ("uniform", True, [[39, 6, 27, 1, 13, 38], [27, 30, 22, 36, 8, 33]], [0.15] * 4, [0.15] * 6),
    ("uniform_power_of_two", False, [[207, 822, 371, 913, 597, 70], [315, 366, 110, 892, 944, 233]],
     [0.00585938] * 4, [0.00585938] * 6),
    ("learned", True, [[5, 6, 9, 3, 0, 1], [4, 9, 1, 2, 10, 7]], [0.681715] * 4,
     [0.42417, 0.42417, 0.42417, 0.42417, 0.42417, 0.681715]),
    ("learned", False, [[5, 5, 6, 9, 6, 3], [4, 4, 9, 1, 2, 10]], [0.8] * 4, [0.4] * 6),
    ("fixed", True, [[5, 9, 10, 8, 6, 7], [10, 6, 9, 7, 8, 5]], [0.0, 0.206213, 0.893155, 0.813255],
     [0.972796, 0.697705, 0.943639, 0.813255, 0.893155, 0.546278]),
    ("fixed", False, [[5, 9, 10, 8, 9, 10], [10, 6, 9, 10, 7, 6]], [0.0, 0.114366, 1.02018, 0.782985],
     [1.55671, 0.569325, 1.27865, 1.55671, 0.782985, 0.569325]),
]  # fmt: skip


def _sampler(name: str, unique: bool) -> Any:
    truth = tf.constant([[0], [3], [8], [7]], tf.int64)
    if name == "log_uniform":
        return tf.nn.log_uniform_candidate_sampler(truth, 1, 6, unique, 40000, seed=2)
    if name == "uniform":
        return tf.nn.uniform_candidate_sampler(truth, 1, 6, unique, 40, seed=2)
    if name == "uniform_power_of_two":
        return tf.nn.uniform_candidate_sampler(truth, 1, 6, unique, 1024, seed=2)
    if name == "learned":
        return tf.nn.learned_unigram_candidate_sampler(truth, 1, 6, unique, 11, seed=2)
    weights = [float(i * i + 1) for i in range(9)]
    return tf.nn.fixed_unigram_candidate_sampler(
        truth, 1, 6, unique, 11, unigrams=weights, num_reserved_ids=2, distortion=0.75, seed=2
    )


@pytest.mark.parametrize(("name", "unique", "drawn", "of_true", "of_sampled"), _STREAMS)
def test_a_seed_draws_what_tensorflow_draws(
    name: str, unique: bool, drawn: list[list[int]], of_true: list[float], of_sampled: list[float]
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        sampler = list(_sampler(name, unique))
        steps = [session.run(sampler) for _ in range(2)]
    assert [step[0].tolist() for step in steps] == drawn
    np.testing.assert_allclose(steps[1][1].ravel(), of_true, 1e-5)
    np.testing.assert_allclose(steps[1][2], of_sampled, 1e-5)


def test_unique_samples_differ_and_the_learned_distribution_follows_the_classes() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        truth = tf.placeholder(tf.int64, [None, 1])
        sampler = tf.nn.learned_unigram_candidate_sampler(truth, 1, 400, False, 5)
        session.run(sampler, {truth: np.full((995, 1), 4)})
        later = session.run(sampler.sampled_candidates, {truth: np.zeros((0, 1), np.int64)})
        assert (later == 4).mean() > 0.97
        everything = tf.nn.uniform_candidate_sampler(np.array([[1]]), 1, 50, True, 50)
        assert sorted(session.run(everything.sampled_candidates)) == list(range(50))


def test_weights_come_from_the_last_column_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "vocabulary.txt"
    file.write_text("the,1.0\na, with comma,0\nof,3\n")
    with tf.Graph().as_default(), tf.Session() as session:
        sampler = tf.nn.fixed_unigram_candidate_sampler(
            np.array([[0], [1], [2]]), 1, 100, False, 3, vocab_file=str(file)
        )
        drawn, of_true, _ = session.run(sampler)
        np.testing.assert_allclose(of_true.ravel(), [25, 0, 75], 1e-6)
        assert set(drawn) == {0, 2}
        file.write_text("the,1.0\na,zero\nof,3\n")
        broken = tf.nn.fixed_unigram_candidate_sampler(np.array([[0]]), 1, 2, False, 3, vocab_file=str(file))
        with pytest.raises(tf.errors.InvalidArgumentError, match="a,zero"):
            session.run(broken)


_RNG = np.random.default_rng(5)
_W, _B, _X = _RNG.normal(size=(9, 4)), _RNG.normal(size=9), _RNG.normal(size=(3, 4))
_SAMPLED = np.array([2, 7, 5, 0])
_Q = _RNG.uniform(0.1, 0.9, 4).astype("f")


def _expected_logits(labels: np.ndarray, true_q: np.ndarray, remove: bool) -> tuple[np.ndarray, np.ndarray]:
    true = np.einsum("bd,btd->bt", _X, _W[labels]) + _B[labels] - np.log(true_q)
    sampled = _X @ _W[_SAMPLED].T + _B[_SAMPLED] - np.log(_Q)
    if remove:
        for row, classes in enumerate(labels):
            sampled[row, np.isin(_SAMPLED, classes)] = -1e30
    return true, sampled


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("labels", [[[2], [1], [0]], [[2, 2], [7, 8], [3, 5]]], ids=["one", "two"])
def test_losses_over_samples(labels: list[list[int]], remove: bool) -> None:
    classes = np.array(labels)
    num_true = classes.shape[1]
    true_q = np.linspace(0.2, 0.7, classes.size).reshape(classes.shape).astype("f")
    true, sampled = _expected_logits(classes, true_q, remove)
    logits = np.concatenate([true, sampled], 1)
    targets = np.concatenate([np.full(true.shape, 1 / num_true), np.zeros(sampled.shape)], 1)
    softmax = -(targets * (logits - np.log(np.exp(logits).sum(1, keepdims=True)))).sum(1)
    nce = (np.logaddexp(0, logits) - np.where(targets > 0, logits * targets, 0)).sum(1)
    for function, expected in ((tf.nn.sampled_softmax_loss, softmax), (tf.nn.nce_loss, nce)):
        for shards in (1, 2):
            with tf.Graph().as_default(), tf.Session() as session:
                w: Any = tf.constant(_W) if shards == 1 else [tf.constant(_W[:5]), tf.constant(_W[5:])]
                loss = function(
                    w, tf.constant(_B), classes, tf.constant(_X), 4, 9, num_true,
                    sampled_values=(_SAMPLED, true_q, _Q), remove_accidental_hits=remove, partition_strategy="div",
                )  # fmt: skip
                np.testing.assert_allclose(session.run(loss), expected, 1e-5)


def test_gradients_of_a_sampled_loss_are_rows_and_right() -> None:
    labels = np.array([[2], [1], [2]])
    with tf.Graph().as_default(), tf.Session() as session:
        w, b, x = tf.Variable(_W), tf.Variable(_B), tf.constant(_X)
        fixed = (_SAMPLED, np.full((3, 1), 0.3, "f"), _Q)
        loss = tf.reduce_sum(tf.nn.sampled_softmax_loss(w, b, labels, x, 4, 9, sampled_values=fixed))
        slopes = tf.gradients(loss, [w, b, x])
        assert isinstance(slopes[0], IndexedSlices) and isinstance(slopes[1], IndexedSlices)
        session.run(tf.global_variables_initializer())
        dense = session.run([tf.convert_to_tensor(slope) for slope in slopes])
        for variable, start, slope in ((w, _W, dense[0]), (b, _B, dense[1])):
            for place in np.ndindex(*start.shape):
                step = np.zeros(start.shape)
                step[place] = 1e-5
                ends = []
                for sign in (1, -1):
                    variable.load(start + sign * step, session)
                    ends.append(session.run(loss))
                variable.load(start, session)
                np.testing.assert_allclose(slope[place], (ends[0] - ends[1]) / 2e-5, 1e-4, 1e-6)


def test_the_default_sampler_trains_with_many_classes() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        labels = tf.placeholder(tf.int32, [None, 1])
        loss = tf.nn.sampled_softmax_loss(tf.zeros([1000, 3]), tf.zeros([1000]), labels, tf.ones([2, 3]), 20, 1000)
        assert np.isfinite(session.run(loss, {labels: [[5], [999]]})).all()
        for bad in ([[0], [1000]], [[-1], [0]]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
                session.run(loss, {labels: bad})
