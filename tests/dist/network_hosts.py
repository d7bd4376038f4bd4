"""Hosts for tests: network namespaces around a bridge, whose links can be cut; only root can make them."""

from __future__ import annotations

import os
import subprocess
from typing import Any


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


class Hosts:
    """Network namespaces, each with a link to a bridge in a namespace of its own; tasks go to them in turn.

    Names of namespaces have the number of this process, and addresses mean nothing outside, so that several tests can
    have hosts at the same time.
    """

    _made = 0

    def __init__(self, count: int) -> None:
        """Makes them.

        Raises:
            OSError or subprocess.SubprocessError: If that is not permitted here.
        """
        Hosts._made += 1
        prefix = f"thalweg{os.getpid()}x{Hosts._made}"
        self._bridge = f"{prefix}b"
        self.names = [f"{prefix}h{host}" for host in range(count)]
        self.addresses = [f"10.213.77.{host + 1}" for host in range(count)]
        try:
            for name in (self._bridge, *self.names):
                _ip("netns", "add", name)
            _ip("-n", self._bridge, "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
            _ip("-n", self._bridge, "link", "set", "bridge", "up")
            for host, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
                end = ["peer", "name", "uplink", "netns", name]
                _ip("-n", self._bridge, "link", "add", f"to{host}", "type", "veth", *end)
                _ip("-n", self._bridge, "link", "set", f"to{host}", "master", "bridge", "up")
                _ip("-n", name, "address", "add", f"{address}/24", "dev", "uplink")
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "link", "set", "uplink", "up")
        except BaseException:
            self.close()
            raise

    def host(self, job: str, index: int) -> int:
        """The host of a task: the first two parameter servers are apart, and so are neighbouring workers."""
        return (index + (job == "worker")) % len(self.names)

    def address(self, job: str, index: int) -> str:
        """The address of a task's host."""
        return self.addresses[self.host(job, index)]

    def command(self, job: str, index: int) -> list[str]:
        """How the command of a task begins."""
        return ["ip", "netns", "exec", self.names[self.host(job, index)]]

    def cut(self, host: int) -> None:
        """Cuts the link of a host: packets under way are lost, and neither side is told."""
        _ip("-n", self._bridge, "link", "set", f"to{host}", "down")

    def join(self, host: int) -> None:
        """Brings the link of a host back."""
        _ip("-n", self._bridge, "link", "set", f"to{host}", "up")

    def close(self) -> None:
        """Deletes them, and with them the links."""
        for name in (*self.names, self._bridge):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def hosts_if_permitted(count: int) -> Hosts | None:
    """Hosts; None where they cannot be made."""
    try:
        return Hosts(count)
    except (OSError, subprocess.SubprocessError):
        return None
