"""The kernels that decode and encode image files, on Pillow; BMP files and the writing of PNG files need only NumPy.

Files are not trusted: every exception of Pillow becomes an InvalidArgumentError, and sizes are checked before
pixels are decoded. Pillow is imported with the first file that is decoded, and releases the GIL while it decodes.
"""

from __future__ import annotations

import functools
import importlib
import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.definitions.op_registry import python_kernel

Array = np.ndarray[Any, Any]

# The limits of an image and of an animation: headers are not trusted.
_MAX_PIXELS = 1 << 28
_MAX_BYTES = 1 << 30
_JPEG_SIDE = 65500
_UINT8, _FLOAT, _UINT16 = 4, 1, 17  # TensorFlow's numbers of element types, as attributes arrive.


def _invalid(message: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, message)


def _contents(value: Array) -> bytes:
    if value.ndim != 0:
        raise _invalid(f"contents must be scalar, got shape {list(value.shape)}")
    data: bytes = value.item()
    return data


def _with_pillow_errors(what: str, body: Callable[[], Any]) -> Any:
    """Runs Pillow code; every exception of it becomes an InvalidArgumentError."""
    try:
        return body()
    except (errors.OpError, MemoryError):
        raise
    except Exception as e:  # Hostile bytes make Pillow raise nearly anything.
        raise _invalid(f"Invalid {what} data, or it is cut short: {type(e).__name__}: {e}") from None


def _open(data: bytes, what: str) -> Any:
    from PIL import Image  # Start-up time: PIL is slow to import.

    def opened() -> Any:
        image = Image.open(io.BytesIO(data), formats=[what])
        if image.width * image.height > _MAX_PIXELS or not image.width or not image.height:
            raise _invalid(f"{what} image is empty or too large: {image.width} x {image.height} pixels")
        return image

    return _with_pillow_errors(what, opened)


def _kind(data: bytes) -> str:
    if data[:3] == b"\xff\xd8\xff":
        return "JPEG"
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "PNG"
    if data[:4] == b"GIF8":
        return "GIF"
    if data[:2] == b"BM":
        return "BMP"
    raise _invalid("Unknown image file format. One of JPEG, PNG, GIF, BMP required.")


def _with_channels(pixels: Array, channels: int) -> Array:
    """Grey or colour, with or without alpha (2 and 4 channels), as another of these; 0 leaves it."""
    have = pixels.shape[2]
    if channels in (0, have):
        return pixels
    color, alpha = (pixels[:, :, :-1], pixels[:, :, -1:]) if have % 2 == 0 else (pixels, None)
    if channels < 3 <= have:
        # The luminance in 32768ths, as libpng computes it for TensorFlow: 16-bit samples are rounded, 8-bit ones cut.
        mixed = color.astype(np.int64) @ np.array([9797, 19234, 3737])
        color = ((mixed + (16384 if pixels.dtype == np.uint16 else 0)) >> 15).astype(pixels.dtype)[:, :, None]
    elif channels >= 3 > have:
        color = np.repeat(color, 3, axis=2)
    if channels % 2 == 0:
        full = np.iinfo(pixels.dtype).max
        alpha = np.full((*pixels.shape[:2], 1), full, pixels.dtype) if alpha is None else alpha
        return np.concatenate([color, alpha], axis=2)
    return np.ascontiguousarray(color)


def _with_channel_axis(image: Any) -> Array:
    pixels = np.asarray(image)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _pixels(image: Any) -> Any:
    """The pixels as a tensor of the core: Arrow's interface spares two copies. As an array where Pillow has none."""
    try:
        _, capsule = image.__arrow_c_array__()
    except (AttributeError, ValueError):  # An older Pillow, or a large image, which it keeps in several blocks.
        return _with_channel_axis(image)
    from thalweg._native import core  # Start-up time: the core is loaded when first used.

    return core.pixels_from_arrow(capsule, image.height, image.width, 1 if image.mode == "L" else 3)


@functools.cache
def _has_libjpeg() -> bool:
    """Whether the core could load the libjpeg that Pillow decodes with; its path is that of the loaded library."""
    from thalweg._native import core  # Start-up time: the core is loaded when first used.

    importlib.import_module("PIL._imaging")  # Loads the library.
    with open("/proc/self/maps") as maps:
        loaded = {path for line in maps if "libjpeg" in (path := line.split(maxsplit=5)[-1].strip())}
    # Another package may have loaded a libjpeg of its own: Pillow's comes first.
    return any(core.load_libjpeg(path) for path in sorted(loaded, key=lambda path: "pillow" not in path.lower()))


def _jpeg(data: bytes, attrs: dict[str, Any], as_array: bool = True) -> Any:
    """A decoded JPEG file: an array, or a tensor of the core, which needs no copy."""
    channels, ratio = attrs.get("channels", 0), attrs.get("ratio", 1)
    if channels not in (0, 1, 3):
        raise _invalid(f"channels must be 0, 1, or 3 for JPEG, got {channels}")
    if ratio not in (1, 2, 4, 8):
        raise _invalid(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    if attrs.get("dct_method", b"") not in (b"", b"INTEGER_FAST", b"INTEGER_ACCURATE"):
        raise _invalid(f"dct_method must be one of '', 'INTEGER_FAST', 'INTEGER_ACCURATE', got {attrs['dct_method']!r}")

    enough, invent_rest = attrs.get("acceptable_fraction", 1.0), attrs.get("try_recover_truncated", False)
    if _has_libjpeg():
        from thalweg._native import core  # Start-up time: the core is loaded when first used.

        accurate = attrs.get("dct_method", b"") == b"INTEGER_ACCURATE"
        pixels = core.decode_jpeg(
            data, channels, ratio, attrs.get("fancy_upscaling", True), accurate, enough, invent_rest
        )
        if pixels is not None:
            return pixels

    def opened() -> Any:
        image = _open(data, "JPEG")
        wanted = (-(-image.width // ratio), -(-image.height // ratio))
        mode = "L" if channels == 1 else image.mode
        image.draft(mode, (max(1, image.width // ratio), max(1, image.height // ratio)))
        return image, wanted

    def decoded() -> Any:
        image, wanted = opened()
        try:
            image.load()
        except OSError:
            if enough >= 1 and not invent_rest:
                raise
            image = _decode_truncated(data, opened()[0], 0.0 if invent_rest else enough)
        if image.size != wanted:
            image = image.resize(wanted, 4)  # Box filter: images too small for libjpeg's own scaling.
        target = {0: "L" if image.mode == "L" else "RGB", 1: "L", 3: "RGB"}[channels]
        image = image if image.mode == target else image.convert(target)
        return _with_channel_axis(image) if as_array else _pixels(image)

    return _with_pillow_errors("JPEG", decoded)


def _decode_truncated(data: bytes, image: Any, fraction: float) -> Any:
    """Decodes a truncated JPEG file; the missing lines are black.

    Decoding over two different backgrounds shows how many lines there are: the lines that come out equal.
    """
    from PIL import Image  # Start-up time: PIL is slow to import.

    tile, results = image.tile[0], []
    for background in (0, 255):
        result = Image.new(image.mode, image.size, (background,) * len(image.getbands()))
        decoder = Image._getdecoder(image.mode, "jpeg", tile[3], image.decoderconfig)
        try:
            decoder.setimage(result.im, tile[1])
            decoder.decode(data[tile[2] :])
        finally:
            decoder.cleanup()
        results.append(result)
    first, second = (np.asarray(result).reshape(image.height, -1) for result in results)
    differing = np.flatnonzero((first != second).any(axis=1))
    lines = int(differing[0]) if differing.size else image.height
    if lines < fraction * image.height or lines == 0:
        raise _invalid(f"Invalid JPEG data: only {lines} of {image.height} lines are there")
    return results[0]


@python_kernel("ExtractJpegShape")
def _extract_jpeg_shape(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    image = _open(_contents(inputs[0]), "JPEG")
    dtype = np.int64 if attrs["output_type"] == 9 else np.int32
    return np.array([image.height, image.width, len(image.getbands())], dtype)


def _png(data: bytes, channels: int, wide: bool) -> Array:
    if channels not in (0, 1, 2, 3, 4):
        raise _invalid(f"channels must be 0, 1, 2, 3 or 4 for PNG, got {channels}")

    def decoded() -> Array:
        image = _open(data, "PNG")
        raw = image.tile[0][3] if image.tile else ""
        raw = raw if isinstance(raw, str) else raw[0]
        if ";16B" in raw:
            pixels = _with_channels(_png16(data, image, raw), channels)
            return pixels if wide else (pixels >> 8).astype(np.uint8)
        clear = "transparency" in image.info
        if image.mode == "P":
            image = image.convert("RGBA" if clear and channels in (0, 2, 4) else "RGB")
        elif clear and channels in (2, 4):
            image = image.convert("RGBA")
        elif image.mode not in ("L", "LA", "RGB", "RGBA"):
            image = image.convert("L")
        pixels = _with_channels(_with_channel_axis(image), channels)
        return pixels.astype(np.uint16) * np.uint16(257) if wide else pixels

    result: Array = _with_pillow_errors("PNG", decoded)
    return result


def _png16(data: bytes, image: Any, raw: str) -> Array:
    """All 16 bits of a sample: Pillow keeps those of grey images only, so colours are decoded once for each half."""
    if raw == "I;16B":
        return np.asarray(image).astype(np.uint16)[:, :, None]
    tile = image.tile[0]

    def bytes_as(layout: str) -> Array:
        again = _open(data, "PNG")
        args = tile[3] if isinstance(tile[3], str) else (layout, *tile[3][1:])
        again.tile = [tile._replace(args=layout if isinstance(tile[3], str) else args)]
        return np.asarray(again).astype(np.uint16)

    if raw == "LA;16B":
        pairs = bytes_as("RGBA")
        return pairs[:, :, 0::2] << 8 | pairs[:, :, 1::2]
    return bytes_as(raw) << 8 | bytes_as(raw.replace("16B", "16L"))


def _gif(data: bytes, only_first: bool = False) -> Array:
    def decoded() -> Array:
        image = _open(data, "GIF")
        frames: list[Array] = []
        while not (only_first and frames):
            try:
                image.seek(len(frames))
            except EOFError:
                break
            frames.append(np.asarray(image.convert("RGB")))
            if len(frames) * frames[0].size > _MAX_BYTES:
                raise _invalid(f"GIF animation is too large: more than {len(frames)} frames of {image.size}")
        return np.stack(frames)

    result: Array = _with_pillow_errors("GIF", decoded)
    return result


def _bmp(data: bytes, channels: int) -> Array:
    if data[:2] != b"BM" or len(data) < 32:
        raise _invalid(f"Incomplete bmp content, requires at least 32 bytes to find the header, got {len(data)}")
    offset, _, width, height, _, bits = struct.unpack_from("<IIiiHH", data, 10)
    have, rows = bits // 8, abs(height)
    if bits not in (8, 24, 32):
        raise _invalid(f"BMP files of 8, 24 or 32 bits a pixel can be decoded, got {bits}")
    if channels not in (0, 1, 3, 4):
        raise _invalid(f"channels must be 0, 1, 3 or 4 for BMP, got {channels}")
    if width <= 0 or rows == 0 or width * rows > _MAX_PIXELS:
        raise _invalid(f"BMP image is empty or too large: {width} x {height} pixels")
    line = (bits * width + 31) // 32 * 4
    # The last line may lack its padding.
    needed = offset + line * (rows - 1) + width * have
    if len(data) < needed:
        raise _invalid(f"Incomplete bmp content, requires at least {needed} bytes, got {len(data)} bytes")
    padded = np.frombuffer(data[offset : offset + line * rows].ljust(line * rows, b"\0"), np.uint8)
    pixels = padded.reshape(rows, line)[:, : width * have].reshape(rows, width, have)
    pixels = pixels if height < 0 else pixels[::-1]
    order = {1: (0,), 3: (2, 1, 0), 4: (2, 1, 0, 3)}[have]
    image = np.empty(pixels.shape, np.uint8)
    for channel, source in enumerate(order):  # A fifth of the time that indexing with a list takes.
        image[:, :, channel] = pixels[:, :, source]
    return _with_channels(image, channels)


def _single(frames: Array) -> Array:
    if len(frames) != 1:
        raise _invalid(
            f"Got {len(frames)} frames, but animated gifs can only be decoded by tf.io.decode_gif or tf.io.decode_image"
        )
    image: Array = frames[0]
    return image


def _decode_any(data: bytes, attrs: dict[str, Any]) -> Any:
    """One image of any format but BMP, as the ops named after one format accept it."""
    kind, channels, wide = _kind(data), attrs.get("channels", 0), attrs.get("dtype") == _UINT16
    if kind == "PNG":
        return _png(data, channels, wide)
    if kind == "BMP":
        raise _invalid("Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead.")
    if kind == "JPEG" and not wide:
        return _jpeg(data, attrs, as_array=False)
    pixels = _jpeg(data, attrs) if kind == "JPEG" else _with_channels(_single(_gif(data)), channels)
    return pixels.astype(np.uint16) * np.uint16(256) if wide else pixels


@python_kernel("DecodeJpeg", "DecodePng")
def _decode(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    return _decode_any(_contents(inputs[0]), attrs)


@python_kernel("DecodeAndCropJpeg")
def _decode_and_crop(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    data, window = _contents(inputs[0]), inputs[1]
    if window.shape != (4,):
        raise _invalid(f"crop_window must have four elements, got shape {list(window.shape)}")
    if _kind(data) != "JPEG":
        raise _invalid(f"DecodeAndCropJpeg operation can run on JPEG only, but detected {_kind(data)}.")
    top, left, height, width = (int(n) for n in window)
    pixels = _jpeg(data, attrs)
    rows, columns = pixels.shape[:2]
    if min(top, left) < 0 or min(height, width) <= 0 or top + height > rows or left + width > columns:
        raise _invalid(f"Invalid crop window [{top}, {left}, {height}, {width}] for an image of {rows} x {columns}")
    return np.ascontiguousarray(pixels[top : top + height, left : left + width])


@python_kernel("DecodeGif")
def _decode_gif(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    data = _contents(inputs[0])
    return _gif(data) if _kind(data) == "GIF" else _decode_any(data, {"channels": 3})[None]


@python_kernel("DecodeBmp")
def _decode_bmp(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    data = _contents(inputs[0])
    if data[:2] != b"BM":
        raise _invalid("Trying to decode a file that is no BMP using DecodeBmp. Use `decode_image` instead.")
    return _bmp(data, attrs["channels"])


@python_kernel("DecodeImage")
def _decode_image(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    data, channels, dtype = _contents(inputs[0]), attrs["channels"], attrs["dtype"]
    kind = _kind(data)
    if kind == "PNG":
        pixels = _png(data, channels, dtype != _UINT8)
        return pixels.astype(np.float32) * np.float32(1 / 65535) if dtype == _FLOAT else pixels
    if kind == "GIF":
        if channels not in (0, 3):
            raise _invalid(f"channels must be 0 or 3 for GIF, got {channels}")
        pixels = _gif(data, not attrs["expand_animations"])
        pixels = pixels if attrs["expand_animations"] else pixels[0]
    else:
        pixels = _jpeg(data, {"channels": channels}) if kind == "JPEG" else _bmp(data, channels)
    if dtype == _FLOAT:
        return pixels.astype(np.float32) * np.float32(1 / 255)
    return pixels.astype(np.uint16) * np.uint16(256) if dtype == _UINT16 else pixels


def _string_array(contents: Any, shape: tuple[int, ...] = ()) -> Array:
    out = np.empty(shape, object)
    out[...] = contents
    return out


def _encode_jpeg_file(pixels: Array, quality: int, attrs: dict[str, Any]) -> bytes:
    from PIL import Image  # Start-up time: PIL is slow to import.

    if pixels.ndim != 3 or 0 in pixels.shape:
        raise _invalid(f"image must be 3-dimensional and not empty, got shape {list(pixels.shape)}")
    channels, wanted = pixels.shape[2], {b"grayscale": 1, b"rgb": 3}.get(attrs.get("format", b""))
    if channels not in (1, 3) or wanted not in (None, channels):
        raise _invalid(f"image must have {wanted or '1 or 3'} channels, got {channels}")
    if max(pixels.shape[:2]) > _JPEG_SIDE:
        raise _invalid(f"image is too large to encode as JPEG: {list(pixels.shape)}, at most {_JPEG_SIDE} a side")
    if not 0 <= quality <= 100:
        raise _invalid(f"quality must be in [0,100], got {quality}")
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    density = (attrs.get("x_density", 300), attrs.get("y_density", 300))
    if min(density) < 0 or max(density) > 65535:
        raise _invalid(f"densities must be in [0, 65535], got {density}")
    out = io.BytesIO()
    options: dict[str, Any] = {"xmp": attrs["xmp_metadata"]} if attrs.get("xmp_metadata") else {}
    image.save(
        out, "JPEG", quality=max(1, quality), progressive=attrs.get("progressive", False), dpi=density,
        optimize=attrs.get("optimize_size", False), subsampling=2 if attrs.get("chroma_downsampling", True) else 0,
        **options,
    )  # fmt: skip
    data = bytearray(out.getvalue())
    if data[6:11] == b"JFIF\0":  # The unit (1 inch, 2 cm) and the densities of the header.
        data[13:18] = struct.pack(">BHH", 2 if attrs.get("density_unit") == b"cm" else 1, *density)
    return bytes(data)


@python_kernel("EncodeJpeg")
def _encode_jpeg(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    return _string_array(_with_pillow_errors("image", lambda: _encode_jpeg_file(inputs[0], attrs["quality"], attrs)))


@python_kernel("EncodeJpegVariableQuality")
def _encode_jpeg_variable_quality(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    if inputs[1].ndim != 0:
        raise _invalid(f"quality must be scalar, got shape {list(inputs[1].shape)}")
    return _string_array(_with_pillow_errors("image", lambda: _encode_jpeg_file(inputs[0], int(inputs[1]), attrs)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def _encode_png_file(pixels: Array, level: int) -> bytes:
    rows, columns, channels = pixels.shape
    wide = pixels.dtype == np.uint16
    header = struct.pack(">IIBBBBB", columns, rows, 16 if wide else 8, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    samples = pixels.astype(">u2") if wide else pixels
    lines = np.frombuffer(samples.tobytes(), np.uint8).reshape(rows, -1)
    # PNG's filters: each line as it is, minus its left neighbours, or minus the line above; the smallest sum wins.
    step = channels * (2 if wide else 1)
    left, above = lines.copy(), lines.copy()
    left[:, step:] -= lines[:, :-step]
    above[1:] -= lines[:-1]
    choices = [lines, left, above]
    cost = [np.abs(choice.view(np.int8).astype(np.int16)).sum(axis=1, dtype=np.int64) for choice in choices]
    best = np.argmin(cost, axis=0)
    out = np.empty((rows, lines.shape[1] + 1), np.uint8)
    out[:, 0] = best
    for i, choice in enumerate(choices):
        out[best == i, 1:] = choice[best == i]
    body = zlib.compress(out.tobytes(), level)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


@python_kernel("EncodePng")
def _encode_png(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    pixels, level = inputs[0], attrs["compression"]
    if pixels.ndim < 3 or 0 in pixels.shape[-3:]:
        raise _invalid(f"image must be at least 3-dimensional and not empty, got shape {list(pixels.shape)}")
    if pixels.shape[-1] not in (1, 2, 3, 4):
        raise _invalid(f"image must have 1, 2, 3, or 4 channels, got {pixels.shape[-1]}")
    if not -1 <= level <= 9:
        raise _invalid(f"compression should be in [-1,9], got {level}")
    out = np.empty(pixels.shape[:-3], object)
    for index in np.ndindex(out.shape):
        out[index] = _encode_png_file(pixels[index], level)
    return out
