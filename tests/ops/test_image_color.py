"""Functions of tf.image that change or measure colours."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def _images(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.02, 0.98, shape).astype(np.float32)


def test_hsv_is_that_of_the_standard_library(session: tf.Session) -> None:
    pixels = _images(50, 3)
    hsv = session.run(tf.image.rgb_to_hsv(pixels))
    np.testing.assert_allclose(hsv, [colorsys.rgb_to_hsv(*map(float, p)) for p in pixels], atol=1e-6)
    np.testing.assert_allclose(session.run(tf.image.hsv_to_rgb(hsv)), pixels, atol=1e-6)
    grey = session.run(tf.image.rgb_to_hsv(np.array([[0.5, 0.5, 0.5], [0, 0, 0]], np.float32)))
    np.testing.assert_array_equal(grey, [[0, 0, 0.5], [0, 0, 0]])


@pytest.mark.parametrize("name", ["adjust_hue", "adjust_saturation", "adjust_contrast"])
def test_gradients_of_adjustments(session: tf.Session, name: str) -> None:
    """The directional derivative against a central difference, in float32."""
    images, factor = tf.placeholder(tf.float32, [2, 3, 4, 3]), tf.placeholder(tf.float32, [])
    adjusted = getattr(tf.image, name)(images, factor)
    total = tf.reduce_sum(adjusted * tf.cos(tf.reshape(tf.range(72.0), [2, 3, 4, 3])))
    value, at, direction = _images(2, 3, 4, 3), 0.31, np.float32(_images(2, 3, 4, 3, seed=2) - 0.5)
    by_images, by_factor = session.run(tf.gradients(total, [images, factor]), {images: value, factor: at})

    def difference(step: float, move_images: bool) -> float:
        def run(sign: int) -> float:
            moved = value + sign * step * direction * move_images
            return float(session.run(total, {images: moved, factor: at + sign * step * (not move_images)}))

        return (run(1) - run(-1)) / (2 * step)

    assert np.sum(by_images * direction) == pytest.approx(difference(1e-3, True), rel=2e-2, abs=2e-2)
    assert by_factor == pytest.approx(difference(1e-3, False), rel=2e-2, abs=2e-2)


@pytest.mark.parametrize(
    ("source", "target", "saturate", "value", "expected"),
    [
        ("uint8", "float32", False, [0, 51, 255], [0, 0.2, 1]),
        ("float32", "uint8", False, [0, 0.2, 0.999, 1], [0, 51, 255, 255]),
        ("float32", "uint8", True, [-0.5, 1.5, 0.5], [0, 255, 127]),
        ("float32", "int32", True, [1.0, 2.0], [2147483520, 2147483520]),
        ("float16", "int32", True, [1.0], [65504]),
        ("uint8", "uint16", False, [0, 1, 255], [0, 256, 65280]),
        ("uint16", "uint8", False, [0, 256, 65535], [0, 1, 255]),
        ("int16", "uint8", True, [-5, 128, 32767], [0, 1, 255]),
        ("uint8", "int8", False, [0, 2, 255], [0, 1, 127]),
        ("float64", "float32", False, [0.5, 2.0], [0.5, 2.0]),
        ("uint8", "uint8", False, [0, 255], [0, 255]),
    ],
)
def test_convert_image_dtype(
    session: tf.Session, source: str, target: str, saturate: bool, value: Any, expected: Any
) -> None:
    converted = session.run(tf.image.convert_image_dtype(np.array(value, source), target, saturate))
    assert converted.dtype == np.dtype(target)
    np.testing.assert_allclose(converted, np.array(expected, target), rtol=1e-6)


def test_adjustments_keep_the_type(session: tf.Session) -> None:
    for dtype in (np.uint8, np.int16, np.float16, np.float32, np.float64):
        scale = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1
        image = (_images(4, 5, 3) * scale).astype(dtype)
        for adjusted in (
            tf.image.adjust_brightness(image, 0.1),
            tf.image.adjust_contrast(image, 1.5),
            tf.image.adjust_hue(image, 0.2),
            tf.image.adjust_saturation(image, 0.5),
            tf.image.adjust_gamma(image, 2.0, 0.9),
            tf.image.rgb_to_grayscale(image),
        ):
            assert adjusted.dtype.as_numpy_dtype == dtype
            assert np.isfinite(session.run(adjusted).astype(float)).all()


def test_brightness_and_gamma(session: tf.Session) -> None:
    image = np.array([[[0, 100, 250]]], np.uint8)
    np.testing.assert_array_equal(session.run(tf.image.adjust_brightness(image, 20 / 255)), [[[20, 120, 255]]])
    real = _images(2, 2, 3)
    np.testing.assert_allclose(session.run(tf.image.adjust_gamma(real, 2.0, 3.0)), 3 * real**2, rtol=1e-5)
    with pytest.raises(ValueError, match="Gamma"):
        tf.image.adjust_gamma(real, -1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Gamma"):
        session.run(tf.image.adjust_gamma(real, tf.placeholder_with_default(-1.0, [])))


def test_random_adjustments_stay_in_range(session: tf.Session) -> None:
    image = _images(4, 5, 3)
    for function, arguments in (
        (tf.image.random_brightness, (0.3,)),
        (tf.image.random_contrast, (0.5, 1.5)),
        (tf.image.random_hue, (0.2,)),
        (tf.image.random_saturation, (0.5, 1.5)),
    ):
        changed = function(image, *arguments, seed=4)
        first, second = session.run(changed), session.run(changed)
        assert (first != second).any()
    shift = session.run(tf.image.random_brightness(image, 0.3, seed=4)) - image
    assert abs(shift).max() <= 0.3 and np.ptp(shift) < 1e-5
    for call in (
        lambda: tf.image.random_brightness(image, -0.1),
        lambda: tf.image.random_hue(image, 0.6),
        lambda: tf.image.random_hue(image, -0.1),
        lambda: tf.image.random_contrast(image, 2, 1),
        lambda: tf.image.random_contrast(image, -1, 1),
        lambda: tf.image.random_saturation(image, 1, 1),
        lambda: tf.image.random_jpeg_quality(image, 80, 20),
        lambda: tf.image.random_jpeg_quality(image, -1, 20),
    ):
        with pytest.raises(ValueError):
            call()


def test_grayscale(session: tf.Session) -> None:
    image = _images(2, 3, 4, 3)
    grey = session.run(tf.image.rgb_to_grayscale(image))
    np.testing.assert_allclose(grey[..., 0], image @ np.array([0.2989, 0.587, 0.114]), rtol=1e-5)
    for tensor in (tf.constant(grey), tf.placeholder_with_default(grey, None)):
        back = session.run(tf.image.grayscale_to_rgb(tensor))
        np.testing.assert_array_equal(back, np.repeat(grey, 3, -1))
    with pytest.raises(ValueError, match="size 1"):
        tf.image.grayscale_to_rgb(image)


@pytest.mark.parametrize("space", ["yiq", "yuv"])
def test_luma_and_chrominance(session: tf.Session, space: str) -> None:
    image = _images(2, 3, 4, 3)
    there = getattr(tf.image, f"rgb_to_{space}")(image)
    np.testing.assert_allclose(
        session.run(there)[..., 0], image @ np.array([0.299, 0.587, 0.114], np.float32), rtol=1e-5
    )
    np.testing.assert_allclose(session.run(getattr(tf.image, f"{space}_to_rgb")(there)), image, atol=1e-4)
    with pytest.raises(ValueError, match="3"):
        getattr(tf.image, f"rgb_to_{space}")(image[..., :2])
    with pytest.raises(TypeError, match="uint8"):
        getattr(tf.image, f"rgb_to_{space}")(np.zeros((2, 3), np.uint8))


def test_per_image_standardization(session: tf.Session) -> None:
    image = (_images(2, 6, 7, 3) * 255).astype(np.uint8)
    result = session.run(tf.image.per_image_standardization(image))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result.mean((1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(result.std((1, 2, 3)), 1, rtol=1e-4)
    flat = session.run(tf.image.per_image_standardization(np.full((4, 4, 3), 9.0, np.float32)))
    np.testing.assert_array_equal(flat, 0)


def test_gradients_edges_and_variation(session: tf.Session) -> None:
    image = _images(2, 5, 6, 3)
    dy, dx = session.run(tf.image.image_gradients(image))
    np.testing.assert_allclose(dy[:, :-1], np.diff(image, axis=1))
    np.testing.assert_allclose(dx[:, :, :-1], np.diff(image, axis=2))
    assert not dy[:, -1].any() and not dx[:, :, -1].any()
    edges = session.run(tf.image.sobel_edges(image))
    assert edges.shape == (2, 5, 6, 3, 2)
    center = image[:, :3, :3]
    down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
    np.testing.assert_allclose(edges[:, 1, 1, :, 0], np.einsum("bijc,ij->bc", center, down), atol=1e-5)
    np.testing.assert_allclose(edges[:, 1, 1, :, 1], np.einsum("bijc,ij->bc", center, down.T), atol=1e-5)
    variation = np.abs(np.diff(image, axis=1)).sum((1, 2, 3)) + np.abs(np.diff(image, axis=2)).sum((1, 2, 3))
    np.testing.assert_allclose(session.run(tf.image.total_variation(image)), variation, rtol=1e-5)
    assert session.run(tf.image.total_variation(image[0])) == pytest.approx(variation[0], rel=1e-5)
    for call in (tf.image.image_gradients, tf.image.sobel_edges, tf.image.total_variation):
        with pytest.raises(ValueError):
            call(image[0, 0])


def test_psnr(session: tf.Session) -> None:
    a, b = _images(2, 8, 9, 3), _images(2, 8, 9, 3, seed=2)
    expected = 10 * np.log10(1 / ((a - b) ** 2).mean((1, 2, 3)))
    np.testing.assert_allclose(session.run(tf.image.psnr(a, b, 1.0)), expected, rtol=1e-5)
    assert np.isinf(session.run(tf.image.psnr(a, a, 1.0))).all()
    integers = session.run(tf.image.psnr((a * 255).astype(np.uint8), (b * 255).astype(np.uint8), 255))
    np.testing.assert_allclose(integers, expected, rtol=1e-2)
    with pytest.raises(ValueError, match="equal"):
        tf.image.psnr(a, b[:, :5], 1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ"):
        session.run(tf.image.psnr(a, tf.placeholder_with_default(b[:, :5], None), 1.0))


def _ssim(a: np.ndarray, b: np.ndarray, largest: float) -> float:
    """Straight from the definition, window by window, for one channel."""
    at = np.arange(11) - 5
    window = np.exp(-(at[:, None] ** 2 + at[None] ** 2) / 4.5)
    window /= window.sum()
    c1, c2 = (0.01 * largest) ** 2, (0.03 * largest) ** 2
    values = []
    for y in range(a.shape[0] - 10):
        for x in range(a.shape[1] - 10):
            p, q = a[y : y + 11, x : x + 11].astype(float), b[y : y + 11, x : x + 11].astype(float)
            m, n = (window * p).sum(), (window * q).sum()
            vp, vq, cov = (window * p * p).sum() - m * m, (window * q * q).sum() - n * n, (window * p * q).sum() - m * n
            values.append((2 * m * n + c1) * (2 * cov + c2) / ((m * m + n * n + c1) * (vp + vq + c2)))
    return float(np.mean(values))


def test_ssim(session: tf.Session) -> None:
    a = _images(2, 14, 15, 2)
    b = np.clip(a + np.random.default_rng(5).normal(0, 0.2, a.shape), 0, 1).astype(np.float32)
    expected = [np.mean([_ssim(a[i, ..., c], b[i, ..., c], 1.0) for c in range(2)]) for i in range(2)]
    np.testing.assert_allclose(session.run(tf.image.ssim(a, b, 1.0)), expected, rtol=1e-4)
    np.testing.assert_allclose(session.run(tf.image.ssim(a, a, 1.0)), 1, rtol=1e-6)
    assert session.run(tf.image.ssim(a, b, 1.0, return_index_map=True)).shape == (2, 4, 5)
    with pytest.raises(ValueError, match="smaller than the filter"):
        tf.image.ssim(a[:, :5], b[:, :5], 1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than the filter"):
        small = tf.placeholder_with_default(a[:, :5], [None, None, None, 2])
        session.run(tf.image.ssim(small, small, 1.0))


def test_ssim_multiscale(session: tf.Session) -> None:
    a = _images(1, 45, 47, 1)
    noise = np.random.default_rng(5).normal(0, 1, a.shape)
    levels = [np.clip(a + s * noise, 0, 1).astype(np.float32) for s in (0.0, 0.05, 0.3)]
    values = [
        session.run(tf.image.ssim_multiscale(a, b, 1.0, power_factors=(0.4, 0.6), filter_size=7))[0] for b in levels
    ]
    assert values[0] == pytest.approx(1) and values[0] > values[1] > values[2] > 0
    x = tf.constant(levels[1])
    gradient = tf.gradients(tf.image.ssim_multiscale(a, x, 1.0, power_factors=(0.4, 0.6), filter_size=7), x)[0]
    assert np.isfinite(session.run(gradient)).all()
