"""The attributes of a session's devices."""

from __future__ import annotations

from typing import NamedTuple

from thalweg._native import core


class DeviceAttributes(NamedTuple):
    """A device that steps can use.

    Attributes:
        name: The full name.
        device_type: Such as "CPU".
        memory_limit_bytes: Bytes that its tensors may hold; the machine's memory unless a limit is set.
        incarnation: A random number of 64 bits that no other process has for a device of this name.
    """

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int = 0


def incarnation(name: str) -> int:
    """The incarnation of a device in this process: never 0, and the same as long as the process lives."""
    return core.device_incarnation(name)
