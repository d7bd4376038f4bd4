"""Sessions place what programs leave open: by strategies, only where it pays, and state by the training step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.placement.options import PlacementOptions, placement_options
from thalweg.placement.place import Device
from thalweg.placement.placer import TASK
from thalweg.placement.policy import PlacementPolicy


@pytest.fixture
def one_thread() -> Any:
    """Kernels use one core, so that devices can have one each."""
    before = core.intra_op_threads()
    core.set_intra_op_threads(1)
    yield
    core.set_intra_op_threads(before)


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})


def towers(size: int = 256) -> list[Any]:
    """Two independent chains of products, and their sum."""
    x = tf.placeholder(tf.float32, [size, size], name="x")
    ends = []
    for tower in range(2):
        h = x
        for i in range(4):
            h = tf.matmul(h, x, name=f"tower_{tower}/product_{i}")
        ends.append(h)
    return [x, tf.add(ends[0], ends[1], name="total")]


def logged(capfd: Any) -> dict[str, str]:
    lines = [line.split() for line in capfd.readouterr().err.splitlines() if ": (" in line]
    return {line[0].rstrip(":"): line[-1].rpartition("/device:")[2] for line in lines}


def run(fetch: Any, feeds: dict[Any, Any], config: Any) -> Any:
    config.log_device_placement = True
    with tf.Session(config=config) as sess:
        return sess.run(fetch, feeds)


def test_independent_towers_are_spread(one_thread: None, four_cores: None, capfd: Any) -> None:
    x, total = towers()
    run(total, {x: np.eye(256)}, tf.ConfigProto(device_count={"CPU": 2}))
    where = logged(capfd)
    places = [{where[f"tower_{tower}/product_{i}"] for i in range(4)} for tower in range(2)]
    assert sorted(next(iter(place)) for place in places) == ["CPU:0", "CPU:1"]
    assert [len(place) for place in places] == [1, 1]


def test_a_step_stays_on_one_device_where_spreading_does_not_pay(
    one_thread: None, four_cores: None, capfd: Any
) -> None:
    x, total = towers(size=2)
    run(total, {x: np.eye(2)}, tf.ConfigProto(device_count={"CPU": 2}))
    assert set(logged(capfd).values()) == {"CPU:0"}


def test_a_step_stays_on_one_device_where_kernels_use_all_cores(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(core.intra_op_threads())))
    x, total = towers()
    run(total, {x: np.eye(256)}, tf.ConfigProto(device_count={"CPU": 4}))
    assert set(logged(capfd).values()) == {"CPU:0"}


def test_variables_that_one_device_has_no_room_for_are_spread(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(core.intra_op_threads())))
    x = tf.placeholder(tf.float32, [8, 256], name="x")
    h = x
    for i in range(4):
        h = tf.matmul(h, tf.get_variable(f"w{i}", [256, 256], use_resource=True))
    config = tf.ConfigProto(device_count={"CPU": 2}, log_device_placement=True)
    for limit, count in ((2**24, 1), (700_000, 2)):  # a variable has 262,144 bytes
        tf.experimental.set_memory_limit(config, "/cpu", limit)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            where = logged(capfd)
            assert len({where[f"w{i}"] for i in range(4)}) == count
    assert h.shape == [8, 256]


def test_no_more_devices_are_used_than_there_are_cores(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    devices = [Device(f"{TASK}/device:CPU:{i}", "CPU") for i in range(4)]
    assert PlacementPolicy(devices, PlacementOptions())._usable() == devices[:2]
    assert PlacementPolicy(devices, PlacementOptions("heft"))._usable() == devices
    assert not PlacementPolicy(devices, PlacementOptions("single")).has_choice


def test_the_training_step_decides_where_variables_are(one_thread: None, four_cores: None, capfd: Any) -> None:
    x = tf.placeholder(tf.float32, [256, 256], name="x")
    losses = []
    for tower in ("a", "b"):
        h = x
        for i in range(3):
            h = tf.matmul(h, tf.get_variable(f"{tower}{i}", [256, 256], use_resource=True))
        losses.append(tf.reduce_sum(h))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(losses))
    config = tf.ConfigProto(device_count={"CPU": 2}, log_device_placement=True)
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        where = logged(capfd)
        names = [f"{tower}{i}" for tower in "ab" for i in range(3)]
        # An initializer alone would not be worth two devices.
        assert {where[name] for name in names} == {"CPU:0", "CPU:1"}
        sess.run(train, {x: np.eye(256)})
        later = logged(capfd)
        for name in names:
            assert later[f"GradientDescent/update_{name}/ResourceApplyGradientDescent"] == where[name]


@pytest.mark.parametrize("strategy", tf.placement.strategy_names())
def test_every_strategy_gives_the_same_values(strategy: str) -> None:
    x, total = towers(size=16)
    value = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)
    expected = run(total, {x: value}, tf.ConfigProto())
    config = tf.placement.configure(tf.ConfigProto(device_count={"CPU": 3}), strategy=strategy)
    assert run(total, {x: value}, config).tobytes() == expected.tobytes()


def test_loops_stay_together_unless_the_program_splits_them(capfd: Any) -> None:
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.matmul(a, a, name="inside")), (0, x))[1]
    config = tf.placement.configure(tf.ConfigProto(device_count={"CPU": 3}), strategy="hash")
    run(loop, {x: np.eye(4)}, config)
    where = logged(capfd)
    inside = {device for name, device in where.items() if name.startswith("while/") and name != "while/Const"}
    assert len(inside) == 1, where


def test_constraints_hold_with_every_strategy(capfd: Any) -> None:
    with tf.device("/cpu:2"):
        a = tf.random_normal([8], name="a")
    with tf.colocate_with(a):
        b = tf.exp(tf.random_normal([8], name="c"), name="b")
    run(a * b, {}, tf.placement.configure(tf.ConfigProto(device_count={"CPU": 3}), strategy="hash"))
    where = logged(capfd)
    assert where["a"] == where["b"] == "CPU:2"


def test_options_travel_in_the_config(tmp_path: Path) -> None:
    config = tf.placement.configure(strategy="greedy")
    tf.placement.configure(config, costs=str(tmp_path / "costs.json"))
    again = tf.ConfigProto.FromString(config.SerializeToString())
    assert placement_options(again) == ("greedy", str(tmp_path / "costs.json"), 0, 0)
    assert placement_options(tf.ConfigProto()) == PlacementOptions()


def test_impossible_options_are_refused() -> None:
    with pytest.raises(ValueError, match="heft"):
        tf.placement.configure(strategy="fastest")
    config = tf.placement.configure(strategy="heft")
    optimizer = config.graph_options.rewrite_options.custom_optimizers[0]
    optimizer.parameter_map["strategy"].s = b"fastest"
    with pytest.raises(tf.errors.InvalidArgumentError, match="fastest"):
        tf.Session(config=config)
    optimizer.parameter_map["strategy"].s = b"heft"
    optimizer.parameter_map["speed"].i = 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="speed"):
        tf.Session(config=config)
    config = tf.ConfigProto()
    config.graph_options.build_cost_model = -1
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1"):
        tf.Session(config=config)


def test_a_damaged_file_of_costs_is_an_error_when_the_session_begins(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text("nonsense")
    with pytest.raises(ValueError, match="not a cost model"):
        tf.Session(config=tf.placement.configure(costs=str(path)))
    assert path.read_text() == "nonsense"


def test_a_session_that_cannot_write_its_costs_still_ends(tmp_path: Path) -> None:
    sess = tf.Session(config=tf.placement.configure(costs=str(tmp_path / "missing" / "costs.json")))
    for _ in range(3):
        sess.run(tf.random_normal([2]) + 1.0)
    with pytest.raises(FileNotFoundError):
        sess.close()
    with pytest.raises(RuntimeError, match="closed"):
        sess.run(tf.constant(1.0))


def test_state_that_is_found_by_name_is_looked_for_in_one_place() -> None:
    area = tf.contrib.staging.StagingArea([tf.float32])
    made = [tf.random_uniform([4, 4], seed=i) for i in range(4)]
    put = area.put([tf.add_n(made)])
    got = area.get()[0] * 2.0
    queues = [tf.FIFOQueue(4, tf.float32, shared_name="shared") for _ in range(3)]
    config = tf.ConfigProto(device_count={"CPU": 4})
    tf.placement.configure(config, strategy="hash")
    with tf.Session(config=config) as sess:
        for _ in range(2):
            sess.run(put)
        assert sess.run(area.size()) == 2
        assert sess.run(got).shape == (4, 4)
        sess.run([queue.enqueue(1.0) for queue in queues])
        assert sess.run([queue.size() for queue in queues]) == [3, 3, 3]


def test_a_staging_area_stays_where_it_was_declared() -> None:
    with tf.device("/cpu:1"):
        area = tf.contrib.staging.StagingArea([tf.float32])
    with tf.device("/cpu:2"):
        put = area.put([tf.constant(1.0)])
        (got,) = area.get()
    assert put.device == got.device == "/device:CPU:1"
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as sess:
        sess.run(put)
        assert sess.run(got) == 1.0
