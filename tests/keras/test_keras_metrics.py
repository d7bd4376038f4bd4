"""Metrics of tf.keras as objects: values, weights, states, names in training. Expected values: TensorFlow 1.15.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

metrics: Any = tf.keras.metrics
_RANDOM = np.random.RandomState(0)
_LABELS = _RANDOM.randint(0, 2, 40).astype(np.float32)
_SCORES = np.clip(_LABELS * 0.3 + _RANDOM.rand(40) * 0.7, 0, 1).astype(np.float32)
_WEIGHTS = _RANDOM.rand(40).astype(np.float32)
_CLASS_SCORES = _RANDOM.rand(20, 6).astype(np.float32)
_CLASSES = _RANDOM.randint(0, 6, 20)


def _value(metric: Any, *batches: Any) -> Any:
    session = tf.keras.backend.get_session()
    values: list[Any] = []
    for batch in batches:
        update = metric.update_state(*batch)
        if not values:
            metric.reset_states()
        session.run(update)
        values.append(session.run(metric.result()))
    return values[-1]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("AUC", {}, 0.87985),
        ("AUC", {"curve": "PR"}, 0.87981),
        ("AUC", {"num_thresholds": 50, "curve": "PR", "summation_method": "minoring"}, 0.84892),
        ("AUC", {"summation_method": "majoring"}, 0.87985),
        ("Precision", {}, 0.83790),
        ("Recall", {"thresholds": [0.3, 0.6]}, [1.0, 0.56058]),
        ("TruePositives", {"thresholds": 0.4}, 8.30261),
        ("FalseNegatives", {}, 3.10393),
        ("BinaryAccuracy", {}, 0.74434),
        ("RootMeanSquaredError", {}, 0.39851),
        ("MeanSquaredError", {}, 0.15881),
        ("BinaryCrossentropy", {}, 0.48091),
        ("LogCoshError", {}, 0.07636),
    ],
)
def test_weighed_values(name: str, arguments: dict[str, Any], expected: Any) -> None:
    with tf.Graph().as_default(), tf.Session():
        found = _value(getattr(metrics, name)(**arguments), (_LABELS[:, None], _SCORES[:, None], _WEIGHTS))
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "arguments", "one_hot", "expected"),
    [
        ("CategoricalAccuracy", (), True, 0.20874),
        ("TopKCategoricalAccuracy", (2,), True, 0.27140),
        ("SparseCategoricalAccuracy", (), False, 0.20874),
        ("SparseTopKCategoricalAccuracy", (3,), False, 0.55869),
    ],
)
def test_values_of_classes(name: str, arguments: tuple[Any, ...], one_hot: bool, expected: float) -> None:
    labels = np.eye(6, dtype=np.float32)[_CLASSES] if one_hot else _CLASSES[:, None]
    with tf.Graph().as_default(), tf.Session():
        found = _value(getattr(metrics, name)(*arguments), (labels, _CLASS_SCORES, _WEIGHTS[:20]))
    assert found == pytest.approx(expected, abs=2e-5)


def test_batches_gather_and_states_begin_anew() -> None:
    with tf.Graph().as_default(), tf.Session():
        mean, total = metrics.Mean(), metrics.Sum()
        batches = [([[1.0, 2.0], [3.0, 5.0]], [[1.0, 0.0], [1.0, 1.0]]), ([11.0], None)]
        assert _value(mean, *batches) == 5.0
        assert _value(total, *batches) == 20.0
        mean.reset_states()
        assert tf.keras.backend.get_session().run(mean.result()) == 0.0
        assert _value(metrics.MeanIoU(6), (_CLASSES, _CLASS_SCORES.argmax(1))) == pytest.approx(0.07229438)
        names = [metrics.AUC().name, metrics.AUC().name, metrics.Precision().name, metrics.Mean().name]
        assert names == ["auc", "auc_1", "precision", "mean"]


def test_areas_of_all_ties_and_of_one_class() -> None:
    with tf.Graph().as_default(), tf.Session():
        assert _value(metrics.AUC(), ([0.0, 1.0], [0.5, 0.5])) == 0.5
        assert _value(metrics.AUC(), ([1.0, 1.0], [0.2, 0.9])) == 0.0
        assert _value(metrics.Precision(), ([0.0, 1.0], [0.1, 0.2])) == 0.0
    with pytest.raises(ValueError, match="num_thresholds"):
        metrics.AUC(1)
    with pytest.raises(ValueError, match="Unknown curve"):
        metrics.AUC(curve="XY")


def test_metrics_by_output_in_training() -> None:
    with tf.Graph().as_default(), tf.Session():
        inputs = tf.keras.layers.Input((6,))
        zeros = {"kernel_initializer": "zeros"}
        first = tf.keras.layers.Dense(1, "sigmoid", name="a", **zeros)(inputs)
        second = tf.keras.layers.Dense(6, "softmax", name="b", **zeros)(inputs)
        model = tf.keras.Model(inputs, [first, second])
        chosen = {"a": [metrics.FalseNegatives(name="missed"), "accuracy"], "b": metrics.CategoricalAccuracy()}
        losses = {"a": "binary_crossentropy", "b": "categorical_crossentropy"}
        model.compile(tf.keras.optimizers.SGD(0.0), losses, metrics=chosen, sample_weight_mode=None)
        one_hot = np.eye(6, dtype=np.float32)[_CLASSES]
        history = model.fit(_CLASS_SCORES, [_LABELS[:20], one_hot], epochs=2, batch_size=6, verbose=0).history
        assert model.metrics_names == ["loss", "a_loss", "b_loss", "a_missed", "a_acc", "b_categorical_accuracy"]
        # A count over the whole epoch, and again from zero in the second. Every score is 0.5, which is not above 0.5.
        assert history["a_missed"] == [_LABELS[:20].sum()] * 2
        assert history["b_categorical_accuracy"] == pytest.approx([(_CLASSES == 0).mean()] * 2)
        evaluated = model.evaluate(_CLASS_SCORES, [_LABELS[:20], one_hot], batch_size=7, verbose=0)
        assert evaluated[3] == _LABELS[:20].sum()


@pytest.mark.parametrize("given", ["accuracy", "acc"])
def test_accuracy_is_called_acc_as_in_tensorflow_1(given: str) -> None:
    with tf.Graph().as_default(), tf.Session():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
        model.compile("sgd", "mse", metrics=[given, "mae"])
        assert sorted(model.fit(np.ones([2, 2]), np.ones(2), verbose=0).history) == [
            "acc",
            "loss",
            "mean_absolute_error",
        ]
