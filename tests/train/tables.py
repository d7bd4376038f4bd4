"""Tables in LevelDB's format for tests that need wrong rows with right checksums: one block, nothing shared."""

from __future__ import annotations

import struct

_MAGIC = 0xDB4775248B80FB57
_POLYNOMIAL = 0x82F63B78


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF  # masked


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _block(rows: dict[bytes, bytes]) -> bytes:
    out, restarts = b"", []
    for key, value in rows.items():
        restarts.append(len(out))
        out += _varint(0) + _varint(len(key)) + _varint(len(value)) + key + value
    restarts = restarts or [0]
    return out + struct.pack(f"<{len(restarts)}I", *restarts) + struct.pack("<I", len(restarts))


def table_of(rows: dict[bytes, bytes]) -> bytes:
    """The bytes of a table with these rows, in the order of their keys."""
    out = b""

    def append(contents: bytes) -> bytes:
        nonlocal out
        handle = _varint(len(out)) + _varint(len(contents))
        out += contents + b"\0" + struct.pack("<I", _crc32c(contents + b"\0"))
        return handle

    ordered = dict(sorted(rows.items()))
    data = append(_block(ordered))
    meta = append(_block({}))
    index = append(_block({max(ordered) + b"\xff": data}))
    return out + (meta + index).ljust(40, b"\0") + struct.pack("<Q", _MAGIC)


def rows_of(table: bytes) -> dict[bytes, bytes]:
    """The rows of an intact table."""

    def entries(handle: bytes) -> dict[bytes, bytes]:
        offset, at = _read_varint(handle, 0)
        size, _ = _read_varint(handle, at)
        block = table[offset : offset + size]
        end = size - 4 - 4 * struct.unpack("<I", block[-4:])[0]
        found, key, at = {}, b"", 0
        while at < end:
            shared, at = _read_varint(block, at)
            own, at = _read_varint(block, at)
            length, at = _read_varint(block, at)
            key = key[:shared] + block[at : at + own]
            found[key] = block[at + own : at + own + length]
            at += own + length
        return found

    footer = table[-48:]
    at = _read_varint(footer, _read_varint(footer, 0)[1])[1]
    return {key: value for handle in entries(footer[at:]).values() for key, value in entries(handle).items()}
