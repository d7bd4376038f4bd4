"""Damaged files of every kind end in an error or in records, never in a crash and never in an endless loop."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from thalweg import errors
from thalweg._native import core
from thalweg.ops.files.record_format import framed

MOST = 200_000  # More records than any of these files can hold.


def sound_files(rng: random.Random) -> list[bytes]:
    words = [rng.randbytes(4).hex().encode() for _ in range(60)]
    text = b"\r\n".join(b" ".join(rng.choices(words, k=8)) for _ in range(100))
    records = b"".join(framed(rng.randbytes(rng.choice([0, 3, 50, 700]))) for _ in range(12))
    plain = [text, records, bytes(3000), rng.randbytes(500), b"ab" * 900, b""]
    packed = []
    for data in plain:
        for level, strategy, bits in [(0, 0, 15), (1, 0, 31), (9, 0, 15), (6, zlib.Z_FIXED, 31), (6, zlib.Z_RLE, 9)]:
            maker = zlib.compressobj(level, zlib.DEFLATED, bits, 8, strategy)
            packed.append(maker.compress(data) + maker.flush())
    return plain + packed


def damaged(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(5)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            out[at : at + 1] = rng.randbytes(1)
        elif kind == 1:
            del out[at:]
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.randrange(1, 30))
        else:
            del out[at : at + rng.randrange(1, 20)]
    return bytes(out)


def read(reader: Iterator[bytes], rng: random.Random) -> None:
    """Reads to the end, a few times from somewhere else."""
    seeks = 10
    for count, _ in enumerate(reader):
        assert count < MOST
        if seeks and rng.random() < 0.002:
            seeks -= 1
            reader.seek(rng.randrange(5000))  # type: ignore[attr-defined]


def test_damaged_files(tmp_path: Path, fuzz_seconds: float) -> None:
    rng = random.Random(int(fuzz_seconds * 1000))
    sources = sound_files(rng)
    path = tmp_path / "file"
    ends = {"sound": 0, "damaged": 0}
    deadline = time.monotonic() + fuzz_seconds / 8
    while time.monotonic() < deadline or min(ends.values()) == 0:
        path.write_bytes(damaged(rng.choice(sources), rng))
        compression = rng.choice([b"", b"ZLIB", b"GZIP"])
        buffer_bytes = rng.choice([0, 16, 100])
        sizes = (rng.randrange(1, 500), rng.randrange(20), rng.randrange(20), rng.choice([0, 0, rng.randrange(500)]))
        for kind, arguments in (
            (core.RecordReader, (compression, buffer_bytes)),
            (core.LineReader, (compression, buffer_bytes)),
            (core.FixedLengthReader, (*sizes, compression, buffer_bytes)),
        ):
            try:
                read(iter(kind(bytes(path), *arguments)), rng)
                ends["sound"] += 1
            except errors.DataLossError as error:
                assert str(path) in str(error)
                ends["damaged"] += 1
