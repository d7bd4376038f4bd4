"""Cluster specs, and the device functions that spread variables over parameter servers."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf

CLUSTER = {"ps": ["a:1", "b:1", "c:1"], "worker": ["d:1"]}


def devices(setter: Any, **arguments: Any) -> list[str]:
    with tf.device(setter):
        found = [tf.get_variable(f"v{i}", [2], **arguments).device for i in range(4)]
        with tf.device("/cpu:3"):
            return [*found, tf.constant(1.0).device, tf.get_variable("inner", [1], **arguments).device]


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"ps_tasks": 2}, ["ps/task:0", "ps/task:1", "ps/task:0", "ps/task:1", "worker/device:CPU:3",
                           "ps/task:0/device:CPU:3"]),
        ({"cluster": CLUSTER, "ps_device": "/job:ps/cpu:0", "worker_device": "/job:worker/task:7"},
         ["ps/task:0/device:CPU:0", "ps/task:1/device:CPU:0", "ps/task:2/device:CPU:0", "ps/task:0/device:CPU:0",
          "worker/task:7/device:CPU:3", "ps/task:1/device:CPU:3"]),
        ({"ps_tasks": 3, "ps_strategy": lambda op: 2},
         ["ps/task:2"] * 4 + ["worker/device:CPU:3", "ps/task:2/device:CPU:3"]),
        ({"ps_tasks": 3, "ps_ops": ["Const"]},
         ["worker"] * 4 + ["ps/task:0/device:CPU:3", "worker/device:CPU:3"]),
    ],
)  # fmt: skip
def test_variables_are_spread_and_the_rest_is_on_the_worker(
    arguments: dict[str, Any], expected: list[str], use_resource: bool
) -> None:
    setter = tf.train.replica_device_setter(**arguments)
    assert devices(setter, use_resource=use_resource, initializer=tf.ones) == ["/job:" + each for each in expected]


def test_what_surrounds_the_setter_fills_in_the_task_of_the_worker() -> None:
    with tf.device("/job:outer/task:5"), tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        assert tf.get_variable("v", [1]).device == "/job:ps/task:0"
        assert tf.constant(1.0).device == "/job:worker/task:5"


def test_without_parameter_servers_there_is_no_setter() -> None:
    assert tf.train.replica_device_setter() is None
    assert tf.train.replica_device_setter(cluster={"worker": ["a:1"]}) is None
    assert tf.train.replica_device_setter(cluster=CLUSTER, ps_device="/cpu:0") is None
    with pytest.raises(TypeError, match="callable"):
        tf.train.replica_device_setter(ps_tasks=1, ps_strategy=3)
    with pytest.raises(TypeError, match="cluster"):
        tf.train.replica_device_setter(cluster=5)


def test_the_largest_variables_get_a_server_of_their_own() -> None:
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        sizes = [100, 10, 10, 10]
        found = [tf.get_variable(f"v{i}", [size]).device for i, size in enumerate(sizes)]
    assert found == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1", "/job:ps/task:1"]


def test_a_hash_of_the_name_can_choose_the_server() -> None:
    strategies = [tf.contrib.training.RandomStrategy(3, seed) for seed in (0, 0, 7)]
    ops = [tf.get_variable(f"v{i}", [1]).op for i in range(50)]
    same, again, other = ([strategy(op) for op in ops] for strategy in strategies)
    assert same == again != other
    assert set(same) == {0, 1, 2}


def test_accumulators_go_to_parameter_servers() -> None:
    load = tf.contrib.training.byte_size_load_fn
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, load)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        accumulator = tf.ConditionalAccumulator(tf.float64, [3])
        assert accumulator.accumulator_ref.device == "/job:ps/task:0"
        assert load(accumulator.accumulator_ref.op) == 24
        assert tf.get_variable("v", [1]).device == "/job:ps/task:1"
    with pytest.raises(ValueError, match="fully defined"):
        load(tf.ConditionalAccumulator(tf.float32).accumulator_ref.op)
    with pytest.raises(ValueError, match="single output"):
        load(tf.no_op())


def test_a_setter_can_give_way_to_inner_devices() -> None:
    setter = tf.train.replica_device_setter(ps_tasks=2, merge_devices=False)
    with tf.device(setter):
        with tf.device("/cpu:0"):
            assert tf.get_variable("inner", [1]).device == "/device:CPU:0"
        assert tf.get_variable("outer", [1]).device == "/job:ps/task:0"
