"""tf.contrib.estimator: heads, several of them, and changed estimators; values are those of TensorFlow 1.15."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf

contrib: Any = tf.contrib.estimator
LOGITS = np.array([[0.5], [-1.0], [2.0]], np.float32)
LABEL_LOGITS = np.array([[1.0, 2.0, -0.5], [0.0, -1.0, 1.0], [3.0, 1.0, -2.0]], np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        tf.train.create_global_step()
        yield
    tf.summary.FileWriterCache.clear()


def _evaluated(head: Any, logits: Any, labels: Any) -> tuple[float, dict[str, float], Any]:
    features = {"w": tf.constant([[1.0], [2.0], [0.5]])}
    spec = head.create_estimator_spec(features, tf.estimator.ModeKeys.EVAL, logits, labels)
    with tf.Session() as session:
        session.run([tf.local_variables_initializer(), tf.tables_initializer()])
        loss, _ = session.run([spec.loss, [update for _, update in spec.eval_metric_ops.values()]])
        metrics = {name: float(session.run(value)) for name, (value, _) in spec.eval_metric_ops.items()}
    return float(loss), metrics, spec


def test_two_classes_with_weights_and_thresholds() -> None:
    head = contrib.binary_classification_head(weight_column="w", thresholds=[0.4, 0.7], name="b")
    loss, metrics, _ = _evaluated(head, LOGITS, [[1], [0], [0]])
    assert loss == pytest.approx(0.7213548, rel=1e-5)
    expected = {
        "accuracy/b": 0.85714287, "accuracy/positive_threshold_0.4/b": 0.85714287, "recall/b": 1.0,
        "accuracy/positive_threshold_0.7/b": 0.5714286, "auc/b": 0.8, "average_loss/b": 0.61830413,
        "precision/positive_threshold_0.4/b": 0.6666666, "precision/positive_threshold_0.7/b": 0.0,
        "recall/positive_threshold_0.4/b": 1.0, "prediction/mean/b": 0.4573545, "label/mean/b": 0.2857143,
    }  # fmt: skip
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    own = contrib.binary_classification_head(loss_fn=lambda labels, logits: tf.square(labels - logits))
    assert _evaluated(own, LOGITS, [[1], [0], [1]])[0] == pytest.approx((0.25 + 1 + 1) / 3)
    flat = contrib.binary_classification_head(loss_fn=lambda labels, logits: tf.reduce_sum(logits, 1))
    with pytest.raises(ValueError, match="one loss for each example"):
        _evaluated(flat, LOGITS, [[1], [0], [1]])
    with pytest.raises(ValueError, match="thresholds"):
        contrib.binary_classification_head(thresholds=[1.0])


def test_classes_by_their_names() -> None:
    head = contrib.multi_class_head(3, label_vocabulary=["a", "b", "c"])
    logits = np.array([[1, 2, 0.5], [0, 0, 1], [3, 1, 2]], np.float32)
    loss, metrics, spec = _evaluated(head, logits, [["b"], ["c"], ["a"]])
    assert loss == pytest.approx(0.47447315, rel=1e-5) and metrics["accuracy"] == 1.0
    assert set(spec.predictions) >= {"class_ids", "classes", "probabilities", "all_classes"}


@pytest.mark.parametrize(
    ("make", "labels", "loss", "mean"),
    [
        (contrib.regression_head, [[1.0], [0.0], [1.5]], 0.5, 0.5),
        (contrib.poisson_regression_head, [[1.0], [0.0], [3.0]], 1.5565795, 3.1352189),
        (contrib.logistic_regression_head, [[1.0], [0.0], [0.3]], 0.7714222, 0.59073263),
    ],
)  # fmt: skip
def test_numbers(make: Any, labels: Any, loss: float, mean: float) -> None:
    found, metrics, spec = _evaluated(make(), LOGITS, labels)
    assert found == pytest.approx(loss, rel=1e-5) and metrics["prediction/mean"] == pytest.approx(mean, rel=1e-5)
    assert ("logits" in spec.predictions) == (make is not contrib.regression_head)


def test_several_labels_of_an_example() -> None:
    head = contrib.multi_label_head(3, thresholds=[0.5], classes_for_class_based_metrics=[1])
    labels = [[1, 0, 1], [0, 1, 1], [1, 0, 0]]
    loss, metrics, _ = _evaluated(head, LABEL_LOGITS, labels)
    assert loss == pytest.approx(0.80252385, rel=1e-5)
    expected = {
        "accuracy/positive_threshold_0.5": 0.44444445, "auc": 0.55, "auc_precision_recall": 0.64678574,
        "precision/positive_threshold_0.5": 0.6, "recall/positive_threshold_0.5": 0.6,
    }  # fmt: skip
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert metrics["probability_mean/class1"] == pytest.approx(np.mean(1 / (1 + np.exp(-LABEL_LOGITS[:, 1]))))
    sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]], ["a", "c", "b", "c", "a"], [3, 2])
    named = contrib.multi_label_head(3, label_vocabulary=["a", "b", "c"])
    assert _evaluated(named, LABEL_LOGITS, sparse)[0] == pytest.approx(0.80252385, rel=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError):
        _evaluated(head, LABEL_LOGITS, [[2, 0, 1], [0, 1, 1], [1, 0, 0]])
    for bad in ({"n_classes": 1}, {"n_classes": 3, "classes_for_class_based_metrics": [3]}):
        with pytest.raises(ValueError, match="class"):
            contrib.multi_label_head(**bad)


def test_several_heads_of_a_model() -> None:
    heads = [contrib.binary_classification_head(name="b"), contrib.regression_head(name="r")]
    head = contrib.multi_head(heads, head_weights=[1.0, 0.5])
    assert (head.name, head.logits_dimension) == ("b_r", 2)
    labels = {"b": [[1], [0], [1]], "r": [[1.0], [0.0], [1.5]]}
    loss, metrics, spec = _evaluated(head, {"b": LOGITS, "r": LOGITS * 2}, labels)
    assert loss == pytest.approx(2.013089, rel=1e-5)
    assert metrics["loss/r"] == pytest.approx(3.4166667) and metrics["average_loss/b"] == pytest.approx(0.30475557)
    assert ("r", "predictions") in spec.predictions
    together = np.concatenate([LOGITS, LOGITS * 2], 1)
    w = tf.Variable(1.0)
    trained = head.create_estimator_spec(
        {}, tf.estimator.ModeKeys.TRAIN, together * w, labels, tf.train.GradientDescentOptimizer(0.1)
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([trained.train_op, trained.loss])[1] == pytest.approx(2.013089, rel=1e-5)
        assert session.run(w) != 1.0 and session.run(tf.train.get_global_step()) == 1
    served = head.create_estimator_spec({}, tf.estimator.ModeKeys.PREDICT, together)
    assert set(served.export_outputs) == {
        "serving_default", "predict", "b", "b/classification", "b/predict", "b/regression", "r", "r/regression",
        "r/predict",
    }  # fmt: skip
    for bad in ([], [heads[0], heads[0]], [contrib.regression_head()]):
        with pytest.raises(ValueError, match="head"):
            contrib.multi_head(bad)
    with pytest.raises(ValueError, match="same size"):
        contrib.multi_head(heads, [1.0])
    with pytest.raises(ValueError, match="train_op_fn"):
        heads[0].create_estimator_spec({}, tf.estimator.ModeKeys.TRAIN, LOGITS, [[1], [0], [1]])


def _model_fn(features: Any, labels: Any, mode: str) -> Any:
    logits = tf.layers.dense(features["x"], 1)
    optimizer = contrib.clip_gradients_by_norm(tf.train.AdagradOptimizer(0.1), 0.5)
    return contrib.regression_head().create_estimator_spec(features, mode, logits, labels, optimizer)


def _inputs() -> Any:
    features = {"x": np.ones((4, 1), np.float32), "key": np.arange(4)}
    return tf.estimator.inputs.numpy_input_fn(features, np.full((4, 1), 3.0, np.float32), 4, 1, False)


def test_estimators_with_further_metrics_and_forwarded_features(tmp_path: Any) -> None:
    estimator = tf.estimator.Estimator(_model_fn, str(tmp_path))
    estimator.train(_inputs())

    def metric_fn(predictions: Any, features: Any) -> Any:
        return {"largest key": tf.metrics.mean(tf.reduce_max(features["key"]))}

    more = contrib.forward_features(contrib.add_metrics(estimator, metric_fn), "key")
    metrics = more.evaluate(_inputs())
    assert metrics["largest key"] == 3.0 and metrics["average_loss"] > 0
    assert [each["key"] for each in more.predict(_inputs())] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="not expected"):
        contrib.add_metrics(estimator, lambda other: {})
    with pytest.raises(ValueError, match="is not in features"):
        next(contrib.forward_features(estimator, "nothing").predict(_inputs()))


def test_gradients_are_clipped_together() -> None:
    v, w = tf.Variable(0.0), tf.Variable(0.0)
    step = contrib.clip_gradients_by_norm(tf.train.GradientDescentOptimizer(1.0), 1.0).minimize(3 * v + 4 * w)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run([v, w]) == pytest.approx([-0.6, -0.8])
