"""tf.losses against NumPy: values, weights and their checks, reductions, collections, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

_RNG = np.random.default_rng(7)
_LABELS = _RNG.uniform(0.05, 0.95, (4, 3)).astype("f")
_LABELS /= _LABELS.sum(1, keepdims=True)
_PREDICTIONS = _RNG.uniform(0.15, 0.85, (4, 3)).astype("f")
_BINARY = (_LABELS > 0.33).astype("f")
_CLASSES = np.array([0, 2, 1, 2])


def _log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _huber(error: np.ndarray, delta: float) -> np.ndarray:
    return np.where(np.abs(error) <= delta, error**2 / 2, delta * np.abs(error) - delta**2 / 2)


def _sigmoid_loss(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-logits))
    return -labels * np.log(p) - (1 - labels) * np.log(1 - p)


_A, _B = _LABELS, _PREDICTIONS
# (name, call(labels, predictions, **options), the loss of each element)
_ELEMENTWISE: list[tuple[str, Callable[..., Any], np.ndarray]] = [
    ("absolute_difference", tf.losses.absolute_difference, np.abs(_A - _B)),
    ("mean_squared_error", tf.losses.mean_squared_error, (_A - _B) ** 2),
    ("huber_loss", lambda a, b, **k: tf.losses.huber_loss(a, b, delta=0.2, **k), _huber(_A - _B, 0.2)),
    (
        "log_loss",
        lambda a, b, **k: tf.losses.log_loss(a, b, epsilon=1e-3, **k),
        -_A * np.log(_B + 1e-3) - (1 - _A) * np.log(1 - _B + 1e-3),
    ),
    ("hinge_loss", lambda a, b, **k: tf.losses.hinge_loss(_BINARY, b, **k), np.maximum(0, 1 - (2 * _BINARY - 1) * _B)),
    ("sigmoid_cross_entropy", tf.losses.sigmoid_cross_entropy, _sigmoid_loss(_A, _B)),
    (
        "sigmoid_cross_entropy smoothed",
        lambda a, b, **k: tf.losses.sigmoid_cross_entropy(a, b, label_smoothing=0.2, **k),
        _sigmoid_loss(_A * 0.8 + 0.1, _B),
    ),
    (
        "cosine_distance",
        lambda a, b, **k: tf.losses.cosine_distance(a, b, axis=1, **k),
        1 - (_A * _B).sum(1, keepdims=True),
    ),
    ("softmax_cross_entropy", tf.losses.softmax_cross_entropy, -(_A * _log_softmax(_B)).sum(-1)),
    (
        "softmax_cross_entropy smoothed",
        lambda a, b, **k: tf.losses.softmax_cross_entropy(a, b, label_smoothing=0.3, **k),
        -((_A * 0.7 + 0.1) * _log_softmax(_B)).sum(-1),
    ),
    (
        "sparse_softmax_cross_entropy",
        lambda a, b, **k: tf.losses.sparse_softmax_cross_entropy(_CLASSES[:, None], b, **k),
        -_log_softmax(_B)[np.arange(4), _CLASSES],
    ),
]


def _run(call: Callable[[Any, Any], Any], known: bool = True) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = (tf.placeholder(tf.float32, [4, 3] if known else None) for _ in range(2))
        return session.run(call(a, b), {a: _LABELS, b: _PREDICTIONS})


@pytest.mark.parametrize(("name", "call", "expected"), _ELEMENTWISE, ids=[case[0] for case in _ELEMENTWISE])
def test_a_loss_is_the_mean_of_the_losses_of_the_elements(name: str, call: Any, expected: np.ndarray) -> None:
    for known in (True, False):
        np.testing.assert_allclose(_run(call, known), expected.mean(), 1e-4)
        none = _run(lambda a, b: call(a, b, reduction=tf.losses.Reduction.NONE), known)
        np.testing.assert_allclose(none, expected, 1e-3, 1e-5)


def _reduced(losses: np.ndarray, weights: Any, reduction: str) -> Any:
    weights = np.broadcast_to(np.asarray(weights, "f"), losses.shape)
    total = (losses * weights).sum()
    divisor = {
        "weighted_sum": 1,
        "weighted_mean": weights.sum(),
        "weighted_sum_over_batch_size": losses.size,
        "weighted_sum_by_nonzero_weights": (weights != 0).sum(),
    }[reduction]
    return total / divisor if divisor else 0.0


@pytest.mark.parametrize("reduction", [r for r in sorted(set(tf.losses.Reduction.all())) if r != "none"])
@pytest.mark.parametrize(
    "weights",
    [1.0, 0.0, 2.5, 3, [[1.0], [0.0], [2.0], [0.0]], [[1.0, 0.0, 3.0]], np.zeros((4, 3), "f"), _LABELS, [[2.0]]],
    ids=str,
)
def test_weights_and_reductions(weights: Any, reduction: str) -> None:
    expected = _reduced((_LABELS - _PREDICTIONS) ** 2, weights, reduction)
    for known in (True, False):
        for fed in (True, False):
            with tf.Graph().as_default(), tf.Session() as session:
                a, b = (tf.placeholder(tf.float32, [4, 3] if known else None) for _ in range(2))
                feeds: dict[Any, Any] = {a: _LABELS, b: _PREDICTIONS}
                given = weights
                if fed:
                    given = tf.placeholder(tf.float32, np.shape(weights) if known else None)
                    feeds[given] = weights
                loss = tf.losses.mean_squared_error(a, b, given, reduction=reduction)
                np.testing.assert_allclose(session.run(loss, feeds), expected, 1e-5)


@pytest.mark.parametrize("shape", [(4,), (3,), (4, 2), (2, 3), (1, 4, 3), (4, 3, 1)])
def test_weights_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    weights = np.ones(shape, "f")
    with tf.Graph().as_default(), pytest.raises(ValueError, match="weights can not be broadcast to values"):
        tf.losses.mean_squared_error(_LABELS, _PREDICTIONS, weights)
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.placeholder(tf.float32)
        loss = tf.losses.compute_weighted_loss(_LABELS, w)
        with pytest.raises(tf.errors.InvalidArgumentError, match="weights can not be broadcast to values"):
            session.run(loss, {w: weights})


def test_mean_pairwise_squared_error_is_the_mean_over_pairs_of_elements() -> None:
    error = (_PREDICTIONS - _LABELS).astype(np.float64)
    weights = np.array([[1.0], [0.0], [2.0], [1.0]], "f")
    # Each pair of different elements of an example, in either order, over the n (n - 1) of them.
    pairs = [sum((x - y) ** 2 for x in row for y in row) / 6 for row in error]
    expected = (weights[:, 0] * pairs * (weights[:, 0] != 0)).sum()
    got = _run(lambda a, b: tf.losses.mean_pairwise_squared_error(a, b, weights))
    np.testing.assert_allclose(got, expected, 1e-5)
    assert _run(lambda a, b: tf.losses.mean_pairwise_squared_error(a, b, 0.0), False) == 0


def test_losses_are_collected_and_summed() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        first = tf.losses.mean_squared_error([1.0], [2.0])
        second = tf.losses.absolute_difference([1.0], [4.0], scope="mine")
        tf.losses.absolute_difference([1.0], [9.0], loss_collection=None)
        tf.losses.add_loss(tf.constant(5.0), "others")
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(10.0))
        assert tf.losses.get_losses() == [first, second]
        assert tf.losses.get_losses("mine") == [second]
        assert second.name == "mine/value:0"
        assert len(tf.losses.get_losses(loss_collection="others")) == 1
        assert session.run(tf.losses.get_regularization_loss()) == 10
        assert session.run(tf.losses.get_total_loss()) == 14
        assert session.run(tf.losses.get_total_loss(add_regularization_losses=False)) == 4
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.losses.get_regularization_loss()) == 0
        with pytest.raises(ValueError):
            tf.losses.get_total_loss()


@pytest.mark.parametrize(
    "call", [case[1] for case in _ELEMENTWISE if "hinge" not in case[0]],
    ids=[case[0] for case in _ELEMENTWISE if "hinge" not in case[0]],
)  # fmt: skip
def test_the_gradient_reaches_the_predictions(call: Any) -> None:
    def value(x: np.ndarray) -> float:
        with tf.Graph().as_default(), tf.Session() as session:
            return float(session.run(call(_LABELS, tf.constant(x))))

    with tf.Graph().as_default(), tf.Session() as session:
        b = tf.constant(_PREDICTIONS)
        slope = session.run(tf.gradients(call(_LABELS, b), b)[0])
    for place in ((0, 0), (2, 1)):
        step = np.zeros((4, 3), "f")
        step[place] = 0.01
        difference = (value(_PREDICTIONS + step) - value(_PREDICTIONS - step)) / 0.02
        np.testing.assert_allclose(slope[place], difference, 0.02, 3e-4)


def test_labels_of_other_types_and_missing_ones() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.losses.mean_squared_error(np.array([1, 2]), np.array([2.0, 2.0]))) == 0.5
        wide = tf.losses.compute_weighted_loss(np.array([1.0, 2.0]))
        assert wide.dtype == tf.float64 and session.run(wide) == 1.5
    with pytest.raises(ValueError, match="labels must not be None"):
        tf.losses.mean_squared_error(None, [1.0])
    with pytest.raises(ValueError, match="Invalid Reduction Key"):
        tf.losses.mean_squared_error([1.0], [1.0], reduction="sum")
    with pytest.raises(ValueError, match="axis"):
        tf.losses.cosine_distance([1.0], [1.0])
    with tf.Graph().as_default(), pytest.raises(ValueError):
        tf.losses.mean_squared_error([1.0, 2.0], [[1.0, 2.0]])


def test_an_empty_batch_costs_nothing() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3])
        losses = [tf.losses.mean_squared_error(x, x), tf.losses.softmax_cross_entropy(x, x)]
        assert session.run(losses, {x: np.zeros((0, 3), "f")}) == [0, 0]


def test_a_label_out_of_range_is_an_error() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        labels = tf.placeholder(tf.int32, [2])
        loss = tf.losses.sparse_softmax_cross_entropy(labels, np.zeros((2, 3), "f"))
        for bad in ([0, 3], [-1, 0]):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(loss, {labels: bad})


@pytest.mark.parametrize("known", [True, False])
def test_the_gradient_of_a_cross_entropy_reuses_the_forward_pass(known: bool) -> None:
    with tf.Graph().as_default() as graph:
        logits = tf.placeholder(tf.float32, [4, 3] if known else [None, 3])
        losses = [
            tf.losses.sparse_softmax_cross_entropy(_CLASSES, logits),
            tf.losses.softmax_cross_entropy(_LABELS, logits),
        ]
        tf.gradients(losses, logits)
        assert not [op for op in graph.get_operations() if op.type in ("Softmax", "LogSoftmax")]
