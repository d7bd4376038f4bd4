"""Cluster specs and server definitions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import thalweg as tf

SPARSE = {"worker": ["a:1", "b:1"], "ps": {3: "c:1", 1: "d:1"}}


def test_a_cluster_spec_knows_its_tasks() -> None:
    spec = tf.train.ClusterSpec(SPARSE)
    assert spec.as_dict() == {"ps": {1: "d:1", 3: "c:1"}, "worker": ["a:1", "b:1"]}
    assert spec.jobs == ["worker", "ps"]
    assert spec.task_indices("ps") == [1, 3]
    assert spec.job_tasks("ps") == [None, "d:1", None, "c:1"]
    assert spec.task_address("ps", 3) == "c:1"
    assert spec.num_tasks("worker") == 2
    assert repr(spec) == "ClusterSpec({'ps': {1: 'd:1', 3: 'c:1'}, 'worker': ['a:1', 'b:1']})"
    with pytest.raises(ValueError, match="No task with index 0 in job 'ps'"):
        spec.task_address("ps", 0)
    for question in (spec.num_tasks, spec.task_indices, spec.job_tasks, lambda job: spec.task_address(job, 0)):
        with pytest.raises(ValueError, match="No such job in cluster: 'master'"):
            question("master")


def test_an_empty_cluster_is_false_and_an_empty_job_has_no_tasks() -> None:
    assert not tf.train.ClusterSpec({})
    assert tf.train.ClusterSpec({}).jobs == []
    empty = tf.train.ClusterSpec({"ps": []})
    assert empty
    assert empty.as_dict() == {"ps": {}}
    assert empty.job_tasks("ps") == []


def test_specs_are_equal_when_their_tasks_are() -> None:
    spec = tf.train.ClusterSpec(SPARSE)
    assert spec == tf.train.ClusterSpec(spec) == tf.train.ClusterSpec(spec.as_cluster_def()) == SPARSE
    assert spec == tf.train.ClusterSpec({"ps": {"1": b"d:1", "3": "c:1"}, "worker": ("a:1", "b:1")})
    assert hash(spec) == hash(tf.train.ClusterSpec(dict(reversed(SPARSE.items()))))
    assert spec != tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})
    assert spec != {"worker": 3}
    assert spec != "worker"


def test_a_cluster_def_has_its_jobs_by_name() -> None:
    message = tf.train.ClusterSpec(SPARSE).as_cluster_def()
    assert isinstance(message, tf.train.ClusterDef)
    assert [job.name for job in message.job] == ["ps", "worker"]
    assert isinstance(message.job[0], tf.train.JobDef)
    assert dict(message.job[0].tasks) == {1: "d:1", 3: "c:1"}


@pytest.mark.parametrize(
    "cluster", [3, None, {"a": 3}, {"a": "b:1"}, {"a": [1]}, {1: ["a:1"]}, {"a": {"x": "b:1"}}, {"a": {1.5: "b:1"}}]
)
def test_malformed_clusters_are_refused(cluster: Any) -> None:
    with pytest.raises(TypeError):
        tf.train.ClusterSpec(cluster)


@pytest.mark.parametrize("tasks", [{-1: "a:1"}, {1 << 40: "a:1"}, {1: "a:1", "1": "b:1"}])
def test_impossible_indices_are_refused(tasks: Any) -> None:
    with pytest.raises(ValueError, match="index"):
        tf.train.ClusterSpec({"a": tasks})


def test_a_server_def_has_the_field_numbers_of_tensorflow() -> None:
    server = tf.train.ServerDef(job_name="j", task_index=7, protocol="p", port=9)
    # One byte of (number << 3 | type), then the value.
    assert server.SerializeToString() == b"\x12\x01j" + b"\x18\x07" + b"\x2a\x01p" + b"\x30\x09"
    server = tf.train.ServerDef(cluster=tf.train.ClusterSpec({"j": {2: "a:1"}}).as_cluster_def())
    assert server.SerializeToString() == b"\x0a\x0e" + b"\x0a\x0c" + b"\x0a\x01j" + b"\x12\x07\x08\x02\x12\x03a:1"
    server = tf.train.ServerDef(default_session_config=tf.ConfigProto(allow_soft_placement=True))
    server.cluster_device_filters.jobs.add(name="j").tasks[2].device_filters.append("/job:ps")
    assert server.SerializeToString()[:1] == b"\x22"
    filters = b"\x08\x02" + b"\x12\x09" + b"\x0a\x07/job:ps"
    assert server.SerializeToString().endswith(b"\x3a\x14\x0a\x12" + b"\x0a\x01j" + b"\x12\x0d" + filters)
    assert pickle.loads(pickle.dumps(server)) == server
