"""What a session says about its devices."""

from __future__ import annotations

from typing import NamedTuple


class DeviceAttributes(NamedTuple):
    """A device that steps can use."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int = 0
