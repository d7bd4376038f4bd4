"""Decompression: equal to zlib on all output of zlib, and a clear error on anything else."""

from __future__ import annotations

import functools
import gzip
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from thalweg import errors
from thalweg._native import core

STEP = 200  # Bytes of each piece that the tests read.


def inflate(path: Path, compression: str, buffer_bytes: int = 0) -> bytes:
    """All of a compressed file, as records of STEP bytes; its size must be a multiple of that."""
    return b"".join(core.FixedLengthReader(bytes(path), STEP, 0, 0, 0, compression.encode(), buffer_bytes))


@functools.cache
def contents() -> dict[str, bytes]:
    rng = np.random.default_rng(7)
    words = [bytes(rng.integers(97, 123, rng.integers(2, 9), dtype=np.uint8)) for _ in range(300)]
    text = b" ".join(words[i] for i in rng.zipf(1.3, 60_000) % 300)
    return {
        "zeros": bytes(500_000),
        "noise": rng.bytes(300_000),
        "text": text[: len(text) // STEP * STEP],
        "period 3": b"abc" * 100_000,
        "period 7": b"abcdefg" * 20_000,
        "far matches": (rng.bytes(32_000) * 5)[:150_000],
        "skewed": bytes(np.minimum(rng.geometric(0.4, 200_000), 255).astype(np.uint8)),
        "short": b"x" * STEP,
    }


def compressed(data: bytes, compression: str, level: int = 6, strategy: int = 0, bits: int = 15) -> bytes:
    maker = zlib.compressobj(level, zlib.DEFLATED, bits + (16 if compression == "GZIP" else 0), 8, strategy)
    return maker.compress(data) + maker.flush()


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
@pytest.mark.parametrize("name", contents())
def test_gives_what_was_compressed(name: str, compression: str, tmp_path: Path) -> None:
    data = contents()[name]
    path = tmp_path / "file"
    for level, strategy in [
        (0, 0),
        (1, 0),
        (6, 0),
        (9, 0),
        (6, zlib.Z_FIXED),
        (6, zlib.Z_HUFFMAN_ONLY),
        (6, zlib.Z_RLE),
    ]:
        path.write_bytes(compressed(data, compression, level, strategy))
        assert inflate(path, compression) == data, (level, strategy)


@pytest.mark.parametrize("bits", range(9, 16))
def test_windows_of_every_size(bits: int, tmp_path: Path) -> None:
    data = contents()["text"]
    (tmp_path / "file").write_bytes(compressed(data, "ZLIB", bits=bits))
    assert inflate(tmp_path / "file", "ZLIB") == data


def test_blocks_that_were_flushed(tmp_path: Path) -> None:
    maker = zlib.compressobj()
    data = contents()["text"]
    modes = [zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_NO_FLUSH]
    pieces = [maker.compress(data[i : i + STEP]) + maker.flush(modes[i // STEP % 3]) for i in range(0, len(data), STEP)]
    (tmp_path / "file").write_bytes(b"".join(pieces) + maker.flush())
    assert inflate(tmp_path / "file", "ZLIB", buffer_bytes=64) == data


def test_members_of_a_gzip_file_follow_each_other(tmp_path: Path) -> None:
    first, second = contents()["text"], contents()["noise"]
    (tmp_path / "file").write_bytes(gzip.compress(first) + gzip.compress(b"") + gzip.compress(second))
    assert inflate(tmp_path / "file", "GZIP") == first + second


def test_all_fields_of_a_gzip_header(tmp_path: Path) -> None:
    raw = zlib.compress(b"y" * STEP, wbits=-15)
    header = b"\x1f\x8b\x08\x1f\0\0\0\0\0\xff" + struct.pack("<H", 5) + b"extra" + b"name\0" + b"a comment\0" + b"cc"
    trailer = struct.pack("<II", zlib.crc32(b"y" * STEP), STEP)
    path = tmp_path / "file"
    path.write_bytes(header + raw + trailer)
    assert inflate(path, "GZIP") == b"y" * STEP
    for cut in range(1, len(header)):
        path.write_bytes(header[:cut])
        with pytest.raises(errors.DataLossError, match="header"):
            inflate(path, "GZIP")


def test_an_empty_file_has_no_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert inflate(tmp_path / "file", "ZLIB") == inflate(tmp_path / "file", "GZIP") == b""


def test_what_follows_a_zlib_stream_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(zlib.compress(b"z" * STEP) + b"more")
    assert inflate(tmp_path / "file", "ZLIB") == b"z" * STEP


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
def test_every_truncation_is_reported_after_what_was_whole(compression: str, tmp_path: Path) -> None:
    data = contents()["text"][: 3 * STEP]
    whole = compressed(data, compression)
    path = tmp_path / "file"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        reader = core.FixedLengthReader(bytes(path), STEP, compression=compression.encode())
        seen = b""
        with pytest.raises(errors.DataLossError, match=f"{path}; corrupted compressed data near byte"):
            for piece in reader:
                seen += piece
        assert data.startswith(seen)
        with pytest.raises(errors.DataLossError):  # The error is permanent.
            next(reader)


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
def test_every_flipped_byte_is_noticed(compression: str, tmp_path: Path) -> None:
    data = contents()["text"][: 2 * STEP]
    whole = compressed(data, compression)
    path = tmp_path / "file"
    unprotected = set(range(4, 10)) if compression == "GZIP" else set()  # Time and origin in the header.
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        if at in unprotected:
            assert inflate(path, compression) == data
        else:
            with pytest.raises(errors.DataLossError):
                inflate(path, compression)


def reference(data: bytes) -> bytes | None:
    try:
        return zlib.decompressobj().decompress(data)
    except zlib.error:
        return None


def test_random_damage_ends_as_zlib_ends_or_in_an_error(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "file"
    sources = [compressed(contents()[name][:4000], "ZLIB", level) for name in ("text", "skewed") for level in (0, 1, 9)]
    for _ in range(200):
        damaged = bytearray(rng.choice(sources))
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(2, len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            inflate(path, "ZLIB")
        except errors.DataLossError:
            continue
        assert reference(bytes(damaged)) is not None


def test_random_bytes_behind_a_header_end_in_an_error(tmp_path: Path) -> None:
    rng = random.Random(4)
    path = tmp_path / "file"
    for _ in range(200):
        path.write_bytes(b"\x78\x9c" + rng.randbytes(rng.randrange(1, 300)))
        with pytest.raises(errors.DataLossError):
            inflate(path, "ZLIB")


def test_a_preset_dictionary_and_an_unknown_method_are_refused(tmp_path: Path) -> None:
    for data, match in [(b"\x78\xbb" + bytes(10), "dictionary"), (b"\x79\x9c" + bytes(10), "zlib header")]:
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(errors.DataLossError, match=match):
            inflate(tmp_path / "file", "ZLIB")


def test_seeking(tmp_path: Path) -> None:
    data = contents()["text"]
    (tmp_path / "file").write_bytes(zlib.compress(data))
    reader = core.FixedLengthReader(bytes(tmp_path / "file"), STEP, compression=b"ZLIB", buffer_bytes=256)
    rng = random.Random(5)
    for _ in range(40):
        at = rng.randrange(len(data) - STEP)
        reader.seek(at)
        assert next(reader) == data[at : at + STEP]
        assert reader.position == at + STEP
