"""What a session says about its devices."""

from __future__ import annotations

import functools
import secrets
from typing import NamedTuple


class DeviceAttributes(NamedTuple):
    """A device that steps can use.

    Attributes:
        name: The full name.
        device_type: Such as "CPU".
        memory_limit_bytes: What its tensors may hold; the machine's memory unless a limit is set.
        incarnation: A number that no other process has for a device of this name.
    """

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int = 0


@functools.cache
def incarnation(name: str) -> int:
    """The incarnation of a device in this process."""
    return secrets.randbits(63) or 1
