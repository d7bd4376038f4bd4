"""Serialized Examples, built by hand: also such as no library would write."""

from __future__ import annotations

import struct
from typing import Any


def varint(value: int) -> bytes:
    """A number of any size, seven bits a byte; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def floats(*values: float) -> bytes:
    """A Feature with packed floats."""
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))


def ints(*values: int) -> bytes:
    """A Feature with packed integers."""
    return field(3, field(1, b"".join(varint(v) for v in values)))


def texts(*values: bytes) -> bytes:
    """A Feature with strings."""
    return field(1, b"".join(field(1, v) for v in values))


def feature(values: Any) -> bytes:
    """A Feature of the kind that the values are; None for one without any."""
    if values is None:
        return b""
    values = values if isinstance(values, list) else [values]
    kinds = {bytes: texts, float: floats, int: ints}
    return kinds[type(values[0])](*values)


def map_of(entries: dict[str, bytes]) -> bytes:
    """A map from strings to messages."""
    return b"".join(field(1, field(1, key.encode()) + field(2, value)) for key, value in entries.items())


def example(**features: Any) -> bytes:
    """An Example: each value a number, some bytes, a list of them, or None."""
    return field(1, map_of({key: feature(value) for key, value in features.items()}))


def sequence_example(context: dict[str, Any], lists: dict[str, list[Any]]) -> bytes:
    """A SequenceExample; an empty list of values is a Feature without any kind."""
    steps = {key: b"".join(field(1, feature(v or None)) for v in values) for key, values in lists.items()}
    return field(1, map_of({key: feature(value) for key, value in context.items()})) + field(2, map_of(steps))
