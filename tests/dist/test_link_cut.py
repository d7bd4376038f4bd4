"""A link that is cut: tasks in network namespaces, which the test makes itself; skipped where that is not permitted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dist.fault_harness import TrainingCluster, check

pytestmark = pytest.mark.processes


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


class TwoHosts:
    """Two network namespaces with a link between them."""

    def __init__(self) -> None:
        self.names = [f"thalweg{os.getpid()}{side}" for side in "ab"]
        self.addresses = ["10.213.77.1", "10.213.77.2"]
        self._ends = [f"tw{os.getpid() % 100000}{side}" for side in "ab"]
        try:
            for name in self.names:
                ip("netns", "add", name)
            ip("link", "add", self._ends[0], "type", "veth", "peer", "name", self._ends[1])
            for name, end, address in zip(self.names, self._ends, self.addresses, strict=True):
                ip("link", "set", end, "netns", name)
                ip("-n", name, "address", "add", f"{address}/24", "dev", end)
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", end, "up")
        except BaseException:
            self.close()
            raise

    def place(self, job: str, index: int) -> tuple[str, list[str]]:
        """The second parameter server is on the other host."""
        host = int((job, index) == ("ps", 1))
        return self.addresses[host], ["ip", "netns", "exec", self.names[host]]

    def set_link(self, state: str) -> None:
        ip("-n", self.names[0], "link", "set", self._ends[0], state)

    def close(self) -> None:
        for name in self.names:  # A namespace takes its end of the link with it.
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20)


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    try:
        found = TwoHosts()
    except (OSError, subprocess.SubprocessError) as e:
        pytest.skip(f"network namespaces cannot be made: {e}")
    yield found
    found.close()


@pytest.mark.parametrize("mode", ["sync", "consistent"])
def test_training_survives_a_cut_link(
    hosts: TwoHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("THALWEG_CLUSTER_KEY", "of a test")
    with TrainingCluster(tmp_path, 2, 2, hosts.place, mode=mode, steps=60, pause=0.01) as cluster:
        cluster.wait_for_step(20)
        hosts.set_link("down")
        for worker in range(2):
            cluster.wait_for_log("worker", worker, "has sent nothing")
        hosts.set_link("up")
        cluster.wait_for_end()
        check(cluster, mode, 2, 60)
