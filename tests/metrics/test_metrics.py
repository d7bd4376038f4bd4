"""tf.metrics over several batches against NumPy on all of them at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

_RNG = np.random.default_rng(11)
_STEPS, _ROWS, _COLUMNS = 3, 5, 4
_SHAPE = (_STEPS, _ROWS, _COLUMNS)
_REAL = _RNG.random(_SHAPE).astype("f")
_SCORES = _RNG.random(_SHAPE).astype("f")
_SCORES[0, 0, :3] = (0.0, 1.0, 0.5)
_TRUE = _RNG.random(_SHAPE) < 0.4
_GUESS = _RNG.random(_SHAPE) < 0.5
_CLASSES = _RNG.integers(0, 4, (_STEPS, _ROWS))
_GUESSED = _RNG.integers(0, 4, (_STEPS, _ROWS))
_SEVERAL = _RNG.integers(0, _COLUMNS, (_STEPS, _ROWS, 2))
_WEIGHTS = {
    "none": None,
    "scalar": np.full(_STEPS, 2.5, "f"),
    "row": _RNG.random((_STEPS, _ROWS, 1)).astype("f"),
    "full": _RNG.random(_SHAPE).astype("f"),
}


def _run(metric: Callable[..., Any], *batches: np.ndarray, weights: Any = None, known: bool = True) -> Any:
    """The value before and after each batch, checking that the update returns the value after it."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(tf.as_dtype(x.dtype), x.shape[1:] if known else None) for x in batches]
        fed = list(zip(inputs, batches, strict=True))
        options = {}
        if weights is not None:
            options["weights"] = tf.placeholder(tf.float32, weights.shape[1:] if known else None)
            fed.append((options["weights"], weights))
        value, update = metric(*inputs, metrics_collections=["values"], updates_collections=["updates"], **options)
        assert tf.get_collection("values") == [value]
        assert len(tf.get_collection("updates")) == 1
        assert set(tf.local_variables()) == set(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))
        assert not tf.global_variables() and not tf.trainable_variables()
        session.run(tf.local_variables_initializer())
        values = [session.run(value)]
        for step in range(_STEPS):
            updated = session.run(update, {p: x[step] for p, x in fed})
            values.append(session.run(value))
            if np.shape(updated) == np.shape(values[-1]):
                np.testing.assert_allclose(updated, values[-1], 1e-6)
        return values


def _mean(x: np.ndarray, w: Any) -> Any:
    return np.average(x, weights=_full(w, x.shape))


def _full(w: Any, shape: tuple[int, ...]) -> np.ndarray:
    if w is None:
        return np.ones(shape)
    return np.broadcast_to(w.reshape(w.shape + (1,) * (len(shape) - w.ndim)), shape).astype(np.float64)


_MEANS: list[tuple[str, Callable[..., Any], tuple[np.ndarray, ...], Callable[[Any], Any]]] = [
    ("mean", tf.metrics.mean, (_REAL,), lambda w: _mean(_REAL, w)),
    ("accuracy", tf.metrics.accuracy, (_TRUE, _GUESS), lambda w: _mean(_TRUE == _GUESS, w)),
    (
        "percentage_below",
        lambda x, **k: tf.metrics.percentage_below(x, 0.4, **k),
        (_REAL,),
        lambda w: _mean(_REAL < 0.4, w),
    ),
    (
        "mean_absolute_error",
        tf.metrics.mean_absolute_error,
        (_REAL, _SCORES),
        lambda w: _mean(np.abs(_REAL - _SCORES), w),
    ),
    (
        "mean_squared_error",
        tf.metrics.mean_squared_error,
        (_REAL, _SCORES),
        lambda w: _mean((_REAL - _SCORES) ** 2, w),
    ),
    (
        "root_mean_squared_error",
        tf.metrics.root_mean_squared_error,
        (_REAL, _SCORES),
        lambda w: np.sqrt(_mean((_REAL - _SCORES) ** 2, w)),
    ),
    (
        "mean_relative_error",
        lambda a, b, **k: tf.metrics.mean_relative_error(a, b, normalizer=tf.round(a), **k),
        (_REAL, _SCORES),
        lambda w: _mean(np.where(_REAL > 0.5, np.abs(_REAL - _SCORES), 0), w),
    ),
]


@pytest.mark.parametrize("weights", _WEIGHTS)
@pytest.mark.parametrize(("name", "metric", "batches", "expected"), _MEANS, ids=[case[0] for case in _MEANS])
def test_means(name: str, metric: Any, batches: Any, expected: Any, weights: str) -> None:
    w = _WEIGHTS[weights]
    for known in (True, False):
        values = _run(metric, *batches, weights=w, known=known)
        assert values[0] == 0
        np.testing.assert_allclose(values[-1], expected(w), 1e-5)


def test_mean_tensor_and_mean_cosine_distance() -> None:
    w = _WEIGHTS["full"]
    assert w is not None
    values = _run(tf.metrics.mean_tensor, _REAL, weights=w)
    np.testing.assert_allclose(values[-1], (_REAL * w).sum(0) / w.sum(0), 1e-5)
    np.testing.assert_array_equal(values[0], np.zeros((_ROWS, _COLUMNS)))
    row = _WEIGHTS["row"]
    assert row is not None
    values = _run(lambda a, b, **k: tf.metrics.mean_cosine_distance(a, b, dim=1, **k), _REAL, _SCORES, weights=row)
    products = (_REAL * _SCORES).sum(-1, keepdims=True)
    np.testing.assert_allclose(values[-1], 1 - (products * row).sum() / row.sum(), 1e-5)


def _cells(decision: np.ndarray, w: Any) -> dict[str, float]:
    full = _full(w, decision.shape)
    return {
        "tp": full[_TRUE & decision].sum(),
        "fn": full[_TRUE & ~decision].sum(),
        "tn": full[~_TRUE & ~decision].sum(),
        "fp": full[~_TRUE & decision].sum(),
    }


_COUNTS = {"true_positives": "tp", "false_negatives": "fn", "true_negatives": "tn", "false_positives": "fp"}


@pytest.mark.parametrize("weights", _WEIGHTS)
def test_counts_precision_and_recall(weights: str) -> None:
    w = _WEIGHTS[weights]
    cells = _cells(_GUESS, w)
    for name, key in _COUNTS.items():
        np.testing.assert_allclose(_run(getattr(tf.metrics, name), _TRUE, _GUESS, weights=w)[-1], cells[key], 1e-5)
    precision = _run(tf.metrics.precision, _TRUE, _GUESS, weights=w)
    recall = _run(tf.metrics.recall, _TRUE.astype("i4"), _GUESS.astype("f"), weights=w)
    assert precision[0] == 0 and recall[0] == 0
    np.testing.assert_allclose(precision[-1], cells["tp"] / (cells["tp"] + cells["fp"]), 1e-5)
    np.testing.assert_allclose(recall[-1], cells["tp"] / (cells["tp"] + cells["fn"]), 1e-5)


_THRESHOLDS = [0.7, 0.1, 0.5, 1.0, 0.5]


@pytest.mark.parametrize("weights", _WEIGHTS)
def test_counts_precision_and_recall_at_thresholds(weights: str) -> None:
    w = _WEIGHTS[weights]
    cells = [_cells(np.float32(t) < _SCORES, w) for t in _THRESHOLDS]
    for name, key in _COUNTS.items():
        metric = getattr(tf.metrics, f"{name}_at_thresholds")
        values = _run(lambda a, b, m=metric, **k: m(a, b, thresholds=_THRESHOLDS, **k), _TRUE, _SCORES, weights=w)
        np.testing.assert_allclose(values[-1], [c[key] for c in cells], 1e-4, 1e-5)
    for name, other in (("precision", "fp"), ("recall", "fn")):
        metric = getattr(tf.metrics, f"{name}_at_thresholds")
        values = _run(lambda a, b, m=metric, **k: m(a, b, thresholds=_THRESHOLDS, **k), _TRUE, _SCORES, weights=w)
        np.testing.assert_allclose(values[-1], [c["tp"] / (c["tp"] + c[other] + 1e-7) for c in cells], 1e-4)


def _curve(curve: str, thresholds: list[float], w: Any) -> tuple[np.ndarray, np.ndarray]:
    cells = [_cells(np.float32(t) < _SCORES, w) for t in thresholds]
    tp, fn, tn, fp = (np.array([c[key] for c in cells]) for key in ("tp", "fn", "tn", "fp"))
    rate = (tp + 1e-6) / (tp + fn + 1e-6)
    if curve == "ROC":
        return fp / (fp + tn + 1e-6), rate
    return rate, (tp + 1e-6) / (tp + fp + 1e-6)


@pytest.mark.parametrize("method", ["trapezoidal", "minoring", "majoring"])
@pytest.mark.parametrize("curve", ["ROC", "PR"])
def test_auc(curve: str, method: str) -> None:
    w = _WEIGHTS["full"]
    inner = [(i + 1) / 9 for i in range(8)]
    for given in (None, [0.3, 0.9, 0.6]):
        x, y = _curve(curve, [-1e-7, *sorted(given or inner), 1 + 1e-7], w)
        height = {"trapezoidal": (y[:-1] + y[1:]) / 2, "minoring": np.minimum(y[:-1], y[1:])}.get(
            method, np.maximum(y[:-1], y[1:])
        )
        values = _run(
            lambda a, b, at=given, **k: tf.metrics.auc(
                a, b, curve=curve, num_thresholds=10, summation_method=method, thresholds=at, **k
            ),
            _TRUE, _SCORES, weights=w,
        )  # fmt: skip
        np.testing.assert_allclose(values[-1], ((x[:-1] - x[1:]) * height).sum(), 1e-4)


def test_auc_with_careful_interpolation_is_the_integral_over_linear_counts() -> None:
    thresholds = [-1e-7, *[(i + 1) / 9 for i in range(8)], 1 + 1e-7]
    cells = [_cells(np.float32(t) < _SCORES, None) for t in thresholds]
    area = 0.0
    for left, right in itertools.pairwise(cells):
        # Between two thresholds true and false positives fall together: walk there in many small steps.
        s = np.linspace(0, 1, 20001)
        tp = right["tp"] + s * (left["tp"] - right["tp"])
        fp = right["fp"] + s * (left["fp"] - right["fp"])
        with np.errstate(invalid="ignore"):
            precision = np.nan_to_num(tp / (tp + fp), nan=left["tp"] / max(left["tp"] + left["fp"], 1e-9))
        recall = tp / (left["tp"] + left["fn"])
        area += float((np.diff(recall) * (precision[:-1] + precision[1:]) / 2).sum())
    values = _run(
        lambda a, b, **k: tf.metrics.auc(
            a, b, curve="PR", num_thresholds=10, summation_method="careful_interpolation", **k
        ),
        _TRUE, _SCORES,
    )  # fmt: skip
    np.testing.assert_allclose(values[-1], area, 1e-3)


def test_trade_offs_between_sensitivity_and_specificity() -> None:
    thresholds = [-1e-7, *[(i + 1) / 9 for i in range(8)], 1 - 1e-7]
    cells = [_cells(np.float32(t) < _SCORES, None) for t in thresholds]
    sensitivity = np.array([c["tp"] / (c["tp"] + c["fn"]) for c in cells])
    specificity = np.array([c["tn"] / (c["tn"] + c["fp"]) for c in cells])
    values = _run(
        lambda a, b, **k: tf.metrics.sensitivity_at_specificity(a, b, 0.6, num_thresholds=10, **k), _TRUE, _SCORES
    )
    np.testing.assert_allclose(values[-1], sensitivity[np.abs(specificity - 0.6).argmin()], 1e-5)
    values = _run(
        lambda a, b, **k: tf.metrics.specificity_at_sensitivity(a, b, 0.6, num_thresholds=10, **k), _TRUE, _SCORES
    )
    distance = np.abs(sensitivity - 0.6)
    np.testing.assert_allclose(values[-1], specificity[np.flatnonzero(distance == distance.min())[-1]], 1e-5)


def test_predictions_outside_of_zero_to_one_are_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        scores = tf.placeholder(tf.float32, [2])
        _, update = tf.metrics.auc([True, False], scores)
        session.run(tf.local_variables_initializer())
        for bad in ([0.5, 1.5], [-0.1, 0.2], [np.nan, 0.1]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="must be in"):
                session.run(update, {scores: bad})
    for wrong in ({"curve": "XY"}, {"summation_method": "guess"}, {"num_thresholds": 1}):
        with tf.Graph().as_default(), pytest.raises(ValueError):
            tf.metrics.auc([True], [0.5], **wrong)


@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_per_class(weighted: bool) -> None:
    w = _RNG.random((_STEPS, _ROWS)).astype("f") if weighted else None
    matrix = np.zeros((5, 5))
    np.add.at(matrix, (_CLASSES.ravel(), _GUESSED.ravel()), _full(w, _CLASSES.shape).ravel())
    union = matrix.sum(0) + matrix.sum(1) - matrix.diagonal()
    values = _run(lambda a, b, **k: tf.metrics.mean_iou(a, b, 5, **k), _CLASSES, _GUESSED, weights=w)
    np.testing.assert_allclose(values[-1], (matrix.diagonal()[:4] / union[:4]).mean(), 1e-5)
    values = _run(lambda a, b, **k: tf.metrics.mean_per_class_accuracy(a, b, 5, **k), _CLASSES, _GUESSED, weights=w)
    share = [matrix[c, c] / matrix[c].sum() if matrix[c].sum() else 0 for c in range(5)]
    np.testing.assert_allclose(values[-1], np.mean(share), 1e-5)


@pytest.mark.parametrize("metric", [tf.metrics.mean_iou, tf.metrics.mean_per_class_accuracy])
def test_a_class_out_of_range_is_an_error_and_counts_nothing(metric: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        labels = tf.placeholder(tf.int64, [None])
        value, update = metric(labels, labels, 3)
        session.run(tf.local_variables_initializer())
        for bad in ([0, 3], [-1, 1]):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(update, {labels: bad})
        session.run(update, {labels: np.zeros(0, np.int64)})
        assert session.run(value) == 0


def _best(k: int) -> np.ndarray:
    return np.argsort(-_SCORES, -1, kind="stable")[..., :k]


def _ranked(k: int, class_id: int | None, w: np.ndarray) -> dict[str, float]:
    cells = {"tp": 0.0, "fp": 0.0, "fn": 0.0}
    for place in np.ndindex(_STEPS, _ROWS):
        labels, best = set(_SEVERAL[place].tolist()), set(_best(k)[place].tolist())
        if class_id is not None:
            labels, best = labels & {class_id}, best & {class_id}
        cells["tp"] += w[place] * len(labels & best)
        cells["fp"] += w[place] * len(best - labels)
        cells["fn"] += w[place] * len(labels - best)
    return cells


def _as_sparse(metric: Any) -> Any:
    def call(labels: Any, predictions: Any, **options: Any) -> Any:
        places = tf.where(labels >= 0)
        sparse = tf.SparseTensor(places, tf.gather_nd(labels, places), tf.shape(labels, out_type=tf.int64))
        return metric(sparse, predictions, **options)

    return call


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("class_id", [None, 1])
def test_precision_and_recall_at_k(class_id: int | None, sparse: bool) -> None:
    w = _RNG.random((_STEPS, _ROWS)).astype("f")
    cells = _ranked(2, class_id, w)
    for name, other in (("precision", "fp"), ("recall", "fn")):
        metric = getattr(tf.metrics, f"{name}_at_k")
        wrapped = _as_sparse(metric) if sparse else metric
        values = _run(lambda a, b, m=wrapped, **o: m(a, b, k=2, class_id=class_id, **o), _SEVERAL, _SCORES, weights=w)
        assert np.isnan(values[0])
        np.testing.assert_allclose(values[-1], cells["tp"] / (cells["tp"] + cells[other]), 1e-6)
        top = getattr(tf.metrics, f"{name}_at_top_k")
        values = _run(lambda a, b, m=top, **o: m(a, b, k=2, class_id=class_id, **o), _SEVERAL, _best(2), weights=w)
        np.testing.assert_allclose(values[-1], cells["tp"] / (cells["tp"] + cells[other]), 1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_average_precision_at_k(sparse: bool) -> None:
    k = 3
    total = 0.0
    for place in np.ndindex(_STEPS, _ROWS):
        labels = _SEVERAL[place].tolist()
        hits = [int(b) in labels for b in _best(k)[place]]
        precisions = [sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit]
        total += sum(precisions) / min(len(set(labels)) if sparse else 2, k)
    metric = tf.metrics.average_precision_at_k
    metric = _as_sparse(metric) if sparse else metric
    values = _run(lambda a, b, **o: metric(a, b, k=k, **o), _SEVERAL, _SCORES)
    np.testing.assert_allclose(values[-1], total / (_STEPS * _ROWS), 1e-6)


def test_one_label_each_needs_no_dimension_of_its_own() -> None:
    values = _run(lambda a, b, **o: tf.metrics.recall_at_k(a, b, k=2, **o), _CLASSES, _SCORES)
    hits = (_best(2) == _CLASSES[..., None]).any(-1)
    np.testing.assert_allclose(values[-1], hits.mean(), 1e-6)


def test_variables_have_tensorflows_names() -> None:
    with tf.Graph().as_default():
        labels, scores = tf.constant([[1], [0]], tf.int64), tf.constant([[0.1, 0.9], [0.2, 0.8]])
        tf.metrics.accuracy([1], [1])
        tf.metrics.mean([1.0], name="mine")
        tf.metrics.precision([1], [1])
        tf.metrics.recall_at_k(labels, scores, 1, class_id=0)
        tf.metrics.average_precision_at_k(labels, scores, 2)
        tf.metrics.true_positives_at_thresholds([True], [0.5], [0.1])
        tf.metrics.mean_iou([1], [1], 2)
        assert [v.op.name for v in tf.local_variables()] == [
            "accuracy/total", "accuracy/count", "mine/total", "mine/count", "precision/true_positives/count",
            "precision/false_positives/count", "recall_at_1_class0/true_positive_at_1_class0",
            "recall_at_1_class0/false_negative_at_1_class0", "average_precision_at_2/max_1",
            "average_precision_at_2/total", "true_positives/true_positives", "mean_iou/total_confusion_matrix",
        ]  # fmt: skip


def test_weights_that_do_not_fit_are_refused() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="can not be broadcast"):
        tf.metrics.mean(np.ones((2, 3), "f"), np.ones((2, 2), "f"))
    with tf.Graph().as_default(), pytest.raises(ValueError):
        tf.metrics.accuracy([1, 2], [1, 2, 3])
