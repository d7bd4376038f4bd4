"""Functions of tf.image that move pixels: resizing, cropping, padding, flipping, turning; and gradients of crops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core


@pytest.fixture
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def _images(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(0, 1, shape).astype(np.float32)


def _unknown(image: np.ndarray) -> Any:
    """The image in a tensor of known rank and channels."""
    return tf.placeholder_with_default(image, [None] * (image.ndim - 1) + [image.shape[-1]])


def test_resize_keeps_the_rank_and_knows_the_shape(session: tf.Session) -> None:
    for shape in ((4, 6, 3), (2, 4, 6, 3)):
        for method in (0, 1, 2, 3):
            resized = tf.image.resize(_images(*shape), [8, 9], method)
            assert resized.shape.as_list() == [*shape[:-3], 8, 9, 3]
            assert session.run(resized).shape == (*shape[:-3], 8, 9, 3)


def test_resize_to_the_same_size_is_the_image_itself() -> None:
    with tf.Graph().as_default():
        image = tf.constant(_images(1, 4, 6, 3))
        assert tf.image.resize_images(image, [4, 6]) is image
        assert tf.image.resize_images(tf.cast(image, tf.uint8), [4, 6], method=2).dtype == tf.uint8


@pytest.mark.parametrize("known", [True, False])
def test_resize_preserves_the_ratio(session: tf.Session, known: bool) -> None:
    image = _images(10, 20, 3) if known else _unknown(_images(10, 20, 3))
    resized = tf.image.resize_images(image, [8, 10], preserve_aspect_ratio=True)
    assert session.run(resized).shape == (5, 10, 3)
    assert resized.shape.as_list() == ([5, 10, 3] if known else [None, None, 3])


def test_resize_checks_its_arguments() -> None:
    with tf.Graph().as_default():
        for arguments in (
            (_images(4, 6), [2, 2]),
            (_images(1, 1, 4, 6, 3), [2, 2]),
            (tf.placeholder(tf.float32), [2, 2]),
            (_images(4, 6, 3), [2, 2, 2]),
            (_images(4, 6, 3), 2),
            (_images(4, 6, 3), [2, 2], 9),
        ):
            with pytest.raises(ValueError):
                tf.image.resize_images(*arguments)


def test_resized_constants_stay_exactly_constant(session: tf.Session) -> None:
    image = np.full((1, 5, 7, 3), 77, np.uint8)
    for method in (tf.image.resize_bilinear, tf.image.resize_nearest_neighbor):
        assert (session.run(method(image, [13, 11])) == 77).all()


@pytest.mark.parametrize("method", ["resize_bilinear", "resize_bicubic", "resize_area"])
@pytest.mark.parametrize("size", [(3, 4), (9, 11)])
def test_gradients_of_resizing_are_its_transpose(session: tf.Session, method: str, size: tuple[int, int]) -> None:
    """For a linear map A: <grad, A x> == <A^T grad, x>, for any x and grad."""
    image, weights = _images(2, 5, 6, 3), _images(2, *size, 3)
    x = tf.constant(image)
    resized = getattr(tf.image, method)(x, size)
    gradient = tf.gradients(resized, x, grad_ys=tf.constant(weights))[0]
    assert gradient.shape.as_list() == [2, 5, 6, 3]
    one, other = session.run([tf.reduce_sum(resized * weights), tf.reduce_sum(gradient * x)])
    assert one == pytest.approx(other, rel=1e-5)


def test_second_gradients_of_resizing(session: tf.Session) -> None:
    x, v = tf.constant(_images(1, 3, 4, 2)), tf.constant(_images(1, 3, 4, 2)[:, ::-1].copy())
    for method in (tf.image.resize_bilinear, tf.image.resize_bicubic, tf.image.resize_nearest_neighbor):
        energy = tf.reduce_sum(tf.square(method(x, [5, 7])))
        first = tf.gradients(energy, x)[0]
        second = tf.gradients(tf.reduce_sum(first * v), x)[0]
        # The energy is a quadratic form: its Hessian times v is its gradient at v.
        expected = tf.gradients(tf.reduce_sum(tf.square(method(v, [5, 7]))), v)[0]
        np.testing.assert_allclose(*session.run([second, expected]), rtol=1e-4, atol=1e-5)


def test_gradients_of_integer_and_16_bit_images(session: tf.Session) -> None:
    integers = tf.constant(np.zeros((1, 3, 3, 1), np.uint8))
    assert tf.gradients(tf.image.resize_bilinear(integers, [2, 2]), integers) == [None]
    half = tf.constant(_images(1, 3, 3, 1).astype(np.float16))
    for method in (tf.image.resize_bilinear, tf.image.resize_bicubic):
        gradient = tf.gradients(method(half, [6, 6]), half)[0]
        assert gradient.dtype == tf.float16
        assert session.run(tf.reduce_sum(gradient)) == pytest.approx(36, rel=1e-2)


_BOXES = np.array([[0.1, 0.2, 0.83, 0.9], [0.72, 0.11, 0.2, 0.61], [-0.2, 0.3, 0.7, 1.2]], np.float32)
_INDICES = np.array([0, 1, 0], np.int32)


def test_gradient_of_crops_with_respect_to_images(session: tf.Session) -> None:
    x, weights = tf.constant(_images(2, 5, 6, 3)), tf.constant(_images(3, 4, 5, 3))
    for method in ("bilinear", "nearest"):
        crops = tf.image.crop_and_resize(x, _BOXES, _INDICES, [4, 5], method=method)
        gradient = tf.gradients(crops, x, grad_ys=weights)[0]
        one, other = session.run([tf.reduce_sum(crops * weights), tf.reduce_sum(gradient * x)])
        assert one == pytest.approx(other, rel=1e-5)
        again = tf.gradients(tf.reduce_sum(gradient * x), weights)[0]
        np.testing.assert_allclose(*session.run([again, crops]), rtol=1e-5, atol=1e-6)
    for dtype in (tf.float16, tf.float64):
        typed = tf.cast(x, dtype)
        gradient = tf.gradients(tf.image.crop_and_resize(typed, _BOXES, _INDICES, [4, 5]), typed)[0]
        assert gradient.dtype == dtype and gradient.shape.as_list() == [2, 5, 6, 3]
        assert np.isfinite(session.run(gradient)).all()


def test_gradient_of_crops_with_respect_to_boxes(session: tf.Session) -> None:
    y, x = np.mgrid[0:5, 0:6]
    image = (y * 2.0 + x * 3.0).astype(np.float32)[None, :, :, None]  # A plane: exactly linear between pixels.
    boxes = tf.placeholder(tf.float32, [2, 4])
    value = np.array([[0.1, 0.23, 0.83, 0.9], [0.72, 0.11, 0.2, 0.61]], np.float32)
    crops = tf.image.crop_and_resize(image, boxes, [0, 0], [3, 4])
    total = tf.reduce_sum(crops * tf.cos(tf.reshape(tf.range(24.0), [2, 3, 4, 1])))
    gradient = session.run(tf.gradients(total, boxes)[0], {boxes: value})
    for i in np.ndindex(2, 4):
        step = np.zeros((2, 4), np.float32)
        step[i] = 1e-2
        difference = (session.run(total, {boxes: value + step}) - session.run(total, {boxes: value - step})) / 2e-2
        assert gradient[i] == pytest.approx(difference, rel=1e-2, abs=1e-2)
    nearest = tf.image.crop_and_resize(image, boxes, [0, 0], [3, 4], method="nearest")
    assert tf.gradients(nearest, boxes) == [None]


def test_bad_input_of_the_gradients_of_crops_is_refused(session: tf.Session) -> None:
    def fed(value: Any) -> Any:
        return tf.placeholder_with_default(value, None)

    grads, boxes, indices = _images(3, 4, 5, 2), _BOXES, _INDICES
    image = tf.raw_ops.CropAndResizeGradImage
    for size in ([2, 0, 5, 2], [2, 5, 6, 3], [1, 5, 6, 2], [2, -5, 6, 2], [2, 2**31 - 1, 2**31 - 1, 2], [2, 5, 6]):
        with pytest.raises(tf.errors.OpError):
            inputs = {"grads": fed(grads), "boxes": fed(boxes), "box_ind": fed(indices)}
            session.run(image(**inputs, image_size=fed(np.int32(size)), T=tf.float32))
    for bad in ({"boxes": fed(boxes[:2])}, {"box_ind": fed(np.int32([0, 0, 9]))}, {"image": fed(_images(2, 5, 6, 3))}):
        inputs = {"grads": fed(grads), "image": fed(_images(2, 5, 6, 2)), "boxes": fed(boxes), "box_ind": fed(indices)}
        with pytest.raises(tf.errors.OpError):
            session.run(tf.raw_ops.CropAndResizeGradBoxes(**{**inputs, **bad}))


@pytest.mark.parametrize("known", [True, False])
def test_crop_and_pad_to_boxes(session: tf.Session, known: bool) -> None:
    image = _images(2, 5, 6, 3)
    tensor = tf.constant(image) if known else _unknown(image)
    crop = tf.image.crop_to_bounding_box(tensor, 1, 2, 3, 4)
    assert crop.shape.as_list() == [2 if known else None, 3, 4, 3]
    np.testing.assert_array_equal(session.run(crop), image[:, 1:4, 2:6])
    padded = tf.image.pad_to_bounding_box(tensor, 1, 2, 8, 9)
    assert padded.shape.as_list() == [2 if known else None, 8, 9, 3]
    np.testing.assert_array_equal(session.run(padded), np.pad(image, ((0, 0), (1, 2), (2, 1), (0, 0))))
    single = tf.image.crop_to_bounding_box(image[0], 0, 0, 2, 2)
    np.testing.assert_array_equal(session.run(single), image[0, :2, :2])


@pytest.mark.parametrize("box", [(-1, 0, 2, 2), (0, -1, 2, 2), (0, 0, 0, 2), (0, 0, 2, 0), (4, 0, 2, 2), (0, 5, 2, 2)])
def test_crops_beyond_the_image_are_refused(session: tf.Session, box: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        tf.image.crop_to_bounding_box(_images(5, 6, 3), *box)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(
            tf.image.crop_to_bounding_box(
                _unknown(_images(5, 6, 3)), *[tf.placeholder_with_default(n, []) for n in box]
            )
        )


def test_images_that_do_not_fit_are_not_padded(session: tf.Session) -> None:
    for box in ((-1, 0, 9, 9), (0, -1, 9, 9), (3, 0, 7, 9), (0, 4, 9, 9)):
        with pytest.raises(ValueError):
            tf.image.pad_to_bounding_box(_images(5, 6, 3), *box)
        fed = [tf.placeholder_with_default(n, []) for n in box]
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(tf.image.pad_to_bounding_box(_unknown(_images(5, 6, 3)), *fed))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", [(3, 4), (9, 10), (3, 10), (5, 6), (8, 3)])
def test_resize_with_crop_or_pad_keeps_the_centre(session: tf.Session, size: tuple[int, int], known: bool) -> None:
    image = _images(5, 6, 3)
    result = session.run(tf.image.resize_image_with_crop_or_pad(image if known else _unknown(image), *size))
    expected = image
    for axis, (have, want) in enumerate(zip((5, 6), size, strict=True)):
        if want < have:
            expected = np.take(expected, range((have - want) // 2, (have - want) // 2 + want), axis)
        pads = [(0, 0)] * 3
        pads[axis] = ((max(want - have, 0)) // 2, max(want - have, 0) - max(want - have, 0) // 2)
        expected = np.pad(expected, pads)
    np.testing.assert_array_equal(result, expected)


def test_resize_with_pad(session: tf.Session) -> None:
    for image in (_images(4, 8, 3), _unknown(_images(4, 8, 3))):
        padded = session.run(tf.image.resize_image_with_pad(image, 8, 8, method=1))
        assert padded.shape == (8, 8, 3)
        assert not padded[:2].any() and not padded[6:].any()
        np.testing.assert_array_equal(padded[2:6], _images(4, 8, 3))
    with pytest.raises(ValueError):
        tf.image.resize_image_with_pad(_images(4, 8, 3), 0, 8)


@pytest.mark.parametrize("known", [True, False])
def test_central_crop(session: tf.Session, known: bool) -> None:
    image = _images(10, 7, 3)
    tensor = tf.constant(image) if known else _unknown(image)
    np.testing.assert_array_equal(session.run(tf.image.central_crop(tensor, 0.5)), image[2:8, 1:6])
    np.testing.assert_array_equal(session.run(tf.image.central_crop(tensor, 1.0)), image)
    for fraction in (0.0, -1.0, 1.5):
        with pytest.raises(ValueError, match="central_fraction"):
            tf.image.central_crop(tensor, fraction)


def test_flips_and_transposes(session: tf.Session) -> None:
    batch = _images(2, 4, 5, 3)
    for image, axis in ((batch, 1), (batch[0], 0)):
        np.testing.assert_array_equal(session.run(tf.image.flip_up_down(image)), np.flip(image, axis))
        np.testing.assert_array_equal(session.run(tf.image.flip_left_right(image)), np.flip(image, axis + 1))
        np.testing.assert_array_equal(session.run(tf.image.transpose_image(image)), np.swapaxes(image, axis, axis + 1))
    for function in (tf.image.flip_up_down, tf.image.flip_left_right, tf.image.transpose_image, tf.image.rot90):
        with pytest.raises(ValueError):
            function(_images(4, 5))


@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3, 6])
def test_rot90(session: tf.Session, k: int) -> None:
    image = _images(4, 5, 3)
    for turns in (k, tf.placeholder_with_default(k, [])):
        np.testing.assert_array_equal(session.run(tf.image.rot90(image, turns)), np.rot90(image, k))
    np.testing.assert_array_equal(session.run(tf.image.rot90(image[None], k))[0], np.rot90(image, k))


def test_random_flips_flip_about_half(session: tf.Session) -> None:
    batch = np.repeat(_images(1, 3, 4, 1), 200, 0)
    for function, axis in ((tf.image.random_flip_left_right, 2), (tf.image.random_flip_up_down, 1)):
        flipped = session.run(function(batch, seed=3))
        same = (flipped == batch).all((1, 2, 3))
        assert 60 < same.sum() < 140
        np.testing.assert_array_equal(flipped[~same], np.flip(batch, axis)[~same])
    single = tf.image.random_flip_up_down(batch[0], seed=1)
    assert single.shape.as_list() == [3, 4, 1]
    seen = {session.run(single).tobytes() for _ in range(20)}
    assert seen == {batch[0].tobytes(), batch[0][::-1].tobytes()}


def test_sampled_boxes_cover_and_repeat(session: tf.Session) -> None:
    boxes = np.array([[[0.2, 0.3, 0.6, 0.8]]], np.float32)
    begin, size, box = tf.image.sample_distorted_bounding_box(
        [100, 80, 3], boxes, seed=1, seed2=2, min_object_covered=0.5
    )
    # The same numbers as TensorFlow draws from these seeds.
    got = [tuple(np.concatenate(session.run([begin, size])).tolist()) for _ in range(50)]
    assert len(set(got)) > 10
    for top, left, _, height, width, _ in got:
        assert 0 <= top <= top + height <= 100 and 0 <= left <= left + width <= 80
        assert height * width >= 0.05 * 8000 * 0.9
        down = max(0, min(top + height, 60) - max(top, 20))
        across = max(0, min(left + width, 64) - max(left, 24))
        assert down * across >= 0.5 * 40 * 40
    assert session.run(box).shape == (1, 1, 4)


def test_sampled_boxes_are_those_of_tensorflow(session: tf.Session) -> None:
    boxes = np.array([[[0.1, 0.2, 0.6, 0.7], [0.3, 0.3, 0.9, 0.95]]], np.float32)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        [100, 80, 3], boxes, seed=1, seed2=2, min_object_covered=0.5
    )
    got = [np.concatenate(session.run([begin, size])).tolist() for _ in range(3)]
    assert got == [[5, 5, 0, 57, 56, -1], [17, 5, 0, 74, 73, -1], [4, 1, 0, 91, 76, -1]]


def test_noise_around_glimpses(session: tf.Session) -> None:
    images = np.full((1, 4, 4, 1), 5, np.float32)
    images[0, 0, 0] = 2
    outside = session.run(tf.image.extract_glimpse(images, [20, 20], [[0.0, 0.0]]))
    assert outside.min() >= 2 and outside.max() <= 5 and len(np.unique(outside)) > 100
    normal = session.run(tf.image.extract_glimpse(images, [40, 40], [[9.0, 9.0]], uniform_noise=False))
    assert abs(normal.mean()) < 0.15 and 0.85 < normal.std() < 1.15


def test_what_takes_too_much_memory_is_refused_before_it_starts(session: tf.Session) -> None:
    """Sizes whose result would fit into memory, but not the scratch memory of the computation."""
    image, box = np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 4), np.float32)
    size = tf.placeholder(tf.int32, [2])
    resized = [
        tf.image.resize_area(image, size),
        tf.image.resize_bicubic(image, size),
        tf.image.crop_and_resize(image, box, [0], size),
    ]
    before = session.list_devices()[0].memory_limit_bytes
    core.set_memory_limit(128 << 20)
    try:
        for result in resized:
            for sides in ([1, 24 << 20], [24 << 20, 1]):
                with pytest.raises(tf.errors.ResourceExhaustedError, match="per thread"):
                    session.run(result.op, {size: sides})
    finally:
        core.set_memory_limit(before)
