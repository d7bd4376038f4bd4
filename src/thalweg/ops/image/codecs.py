"""Image files as tensors: the ops that decode and encode JPEG, PNG, GIF and BMP. Their kernels are in formats.py."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _channels(c: ShapeContext) -> int | None:
    channels: int = c.attr("channels")
    if channels not in (0, 1, 3, 4):
        raise ValueError(f"channels must be 0, 1, 3 or 4, got {channels}")
    return channels or None


def _image_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 0)
    return TensorShape._of((None, None, _channels(c)))


def _cropped_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 0)
    shapes.merge(c.input(1), TensorShape._of((4,)))
    window = c.constant(1)
    height, width = (None, None) if window is None else (int(window[2]), int(window[3]))
    if (height is not None and height < 0) or (width is not None and width < 0):
        raise ValueError(f"crop_window must have a positive height and width, got {height} x {width}")
    return TensorShape._of((height, width, _channels(c)))


def _frames_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 0)
    return TensorShape._of((None, None, None, 3))


def _any_image_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 0)
    channels = _channels(c)
    return shapes.UNKNOWN if c.attr("expand_animations") else TensorShape._of((None, None, channels))


def _jpeg_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 0)
    return TensorShape._of((3,))


def _encoded_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 3)
    if c.num_inputs == 2:
        shapes.with_rank(c.input(1), 0)
    return shapes.SCALAR


def _encoded_png_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 3).dims_tuple
    return shapes.UNKNOWN if dims is None else TensorShape._of(dims[:-3])


_JPEG = (
    "channels: int = 0, ratio: int = 1, fancy_upscaling: bool = true, try_recover_truncated: bool = false, "
    "acceptable_fraction: float = 1.0, dct_method: string = ''"
)
define("DecodeJpeg", "contents: string -> image: uint8", _JPEG, shape=_image_shape)
define("DecodeAndCropJpeg", "contents: string, crop_window: int32 -> image: uint8", _JPEG, shape=_cropped_shape)
define(
    "DecodePng",
    "contents: string -> image: dtype",
    "channels: int = 0, dtype: {uint8, uint16} = uint8",
    shape=_image_shape,
)
define("DecodeGif", "contents: string -> image: uint8", shape=_frames_shape)
define("DecodeBmp", "contents: string -> image: uint8", "channels: int = 0", shape=_image_shape)
define(
    "DecodeImage",
    "contents: string -> image: dtype",
    "channels: int = 0, dtype: {uint8, uint16, float} = uint8, expand_animations: bool = true",
    shape=_any_image_shape,
)
define(
    "ExtractJpegShape",
    "contents: string -> image_shape: output_type",
    "output_type: {int32, int64} = int32",
    shape=_jpeg_shape,
)
define(
    "EncodeJpeg",
    "image: uint8 -> contents: string",
    "format: {'', 'grayscale', 'rgb'} = '', quality: int = 95, progressive: bool = false, "
    "optimize_size: bool = false, chroma_downsampling: bool = true, density_unit: {'in', 'cm'} = 'in', "
    "x_density: int = 300, y_density: int = 300, xmp_metadata: string = ''",
    shape=_encoded_shape,
)
define("EncodeJpegVariableQuality", "images: uint8, quality: int32 -> contents: string", shape=_encoded_shape)
define(
    "EncodePng",
    "image: T -> contents: string",
    "compression: int = -1, T: {uint8, uint16} = uint8",
    shape=_encoded_png_shape,
)
not_differentiable(
    "DecodeJpeg", "DecodeAndCropJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage", "ExtractJpegShape",
    "EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng",
)  # fmt: skip


@export("image.decode_jpeg", "io.decode_jpeg")
def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decodes a JPEG file to uint8 `[height, width, channels]`.

    Args:
        contents: The file, a string scalar.
        channels: 0 (as in the file), 1 (grey) or 3.
        ratio: 1, 2, 4 or 8: divides the height and the width, at a fraction of the cost of decoding all.
        fancy_upscaling: Whether colours of a lower resolution are interpolated, not repeated.
        try_recover_truncated: Whether to accept a file that ends early, and to extrapolate the rest.
        acceptable_fraction: The part of the lines that a truncated file must have otherwise; the rest is black.
        dct_method: 'INTEGER_FAST', which is also the meaning of '', or 'INTEGER_ACCURATE'.
        name: The node's name.

    Returns:
        A Tensor.
    """
    return apply_one(
        "DecodeJpeg", contents, channels=channels or 0, ratio=ratio, fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated, acceptable_fraction=acceptable_fraction, dct_method=dct_method,
        name=name,
    )  # fmt: skip


@export("image.decode_and_crop_jpeg", "io.decode_and_crop_jpeg")
def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """As `decode_jpeg`, and cuts out `crop_window`: the row, column, height and width of a rectangle."""
    return apply_one(
        "DecodeAndCropJpeg", contents, crop_window, channels=channels or 0, ratio=ratio,
        fancy_upscaling=fancy_upscaling, try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction, dct_method=dct_method, name=name,
    )  # fmt: skip


@export("image.decode_png", "io.decode_png")
def decode_png(contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None) -> Tensor:
    """Decodes a PNG file to uint8 or uint16 `[height, width, channels]`; 0 channels: as many as the file has."""
    return apply_one("DecodePng", contents, channels=channels or 0, dtype=as_dtype(dtype), name=name)


@export("image.decode_gif", "io.decode_gif")
def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Decodes all frames of a GIF file to uint8 `[frames, height, width, 3]`."""
    return apply_one("DecodeGif", contents, name=name)


@export("image.decode_bmp", "io.decode_bmp")
def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Decodes a BMP file of 8, 24 or 32 bits a pixel to uint8 `[height, width, channels]`."""
    return apply_one("DecodeBmp", contents, channels=channels or 0, name=name)


@export("image.decode_image", "io.decode_image")
def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decodes a JPEG, PNG, GIF or BMP file, whichever it is.

    Args:
        contents: The file, a string scalar.
        channels: 0 or None (as in the file), 1, 3 or 4.
        dtype: uint8, uint16 or float32, scaled as by `convert_image_dtype`.
        name: The name scope.
        expand_animations: Whether GIF files give `[frames, height, width, 3]`; else their first frame.

    Returns:
        A Tensor `[height, width, channels]`, or with frames before them.

    Raises:
        ValueError: If `channels` or `dtype` is another.
    """
    with name_scope(name, "decode_image"):
        kind = as_dtype(dtype)
        if kind not in (dtypes.uint8, dtypes.uint16, dtypes.float32):
            raise ValueError(f"`dtype` must be uint8, uint16 or float32, got {kind.name}.")
        if channels not in (None, 0, 1, 3, 4):
            raise ValueError(f"channels must be in (None, 0, 1, 3, 4), got {channels!r}.")
        return apply_one(
            "DecodeImage", contents, channels=channels or 0, dtype=kind, expand_animations=expand_animations
        )


@export("image.extract_jpeg_shape", "io.extract_jpeg_shape")
def extract_jpeg_shape(contents: Any, output_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """Reads height, width and channels of a JPEG file without decoding it."""
    return apply_one("ExtractJpegShape", contents, output_type=as_dtype(output_type), name=name)


@export("image.is_jpeg", "io.is_jpeg")
def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether a string begins as JPEG files do."""
    with name_scope(name, "is_jpeg"):
        return apply_one("Equal", apply_one("Substr", contents, 0, 3), b"\xff\xd8\xff", name=name)


@export("image.encode_jpeg", "io.encode_jpeg")
def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: Any = "",
    name: str | None = None,
) -> Tensor:
    """Encodes an image as a JPEG file.

    Args:
        image: uint8 `[height, width, channels]`, with 1 or 3 channels.
        format: '' (by the number of channels), 'grayscale' or 'rgb'.
        quality: From 0 to 100.
        progressive: Whether a coarse image comes first in the file.
        optimize_size: Whether to spend time on a smaller file.
        chroma_downsampling: Whether colours are stored at half the resolution.
        density_unit: 'in' or 'cm'.
        x_density: Pixels per unit.
        y_density: Pixels per unit.
        xmp_metadata: An XMP packet to embed.
        name: The node's name.

    Returns:
        The file, a string scalar.
    """
    return apply_one(
        "EncodeJpeg", image, format=format, quality=quality, progressive=progressive, optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling, density_unit=density_unit, x_density=x_density,
        y_density=y_density, xmp_metadata=xmp_metadata, name=name,
    )  # fmt: skip


@export("image.encode_png", "io.encode_png")
def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Encodes images `[..., height, width, channels]` of uint8 or uint16 as PNG files; `compression` is -1 to 9."""
    # An array keeps its type; the default of the attribute is for lists of numbers.
    pixels = convert_to_tensor(image) if hasattr(image, "dtype") else image
    return apply_one("EncodePng", pixels, compression=compression, name=name)
