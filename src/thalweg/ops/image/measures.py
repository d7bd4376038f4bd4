"""Measures of images: standardization, gradients, edges, total variation, and the similarity of two images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.shapes_of_tensors import reshape, shape_tensor
from thalweg.ops.image.color import convert_image_dtype
from thalweg.ops.math.casting import cast
from thalweg.ops.math.reductions import reduce_mean, reduce_prod, reduce_sum

_POWER_FACTORS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def _with_rank_at_least(image: Any, rank: int, what: str) -> Tensor:
    tensor = convert_to_tensor(image, name=what)
    if tensor.shape.ndims is not None and tensor.shape.ndims < rank:
        raise ValueError(f"'{what}' must have at least {rank} dimensions, got shape {tensor.shape}.")
    return tensor


@export("image.per_image_standardization")
def per_image_standardization(image: Any) -> Tensor:
    """Scales each image to mean 0 and standard deviation 1.

    Args:
        image: `[..., height, width, channels]`.

    Returns:
        A float tensor of the same shape. The deviation counts as at least 1 / sqrt(pixels), for images of one colour.
    """
    with name_scope(None, "per_image_standardization", [image]) as scope:
        pixels: Any = _with_rank_at_least(image, 3, "image")
        if pixels.dtype not in (dtypes.float16, dtypes.float32):
            pixels = cast(pixels, dtypes.float32)
        sizes: Any = shape_tensor(pixels)
        count = cast(reduce_prod(sizes[-3:]), pixels.dtype)
        # The mean of a single image is a scalar, so that the subtraction and the division are fused; for that, the
        # squares are not taken of the difference that is divided.
        axes, keepdims = [-1, -2, -3], pixels.shape.ndims != 3
        mean = reduce_mean(pixels, axes, keepdims=keepdims)
        variance = reduce_mean(apply_one("SquaredDifference", pixels, mean), axes, keepdims=keepdims)
        deviation = apply_one("Maximum", apply_one("Sqrt", variance), apply_one("Rsqrt", count))
        return apply_one("RealDiv", apply_one("Sub", pixels, mean), deviation, name=scope)


@export("image.image_gradients")
def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Returns the differences to the next row and to the next column, 0 in the last one.

    Raises:
        ValueError: If the image is not `[batch, height, width, channels]`.
    """
    pixels: Any = convert_to_tensor(image, name="image")
    if pixels.shape.ndims != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {pixels.shape}.")
    dy = apply_one("Pad", pixels[:, 1:] - pixels[:, :-1], [[0, 0], [0, 1], [0, 0], [0, 0]])
    dx = apply_one("Pad", pixels[:, :, 1:] - pixels[:, :, :-1], [[0, 0], [0, 0], [0, 1], [0, 0]])
    for result in (dy, dx):
        result.set_shape(pixels.shape)
    return dy, dx


@export("image.sobel_edges")
def sobel_edges(image: Any) -> Tensor:
    """Returns the Sobel edge maps of images `[batch, height, width, channels]`: dy and dx in a new last dimension."""
    pixels: Any = _with_rank_at_least(image, 4, "image")
    padded = apply_one("MirrorPad", pixels, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")

    def smoothed(x: Any) -> Any:
        return x[0] + x[1] * 2 + x[2]

    rows = [padded[:, :-2], padded[:, 1:-1], padded[:, 2:]]
    difference, columns = rows[2] - rows[0], smoothed(rows)
    dy = smoothed([difference[:, :, :-2], difference[:, :, 1:-1], difference[:, :, 2:]])
    dx = columns[:, :, 2:] - columns[:, :, :-2]
    edges = apply_one("Pack", [dy, dx], axis=-1)
    edges.set_shape(pixels.shape.concatenate([2]))
    return edges


@export("image.total_variation")
def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Sums the absolute differences of neighbouring pixels: one number per image.

    Raises:
        ValueError: If the images have neither 3 nor 4 dimensions.
    """
    with name_scope(name, "total_variation"):
        pixels: Any = convert_to_tensor(images)
        rank = pixels.shape.ndims
        if rank not in (3, 4):
            raise ValueError(f"'images' must be either 3 or 4-dimensional, got shape {pixels.shape}.")
        batch = pixels if rank == 4 else pixels[None]
        down, across = batch[:, 1:] - batch[:, :-1], batch[:, :, 1:] - batch[:, :, :-1]
        total: Any = apply_one("AddV2", *[reduce_sum(apply_one("Abs", x), [1, 2, 3]) for x in (down, across)])
        tensor: Tensor = total if rank == 4 else total[0]
        return tensor


def _checked_pair(first: Any, second: Any, max_val: Any) -> tuple[Any, Any, Any]:
    """Both images and the largest value as float32, checked against each other."""
    a, b = _with_rank_at_least(first, 3, "img1"), _with_rank_at_least(second, 3, "img2")
    if a.dtype.base_dtype != b.dtype.base_dtype:
        raise TypeError(f"The images must have one dtype, got {a.dtype.name} and {b.dtype.name}.")
    _check_image_dims(a, b)
    checks = []
    if not (a.shape.is_fully_defined() and b.shape.is_fully_defined()):
        # Height, width and channels must agree; the dimensions before them broadcast.
        one, two = (_image_sizes(x) for x in (a, b))
        same = apply_one("All", apply_one("Equal", one, two), [0])
        checks.append(apply_op("Assert", same, ["The last three dimensions of the images differ:", one, two]))
    largest = convert_image_dtype(cast(max_val, a.dtype), dtypes.float32)
    with control_dependencies(checks):
        return convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32), largest


def _image_sizes(x: Tensor) -> Any:
    sizes: Any = shape_tensor(x)
    return sizes[-3:]


def _check_image_dims(a: Tensor, b: Tensor) -> None:
    if a.shape.ndims is not None and b.shape.ndims is not None and not a.shape[-3:].is_compatible_with(b.shape[-3:]):
        raise ValueError(f"The last three dimensions of the images must be equal, got {a.shape} and {b.shape}.")


@export("image.psnr")
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Returns the peak signal-to-noise ratio of pairs of images, in decibels.

    Args:
        a: `[..., height, width, channels]`.
        b: The same.
        max_val: The difference between the largest and the smallest value that pixels can have.
        name: The name of the result.

    Returns:
        A float32 tensor, one number per pair; infinite for equal images.
    """
    with name_scope(name, "PSNR", [a, b]):
        first, second, largest = _checked_pair(a, b, max_val)
        error = reduce_mean(apply_one("SquaredDifference", first, second), [-3, -2, -1])
        decibel = np.float32(10 / np.log(10))
        peak: Any = apply_one("Log", largest) * (2 * decibel)
        return apply_one("Sub", peak, apply_one("Mul", decibel, apply_one("Log", error)), name="psnr")


def _gaussian(size: int, sigma: float) -> Any:
    """The weights of a Gaussian window in one dimension; the window of an image is their outer product."""
    at = np.arange(size, dtype=np.float64) - (size - 1) / 2
    weights = np.exp(-0.5 * at * at / (sigma * sigma))
    return (weights / weights.sum()).astype(np.float32)


def _similarity(a: Any, b: Any, largest: Any, size: int, sigma: float, k1: float, k2: float) -> tuple[Any, Any]:
    """Maps of the structural similarity (Wang et al., 2004), and of its part for contrast and structure."""
    if size < 1:
        raise ValueError(f"filter_size must be positive, got {size}.")
    checks = []
    for x in (a, b):
        sizes: Any = shape_tensor(x)
        known = None if x.shape.ndims is None else x.shape.as_list()[-3:-1]
        if known is not None and any(n is not None and n < size for n in known):
            raise ValueError(f"Images of {known} are smaller than the filter of size {size}.")
        if known is None or None in known:
            fits = apply_one("All", apply_one("GreaterEqual", sizes[-3:-1], size), [0])
            checks.append(apply_op("Assert", fits, ["Images are smaller than the filter:", sizes, size]))
    with control_dependencies(checks):
        a = apply_one("Identity", a)
    weights = _gaussian(size, sigma)

    def blurred(x: Any) -> Any:
        sizes: Any = shape_tensor(x)
        flat = reshape(x, apply_one("ConcatV2", [[-1], sizes[-3:]], 0))
        rows, columns = (np.reshape(weights, shape) for shape in ((-1, 1, 1, 1), (1, -1, 1, 1)))
        channels = flat.shape.as_list()[-1]
        multiples = sizes[-1] if channels is None else channels
        for window in (rows, columns):
            kernel = apply_one("Tile", window, apply_one("Pack", [1, 1, multiples, 1]))
            flat = apply_one("DepthwiseConv2dNative", flat, kernel, strides=[1, 1, 1, 1], padding="VALID")
        after: Any = shape_tensor(flat)
        return reshape(flat, apply_one("ConcatV2", [sizes[:-3], after[1:]], 0))

    c1, c2 = apply_one("Square", largest * k1), apply_one("Square", largest * k2)
    mean_a, mean_b = blurred(a), blurred(b)
    product, squares = mean_a * mean_b * 2.0, apply_one("Square", mean_a) + apply_one("Square", mean_b)
    luminance = (product + c1) / (squares + c1)
    both, each = blurred(a * b) * 2.0, blurred(apply_one("Square", a) + apply_one("Square", b))
    structure = (both - product + c2) / (each - squares + c2)
    return luminance * structure, structure


@export("image.ssim")
def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Returns the structural similarity of pairs of images, averaged over pixels and channels.

    Args:
        img1: `[..., height, width, channels]`.
        img2: The same.
        max_val: The difference between the largest and the smallest value that pixels can have.
        filter_size: The size of the Gaussian window.
        filter_sigma: Its standard deviation.
        k1: Keeps the quotient of the means away from 0 / 0.
        k2: The same for the variances.
        return_index_map: Whether to return the similarity at each place of the window instead of their mean.

    Returns:
        A float32 tensor, one number per pair; 1 for equal images.
    """
    with name_scope(None, "SSIM", [img1, img2]):
        a, b, largest = _checked_pair(img1, img2, max_val)
        similarity, _ = _similarity(a, b, largest, filter_size, filter_sigma, k1, k2)
        if return_index_map:
            return reduce_mean(similarity, [-1])
        return reduce_mean(reduce_mean(similarity, [-3, -2]), [-1])


@export("image.ssim_multiscale")
def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = _POWER_FACTORS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Returns the structural similarity over several scales, each half the size of the one before.

    Args:
        img1: `[..., height, width, channels]`.
        img2: The same.
        max_val: The difference between the largest and the smallest value that pixels can have.
        power_factors: The exponent of each scale; the first is that of the full size.
        filter_size: The size of the Gaussian window.
        filter_sigma: Its standard deviation.
        k1: Keeps the quotient of the means away from 0 / 0.
        k2: The same for the variances.

    Returns:
        A float32 tensor, one number per pair.
    """
    with name_scope(None, "MS-SSIM", [img1, img2]):
        a, b, largest = _checked_pair(img1, img2, max_val)
        parts = []
        for scale in range(len(power_factors)):
            if scale > 0:
                a, b = _downsampled(a), _downsampled(b)
            similarity, structure = _similarity(a, b, largest, filter_size, filter_sigma, k1, k2)
            last = scale == len(power_factors) - 1
            parts.append(apply_one("Relu", reduce_mean(similarity if last else structure, [-3, -2])))
        stacked = apply_one("Pack", parts, axis=-1)
        powers = apply_one("Pow", stacked, np.array(power_factors, np.float32))
        return reduce_mean(reduce_prod(powers, [-1]), [-1])


def _downsampled(x: Any) -> Any:
    """Averages of two by two pixels; an odd last row or column is repeated."""
    sizes: Any = shape_tensor(x)
    flat = reshape(x, apply_one("ConcatV2", [[-1], sizes[-3:]], 0))
    odd = apply_one("FloorMod", sizes[-3:-1], 2)
    after = apply_one("ConcatV2", [[0], odd, [0]], 0)
    padded = apply_one("MirrorPad", flat, apply_one("Pack", [[0, 0, 0, 0], after], axis=1), mode="SYMMETRIC")
    pooled = apply_one("AvgPool", padded, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    known = flat.shape.as_list()
    pooled.set_shape([None, *[None if n is None else (n + 1) // 2 for n in known[1:3]], known[3]])
    half: Any = shape_tensor(pooled)
    result = reshape(pooled, apply_one("ConcatV2", [sizes[:-3], half[1:]], 0))
    result.set_shape([*[None] * (x.shape.ndims - 3), *pooled.shape.as_list()[1:]])
    return result
