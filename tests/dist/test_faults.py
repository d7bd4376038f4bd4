"""Training programs that lose tasks: random faults, and the scenes that programs meet most often."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.dist.fault_harness import check, run
from tests.dist.training_cluster import TrainingCluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]  # Waits are bounded by themselves.


@pytest.mark.parametrize(("seed", "mode"), [(1, "async"), (2, "consistent"), (3, "sync"), (4, "backup"), (5, "sync")])
def test_random_faults(tmp_path: Path, seed: int, mode: str) -> None:
    run(seed, tmp_path, mode)


def test_synchronous_training_without_faults_is_one_process_bit_for_bit(tmp_path: Path) -> None:
    with TrainingCluster(tmp_path, ps=2, workers=3, mode="sync", steps=60) as cluster:
        cluster.wait_for_end()
        check(cluster, "sync", 3, 60)


def test_other_workers_go_on_while_a_worker_is_gone(tmp_path: Path) -> None:
    with TrainingCluster(tmp_path, ps=1, workers=2, mode="async", steps=400, pause=0.005) as cluster:
        cluster.wait_for_step(20)
        cluster.kill("worker", 1)
        cluster.wait_for_step(60)
        cluster.start("worker", 1)
        cluster.wait_for_end()
        check(cluster, "async", 2, 400)
        assert len([event for event in cluster.history() if event["event"] == "session"]) == 1


def test_a_parameter_server_that_was_stopped_goes_on_with_the_restored_model(tmp_path: Path) -> None:
    with TrainingCluster(tmp_path, ps=2, workers=2, mode="sync", steps=60, pause=0.01) as cluster:
        cluster.wait_for_step(20)
        cluster.signal("ps", 1, signal.SIGSTOP)
        # It is taken for lost: the chief makes a new session, which waits for it.
        cluster.wait_for_log("worker", 0, "has sent nothing")
        cluster.signal("ps", 1, signal.SIGCONT)
        cluster.wait_for_end()
        check(cluster, "sync", 2, 60)


@pytest.mark.parametrize("lost", ["ps", "worker"])
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_steps_are_done_again_when_a_task_is_lost_in_the_last_save(tmp_path: Path, mode: str, lost: str) -> None:
    with TrainingCluster(tmp_path, ps=2, workers=2, mode=mode, steps=35, pause=0.01, last_pause=1.0) as cluster:
        cluster.wait_for_event("worker", 0, "saves", 35)
        cluster.kill(lost, 0)
        cluster.start(lost, 0)
        cluster.wait_for_end()
        check(cluster, mode, 2, 35)
        begun = [event["step"] for event in cluster.history() if event["event"] == "session"]
        assert len(begun) == 2 and begun[1] < 35


def test_supervisors_make_new_sessions(tmp_path: Path) -> None:
    given = {"mode": "async", "steps": 250, "pause": 0.005, "supervised": True}
    with TrainingCluster(tmp_path, ps=2, workers=2, **given) as cluster:
        cluster.wait_for_step(40)
        cluster.kill("ps", 1)
        cluster.start("ps", 1)
        cluster.wait_for_step(100)
        cluster.kill("worker", 1)
        cluster.start("worker", 1)
        cluster.wait_for_end()
        check(cluster, "async", 2, 250)
