"""Image files: decoding against Pillow and by hand, encoding there and back, and files with false headers."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import thalweg as tf
from thalweg.ops.image import formats as image_formats


@pytest.fixture
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def picture(channels: int = 3, height: int = 24, width: int = 31) -> np.ndarray:
    """A smooth picture, which JPEG changes little."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / 9 + i) * 55 + np.cos(y / 7 + i) * 55 + 128 for i in range(channels)]
    return np.stack(waves, -1).astype(np.uint8)


def saved(pixels: np.ndarray, kind: str, mode: str | None = None, **options: Any) -> bytes:
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    out = io.BytesIO()
    (image.convert(mode) if mode else image).save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_goes_there_and_back(session: tf.Session, channels: int) -> None:
    pixels = picture(channels)
    encoded = tf.image.encode_jpeg(pixels, quality=100, chroma_downsampling=False)
    for method, most in (("", 6), ("INTEGER_FAST", 6), ("INTEGER_ACCURATE", 4)):
        decoded = session.run(tf.image.decode_jpeg(encoded, dct_method=method))
        assert decoded.shape == pixels.shape and decoded.dtype == np.uint8
        assert np.abs(decoded.astype(int) - pixels).max() <= most


@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_options_reach_the_library(session: tf.Session, progressive: bool) -> None:
    noisy = np.random.default_rng(0).integers(0, 256, (37, 45, 3)).astype(np.uint8)
    data = saved(noisy, "JPEG", progressive=progressive)
    fast, named, accurate, plain = (
        session.run(tf.image.decode_jpeg(data, **options)).astype(int)
        for options in (
            {}, {"dct_method": "INTEGER_FAST"}, {"dct_method": "INTEGER_ACCURATE"}, {"fancy_upscaling": False}
        )
    )  # fmt: skip
    np.testing.assert_array_equal(accurate, np.asarray(Image.open(io.BytesIO(data))))
    np.testing.assert_array_equal(fast, named)
    assert 0 < np.abs(fast - accurate).max() <= 8
    assert np.abs(plain - fast).max() > 20  # The colours of such a picture differ from pixel to pixel.


def test_jpeg_is_decoded_by_the_core_and_not_by_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native path is taken with the Pillow that is installed: the slow one would go unnoticed."""
    assert image_formats._has_libjpeg()
    data = saved(picture(3, 100, 100), "JPEG")
    expected = np.asarray(Image.open(io.BytesIO(data)))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Pillow was asked to decode a JPEG file")

    monkeypatch.setattr(Image, "open", refuse)
    with tf.Session() as session:
        decoded = session.run(tf.image.decode_jpeg(data, dct_method="INTEGER_ACCURATE"))
    np.testing.assert_array_equal(decoded, expected)


def test_jpeg_without_libjpeg_is_decoded_by_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a Pillow with another library than the core supports."""
    monkeypatch.setattr(image_formats, "_has_libjpeg", lambda: False)
    data = saved(picture(3, 100, 100), "JPEG")
    pixels = image_formats._jpeg(data, {})
    np.testing.assert_array_equal(pixels, np.asarray(Image.open(io.BytesIO(data))))
    half = image_formats._jpeg(data[: len(data) * 3 // 4], {"try_recover_truncated": True})
    assert half.shape == pixels.shape and half[:4].any()
    with pytest.raises(tf.errors.InvalidArgumentError, match="cut short"):
        image_formats._jpeg(data[: len(data) * 3 // 4], {})


def test_libraries_that_are_not_libjpeg_are_not_used() -> None:
    script = (
        "from thalweg._native import core\n"
        "assert not core.load_libjpeg('/nowhere/libjpeg.so')\n"
        "assert not core.load_libjpeg('libc.so.6')\n"
        "assert core.decode_jpeg(b'\\xff\\xd8\\xff', 0, 1, True, False, 1.0, False) is None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(("channels", "ratio", "shape"), [(0, 1, (24, 31, 3)), (1, 2, (12, 16, 1)), (3, 8, (3, 4, 3))])
def test_jpeg_channels_and_ratio(session: tf.Session, channels: int, ratio: int, shape: tuple[int, ...]) -> None:
    decoded = tf.image.decode_jpeg(saved(picture(), "JPEG"), channels=channels, ratio=ratio)
    assert decoded.shape.as_list() == [None, None, channels or None]
    value = session.run(decoded)
    assert value.shape == shape
    full = picture().astype(float).mean(-1, keepdims=True) if channels == 1 else picture().astype(float)
    assert abs(value.mean() - full.mean()) < 12


def test_tiny_jpeg_with_a_large_ratio(session: tf.Session) -> None:
    assert session.run(tf.image.decode_jpeg(saved(picture(3, 3, 5), "JPEG"), ratio=8)).shape == (1, 1, 3)


def test_grey_jpeg_as_colour_and_cmyk(session: tf.Session) -> None:
    grey = session.run(tf.image.decode_jpeg(saved(picture(1), "JPEG"), channels=3))
    assert (grey[:, :, 0] == grey[:, :, 2]).all()
    cmyk = session.run(tf.image.decode_jpeg(saved(picture(), "JPEG", "CMYK")))
    assert np.abs(cmyk.astype(int) - picture()).mean() < 6


def test_jpeg_shape_and_crop(session: tf.Session) -> None:
    data = saved(picture(), "JPEG")
    assert session.run(tf.image.extract_jpeg_shape(data)).tolist() == [24, 31, 3]
    assert session.run(tf.image.extract_jpeg_shape(data, output_type=tf.int64)).dtype == np.int64
    crop = tf.image.decode_and_crop_jpeg(data, [3, 4, 10, 12])
    assert crop.shape.as_list() == [10, 12, None]
    np.testing.assert_array_equal(session.run(crop), session.run(tf.image.decode_jpeg(data))[3:13, 4:16])
    for window in ([0, 0, 25, 5], [-1, 0, 5, 5], [0, 0, 0, 5], [0, 30, 5, 2]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="crop window"):
            session.run(tf.image.decode_and_crop_jpeg(data, tf.placeholder_with_default(np.int32(window), None)))


def test_jpeg_options_reach_the_file(session: tf.Session) -> None:
    small, large = session.run([tf.image.encode_jpeg(picture(), quality=q) for q in (5, 100)])
    assert len(small) < len(large)
    data = session.run(
        tf.image.encode_jpeg(
            picture(), progressive=True, optimize_size=True, density_unit="cm", x_density=7, y_density=9,
            xmp_metadata=b"<x:xmpmeta/>",
        )
    )  # fmt: skip
    image = Image.open(io.BytesIO(data))
    assert image.info["progressive"]
    assert image.info["jfif_unit"] == 2 and image.info["jfif_density"] == (7, 9)
    assert b"<x:xmpmeta/>" in data


def test_quality_as_a_tensor(session: tf.Session) -> None:
    quality = tf.placeholder(tf.int32, [])
    encoded = tf.raw_ops.EncodeJpegVariableQuality(images=picture(), quality=quality)
    assert len(session.run(encoded, {quality: 5})) < len(session.run(encoded, {quality: 95}))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0,100\]"):
        session.run(encoded, {quality: 101})


def test_adjust_jpeg_quality(session: tf.Session) -> None:
    pixels = picture().astype(np.float32) / 255
    for quality in (90, tf.constant(90)):
        worse = tf.image.adjust_jpeg_quality(pixels, quality)
        assert worse.shape.as_list() == [24, 31, 3] and worse.dtype == tf.float32
        assert 0 < np.abs(session.run(worse) - pixels).mean() < 0.05
    assert session.run(tf.image.random_jpeg_quality(picture(), 50, 90, seed=1)).dtype == np.uint8


def test_truncated_jpeg_is_refused_or_recovered(session: tf.Session) -> None:
    full = saved(picture(3, 200, 200), "JPEG", quality=90)
    contents = tf.placeholder(tf.string, [])
    data = full[: len(full) // 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="JPEG"):
        session.run(tf.image.decode_jpeg(contents), {contents: data})
    with pytest.raises(tf.errors.InvalidArgumentError, match="lines"):
        session.run(tf.image.decode_jpeg(contents, acceptable_fraction=0.95), {contents: data})
    whole = session.run(tf.image.decode_jpeg(contents), {contents: full})
    part = session.run(tf.image.decode_jpeg(contents, acceptable_fraction=0.2), {contents: data})
    np.testing.assert_array_equal(part[:60], whole[:60])
    assert not part[-8:].any()
    invented = session.run(tf.image.decode_jpeg(contents, try_recover_truncated=True), {contents: data})
    np.testing.assert_array_equal(invented[:60], whole[:60])
    assert invented.shape == whole.shape and invented[-8:].any()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_goes_there_and_back(session: tf.Session, dtype: Any, channels: int) -> None:
    pixels = np.random.default_rng(channels).integers(0, np.iinfo(dtype).max + 1, (9, 7, channels)).astype(dtype)
    encoded = tf.image.encode_png(pixels)
    np.testing.assert_array_equal(session.run(tf.image.decode_png(encoded, dtype=dtype)), pixels)
    wide = session.run(tf.image.decode_png(encoded, dtype=tf.uint16))
    narrow = session.run(tf.image.decode_png(encoded))
    if dtype == np.uint8:
        np.testing.assert_array_equal(wide, pixels.astype(np.uint16) * 257)
    else:
        np.testing.assert_array_equal(narrow, (pixels >> 8).astype(np.uint8))
    image = Image.open(io.BytesIO(session.run(encoded)))
    assert image.size == (7, 9)


def test_png_batches_and_compression(session: tf.Session) -> None:
    batch = np.stack([picture(), 255 - picture()])
    files = session.run(tf.image.encode_png(batch))
    assert files.shape == (2,)
    for data, pixels in zip(files, batch, strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), pixels)
    loose, tight = session.run([tf.image.encode_png(picture(), compression=n) for n in (0, 9)])
    assert len(tight) < len(loose)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png_channels_convert(session: tf.Session, channels: int) -> None:
    pixels = picture(4)
    value = session.run(tf.image.decode_png(saved(pixels, "PNG"), channels=channels))
    if channels == 1:
        grey = pixels[:, :, :3] @ np.array([0.299, 0.587, 0.114])
        assert np.abs(value[:, :, 0] - grey).max() <= 1
    else:
        np.testing.assert_array_equal(value, pixels[:, :, :channels])


def test_png_palettes_and_transparency(session: tf.Session) -> None:
    image = Image.fromarray(picture()).quantize(16)
    for options, channels in (({}, 3), ({"transparency": 2}, 4)):
        out = io.BytesIO()
        image.save(out, "PNG", **options)
        value = session.run(tf.image.decode_png(out.getvalue()))
        assert value.shape == (24, 31, channels)
        np.testing.assert_array_equal(value[:, :, :3], np.asarray(image.convert("RGB")))
    bits = Image.fromarray(picture(1)[:, :, 0]).convert("1")
    out = io.BytesIO()
    bits.save(out, "PNG")
    np.testing.assert_array_equal(
        session.run(tf.image.decode_png(out.getvalue()))[:, :, 0], np.asarray(bits.convert("L"))
    )


def test_gif_gives_all_frames(session: tf.Session) -> None:
    frames = [Image.fromarray(np.roll(picture(), 5 * i, 1)).quantize(32) for i in range(4)]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    value = session.run(tf.image.decode_gif(out.getvalue()))
    assert value.shape == (4, 24, 31, 3)
    for got, frame in zip(value, frames, strict=True):
        np.testing.assert_array_equal(got, np.asarray(frame.convert("RGB")))
    first = tf.image.decode_image(out.getvalue(), expand_animations=False)
    assert session.run(first).shape == (24, 31, 3)
    assert session.run(tf.image.decode_gif(saved(picture(), "PNG"))).shape == (1, 24, 31, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="animated"):
        session.run(tf.image.decode_png(tf.placeholder_with_default(out.getvalue(), [])))


@pytest.mark.parametrize(("channels", "mode"), [(1, None), (3, None), (4, None)])
def test_bmp(session: tf.Session, channels: int, mode: str | None) -> None:
    pixels = picture(channels)
    np.testing.assert_array_equal(session.run(tf.image.decode_bmp(saved(pixels, "BMP"))), pixels)


def test_bmp_from_the_top(session: tf.Session) -> None:
    data = bytearray(saved(picture(), "BMP"))
    data[22:26] = struct.pack("<i", -24)
    np.testing.assert_array_equal(session.run(tf.image.decode_bmp(bytes(data))), picture()[::-1])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF"])
def test_decode_image_knows_the_format(session: tf.Session, kind: str) -> None:
    data = saved(picture(), kind)
    value = session.run(tf.image.decode_image(data))
    assert value.shape[-3:] == (24, 31, 3) and value.dtype == np.uint8
    real = session.run(tf.image.decode_image(data, dtype=tf.float32))
    np.testing.assert_allclose(real, value.astype(np.float32) / 255, atol=1e-6)
    wide = session.run(tf.image.decode_image(data, dtype=tf.uint16))
    np.testing.assert_array_equal(wide, value.astype(np.uint16) * (257 if kind == "PNG" else 256))


def test_is_jpeg(session: tf.Session) -> None:
    assert session.run(tf.image.is_jpeg(saved(picture(), "JPEG")))
    assert not session.run(tf.image.is_jpeg(saved(picture(), "PNG")))


def test_arguments_are_checked(session: tf.Session) -> None:
    with pytest.raises(ValueError, match="channels"):
        tf.image.decode_png(b"", channels=7)
    with pytest.raises(ValueError, match="channels"):
        tf.image.decode_image(b"", channels=2)
    with pytest.raises(ValueError, match="dtype"):
        tf.image.decode_image(b"", dtype=tf.int32)
    with pytest.raises(ValueError, match="rank"):
        tf.image.decode_png([b"", b""])
    contents, pixels = tf.placeholder(tf.string), tf.placeholder(tf.uint8)
    for decode in (tf.image.decode_jpeg, tf.image.decode_png, tf.image.decode_gif, tf.image.decode_bmp):
        with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
            session.run(decode(contents), {contents: [b"", b""]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="ratio"):
        session.run(tf.image.decode_jpeg(contents, ratio=3), {contents: saved(picture(), "JPEG")})
    with pytest.raises(tf.errors.InvalidArgumentError, match="dct_method"):
        session.run(tf.image.decode_jpeg(contents, dct_method="NONE"), {contents: saved(picture(), "JPEG")})
    jpeg, png = tf.image.encode_jpeg(pixels), tf.image.encode_png(pixels)
    for encoded, shape in ((jpeg, (0, 3, 3)), (jpeg, (3, 3, 4)), (jpeg, (3, 3)), (jpeg, (1, 65501, 1)),
                           (png, (0, 3, 3)), (png, (3, 3, 5)), (png, (3, 3)), (png, (2, 0, 3, 3))):  # fmt: skip
        with pytest.raises(tf.errors.InvalidArgumentError, match="image"):
            session.run(encoded, {pixels: np.zeros(shape, np.uint8)})
    for options in ({"quality": 101}, {"quality": -1}, {"format": "rgb"}, {"x_density": -1}):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(tf.image.encode_jpeg(pixels, **options), {pixels: np.zeros((2, 2, 1), np.uint8)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="compression"):
        session.run(tf.image.encode_png(pixels, compression=10), {pixels: np.zeros((2, 2, 1), np.uint8)})


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png_claiming(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(b"\0" * 10)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _patched(data: bytes, at: int, what: bytes) -> bytes:
    return data[:at] + what + data[at + len(what) :]


def _lies() -> dict[str, bytes]:
    jpeg, gif, bmp = (saved(picture(), kind) for kind in ("JPEG", "GIF", "BMP"))
    frame = jpeg.index(b"\xff\xc0")
    return {
        "a PNG of 2^31 pixels a side": _png_claiming(2**31 - 1, 2**31 - 1),
        "a PNG of 60000 pixels a side": _png_claiming(60000, 60000),
        "an empty PNG": _png_claiming(0, 5),
        "a PNG with too little in it": _png_claiming(500, 500),
        "a JPEG of 65535 pixels a side": _patched(jpeg, frame + 5, b"\xff\xff\xff\xff"),
        "an empty JPEG": _patched(jpeg, frame + 5, b"\0\0\0\0"),
        "a GIF of 65535 pixels a side": _patched(gif, 6, b"\xff\xff\xff\xff"),
        "a BMP of 2^31 pixels a side": _patched(bmp, 18, struct.pack("<ii", 2**31 - 1, 2**31 - 1)),
        "a BMP of the smallest height": _patched(bmp, 18, struct.pack("<ii", 1, -(2**31))),
        "a BMP of negative width": _patched(bmp, 18, struct.pack("<ii", -5, 5)),
        "a BMP whose pixels begin far away": _patched(bmp, 10, struct.pack("<I", 2**32 - 1)),
        "a BMP of 17 bits a pixel": _patched(bmp, 28, struct.pack("<H", 17)),
        "nothing": b"",
        "a zero": b"\0",
        "text": b"hello, world",
        "the beginning of a JPEG": b"\xff\xd8\xff",
        "the beginning of a PNG": b"\x89PNG\r\n\x1a\n",
        "the beginning of a GIF": b"GIF89a",
        "the beginning of a BMP": b"BM",
    }


@pytest.mark.parametrize("what", list(_lies()))
def test_files_with_false_headers_are_refused(session: tf.Session, what: str) -> None:
    contents = tf.placeholder(tf.string, [])
    for decode in (tf.image.decode_image, tf.image.decode_jpeg, tf.image.decode_png, tf.image.decode_gif):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(decode(contents), {contents: _lies()[what]})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF"])
def test_damaged_files_are_decoded_or_refused(session: tf.Session, kind: str) -> None:
    """Every cut and many random changes: an image or an InvalidArgumentError, nothing else."""
    data, rng = saved(picture(3, 12, 13), kind), np.random.default_rng(len(kind))
    contents = tf.placeholder(tf.string, [])
    decoded = tf.image.decode_image(contents)
    recovered = tf.image.decode_jpeg(contents, try_recover_truncated=True, acceptable_fraction=0.1)
    files = [data[:n] for n in range(0, len(data), max(1, len(data) // 60))]
    for _ in range(150):
        damaged = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 8)):
            damaged[at] = rng.integers(0, 256)
        files.append(bytes(damaged))
    outcomes = set()
    for damaged in files:
        for op in (decoded, recovered) if kind == "JPEG" else (decoded,):
            try:
                outcomes.add(session.run(op, {contents: bytes(damaged)}).dtype.name)
            except tf.errors.InvalidArgumentError:
                outcomes.add("refused")
    assert outcomes == {"uint8", "refused"}
