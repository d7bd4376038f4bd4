"""Which processes share a host: they reach each other by Unix sockets, and read each other's memory."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

# Longer texts are refused: they come from peers.
LONGEST_HOST = 64


@functools.cache
def host_identity() -> str:
    """A text that is the same for all processes which share memory with this one; empty where that is not known.

    It stands for the running system, its network namespace (abstract Unix sockets are seen within one), and the user
    (tasks of another one are not trusted, see core/net/socket.h). Containers with networks of their own are hosts.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        network = os.readlink("/proc/self/ns/net")
    except OSError:
        return ""
    if not boot:
        return ""
    return hashlib.sha256(f"{boot} {network} {os.geteuid()}".encode()).hexdigest()[:32]
