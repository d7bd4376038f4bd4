"""tf.contrib.image's regions, matches and splines, and tf.contrib.resampler: values of TensorFlow 1.15, bad inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf

contrib: Any = tf.contrib


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as opened:
        yield opened


def test_regions_are_numbered_by_their_first_pixels(session: tf.Session) -> None:
    image = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 1, 0], [2, 2, 0, 1, 1], [2, 0, 3, 3, 0], [0, 3, 3, 0, 2]])
    expected = [[1, 1, 0, 0, 2], [0, 0, 0, 3, 0], [4, 4, 0, 3, 3], [4, 0, 5, 5, 0], [0, 5, 5, 0, 6]]
    assert session.run(contrib.image.connected_components(image)).tolist() == expected
    batch = np.stack([image != 0, np.zeros_like(image) != 0, image == 1])
    found = session.run(contrib.image.connected_components(batch))
    assert found.max(axis=(1, 2)).tolist() == [5, 0, 8]  # Numbers go on from image to image.
    assert session.run(contrib.image.connected_components(np.zeros((0, 4), np.float32))).shape == (0, 4)
    spiral = np.kron(np.eye(8, dtype=np.int32), np.ones((1, 2), np.int32))
    assert session.run(contrib.image.connected_components(spiral)).max() == 8
    with pytest.raises(TypeError, match="rank 2"):
        contrib.image.connected_components([1, 2])


def test_the_nearest_pairs_match_first(session: tf.Session) -> None:
    distances = np.array([[0.1, 0.4, 0.3], [0.2, 0.05, 0.6], [0.9, 0.5, 0.15], [0.12, 0.2, 0.3]], np.float32)
    match = contrib.image.bipartite_match
    rows, columns = session.run(match(distances, 3.0))
    assert rows.tolist() == [0, 1, 2, -1] and columns.tolist() == [0, 1, 2]
    rows, columns = session.run(match(distances, -1.0, top_k=2))
    assert rows.tolist() == [0, 1, -1, -1] and columns.tolist() == [0, 1, -1]
    rows, _ = session.run(match(distances[:, :0], 4.0))
    assert rows.tolist() == [-1] * 4


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (1, [-0.69341856, 0.59277004, 0.03782633]), (2, [-0.54705197, 0.18728283, 0.06398983]),
        (3, [-0.50666785, 0.13435945, 0.04699416]), (4, [-0.28555292, -0.131015, -0.05608176]),
    ],
)  # fmt: skip
def test_splines_have_tensorflows_values(session: tf.Session, order: int, expected: list[float]) -> None:
    random = np.random.RandomState(0)
    points, values, queries = (random.rand(1, n, k).astype(np.float32) for n, k in ((5, 2), (5, 3), (4, 2)))
    found = session.run(contrib.image.interpolate_spline(points, values, queries, order, 0.1))
    assert found[0, 0] == pytest.approx(expected, rel=1e-4)
    exact = session.run(contrib.image.interpolate_spline(points, values, points, order))
    np.testing.assert_allclose(exact, values, atol=2e-3)


def test_a_warp_moves_control_points_and_keeps_the_corners(session: tf.Session) -> None:
    image = np.random.RandomState(1).rand(1, 6, 7, 2).astype(np.float32)
    source = np.array([[[2.0, 2.0]]], np.float32)
    warped, flow = session.run(contrib.image.sparse_image_warp(image, source, source + 1, num_boundary_points=1))
    assert flow[0, 3, 3] == pytest.approx([1.0, 1.0], abs=1e-3)
    assert flow[0, 0, 0] == pytest.approx([0.0, 0.0], abs=1e-3)
    np.testing.assert_allclose(warped[0, 3, 3], image[0, 2, 2], atol=1e-2)
    with pytest.raises(ValueError, match="num_boundary_points"):
        contrib.image.sparse_image_warp(image, source, source, num_boundary_points=-1)
    with pytest.raises(ValueError, match="must be known"):
        contrib.image.sparse_image_warp(tf.placeholder(tf.float32, [1, None, 3, 1]), source, source)


def test_samples_between_pixels_and_outside(session: tf.Session) -> None:
    image = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    data, warp = tf.constant(image), tf.placeholder(tf.float32, [1, None, 2])
    samples = contrib.resampler.resampler(data, warp)
    points = [[1, 2], [1.5, 0], [-0.5, 0], [-1, 1], [3.25, 2], [np.nan, 0], [1e30, 1], [-1e30, 1], [np.inf, 0]]
    found = session.run(samples, {warp: [points]})[0, :, 0]
    assert found.tolist() == [9.0, 1.5, 0.0, 0.0, 8.25, 0.0, 0.0, 0.0, 0.0]
    assert samples.shape.as_list() == [1, None, 1]
    by_data, by_warp = session.run(tf.gradients(samples, [data, warp]), {warp: [[[1.5, 0.0]]]})
    assert by_data[0, 0, :, 0].tolist() == [0.0, 0.5, 0.5, 0.0] and by_warp[0, 0].tolist() == [1.0, 4.0]
    with pytest.raises(ValueError, match="rank 4"):
        contrib.resampler.resampler(image[0], points)
    with pytest.raises(ValueError, match="warp must be"):
        contrib.resampler.resampler(image, [[[1.0, 2.0, 3.0]]])
