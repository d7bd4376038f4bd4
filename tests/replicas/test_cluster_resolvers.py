"""Cluster resolvers: what they read from the environment, and what they refuse."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

import thalweg as tf

resolvers: Any = tf.distribute.cluster_resolver
CLUSTER = {"ps": ["a:1"], "worker": ["b:1", "c:1"]}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name == "TF_CONFIG" or name.startswith(("SLURM_", "OMPI_", "CUDA_")):
            monkeypatch.delenv(name)
    yield
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets environment variables for the test."""

    def set_variables(prefix: str = "", **values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setenv(prefix + name, value if isinstance(value, str) else json.dumps(value))

    return set_variables


def test_tf_config_describes_cluster_and_task(env: Any) -> None:
    env(TF_CONFIG={"cluster": CLUSTER, "task": {"type": "worker", "index": 1}, "environment": "google"})
    resolver = resolvers.TFConfigClusterResolver()
    assert resolver.cluster_spec() == CLUSTER
    assert (resolver.task_type, resolver.task_id, resolver.environment) == ("worker", 1, "google")
    assert resolver.rpc_layer is None
    assert resolver.master() == "c:1"
    assert resolver.master("ps", 0, "grpc") == "grpc://a:1"
    resolver.task_type, resolver.task_id, resolver.rpc_layer = "ps", 0, "grpc"
    assert resolver.master() == "grpc://a:1"
    given = resolvers.TFConfigClusterResolver(task_type="worker", task_id=0, rpc_layer="x", environment="")
    assert given.master() == "x://b:1"
    assert given.environment == ""


def test_sparse_jobs_come_from_json_with_indices_as_text(env: Any) -> None:
    env(TF_CONFIG={"cluster": {"worker": {"3": "a:1", "1": "b:1"}}, "task": {"type": "worker", "index": "3"}})
    resolver = resolvers.TFConfigClusterResolver()
    assert resolver.task_id == 3
    assert resolver.cluster_spec().task_indices("worker") == [1, 3]
    assert resolver.master() == "a:1"


def test_without_a_cluster_sessions_stay_in_the_process(env: Any) -> None:
    resolver = resolvers.TFConfigClusterResolver()
    assert not resolver.cluster_spec()
    assert (resolver.task_type, resolver.task_id, resolver.master()) == (None, None, "")
    env(TF_CONFIG={"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})
    assert resolver.master() == ""
    env(TF_CONFIG={"session_master": "grpc://elsewhere:1", "cluster": CLUSTER})
    assert resolver.master() == "grpc://elsewhere:1"
    env(TF_CONFIG="")
    assert resolver.num_accelerators() == {}  # The session of this process has CPUs only.


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "JSON object"),
        ({"cluster": [1]}, '"cluster" must be an object'),
        ({"cluster": {"worker": "a:1"}}, "list or a dictionary"),
        ({"cluster": {"worker": [1]}}, "Task address 1"),
        ({"cluster": {"worker": {"-1": "a:1"}}}, "Task index"),
        ({"cluster": {"worker": {"1000000000": "a:1"}}}, "Task index"),
        ({"cluster": CLUSTER, "task": "worker"}, '"task" must be an object'),
        ({"cluster": CLUSTER, "task": {"type": 3}}, '"type" must be a string'),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": -1}}, '"index" of "task"'),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": True}}, '"index" of "task"'),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": []}}, '"index" of "task"'),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": 9}}, "No task with index 9"),
        ({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}}, "No such job"),
        ({"cluster": CLUSTER}, "which task"),
        ({"cluster": CLUSTER, "rpc_layer": 3, "task": {"type": "ps", "index": 0}}, '"rpc_layer" must be a string'),
    ],
)
def test_a_wrong_tf_config_is_a_value_error(env: Any, config: Any, message: str) -> None:
    env(TF_CONFIG=config)
    with pytest.raises(ValueError, match=message):
        resolvers.TFConfigClusterResolver().master()


def slurm(env: Any, **values: str) -> None:
    given = {"PROCID": "0", "NTASKS": "5", "STEP_NODELIST": "n[08-10],login", "STEP_TASKS_PER_NODE": "1(x3),2"}
    env("SLURM_", **{**given, **values})


def test_slurm_gives_ranks_to_jobs_by_name(env: Any) -> None:
    slurm(env, PROCID="4")
    resolver = resolvers.SlurmClusterResolver({"worker": 3, "ps": 2}, port_base=100, rpc_layer="x")
    assert resolver.cluster_spec() == {"ps": ["n08:100", "n09:100"], "worker": ["n10:100", "login:100", "login:101"]}
    assert resolver.get_task_info() == (resolver.task_type, resolver.task_id) == ("worker", 2)
    assert resolver.master() == "x://login:101"
    assert resolver.master("ps", 1, "y") == "y://n09:100"
    assert resolvers.SlurmClusterResolver().cluster_spec().num_tasks("worker") == 5
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_slurm_with_mpirun_counts_as_open_mpi_does(env: Any) -> None:
    slurm(env)
    env("OMPI_COMM_WORLD_", RANK="3", SIZE="4")
    resolver = resolvers.SlurmClusterResolver({"worker": 4}, tasks_per_node=1)
    assert resolver.get_task_info() == ("worker", 3)
    assert resolver.master() == "grpc://login:8888"


def test_slurm_gives_gpus_to_the_tasks_of_a_node(env: Any) -> None:
    slurm(env, PROCID="3", NTASKS="4", STEP_NODELIST="a,b", STEP_TASKS_PER_NODE="2(x2)")
    resolvers.SlurmClusterResolver(gpus_per_node=4, auto_set_gpu=False).cluster_spec()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    resolvers.SlurmClusterResolver(gpus_per_node=4).cluster_spec()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"
    with pytest.raises(RuntimeError, match="more than its 4 GPUs"):
        resolvers.SlurmClusterResolver(gpus_per_node=4, gpus_per_task=3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"PROCID": ""}, "not started by the scheduler: SLURM_PROCID"),
        ({"PROCID": "x"}, "SLURM_PROCID must be a number"),
        ({"PROCID": "9" * 5000}, "SLURM_PROCID must be a number"),
        ({"PROCID": "5"}, "rank of this process is 5, of 5"),
        ({"STEP_NODELIST": "n[1-3"}, "brackets"),
        ({"STEP_NODELIST": "n[1-[2]]"}, "brackets"),
        ({"STEP_NODELIST": "n]1["}, "brackets"),
        ({"STEP_NODELIST": "n[3-1]"}, "not a number or a range"),
        ({"STEP_NODELIST": "n[a]"}, "not a number or a range"),
        ({"STEP_NODELIST": "n[]"}, "not a number or a range"),
        ({"STEP_NODELIST": "a,,b"}, "empty name"),
        ({"STEP_NODELIST": "a b"}, "empty name"),
        ({"STEP_NODELIST": "n[0-999999999999]"}, "more than 65536 hosts"),
        ({"STEP_NODELIST": "n[0-999][0-999]"}, "more than 65536 hosts"),
        ({"STEP_TASKS_PER_NODE": "1(x"}, "list of counts"),
        ({"STEP_TASKS_PER_NODE": "1(x999999999)"}, "more than 65536 counts"),
        ({"STEP_TASKS_PER_NODE": "1,2"}, "4 hosts, but tasks per node for 2"),
        ({"STEP_TASKS_PER_NODE": "1"}, "The hosts have 4 tasks"),
        ({"STEP_TASKS_PER_NODE": "99999"}, "need the ports"),
    ],
)
def test_wrong_variables_of_slurm_are_value_errors(env: Any, values: dict[str, str], message: str) -> None:
    slurm(env, **values)
    with pytest.raises(ValueError, match=message):
        resolvers.SlurmClusterResolver().cluster_spec()


def test_the_tasks_must_be_those_that_were_started(env: Any) -> None:
    slurm(env)
    with pytest.raises(RuntimeError, match="have 4 tasks, but 5 were started"):
        resolvers.SlurmClusterResolver({"worker": 4})
    with pytest.raises(ValueError, match="number of tasks of job 'worker'"):
        resolvers.SlurmClusterResolver({"worker": "4"})


def test_open_mpi_on_one_host_and_on_several(env: Any) -> None:
    env("OMPI_COMM_WORLD_", RANK="2", SIZE="5", LOCAL_SIZE="2")
    resolver = resolvers.OpenMPIClusterResolver({"ps": 1, "worker": 4}, hosts=["a", "b", "c"])
    assert resolver.cluster_spec() == {"ps": ["a:8888"], "worker": ["a:8889", "b:8888", "b:8889", "c:8888"]}
    assert resolver.get_task_info() == ("worker", 1)
    assert resolver.master() == "grpc://b:8888"
    with pytest.raises(ValueError, match="2 of 5 processes are on this host"):
        resolvers.OpenMPIClusterResolver()
    with pytest.raises(ValueError, match="The hosts have 4 tasks"):
        resolvers.OpenMPIClusterResolver(hosts=["a", "b"]).cluster_spec()
    with pytest.raises(ValueError, match="positive"):
        resolvers.OpenMPIClusterResolver(tasks_per_node=0)
    env("OMPI_COMM_WORLD_", LOCAL_SIZE="5")
    local = resolvers.OpenMPIClusterResolver(port_base=7)
    assert local.cluster_spec().job_tasks("worker") == [f"localhost:{port}" for port in range(7, 12)]


def test_a_simple_resolver_answers_what_it_was_told() -> None:
    spec = tf.train.ClusterSpec(CLUSTER)
    resolver = resolvers.SimpleClusterResolver(spec, "m:1", "worker", 1, "google", {"GPU": 2}, "grpc")
    assert resolver.cluster_spec() is spec
    assert resolver.master() == "grpc://m:1"
    assert resolver.master("ps", 0, "x") == "x://a:1"
    assert resolver.num_accelerators() == {"GPU": 2}
    assert (resolver.task_type, resolver.task_id, resolver.environment) == ("worker", 1, "google")
    assert resolvers.SimpleClusterResolver(spec).master() == ""
    with pytest.raises(TypeError, match="ClusterSpec"):
        resolvers.SimpleClusterResolver(CLUSTER)
    with pytest.raises(TypeError, match="master"):
        resolvers.SimpleClusterResolver(spec, master=3)


def test_a_union_joins_lists_and_keeps_indices() -> None:
    def union(*clusters: Any, **arguments: Any) -> Any:
        each = [resolvers.SimpleClusterResolver(tf.train.ClusterSpec(c), "m:1", rpc_layer="x") for c in clusters]
        return resolvers.UnionResolver(*each, **arguments)

    both = union({"worker": ["a:1"], "ps": ["p:1"]}, {"worker": ["b:1"]}, task_type="worker", task_id=1)
    assert both.cluster_spec() == {"worker": ["a:1", "b:1"], "ps": ["p:1"]}
    assert both.master() == "x://m:1"
    assert both.master("worker", 1) == "x://b:1"
    assert (both.task_type, both.task_id) == ("worker", 1)
    sparse = union({"worker": {3: "a:1"}}, {"worker": ["b:1"]})
    assert sparse.cluster_spec() == {"worker": {0: "b:1", 3: "a:1"}}
    with pytest.raises(KeyError, match="Duplicate"):
        union({"worker": {3: "a:1"}}, {"worker": {3: "b:1"}}).cluster_spec()
    with pytest.raises(ValueError, match="At least one"):
        union()
    with pytest.raises(TypeError, match="subclass"):
        resolvers.UnionResolver(3)
