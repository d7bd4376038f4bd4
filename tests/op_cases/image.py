"""Cases of the image ops: resizing, cropping, colours, boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere, real

_PIXELS = "int8 uint8 int16 uint16 int32 int64 float16 bfloat16 float32 float64"


def _positions(size: int, count: int, align: bool, half: bool) -> np.ndarray:
    scale = (
        np.float32(size - 1) / np.float32(count - 1) if align and count > 1 else np.float32(size) / np.float32(count)
    )
    at = np.arange(count, dtype=np.float32)
    return (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale


def _bilinear_matrix(size: int, count: int, align: bool, half: bool) -> np.ndarray:
    matrix = np.zeros((count, size))
    for i, at in enumerate(_positions(size, count, align, half)):
        low, part = int(np.floor(at)), at - np.floor(at)
        matrix[i, min(max(low, 0), size - 1)] += 1 - part
        matrix[i, min(max(int(np.ceil(at)), 0), size - 1)] += part
    return matrix


def _bicubic_matrix(size: int, count: int, align: bool, half: bool) -> np.ndarray:
    a = -0.5 if half else -0.75

    def weight(x: float) -> float:
        x = abs(x)
        return ((a + 2) * x - (a + 3)) * x * x + 1 if x <= 1 else ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    matrix = np.zeros((count, size))
    for i, at in enumerate(_positions(size, count, align, half)):
        low = int(np.floor(at))
        part = np.round((at - low) * 1024) / 1024
        for k in range(-1, 3):
            inside = 0 <= low + k < size
            if inside or not half:
                matrix[i, min(max(low + k, 0), size - 1)] += weight(part - k)
        if half:
            matrix[i] /= matrix[i].sum()
    return matrix


def _nearest_matrix(size: int, count: int, align: bool, half: bool) -> np.ndarray:
    at = _positions(size, count, align, half)
    at = np.floor(at + np.float32(0.5)) if align or half else np.floor(at)
    matrix = np.zeros((count, size))
    matrix[np.arange(count), np.clip(at.astype(int), 0, size - 1)] = 1
    return matrix


def _area_matrix(size: int, count: int, align: bool, half: bool) -> np.ndarray:
    edges = np.arange(count + 1) * size / count
    pixels = np.arange(size)
    low, high = np.maximum(edges[:-1, None], pixels), np.minimum(edges[1:, None], pixels + 1)
    return np.maximum(high - low, 0) * count / size


def _reference(matrix: Any) -> Any:
    def resize(images: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
        down = matrix(images.shape[1], size[0], align_corners, half_pixel_centers)
        across = matrix(images.shape[2], size[1], align_corners, half_pixel_centers)
        return np.einsum("yi,bijc,xj->byxc", down, images.astype(np.float64), across)

    return resize


def _typed(matrix: Any) -> Any:
    return lambda images, *args, **kwargs: _reference(matrix)(images, *args, **kwargs).astype(images.dtype)


_SIZES = [(4, 5), (9, 3), (2, 2), (1, 7), (6, 6)]
_SAMPLES = [
    Args(real(2, 4, 6, c, low=-60, high=60), np.array(s, np.int32))
    for c, s in zip((1, 3, 4, 5, 2), _SIZES, strict=True)
]
_CENTERED = [
    *_SAMPLES,
    *[Args(*s.args, half_pixel_centers=True) for s in _SAMPLES[:4]],
    *[Args(*s.args, align_corners=True) for s in _SAMPLES[:4]],
    Args(real(0, 3, 3, 2), np.array([2, 2], np.int32)),
    Args(real(1, 1, 1, 1), np.array([3, 2], np.int32)),
]
_BAD_SIZES = [
    Bad(Args(real(4, 6, 3), np.array([2, 2], np.int32)), match="4-dimensional"),
    Bad(Args(real(1, 0, 6, 3), np.array([2, 2], np.int32)), match="non-zero"),
    Bad(Args(real(1, 4, 0, 3), np.array([2, 2], np.int32)), match="non-zero"),
    Bad(Args(real(1, 4, 6, 0), np.array([2, 2], np.int32)), match="non-zero"),
    Bad(Args(real(1, 4, 6, 3), np.array([0, 2], np.int32)), match="positive"),
    Bad(Args(real(1, 4, 6, 3), np.array([2, -5], np.int32)), match="positive"),
    Bad(Args(real(1, 4, 6, 3), np.array([2], np.int32)), match="height, width"),
    Bad(Args(real(1, 4, 6, 3), np.array([[2, 2]], np.int32)), match="height, width"),
    Bad(Args(real(1, 4, 6, 3), np.array([2**31 - 1, 2**31 - 1], np.int32))),
]
_BAD_CENTERS = Bad(
    Args(real(1, 4, 6, 3), np.array([2, 2], np.int32), align_corners=True, half_pixel_centers=True),
    match="align_corners",
)

# Results are float32 for every type of image: finite differences in them are coarse.
_COARSE = {"tolerance": 1e-4, "grad_tolerance": 2e-1}

case(
    "ResizeBilinear",
    tf.image.resize_bilinear,
    _reference(_bilinear_matrix),
    samples=_CENTERED,
    dtypes=_PIXELS,
    bad=[*_BAD_SIZES, _BAD_CENTERS],
    **_COARSE,
)
case(
    "ResizeBicubic",
    tf.image.resize_bicubic,
    _reference(_bicubic_matrix),
    samples=_CENTERED,
    dtypes=_PIXELS,
    bad=[*_BAD_SIZES, _BAD_CENTERS],
    **_COARSE,
)
case(
    "ResizeArea",
    tf.image.resize_area,
    _reference(_area_matrix),
    samples=_SAMPLES,
    dtypes=_PIXELS,
    bad=_BAD_SIZES,
    **_COARSE,
)
case(
    "ResizeNearestNeighbor", tf.image.resize_nearest_neighbor, _typed(_nearest_matrix),
    samples=_CENTERED, dtypes=_PIXELS, bad=[*_BAD_SIZES, _BAD_CENTERS], order=2,
)  # fmt: skip


def _nearest_grad(grads: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
    down = _nearest_matrix(size[0], grads.shape[1], align_corners, half_pixel_centers)
    across = _nearest_matrix(size[1], grads.shape[2], align_corners, half_pixel_centers)
    return np.einsum("iy,bijc,jx->byxc", down, grads.astype(np.float64), across).astype(grads.dtype)


case(
    "ResizeNearestNeighborGrad",
    lambda grads, size, **kw: tf.raw_ops.ResizeNearestNeighborGrad(grads=grads, size=size, **kw),
    _nearest_grad,
    samples=[Args(real(2, 4, 6, 3), *s.args[1:], **s.kwargs) for s in _CENTERED],
    dtypes="uint8 int8 int32 float16 bfloat16 float32 float64",
    bad=_BAD_SIZES,
    order=2,
)


def _grad_reference(matrix: Any) -> Any:
    def grad(grads: Any, images: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
        down = matrix(images.shape[1], grads.shape[1], align_corners, half_pixel_centers)
        across = matrix(images.shape[2], grads.shape[2], align_corners, half_pixel_centers)
        return np.einsum("yi,byxc,xj->bijc", down, grads.astype(np.float64), across)

    return grad


def _grads(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-2, 2, shape).astype(np.float32)


for _op, _matrix, _types in (
    ("ResizeBilinearGrad", _bilinear_matrix, "float16 bfloat16 float32 float64"),
    ("ResizeBicubicGrad", _bicubic_matrix, "float32 float64"),
):
    case(
        _op,
        lambda grads, images, op=_op, **kw: getattr(tf.raw_ops, op)(grads=grads, original_image=images, **kw),
        _grad_reference(_matrix),
        samples=[
            Args(_grads(2, *size, 3), real(2, 4, 6, 3), **kw)
            for size in _SIZES
            for kw in ({}, {"align_corners": True}, {"half_pixel_centers": True})
        ],
        dtypes=_types,
        bad=[
            Bad(Args(_grads(2, 3, 3, 3), real(1, 4, 6, 3)), match="batch"),
            Bad(Args(_grads(2, 3, 3, 3), real(2, 4, 6, 2)), match="channels"),
            Bad(Args(_grads(2, 3, 3), real(2, 4, 6, 2)), match="4-dimensional"),
            Bad(Args(_grads(2, 3, 3, 3), real(2, 4, 0, 3)), match="non-zero"),
        ],
        tolerance=1e-4,
    )


def _crop_places(low: float, high: float, size: int, count: int) -> np.ndarray:
    low, high, last = np.float32(low), np.float32(high), np.float32(size - 1)
    if count == 1:
        return np.array([np.float32(0.5) * (low + high) * last])
    return low * last + np.arange(count, dtype=np.float32) * ((high - low) * last / np.float32(count - 1))


def _crop_and_resize(
    image: Any, boxes: Any, indices: Any, size: Any, method: str = "bilinear", extrapolation_value: float = 0.0
) -> Any:
    out = np.full((len(boxes), size[0], size[1], image.shape[3]), extrapolation_value, np.float32)
    for b, (y1, x1, y2, x2) in enumerate(boxes):
        for i, y in enumerate(_crop_places(y1, y2, image.shape[1], size[0])):
            for j, x in enumerate(_crop_places(x1, x2, image.shape[2], size[1])):
                if not (0 <= y <= image.shape[1] - 1 and 0 <= x <= image.shape[2] - 1):
                    continue
                pixels = image[indices[b]].astype(np.float64)
                if method == "nearest":
                    out[b, i, j] = pixels[int(np.floor(y + 0.5)), int(np.floor(x + 0.5))]
                    continue
                t, d, s, r = (int(n) for n in (np.floor(y), np.ceil(y), np.floor(x), np.ceil(x)))
                top = pixels[t, s] + (pixels[t, r] - pixels[t, s]) * (x - s)
                bottom = pixels[d, s] + (pixels[d, r] - pixels[d, s]) * (x - s)
                out[b, i, j] = top + (bottom - top) * (y - t)
    return out


_BOXES = np.array(
    [[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.8, 0.9, 0.2, 0.1], [-0.5, 0.3, 1.4, 0.6], [0.5, 0.5, 0.5, 0.5]], np.float32
)
_INDICES = np.array([0, 1, 1, 0, 0], np.int32)
_CROP = np.array([3, 4], np.int32)
_NAN_BOX = np.array([[np.nan, 0, 1, 1], [0, np.inf, 1, 1], [-1e30, 0, 1e30, 1]], np.float32)
case(
    "CropAndResize",
    tf.image.crop_and_resize,
    _crop_and_resize,
    samples=[
        Args(real(2, 5, 6, 3, low=-50, high=50), _BOXES, _INDICES, _CROP),
        Args(real(2, 5, 6, 1, low=-50, high=50), _BOXES, _INDICES, np.array([1, 1], np.int32)),
        Args(real(2, 5, 6, 2), _BOXES, _INDICES, _CROP, method="nearest", extrapolation_value=7.0),
        Args(real(2, 5, 6, 2), _BOXES, _INDICES, _CROP, extrapolation_value=-3.0),
        Args(real(2, 5, 6, 3), _NAN_BOX, np.zeros(3, np.int32), _CROP, extrapolation_value=2.0),
        Args(real(2, 5, 6, 3), _BOXES[:0], _INDICES[:0], _CROP),
    ],
    dtypes="uint8 uint16 int8 int16 int32 int64 float16 float32 float64",
    bad=[
        Bad(Args(real(2, 5, 6, 3), _BOXES, np.array([0, 0, 0, 0, 2], np.int32), _CROP), match="batch_size"),
        Bad(Args(real(2, 5, 6, 3), _BOXES, np.array([0, 0, 0, 0, -1], np.int32), _CROP), match="batch_size"),
        Bad(Args(real(2, 5, 6, 3), _BOXES, _INDICES[:3], _CROP), match="one entry per box"),
        Bad(Args(real(2, 5, 6, 3), _BOXES[:, :3], _INDICES, _CROP), match="num_boxes, 4"),
        Bad(Args(real(2, 5, 6), _BOXES, _INDICES, _CROP), match="4-dimensional"),
        Bad(Args(real(2, 0, 6, 3), _BOXES, _INDICES, _CROP), match="non-zero"),
        Bad(Args(real(2, 5, 6, 3), _BOXES, _INDICES, np.array([0, 3], np.int32)), match="positive"),
        Bad(Args(real(2, 5, 6, 3), _BOXES, _INDICES, np.array([-2, 3], np.int32)), match="positive"),
        Bad(Args(real(2, 5, 6, 3), _BOXES, _INDICES, np.array([2**31 - 1, 2**31 - 1], np.int32))),
    ],
    tolerance=1e-4,
)
covered_elsewhere(
    "the gradients of crops are compared with finite differences in tests/ops/test_image.py",
    "CropAndResizeGradImage", "CropAndResizeGradBoxes",
)  # fmt: skip


def _rgb_to_hsv(rgb: Any) -> Any:
    rgb = rgb.astype(np.float64)
    r, g, b = np.moveaxis(rgb, -1, 0)
    value, low = rgb.max(-1), rgb.min(-1)
    spread = value - low
    safe = np.where(spread > 0, spread, 1)
    hue = np.where(value == r, (g - b) / safe, np.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe)) / 6
    hue = np.where(spread > 0, np.where(hue < 0, hue + 1, hue), 0)
    return np.stack([hue, np.where(value > 0, spread / np.where(value > 0, value, 1), 0), value], -1)


def _hsv_to_rgb(hsv: Any) -> Any:
    h, s, v = np.moveaxis(hsv.astype(np.float64), -1, 0)
    levels = [np.abs(h * 6 - 3) - 1, 2 - np.abs(h * 6 - 2), 2 - np.abs(h * 6 - 4)]
    return np.stack([((np.clip(x, 0, 1) - 1) * s + 1) * v for x in levels], -1)


_COLORS = [
    Args(real(2, 4, 3, low=0.05, high=1.0)),
    Args(real(3, low=0.1, high=1)),
    Args(real(0, 3)),
    Args(real(2, 2, 2, 2, 3, low=0.05)),
]
_BAD_COLORS = [
    Bad(Args(real(2, 4), *()), match="3 channels"),
    Bad(Args(real()), match="at least 1-D"),
    Bad(Args(real(2, 0)), match="3 channels"),
]
case(
    "RGBToHSV", tf.image.rgb_to_hsv, _rgb_to_hsv, samples=_COLORS[:3], dtypes="float16 float32 float64",
    bad=_BAD_COLORS, order=2, grad_tolerance=1e-3, tolerance=1e-5,
)  # fmt: skip
case(
    "HSVToRGB", tf.image.hsv_to_rgb, _hsv_to_rgb, samples=_COLORS[:3], dtypes="float16 float32 float64",
    bad=_BAD_COLORS, order=2, grad_tolerance=1e-3,
)  # fmt: skip

_DELTA = np.float32(0.3)


def _adjust_hue(images: Any, delta: Any) -> Any:
    hsv = _rgb_to_hsv(images)
    hsv[..., 0] = (hsv[..., 0] + delta) % 1
    return _hsv_to_rgb(hsv)


def _adjust_saturation(images: Any, scale: Any) -> Any:
    hsv = _rgb_to_hsv(images)
    hsv[..., 1] = np.clip(hsv[..., 1] * scale, 0, 1)
    return _hsv_to_rgb(hsv)


def _adjust_contrast(images: Any, factor: Any) -> Any:
    pixels = max(1, images.shape[-3] * images.shape[-2])
    mean = images.astype(np.float64).sum((-3, -2), keepdims=True) / pixels
    return (images - mean) * factor + mean


def _scalar(x: float) -> np.ndarray:
    return np.array(x, np.float32)


for _op, _argument, _function in (
    ("AdjustHue", "delta", _adjust_hue),
    ("AdjustSaturation", "scale", _adjust_saturation),
    ("AdjustContrastv2", "contrast_factor", _adjust_contrast),
):
    case(
        _op,
        lambda images, x, op=_op, argument=_argument: getattr(tf.raw_ops, op)(images=images, **{argument: x}),
        _function,
        samples=[
            Args(real(2, 4, 5, 3, low=0.05, high=1), _scalar(0.3)),
            Args(real(4, 5, 3, low=0.05, high=1), _scalar(1.7)),
            Args(real(4, 5, 3, low=0.05, high=1), _scalar(0.0)),
            Args(real(2, 0, 5, 3), _scalar(0.3)),
        ],
        dtypes="float32 float16",
        bad=[
            Bad(Args(real(4, 3), _scalar(0.3)), match="at least 3-D"),
            Bad(Args(real(4, 4, 3), np.zeros(2, np.float32)), match="scalar"),
            *([] if _op == "AdjustContrastv2" else [Bad(Args(real(4, 5, 2), _scalar(0.3)), match="3 channels")]),
        ],
        tolerance=1e-4,
        notes="The gradients are in tests/ops/test_image_color.py: the op has no float64 form.",
    )
