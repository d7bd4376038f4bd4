"""tf.distribute.start_task: which task a process is, by the variables of its launcher."""

from __future__ import annotations

import json
import threading

import pytest

import thalweg as tf
from thalweg.dist.ports import free_ports, is_free

VARIABLES = ("TF_CONFIG", "SLURM_PROCID", "SLURM_JOB_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def started(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, list[str]], job: str, index: int
) -> tf.distribute.ClusterTask:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}))
    return tf.distribute.start_task()


def test_a_process_that_no_launcher_has_started_is_a_cluster_of_its_own() -> None:
    task = tf.distribute.start_task()
    assert (task.job_name, task.task_index, task.is_chief) == ("local", 0, True)
    with tf.Session(task.server.target) as session:
        assert session.run(tf.constant(3)) == 3
    task.server.stop()


def test_tf_config_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {job: [f"localhost:{port}" for port in free_ports(2)] for job in ("ps", "worker")}
    server, spec, job, index = task = started(monkeypatch, cluster, "worker", 1)
    assert (spec, job, index) == (tf.train.ClusterSpec(cluster), "worker", 1)
    assert server.target == f"grpc://{cluster['worker'][1]}"
    assert task.device == "/job:worker/task:1"
    server.stop()


@pytest.mark.parametrize(
    ("jobs", "job", "index", "expected"),
    [
        (("worker",), "worker", 0, True),
        (("worker",), "worker", 1, False),
        (("ps", "worker"), "ps", 0, False),
        (("chief", "worker"), "worker", 0, False),
        (("chief", "worker"), "chief", 0, True),
    ],
)
def test_one_task_is_the_chief(jobs: tuple[str, ...], job: str, index: int, expected: bool) -> None:
    cluster = tf.train.ClusterSpec({each: ["a:1", "b:1"] for each in jobs})
    assert tf.distribute.ClusterTask(None, cluster, job, index).is_chief is expected


@pytest.mark.parametrize(
    "names",
    [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
        ("SLURM_PROCID", "SLURM_NTASKS", ""),
    ],
)
def test_ranks_become_ps_tasks_and_workers(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    base = next(port for port in free_ports(100) if is_free(port + 2))
    for name, value in zip(names, ("2", "3", "3"), strict=True):
        if name:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_STEP_NODELIST", "localhost")
    task = tf.distribute.start_task(num_ps=1, port_base=base)
    assert (task.job_name, task.task_index) == ("worker", 1)
    assert task.cluster.job_tasks("ps") == [f"localhost:{base}"]
    task.server.stop()


def test_a_ps_task_serves_until_all_workers_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    ps, *workers = (f"localhost:{port}" for port in free_ports(3))
    cluster = {"ps": [ps], "worker": workers}
    tasks = [started(monkeypatch, cluster, *place) for place in (("ps", 0), ("worker", 0), ("worker", 1))]
    serving = threading.Thread(target=tasks[0].serve)
    serving.start()
    tasks[1].leave()
    serving.join(0.3)
    assert serving.is_alive()
    tasks[2].leave()
    serving.join(30.0)
    assert not serving.is_alive()
    for task in tasks:
        task.server.stop()


def test_leaving_does_not_wait_long_for_a_ps_task_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.dist.cluster_task._LEAVE_SECONDS", 0.2)
    ps, worker = (f"localhost:{port}" for port in free_ports(2))
    task = started(monkeypatch, {"ps": [ps], "worker": [worker]}, "worker", 0)
    task.leave()
    task.server.stop()


def test_a_task_that_is_gone_does_not_keep_the_others_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.dist.cluster_task._LEAVE_SECONDS", 1.0)
    ps, *workers = (f"localhost:{port}" for port in free_ports(3))
    tasks = [started(monkeypatch, {"ps": [ps], "worker": workers}, "worker", index) for index in range(2)]
    serving = threading.Thread(target=tasks[1].serve, args=(1,))
    serving.start()
    tasks[0].leave(("ps", "worker"))  # The PS task was never started.
    serving.join(10.0)
    was_told = not serving.is_alive()
    for task in tasks:
        task.server.stop()
    serving.join()
    assert was_told


def test_a_cluster_without_a_place_for_this_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["localhost:0"]}}))
    with pytest.raises(ValueError, match="not which of its tasks"):
        tf.distribute.start_task()
