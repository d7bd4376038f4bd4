"""Files of records (TFRecord): each with its length and masked checksums, as event files and data sets have them.

One record is: length (8 bytes), masked CRC-32C of the length (4), the content, masked CRC-32C of the content (4), all
little-endian. Reading and writing are native (`core/io/record_reader.h`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any


def framed(content: bytes) -> bytes:
    """A record with this content, ready to be written."""
    from thalweg._native import core  # Start-up time: the core is loaded when first used.

    return core.framed_record(content)


def read_records(path: Any, compression: str = "") -> Iterator[bytes]:
    """Iterates over the contents of a file's records.

    Raises:
        NotFoundError: If there is no such file.
        DataLossError: If a checksum does not match, or the file ends within a record.
    """
    from thalweg._native import core  # Start-up time: the core is loaded when first used.

    return iter(core.RecordReader(os.fsencode(path), compression.encode()))
