"""Free ports of this host."""

from __future__ import annotations

import socket


def free_ports(count: int, host: str = "localhost") -> list[int]:
    """Different ports that no process listens at now; another process may take one before the caller does."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def is_free(port: int, host: str = "localhost") -> bool:
    """Whether a server could listen at a port now; ports of connections that have just ended count as free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
