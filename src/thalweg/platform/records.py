"""Files of records (TFRecord): each with its length and masked checksums, as event files and data sets have them.

One record is: length (8 bytes), masked CRC-32C of the length (4), the content, masked CRC-32C of the content (4), all
little-endian.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import IO, Any, Final

from thalweg import errors
from thalweg.platform.file_paths import local_path, os_errors

_HEADER: Final = struct.Struct("<QI")
_FOOTER: Final = struct.Struct("<I")


def framed(content: bytes) -> bytes:
    """A record with this content, ready to be written."""
    from thalweg._native import core

    length = struct.pack("<Q", len(content))
    return b"".join(
        (length, _FOOTER.pack(core.masked_crc32c(length)), content, _FOOTER.pack(core.masked_crc32c(content)))
    )


def read_records(path: Any) -> Iterator[bytes]:
    """Reads the contents of a file's records.

    Raises:
        NotFoundError: If there is no such file.
        DataLossError: If a checksum does not match, or the file ends within a record.
    """
    with os_errors(path):
        file = open(local_path(path), "rb")  # noqa: SIM115 (closed below)
    with file:
        size = os.fstat(file.fileno()).st_size
        while (header := _read(file, _HEADER.size, path, may_end=True)) is not None:
            from thalweg._native import core

            length, checksum = _HEADER.unpack(header)
            start = file.tell() - _HEADER.size
            if core.masked_crc32c(header[:8]) != checksum:
                raise _corrupted(path, start)
            # A file that grows while it is read is measured again before it is called too short.
            if length > size and length > (size := os.fstat(file.fileno()).st_size):
                raise errors.DataLossError(None, None, f"{path}; truncated record at {start}")
            content = _read(file, length, path)
            footer = _read(file, _FOOTER.size, path)
            assert content is not None
            assert footer is not None
            if core.masked_crc32c(content) != _FOOTER.unpack(footer)[0]:
                raise _corrupted(path, start)
            yield content


def _read(file: IO[bytes], size: int, path: Any, may_end: bool = False) -> bytes | None:
    start = file.tell()
    with os_errors(path):
        data = file.read(size)
    if len(data) == size:
        return data
    if may_end and not data:
        return None
    raise errors.DataLossError(None, None, f"{path}; truncated record at {start}")


def _corrupted(path: Any, start: int) -> errors.DataLossError:
    return errors.DataLossError(None, None, f"{path}; corrupted record at {start}: its checksum does not match")
