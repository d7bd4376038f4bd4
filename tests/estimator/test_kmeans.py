"""tf.estimator.experimental.KMeans: clusters that lie apart are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tf

_MEANS = np.array([[0.0, 0.0], [8.0, 8.0], [-8.0, 8.0]], np.float32)
_POINTS = np.concatenate([np.random.default_rng(0).normal(size=(30, 2)) + mean for mean in _MEANS]).astype(np.float32)


def _input(epochs: int) -> object:
    return tf.estimator.inputs.numpy_input_fn({"a": _POINTS[:, :1], "b": _POINTS[:, 1:]}, batch_size=45,
                                              num_epochs=epochs, shuffle=False)  # fmt: skip


@pytest.mark.parametrize("start", ["kmeans_plus_plus", _MEANS + 1])
@pytest.mark.parametrize("mini_batch", [False, True])
def test_finds_clusters(start: object, mini_batch: bool, tmp_path: Path) -> None:
    model = tf.estimator.experimental.KMeans(
        3, str(tmp_path), start, use_mini_batch=mini_batch, seed=3, relative_tolerance=1e-9
    )
    model.train(_input(6))
    centers = model.cluster_centers()
    distances = np.linalg.norm(centers[:, None] - _MEANS, axis=-1)
    assert sorted(distances.argmin(1).tolist()) == [0, 1, 2]
    found = list(model.predict_cluster_index(_input(1)))
    assert all(np.linalg.norm(centers[i] - p) == pytest.approx(np.linalg.norm(centers - p, axis=-1).min())
               for i, p in zip(found, _POINTS, strict=True))  # fmt: skip
    assert len(next(iter(model.transform(_input(1))))) == 3
    assert model.score(_input(1)) < 45 * 8


def test_is_the_estimator_of_contrib() -> None:
    assert tf.contrib.factorization.KMeansClustering is tf.estimator.experimental.KMeans


def test_training_with_one_epoch_at_a_time_advances(tmp_path: Path) -> None:
    # The first call's epoch goes into the first centers: they are kept, and the next call moves them.
    model = tf.estimator.experimental.KMeans(3, str(tmp_path), "kmeans_plus_plus", use_mini_batch=False, seed=3)
    centers = []
    for _ in range(3):
        model.train(lambda: tf.train.limit_epochs(tf.constant(_POINTS), num_epochs=1))
        centers.append(model.cluster_centers())
    assert not np.allclose(centers[0], 0.0)
    assert not np.allclose(centers[0], centers[1])
    np.testing.assert_allclose(np.sort(centers[2], 0), np.sort(_MEANS, 0), atol=0.5)
