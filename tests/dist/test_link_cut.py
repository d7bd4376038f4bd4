"""A link that is cut: tasks in network namespaces, which the test makes itself; skipped where that is not permitted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dist.fault_harness import check
from tests.dist.network_hosts import Hosts, hosts_if_permitted
from tests.dist.training_cluster import TrainingCluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]  # Waits are bounded by themselves.


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    found = hosts_if_permitted(2)
    if found is None:
        pytest.skip("network namespaces cannot be made")
    with found:
        yield found


@pytest.mark.parametrize("mode", ["sync", "consistent"])
def test_training_survives_a_cut_link(hosts: Hosts, tmp_path: Path, mode: str) -> None:
    with TrainingCluster(tmp_path, 2, 2, hosts, mode=mode, steps=60, pause=0.01) as cluster:
        cluster.wait_for_step(20)
        hosts.cut(hosts.host("ps", 1))
        for worker in range(2):
            cluster.wait_for_log("worker", worker, "has sent nothing")
        hosts.join(hosts.host("ps", 1))
        cluster.wait_for_end()
        check(cluster, mode, 2, 60)
