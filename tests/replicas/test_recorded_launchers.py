"""The variables of real launchers (Slurm 22.05, Open MPI 4.1), recorded on two nodes: every process finds its place.

For each command, `recorded_launchers.json` has the host on which each rank ran, the variables that were the same for
all ranks, and the others by rank (null: not set).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from thalweg.dist.cluster_task import _resolver
from thalweg.train.cluster_resolver.rank_resolvers import OpenMPIClusterResolver, SlurmClusterResolver
from thalweg.train.cluster_resolver.slurm_lists import deal_ranks

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_launchers.json").read_text())
LAUNCHERS = ("SLURM", "OMPI_", "PMI", "TF_CONFIG")


def become(rank: int, recorded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the variables of one process."""
    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)
    own = {name: values[rank] for name, values in recorded["ranks"].items()}
    for name, value in {**recorded["common"], **own}.items():
        if value is not None:
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize("command", RECORDED)
def test_every_rank_is_at_the_address_at_which_the_others_look_for_it(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = RECORDED[command]
    hosts = recorded["hosts"]
    is_alone = not recorded["common"].get("SLURM_JOB_ID")  # Open MPI without Slurm does not tell the host's name.
    clusters, ports = set(), Counter[str]()
    for rank, host in enumerate(hosts):
        become(rank, recorded, monkeypatch)
        resolver = _resolver(1, 7000)
        assert isinstance(resolver, OpenMPIClusterResolver if is_alone else SlurmClusterResolver)
        task = (resolver.task_type, resolver.task_id)
        assert task == (("ps", 0) if rank == 0 else ("worker", rank - 1))
        place = "localhost" if is_alone else host
        cluster = resolver.cluster_spec()
        assert cluster.task_address(*task) == f"{place}:{7000 + ports[place]}"
        ports[place] += 1
        clusters.add(cluster)
    assert len(clusters) == 1, "the ranks have different ideas of the cluster"
    assert cluster.num_tasks("ps") + cluster.num_tasks("worker") == len(hosts)


def test_ranks_that_are_dealt_in_another_way_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    become(1, RECORDED["srun --distribution=cyclic"], monkeypatch)
    monkeypatch.setenv("SLURM_DISTRIBUTION", "arbitrary")
    with pytest.raises(ValueError, match=r"Rank 1 is task 0 of node 1 of 'n\[1-2\]'.*srun --distribution=block"):
        SlurmClusterResolver().cluster_spec()


def test_mpirun_in_slurm_with_unknown_counts_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    become(5, RECORDED["mpirun in salloc"], monkeypatch)
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "8,8")
    with pytest.raises(ValueError, match="start them by srun, or give `tasks_per_node`"):
        SlurmClusterResolver()
    assert SlurmClusterResolver(tasks_per_node="4,2").master() == "grpc://n2:8889"


def test_gpus_follow_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    become(3, RECORDED["srun --distribution=cyclic"], monkeypatch)  # the second of two tasks on its node
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    SlurmClusterResolver(gpus_per_node=4).cluster_spec()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.parametrize(
    ("counts", "run_length", "hosts"),
    [([4, 2], 9, "000011"), ([4, 2], 1, "010100"), ([4, 2], 2, "001100"), ([0, 2, 1], 1, "121"), ([], 1, "")],
)
def test_ranks_are_dealt_in_runs(counts: list[int], run_length: int, hosts: str) -> None:
    places = deal_ranks(counts, run_length)
    assert "".join(str(host) for host, _ in places) == hosts
    for index, count in enumerate(counts):
        assert [local for host, local in places if host == index] == list(range(count))


def test_runs_of_no_ranks_are_an_error() -> None:
    with pytest.raises(ValueError, match="at least one rank"):
        deal_ranks([1], 0)
