"""The readers of records, lines and fixed-length records, as the kernels use them."""

from __future__ import annotations

import os
import random
import struct
import zlib
from pathlib import Path

import pytest

from thalweg import errors
from thalweg._native import core
from thalweg.ops.files.record_format import framed

BUFFERS = [0, 16, 64, 1000]


def records_of(count: int, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(rng.choice([0, 1, 10, 100, 1000, 5000])) for _ in range(count)]


def write(path: Path, data: bytes, compression: str = "") -> bytes:
    packed = {
        "": lambda: data,
        "ZLIB": lambda: zlib.compress(data),
        "GZIP": lambda: zlib.compress(data, wbits=31),
    }[compression]()
    path.write_bytes(packed)
    return bytes(path)


@pytest.mark.parametrize("compression", ["", "ZLIB", "GZIP"])
@pytest.mark.parametrize("buffer_bytes", BUFFERS)
def test_records_in_order_with_their_positions(compression: str, buffer_bytes: int, tmp_path: Path) -> None:
    records = records_of(100)
    path = write(tmp_path / "file", b"".join(map(framed, records)), compression)
    reader = core.RecordReader(path, compression.encode(), buffer_bytes)
    positions = []
    for record in records:
        positions.append(reader.position)
        assert next(reader) == record
    assert positions[:2] == [0, 16 + len(records[0])]
    with pytest.raises(StopIteration):
        next(reader)
    for i in random.Random(1).sample(range(100), 30):
        reader.seek(positions[i])
        assert next(reader) == records[i]


def test_a_large_record_between_small_ones(tmp_path: Path) -> None:
    records = [b"small", random.Random(0).randbytes(3_000_000), b"", b"end"]
    path = write(tmp_path / "file", b"".join(map(framed, records)))
    assert list(core.RecordReader(path)) == records


def test_each_flipped_byte_is_a_data_loss_at_its_record(tmp_path: Path) -> None:
    records = [b"one", b"", b"three" * 4]
    data = b"".join(map(framed, records))
    starts = [0, 19, 35]
    for at in range(len(data)):
        path = write(tmp_path / "file", data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        broken = max(i for i, start in enumerate(starts) if start <= at)
        for buffer_bytes in (0, 16):
            reader = core.RecordReader(path, b"", buffer_bytes)
            for record in records[:broken]:
                assert next(reader) == record
            for _ in range(2):
                with pytest.raises(errors.DataLossError, match=f"file; corrupted record .* at {starts[broken]}"):
                    next(reader)


def test_each_truncation_is_a_data_loss_unless_between_records(tmp_path: Path) -> None:
    records = [b"one", b"", b"three" * 4]
    data = b"".join(map(framed, records))
    for size in range(len(data)):
        path = write(tmp_path / "file", data[:size])
        for buffer_bytes in (0, 16):
            reader = core.RecordReader(path, b"", buffer_bytes)
            if size in (0, 19, 35):
                assert list(reader) == records[: (0, 19, 35).index(size)]
            else:
                with pytest.raises(errors.DataLossError, match="file; truncated record"):
                    list(reader)


def test_a_huge_length_with_a_right_checksum_reserves_nothing(tmp_path: Path) -> None:
    for length in (2**64 - 1, 2**63, 2**62, 2**40, 2**32):
        header = struct.pack("<Q", length)
        data = header + struct.pack("<I", core.masked_crc32c(header)) + b"x" * 100
        for compression in ("", "ZLIB"):
            path = write(tmp_path / "file", data, compression)
            with pytest.raises(errors.DataLossError, match="truncated record at 0"):
                next(core.RecordReader(path, compression.encode()))


def test_random_bytes_are_a_data_loss(tmp_path: Path) -> None:
    rng = random.Random(2)
    for _ in range(200):
        path = write(tmp_path / "file", rng.randbytes(rng.randrange(1, 200)))
        for compression in (b"", b"ZLIB", b"GZIP"):
            with pytest.raises(errors.DataLossError):
                list(core.RecordReader(path, compression))


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "file"
    reader = core.RecordReader(write(path, framed(b"one")))
    assert list(reader) == [b"one"]
    with path.open("ab") as file:
        file.write(framed(b"two"))
    assert list(reader) == [b"two"]


def test_a_file_that_shrinks_is_a_data_loss_or_an_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    reader = core.RecordReader(write(path, framed(b"x" * 1000) * 1000))
    assert next(reader) == b"x" * 1000
    os.truncate(path, 900_000)
    with pytest.raises(errors.DataLossError, match="truncated"):
        list(reader)
    os.truncate(path, 0)
    with pytest.raises((errors.DataLossError, StopIteration)):
        next(reader)


@pytest.mark.parametrize("kind", ["RecordReader", "LineReader"])
def test_unreadable_files_are_errors(kind: str, tmp_path: Path) -> None:
    make = getattr(core, kind)
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        make(bytes(tmp_path / "nowhere"))
    with pytest.raises(errors.FailedPreconditionError, match="directory"):
        make(bytes(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.FailedPreconditionError, match="not a regular file"):
        make(bytes(tmp_path / "pipe"))
    with pytest.raises(errors.UnimplementedError, match="gs"):
        make(b"gs://bucket/file")
    with pytest.raises(errors.InvalidArgumentError, match="zero byte"):
        make(b"a\0b")
    with pytest.raises(errors.InvalidArgumentError, match="'BROTLI'"):
        make(write(tmp_path / "file", b""), b"BROTLI")
    if os.geteuid() != 0:
        (tmp_path / "secret").touch(0)
        with pytest.raises(errors.PermissionDeniedError):
            make(bytes(tmp_path / "secret"))


def test_a_path_may_be_a_url_of_a_file(tmp_path: Path) -> None:
    write(tmp_path / "file", b"line")
    assert list(core.LineReader(b"file://" + bytes(tmp_path / "file"))) == [b"line"]


@pytest.mark.parametrize("compression", ["", "ZLIB", "GZIP"])
@pytest.mark.parametrize("buffer_bytes", BUFFERS)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"one", [b"one"]),
        (b"one\n", [b"one"]),
        (b"one\rx\r\n\n\r\ntwo", [b"one\rx", b"", b"", b"two"]),
        (b"\0\n\xff", [b"\0", b"\xff"]),
        (b"long" * 500 + b"\r\n" + b"x" * 15 + b"\r\n" + b"y" * 16 + b"\nend\r\n", None),
    ],
)
def test_lines(text: bytes, lines: list[bytes] | None, compression: str, buffer_bytes: int, tmp_path: Path) -> None:
    if lines is None:
        lines = [line.removesuffix(b"\r") for line in text.split(b"\n")[:-1]]
    path = write(tmp_path / "file", text, compression)
    reader = core.LineReader(path, compression.encode(), buffer_bytes)
    positions = []
    for line in lines:
        positions.append(reader.position)
        assert next(reader) == line
    with pytest.raises(StopIteration):
        next(reader)
    for position, line in reversed(list(zip(positions, lines, strict=True))):
        reader.seek(position)
        assert next(reader) == line


@pytest.mark.parametrize("compression", ["", "ZLIB"])
@pytest.mark.parametrize("buffer_bytes", [0, 16])
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((3, 2, 3, 0), [b"abc", b"def", b"ghi"]),
        ((5, 2, 3, 0), [b"abcde", b"fghij"]),
        ((5, 2, 3, 2), [b"abcde", b"cdefg", b"efghi"]),
        ((2, 2, 3, 3), [b"ab", b"de", b"gh"]),
        ((20, 0, 0, 0), []),
        ((1, 100, 0, 0), []),
        ((1, 0, 100, 0), []),
        ((1, 14, 0, 0), [b"F"]),
        ((1, 12, 2, 10**9), [b"F"]),
    ],
)
def test_fixed_length_records(
    sizes: tuple[int, int, int, int], expected: list[bytes], compression: str, buffer_bytes: int, tmp_path: Path
) -> None:
    path = write(tmp_path / "file", b"HHabcdefghijFFF", compression)
    assert list(core.FixedLengthReader(path, *sizes, compression.encode(), buffer_bytes)) == expected


def test_sizes_that_make_no_sense(tmp_path: Path) -> None:
    path = write(tmp_path / "file", b"abc")
    for sizes, name in [
        ((0,), "record"),
        ((-1,), "record"),
        ((1, -1), "header"),
        ((1, 0, -1), "footer"),
        ((1, 0, 0, -1), "hop"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=f"{name}_bytes"):
            core.FixedLengthReader(path, *sizes)
    assert list(core.FixedLengthReader(path, 2**40)) == []
