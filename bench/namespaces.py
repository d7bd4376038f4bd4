"""Network namespaces as hosts: each has a network of its own, so that processes in two of them meet by TCP only."""

from __future__ import annotations

import json
import os
import subprocess
from types import TracebackType


def _run(*command: str) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError) as e:
        told = getattr(e, "stderr", None) or b""
        raise RuntimeError(f"network namespaces cannot be made: {e} {told.decode().strip()}") from None


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


class Hosts:
    """Namespaces that are joined by a bridge; use it in a `with` block, which removes them. Needs root."""

    interface = "eth0"  # of every host

    def __init__(self, count: int) -> None:
        """Makes them.

        Raises:
            RuntimeError: If that is not permitted, or there is no `ip` command.
        """
        self._bridge = f"thalweg{os.getpid()}bridge"
        self._names = [f"thalweg{os.getpid()}host{i}" for i in range(count)]
        try:
            _ip("netns", "add", self._bridge)
            _ip("-n", self._bridge, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self._bridge, "link", "set", "bridge", "up")
            for i, name in enumerate(self._names):
                _ip("netns", "add", name)
                _ip("-n", name, "link", "add", self.interface, "type", "veth", "peer", "name", f"port{i}",
                    "netns", self._bridge)  # fmt: skip
                _ip("-n", self._bridge, "link", "set", f"port{i}", "master", "bridge", "up")
                _ip("-n", name, "address", "add", f"{self.address(i)}/24", "dev", self.interface)
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "link", "set", self.interface, "up")
        except RuntimeError:
            self.close()
            raise

    @staticmethod
    def address(index: int) -> str:
        """The IP address of a host."""
        return f"10.214.77.{index + 1}"

    def command(self, index: int) -> list[str]:
        """What comes before a command that shall run on a host."""
        return ["ip", "netns", "exec", self._names[index]]

    def throttle(self, rate: str) -> None:
        """Limits what each host sends, as "1gbit".

        Raises:
            RuntimeError: If that is not permitted, or there is no `tc` command.
        """
        for name in self._names:
            _run("tc", "-n", name, "qdisc", "add", "dev", self.interface, "root", "tbf", "rate", rate,
                 "burst", "256kb", "latency", "100ms")  # fmt: skip

    def bytes_sent(self, index: int) -> int:
        """How many bytes a host has sent so far."""
        shown = _run("ip", "-n", self._names[index], "-s", "-j", "link", "show", "dev", self.interface)
        return int(json.loads(shown)[0]["stats64"]["tx"]["bytes"])

    def close(self) -> None:
        """Removes all namespaces, and their interfaces with them."""
        for name in (*self._names, self._bridge):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20, check=False)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
