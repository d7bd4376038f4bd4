"""Cropping, padding and flipping of images: functions made of slices, pads, reversals and transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor, is_tensor_like
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.reversing import reverse
from thalweg.ops.array.transpose import transpose
from thalweg.ops.image.resize import ResizeMethod, resize_images
from thalweg.ops.image.shapes import as_batch, dims_of, static_dims, unbatched
from thalweg.ops.math.casting import cast


def _int_or_tensor(value: Any) -> Any:
    """A Python int where the value is known, else a scalar int32 tensor."""
    if not is_tensor_like(value):
        return int(value)
    known = constant_value(convert_to_tensor(value))
    return cast(value, dtypes.int32) if known is None else int(known)


def _require(condition: Any, message: str) -> list[Any]:
    """Raises ValueError if a Python condition is false; for a tensor, returns the Assert to run first."""
    if is_tensor_like(condition):
        return [apply_op("Assert", condition, [message])]
    if not condition:
        raise ValueError(message)
    return []


def _identity_after(checks: list[Any], tensor: Any) -> Any:
    if not checks:
        return tensor
    with control_dependencies(checks):
        return apply_one("Identity", tensor)


def _int_or_none(value: Any) -> int | None:
    return None if is_tensor_like(value) else int(value)


@export("image.crop_to_bounding_box")
def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Cuts a rectangle out of images.

    Args:
        image: `[batch, height, width, channels]` or `[height, width, channels]`.
        offset_height: The row of the rectangle's upper left corner.
        offset_width: Its column.
        target_height: The height of the rectangle.
        target_width: Its width.

    Returns:
        A Tensor of the input's rank.

    Raises:
        ValueError: If the rectangle is known to reach beyond the image.
    """
    with name_scope(None, "crop_to_bounding_box", [image]):
        batch, was_single = as_batch(image, unknown_is_single=True)
        top, left, height, width = (
            _int_or_tensor(n) for n in (offset_height, offset_width, target_height, target_width)
        )
        _, rows, columns, _ = dims_of(batch)
        checks = [
            *_require(left >= 0, "offset_width must be >= 0."),
            *_require(top >= 0, "offset_height must be >= 0."),
            *_require(width > 0, "target_width must be > 0."),
            *_require(height > 0, "target_height must be > 0."),
            *_require(width + left <= columns, "width must be >= target + offset."),
            *_require(height + top <= rows, "height must be >= target + offset."),
        ]
        cropped = apply_one(
            "Slice", _identity_after(checks, batch), _pack(0, top, left, 0), _pack(-1, height, width, -1)
        )
        dims = static_dims(batch)
        cropped.set_shape([dims[0], _int_or_none(height), _int_or_none(width), dims[3]])
        return unbatched(cropped, was_single)


def _pack(*numbers: Any) -> Tensor:
    if all(not is_tensor_like(n) for n in numbers):
        return convert_to_tensor(list(numbers), dtype=dtypes.int32)
    return apply_one("Pack", list(numbers))


@export("image.pad_to_bounding_box")
def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Puts images into a larger one of zeros.

    Args:
        image: `[batch, height, width, channels]` or `[height, width, channels]`.
        offset_height: How many rows of zeros come before the image.
        offset_width: How many columns.
        target_height: The height of the result.
        target_width: Its width.

    Returns:
        A Tensor of the input's rank.

    Raises:
        ValueError: If the image is known not to fit.
    """
    with name_scope(None, "pad_to_bounding_box", [image]):
        batch, was_single = as_batch(image, unknown_is_single=True)
        top, left, height, width = (
            _int_or_tensor(n) for n in (offset_height, offset_width, target_height, target_width)
        )
        _, rows, columns, _ = dims_of(batch)
        right, bottom = width - left - columns, height - top - rows
        checks = [
            *_require(top >= 0, "offset_height must be >= 0"),
            *_require(left >= 0, "offset_width must be >= 0"),
            *_require(right >= 0, "width must be <= target - offset"),
            *_require(bottom >= 0, "height must be <= target - offset"),
        ]
        paddings = apply_one("Reshape", _pack(0, 0, top, bottom, left, right, 0, 0), [4, 2])
        padded = apply_one("Pad", _identity_after(checks, batch), paddings)
        dims = static_dims(batch)
        padded.set_shape([dims[0], _int_or_none(height), _int_or_none(width), dims[3]])
        return unbatched(padded, was_single)


@export("image.resize_image_with_crop_or_pad", "image.resize_with_crop_or_pad")
def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Cuts or pads images around their centre to a height and width.

    Raises:
        ValueError: If the rank is neither 3 nor 4, or a target is known not to be positive.
    """
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        batch, was_single = as_batch(image, unknown_is_single=True)
        height, width = _int_or_tensor(target_height), _int_or_tensor(target_width)
        checks = [
            *_require(width > 0, "target_width must be > 0."),
            *_require(height > 0, "target_height must be > 0."),
        ]
        batch = _identity_after(checks, batch)
        _, rows, columns, _ = dims_of(batch)
        wide, high = width - columns, height - rows
        cropped = crop_to_bounding_box(
            batch, _largest(_half(-high), 0), _largest(_half(-wide), 0), _smallest(height, rows),
            _smallest(width, columns),
        )  # fmt: skip
        resized = pad_to_bounding_box(cropped, _largest(_half(high), 0), _largest(_half(wide), 0), height, width)
        return unbatched(resized, was_single)


def _half(n: Any) -> Any:
    return n // 2


def _largest(a: Any, b: Any) -> Any:
    return apply_one("Maximum", a, b) if is_tensor_like(a) or is_tensor_like(b) else max(a, b)


def _smallest(a: Any, b: Any) -> Any:
    return apply_one("Minimum", a, b) if is_tensor_like(a) or is_tensor_like(b) else min(a, b)


@export("image.resize_image_with_pad")
def resize_image_with_pad(
    image: Any, target_height: Any, target_width: Any, method: int = ResizeMethod.BILINEAR, align_corners: bool = False
) -> Tensor:
    """Resizes images at their own ratio to fit a height and width, and pads the rest evenly with zeros."""
    with name_scope(None, "resize_image_with_pad", [image]):
        batch, was_single = as_batch(image, unknown_is_single=True)
        height, width = _int_or_tensor(target_height), _int_or_tensor(target_width)
        checks = [
            *_require(width > 0, "target_width must be > 0."),
            *_require(height > 0, "target_height must be > 0."),
        ]
        batch = _identity_after(checks, batch)
        _, rows, columns, _ = dims_of(batch)
        ratio = _largest(_float(columns) / _float(width), _float(rows) / _float(height))
        exact = [_float(n) / ratio for n in (rows, columns)]
        new = [_floor(n) for n in exact]
        space = [
            _largest(_floor((_float(target) - n) / 2), 0) for n, target in zip(exact, (height, width), strict=True)
        ]
        resized = resize_images(batch, _pack(*new), method, align_corners)
        padded = pad_to_bounding_box(resized, space[0], space[1], height, width)
        return unbatched(padded, was_single)


def _float(n: Any) -> Any:
    return cast(n, dtypes.float64) if is_tensor_like(n) else float(n)


def _floor(n: Any) -> Any:
    return cast(apply_one("Floor", n), dtypes.int32) if is_tensor_like(n) else int(n // 1)


@export("image.central_crop")
def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """Cuts the middle out of images: `central_fraction` of the height and of the width.

    Raises:
        ValueError: If the fraction is not in (0, 1], or the rank neither 3 nor 4.
    """
    with name_scope(None, "central_crop", [image]):
        fraction = float(central_fraction)
        if not 0.0 < fraction <= 1.0:
            raise ValueError(f"central_fraction must be within (0, 1], got {central_fraction}.")
        if fraction == 1.0:
            return convert_to_tensor(image)
        batch, was_single = as_batch(image)
        _, rows, columns, _ = dims_of(batch)
        top, left = (_floor((_float(n) - _float(n) * fraction) / 2) for n in (rows, columns))
        cropped = apply_one("Slice", batch, _pack(0, top, left, 0), _pack(-1, rows - top * 2, columns - left * 2, -1))
        return unbatched(cropped, was_single)


def per_image(image: Any, scope: str, single: Callable[[Tensor], Tensor], batch: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies one of two functions by rank; an image of unknown rank counts as one without a batch."""
    with name_scope(None, scope, [image]):
        tensor = convert_to_tensor(image, name="image")
        rank = tensor.shape.ndims
        if rank is None:
            result = single(tensor)
            result.set_shape(TensorShape(None))
            return result
        if rank not in (3, 4):
            raise ValueError(f"'image' must have either 3 or 4 dimensions, got shape {tensor.shape}.")
        return single(tensor) if rank == 3 else batch(tensor)


@export("image.flip_left_right")
def flip_left_right(image: Any) -> Tensor:
    """Mirrors images: the first column becomes the last."""
    return per_image(image, "flip_left_right", lambda x: reverse(x, [1]), lambda x: reverse(x, [2]))


@export("image.flip_up_down")
def flip_up_down(image: Any) -> Tensor:
    """Turns images upside down: the first row becomes the last."""
    return per_image(image, "flip_up_down", lambda x: reverse(x, [0]), lambda x: reverse(x, [1]))


@export("image.transpose_image", "image.transpose")
def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Swaps the rows and columns of images."""
    return per_image(
        image, name or "transpose", lambda x: transpose(x, [1, 0, 2]), lambda x: transpose(x, [0, 2, 1, 3])
    )
