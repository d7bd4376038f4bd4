"""tf.contrib.metrics and tf.contrib.losses where they differ from tf.metrics and tf.losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

losses = tf.contrib.losses
metrics = tf.contrib.metrics


def _run(tensor: Any) -> Any:
    with tf.Session() as sess:
        return sess.run(tensor)


def _both(metric: Any) -> Any:
    value, update = metric
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        first = sess.run(update)
        return first, sess.run(value)


def test_weights_of_examples_need_no_further_axes() -> None:
    predictions, labels = tf.constant([[1.0, 2.0], [3.0, 5.0]]), tf.zeros([2, 2])
    assert _run(losses.absolute_difference(predictions, labels, [1.0, 0.0])) == 1.5
    assert _run(losses.mean_squared_error(predictions, labels, [[0.0], [1.0]])) == 17.0
    units = tf.constant([[[1.0, 0.0], [0.0, 1.0]]])
    distance = losses.cosine_distance(units, tf.constant([[[1.0, 0.0], [1.0, 0.0]]]), axis=2, weights=[[1.0, 3.0]])
    assert _run(distance) == 1.5
    with pytest.raises(ValueError, match="cannot be None"):
        losses.compute_weighted_loss(predictions, tf.placeholder(tf.float32))


def test_pairs_of_an_element_with_itself_count() -> None:
    difference = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 3.0]])
    pairs = [np.mean((row[:, None] - row[None, :]) ** 2) for row in difference]
    value = losses.mean_pairwise_squared_error(tf.constant(difference), tf.zeros([2, 3]), [1.0, 2.0])
    np.testing.assert_allclose(_run(value), pairs[0] + 2 * pairs[1], rtol=1e-6)


def test_a_scope_keeps_losses_out_of_the_collection() -> None:
    with tf.contrib.framework.arg_scope([losses.add_loss], loss_collection=None):
        losses.mean_squared_error(tf.ones([2]), tf.zeros([2]))
        losses.mean_pairwise_squared_error(tf.ones([2, 2]), tf.zeros([2, 2]))
    assert losses.get_losses() == []
    kept = losses.log_loss(tf.ones([2]), tf.ones([2]))
    assert losses.get_losses() == [kept] and kept.op.name == "log_loss/value"
    with pytest.raises(ValueError, match="incompatible"):
        losses.hinge_loss(tf.ones([2]), tf.ones([3]))


def test_metrics_of_the_best_classes() -> None:
    best, labels = tf.constant([[3, 1], [0, 2]], tf.int64), tf.constant([[1], [0]], tf.int64)
    assert _both(metrics.streaming_sparse_precision_at_top_k(best, labels)) == (0.5, 0.5)
    assert _both(metrics.sparse_recall_at_top_k(labels, best)) == (1.0, 1.0)
    assert _both(metrics.streaming_sparse_average_precision_at_top_k(best, labels)) == (0.75, 0.75)
    with pytest.raises(ValueError, match="rank at least 1"):
        metrics.streaming_sparse_precision_at_top_k(tf.constant(1, tf.int64), labels)


def test_rates_of_errors() -> None:
    labels, predictions = [0, 0, 0, 1, 1], [1, 0, 0, 0, 1]
    assert _both(metrics.streaming_false_positive_rate(predictions, labels))[1] == np.float32(1 / 3)
    assert _both(metrics.streaming_false_negative_rate(predictions, labels, [1, 1, 1, 3, 1]))[1] == 0.75
    scores = tf.constant([0.9, 0.4, 0.1, 0.3, 0.8])
    rates = _both(metrics.streaming_false_positive_rate_at_thresholds(scores, labels, [0.2, 0.5]))[1]
    np.testing.assert_allclose(rates, [2 / 3, 1 / 3], rtol=1e-6)
    rates = _both(metrics.streaming_false_negative_rate_at_thresholds(scores, labels, [0.2, 0.5]))[1]
    np.testing.assert_allclose(rates, [0.0, 0.5], rtol=1e-6)


def test_values_are_counted() -> None:
    assert _both(metrics.count(tf.ones([2, 3]))) == (6.0, 6.0)
    assert _both(metrics.count(tf.ones([2, 3]), weights=[[1.0], [0.5]])) == (4.5, 4.5)


def test_all_values_are_joined() -> None:
    value, update = metrics.streaming_concat(tf.ones([2, 3]), updates_collections=["updates"])
    assert tf.get_collection("updates") == [update]
    assert _both((value, update))[1].shape == (2, 3)
    with pytest.raises(ValueError, match="statically known"):
        metrics.streaming_concat(tf.placeholder(tf.float32, [2, None]))


def test_thresholds_take_predictions_that_are_integers() -> None:
    value, update = tf.metrics.precision_at_thresholds([0, 1, 1], tf.constant([1, 1, 0]), [0.5])
    assert _both((value, update))[1] == [0.5]


def test_the_covariance_of_large_values_keeps_its_digits() -> None:
    random = np.random.RandomState(0)
    x, y = (1000.0 + random.randn(2, 3, 8)).astype(np.float32)
    batch = tf.placeholder(tf.float32, [2, 8])
    covariance, update = metrics.streaming_covariance(batch[0], batch[1])
    correlation, more = metrics.streaming_pearson_correlation(batch[0], batch[1])
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert np.isnan(sess.run(covariance))
        for i in range(3):
            found = sess.run([update, more], {batch: [x[i], y[i]]})
            both = np.cov(x[: i + 1].ravel().astype(float), y[: i + 1].ravel().astype(float))
            np.testing.assert_allclose(found, [both[0, 1], both[0, 1] / np.sqrt(both[0, 0] * both[1, 1])], rtol=1e-4)
        assert sess.run([covariance, correlation]) == found


def test_curves_over_thresholds() -> None:
    labels, scores = tf.constant([0, 0, 1, 1]), tf.constant([0.1, 0.4, 0.35, 0.8])
    value, update = metrics.streaming_curve_points(labels, scores, num_thresholds=5)
    points = _both((value, tf.tuple([tf.constant(0)], control_inputs=[update])))[1]
    np.testing.assert_allclose(points, [[1, 1], [0.5, 1], [0, 0.5], [0, 0.5], [0, 0]], atol=1e-5)
    np.testing.assert_allclose(_both(metrics.recall_at_precision(labels, scores, 0.9))[1], 0.5, rtol=1e-5)
    np.testing.assert_allclose(_both(metrics.precision_at_recall(labels, scores, 1.0))[1], 0.5, rtol=1e-5)
    assert _both(metrics.recall_at_precision(labels, scores, 1.0, strict_mode=True))[1] == 0.0
    np.testing.assert_allclose(
        _both(metrics.recall_at_precision(labels, scores, 0.6, strict_mode=True))[1], 1.0, rtol=1e-5
    )
    # The precisions are 1/3 and 1/2: the least that reaches 0.4 is at the higher threshold.
    labels, scores = tf.constant([0, 1, 1, 0, 0, 0]), tf.constant([0.9, 0.2, 0.8, 0.1, 0.1, 0.1])
    strict = metrics.recall_at_precision(labels, scores, 0.4, num_thresholds=3, strict_mode=True)
    np.testing.assert_allclose(_both(strict)[1], 0.5, rtol=1e-5)
    for call in (metrics.recall_at_precision, metrics.precision_at_recall):
        with pytest.raises(ValueError, match="range"):
            call(labels, scores, 1.5)
    with pytest.raises(ValueError, match="ROC or PR"):
        metrics.streaming_curve_points(labels, scores, curve="X")
