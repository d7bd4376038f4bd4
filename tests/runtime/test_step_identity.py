"""The numbers of steps (step ids) and devices (incarnations), and that they differ between processes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.python.client import device_lib

_TELL = """
import thalweg as tf
with tf.Session() as session:
    step = session._run_traced(tf.constant(1), None)[2].step_id
    print(step, session.list_devices()[0].incarnation)
"""


def _traced(session: Any, fetches: Any) -> Any:
    return session._run_traced(fetches, None)[2]


@pytest.fixture
def two_devices() -> Any:
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        yield session


def test_each_step_has_a_number_of_its_own(two_devices: Any) -> None:
    with tf.device("/cpu:0"):
        x = tf.random_uniform([])
    with tf.device("/cpu:1"):
        y = x + 1.0
    ids = [_traced(two_devices, y).step_id for _ in range(3)]
    assert ids == sorted(set(ids))
    assert ids[0] > 0


@pytest.mark.parametrize("step_id", [1, 2**63 - 1, -5])
def test_a_step_has_the_number_that_its_caller_gives_it(two_devices: Any, step_id: int) -> None:
    compiled = two_devices._run_traced(tf.constant(1.0) * 2.0, None)[1].compiled
    fetched, trace = compiled.run_traced([], step_id=step_id)
    assert fetched == [2.0]
    assert trace.step_id == step_id
    assert compiled.run([], step_id=step_id) == [2.0]
    assert compiled.run_one([], step_id=step_id) == 2.0
    assert compiled.run_checked([], step_id=step_id)[0] == [2.0]


def test_two_processes_draw_other_numbers_and_incarnations() -> None:
    told = [
        subprocess.run([sys.executable, "-c", _TELL], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    steps, incarnations = zip(*told, strict=True)
    assert abs(int(steps[0]) - int(steps[1])) > 1000
    assert len({*incarnations}) == 2


def test_an_incarnation_is_the_same_wherever_it_is_shown(two_devices: Any) -> None:
    devices = two_devices.list_devices()
    assert device_lib.list_local_devices()[0].incarnation == devices[0].incarnation
    for device in devices:
        assert core.device_incarnation(device.name) == device.incarnation
        assert 0 < device.incarnation < 2**64
    assert devices[0].incarnation != devices[1].incarnation
