"""Brightness, contrast, hue, saturation and gamma of images, also at random; conversions of types and colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.shapes_of_tensors import rank as rank_of
from thalweg.ops.math.casting import cast, saturate_cast
from thalweg.ops.math.einsum import tensordot
from thalweg.ops.random.generators import random_uniform


@export("image.convert_image_dtype")
def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Converts images between element types, scaling values.

    Floats stand for [0, 1], integers for 0 to their largest value.

    Args:
        image: A Tensor.
        dtype: The new type.
        saturate: Whether values outside of the range are limited before they are cast (else they wrap around).
        name: The name of the result.

    Returns:
        A Tensor of type `dtype`.

    Example:
        >>> tf.image.convert_image_dtype(tf.constant([0, 255], tf.uint8), tf.float32).dtype.name
        'float32'
    """
    tensor: Any = convert_to_tensor(image, name="image")
    target, source = as_dtype(dtype).base_dtype, tensor.dtype.base_dtype
    if target is source:
        return apply_one("Identity", tensor, name=name)
    with name_scope(name, "convert_image", [tensor]) as scope:
        to_target = saturate_cast if saturate else cast
        if source.is_integer and target.is_integer:
            if source.max > target.max:
                scale = (int(source.max) + 1) // (int(target.max) + 1)
                divided = apply_one("FloorDiv", tensor, convert_to_tensor(scale, dtype=source))
                return to_target(divided, target, name=scope)
            converted = to_target(tensor, target)
            # The scale itself may not fit: unsigned 32 bits from signed 8, for example.
            scale = (int(target.max) + 1) // (int(source.max) + 1)
            return apply_one("Mul", converted, convert_to_tensor(scale, dtype=target), name=scope)
        if source.is_floating and target.is_floating:
            result: Tensor = cast(tensor, target, scope)
            return result
        if source.is_integer:
            return apply_one("Mul", cast(tensor, target), 1.0 / source.max, name=scope)
        scaled = apply_one("Mul", tensor, target.max + 0.5)
        return to_target(scaled, target, name=scope)


def _as_float(image: Any) -> tuple[Any, Any]:
    """An image as float32 (float16 stays), and the type it had."""
    tensor = convert_to_tensor(image, name="image")
    original = tensor.dtype.base_dtype
    if original in (dtypes.float16, dtypes.float32):
        return tensor, original
    return convert_image_dtype(tensor, dtypes.float32), original


def _adjust(image: Any, scope: str, change: Callable[[Any], Any], saturate: bool, name: str | None = None) -> Tensor:
    with name_scope(name, scope, [image]):
        pixels, original = _as_float(image)
        return convert_image_dtype(change(pixels), original, saturate)


@export("image.adjust_brightness")
def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Adds `delta` (as a part of [0, 1]) to every pixel."""
    return _adjust(image, "adjust_brightness", lambda x: apply_one("AddV2", x, cast(delta, x.dtype)), True)


@export("image.adjust_contrast")
def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Multiplies the difference of every pixel to its image's mean, channel by channel."""
    return _adjust(images, "adjust_contrast", lambda x: apply_one("AdjustContrastv2", x, contrast_factor), True)


@export("image.adjust_gamma")
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """Returns `gain * image ** gamma`, for pixels in [0, 1].

    Raises:
        ValueError: If `gamma` is known to be negative.
    """
    checks = []
    if isinstance(gamma, Tensor):
        checks = [
            apply_op("Assert", apply_one("GreaterEqual", gamma, 0.0), ["Gamma should be a non-negative real number."])
        ]
    elif gamma < 0:
        raise ValueError(f"Gamma should be a non-negative real number, got {gamma}.")

    def change(x: Any) -> Any:
        power = cast(gamma, x.dtype)
        with power.graph.control_dependencies(checks):
            power = apply_one("Identity", power) if checks else power
        return apply_one("Mul", cast(gain, x.dtype), apply_one("Pow", x, power))

    return _adjust(image, "adjust_gamma", change, True)


@export("image.adjust_hue")
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Turns the hue of every pixel by `delta` of the circle."""
    return _adjust(image, "adjust_hue", lambda x: apply_one("AdjustHue", x, delta), False, name)


@export("image.adjust_saturation")
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiplies the saturation of every pixel."""
    return _adjust(
        image, "adjust_saturation", lambda x: apply_one("AdjustSaturation", x, saturation_factor), False, name
    )


@export("image.adjust_jpeg_quality")
def adjust_jpeg_quality(image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Tensor:
    """Encodes an image as JPEG of a quality (0 to 100) and decodes it again, for its artefacts."""
    with name_scope(name, "adjust_jpeg_quality", [image]):
        tensor = convert_to_tensor(image, name="image")
        pixels = convert_image_dtype(tensor, dtypes.uint8, saturate=True)
        if isinstance(jpeg_quality, Tensor):
            contents = apply_one("EncodeJpegVariableQuality", pixels, cast(jpeg_quality, dtypes.int32))
        else:
            contents = apply_one("EncodeJpeg", pixels, quality=int(jpeg_quality))
        dims = tensor.shape.dims_tuple
        channels = (dims[-1] if dims else None) or 0
        decoded = apply_one("DecodeJpeg", contents, channels=channels, dct_method=dct_method)
        decoded.set_shape(tensor.shape)
        return convert_image_dtype(decoded, tensor.dtype, saturate=True)


def _check_range(lower: Any, upper: Any) -> None:
    if upper <= lower:
        raise ValueError(f"upper must be > lower, got lower={lower} and upper={upper}.")
    if lower < 0:
        raise ValueError(f"lower must be non-negative, got {lower}.")


@export("image.random_brightness")
def random_brightness(image: Any, max_delta: Any, seed: int | None = None) -> Tensor:
    """Adds a random number in [-max_delta, max_delta) to every pixel.

    Raises:
        ValueError: If `max_delta` is negative.
    """
    if max_delta < 0:
        raise ValueError(f"max_delta must be non-negative, got {max_delta}.")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


@export("image.random_contrast")
def random_contrast(image: Any, lower: Any, upper: Any, seed: int | None = None) -> Tensor:
    """Adjusts the contrast by a random factor in [lower, upper).

    Raises:
        ValueError: If `upper <= lower` or `lower < 0`.
    """
    _check_range(lower, upper)
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


@export("image.random_hue")
def random_hue(image: Any, max_delta: Any, seed: int | None = None) -> Tensor:
    """Turns the hue by a random part of the circle in [-max_delta, max_delta).

    Raises:
        ValueError: If `max_delta` is not in [0, 0.5].
    """
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"max_delta must be in [0, 0.5], got {max_delta}.")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


@export("image.random_saturation")
def random_saturation(image: Any, lower: Any, upper: Any, seed: int | None = None) -> Tensor:
    """Multiplies the saturation by a random factor in [lower, upper).

    Raises:
        ValueError: If `upper <= lower` or `lower < 0`.
    """
    _check_range(lower, upper)
    return adjust_saturation(image, random_uniform([], lower, upper, seed=seed))


@export("image.random_jpeg_quality")
def random_jpeg_quality(image: Any, min_jpeg_quality: Any, max_jpeg_quality: Any, seed: int | None = None) -> Tensor:
    """Encodes an image as JPEG of a random quality, and decodes it again.

    Raises:
        ValueError: If the qualities are not in [0, 100] or in the wrong order.
    """
    if not 0 <= min_jpeg_quality < max_jpeg_quality <= 100:
        raise ValueError(
            f"min_jpeg_quality must be below max_jpeg_quality, both in [0, 100]; got {min_jpeg_quality} and "
            f"{max_jpeg_quality}."
        )
    quality = random_uniform([], min_jpeg_quality, max_jpeg_quality, seed=seed, dtype=dtypes.int32)
    return adjust_jpeg_quality(image, quality)


@export("image.rgb_to_grayscale")
def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Converts colours to their luminance, in one channel."""
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        tensor = convert_to_tensor(images, name="images")
        pixels = convert_image_dtype(tensor, dtypes.float32)
        gray = _mix_channels(pixels, np.array([[0.2989], [0.5870], [0.1140]], np.float32))
        return convert_image_dtype(gray, tensor.dtype, name=scope)


@export("image.grayscale_to_rgb")
def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Repeats the only channel three times.

    Raises:
        ValueError: If there are known to be more channels.
    """
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        tensor = convert_to_tensor(images, name="images")
        dims = tensor.shape.dims_tuple
        if dims is not None and (not dims or dims[-1] not in (None, 1)):
            raise ValueError(f"Last dimension of a grayscale image should be size 1, got shape {tensor.shape}.")
        rank: Any = len(dims) if dims is not None else rank_of(tensor)
        ones = [1] * (rank - 1) if isinstance(rank, int) else apply_one("Fill", apply_one("ExpandDims", rank - 1, 0), 1)
        multiples = [*ones, 3] if isinstance(ones, list) else apply_one("ConcatV2", [ones, [3]], 0)
        result = apply_one("Tile", tensor, multiples, name=scope)
        if dims is not None:
            result.set_shape([*dims[:-1], 3])
        return result


def _mix_channels(images: Any, matrix: Any) -> Tensor:
    return tensordot(images, convert_to_tensor(matrix.astype(images.dtype.as_numpy_dtype)), [[-1], [0]])


# The rows say what each input channel adds to the output channels.
_SPACES = {
    "rgb_to_yiq": (
        (0.299, 0.59590059, 0.2115), (0.587, -0.27455667, -0.52273617), (0.114, -0.32134392, 0.31119955),
    ),
    "yiq_to_rgb": ((1.0, 1.0, 1.0), (0.95598634, -0.27201283, -1.10674021), (0.6208248, -0.64720424, 1.70423049)),
    "rgb_to_yuv": (
        (0.299, -0.14714119, 0.61497538), (0.587, -0.28886916, -0.51496512), (0.114, 0.43601035, -0.10001026),
    ),
    "yuv_to_rgb": ((1.0, 1.0, 1.0), (0.0, -0.394642334, 2.03206185), (1.13988303, -0.58062185, 0.0)),
}  # fmt: skip


def _convert_colors(images: Any, space: str) -> Tensor:
    tensor = convert_to_tensor(images, name="images")
    dims = tensor.shape.dims_tuple
    if dims is not None and (not dims or dims[-1] not in (None, 3)):
        raise ValueError(f"{space}: the last dimension must be 3, got shape {tensor.shape}.")
    if not tensor.dtype.is_floating:
        raise TypeError(f"{space}: images must be of a floating-point type, got {tensor.dtype.name}.")
    return _mix_channels(tensor, np.array(_SPACES[space]))


@export("image.rgb_to_yiq")
def rgb_to_yiq(images: Any) -> Tensor:
    """Converts red, green, blue to the luma and the two chrominances of NTSC."""
    return _convert_colors(images, "rgb_to_yiq")


@export("image.yiq_to_rgb")
def yiq_to_rgb(images: Any) -> Tensor:
    """Undoes `rgb_to_yiq`."""
    return _convert_colors(images, "yiq_to_rgb")


@export("image.rgb_to_yuv")
def rgb_to_yuv(images: Any) -> Tensor:
    """Converts red, green, blue to the luma and the two chrominances of PAL."""
    return _convert_colors(images, "rgb_to_yuv")


@export("image.yuv_to_rgb")
def yuv_to_rgb(images: Any) -> Tensor:
    """Undoes `rgb_to_yuv`."""
    return _convert_colors(images, "yuv_to_rgb")
