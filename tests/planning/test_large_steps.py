"""The work of planning and installing a step grows with the number of its nodes, not with the square of it."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tf
from thalweg.graph.graph import Graph
from thalweg.passes.prune import prune
from thalweg.placement import costs as cost_module
from thalweg.placement.costs import CostModel, placed_seconds
from thalweg.platform.garbage import collector_paused

DEVICES = ("/cpu:0", "/cpu:1")


def many_inputs(n: int) -> Any:
    x = tf.placeholder(tf.float32, [])
    parts = []
    for i in range(n):
        with tf.device(DEVICES[i % 2]):
            parts.append(tf.sqrt(x + float(i)))
    return tf.add_n(parts), {x: 1.0}


def many_feeds(n: int) -> Any:
    fed = [tf.placeholder(tf.float32, []) for _ in range(n)]
    parts = []
    for i in range(0, n, 2):
        with tf.device(DEVICES[i // 2 % 2]):
            parts.append(fed[i] * fed[i + 1])
    return tf.add_n(parts), dict.fromkeys(fed, 1.0)


def many_loops(n: int) -> Any:
    x = value = tf.placeholder(tf.float32, [])
    for i in range(n // 10):
        with tf.device(DEVICES[i % 2]):
            value = tf.while_loop(lambda j, p: j < 2, lambda j, p: (j + 1, p * 1.5), (0, value))[1]
    return value, {x: 1.0}


def many_large_transfers(n: int) -> Any:
    x = tf.placeholder(tf.float32, [1])
    total = tf.reduce_sum(x)
    for i in range(n // 10):
        with tf.device(DEVICES[1]):
            large = tf.reverse(tf.tile(x + float(i), [300_000]), [0])
        with tf.device(DEVICES[0]):
            total = tf.sqrt(total) + tf.reduce_sum(large)
    return total, {x: [1.0]}


def calls_of_planning(build: Callable[[int], Any], n: int) -> int:
    """The calls of Python functions, and iterations of generators, until a step is ready to run."""
    with Graph().as_default():
        fetch, feeds = build(n)
        config = tf.ConfigProto(device_count={"CPU": 2})
        with tf.Session(config=config) as sess:
            calls = 0

            def count(frame: Any, event: str, arg: Any) -> None:
                nonlocal calls
                calls += event == "call"

            sys.setprofile(count)
            try:
                sess._prepared(fetch, feeds)
            finally:
                sys.setprofile(None)
    return calls


@pytest.mark.parametrize("build", [many_inputs, many_feeds, many_loops, many_large_transfers])
def test_the_work_of_planning_is_linear(build: Callable[[int], Any]) -> None:
    calls_of_planning(build, 100)  # fills caches
    few, many = calls_of_planning(build, 200), calls_of_planning(build, 800)
    assert few < many < 5 * few


def test_costs_are_those_of_nodes_alone_where_nothing_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fusions are looked for where they make a difference: after measurements, and for sums of products."""
    looked = []
    found = cost_module.fusions
    monkeypatch.setattr(cost_module, "fusions", lambda *args: looked.append(args) or found(*args))
    with Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 64])
        y = tf.placeholder(tf.float32, [4, 64])
        relu = tf.nn.relu(tf.matmul(x, y, transpose_b=True) + 1.0)
        products = [tf.identity(tf.matmul(x * float(i), y, transpose_a=True)) for i in range(4)]
        plain, summed = prune([x, y], [relu], []), prune([x, y], [tf.add_n(products)], [])
    assert all(seconds >= 0 for seconds in placed_seconds(plain, CostModel(), {}).values())
    assert looked == []
    placed_seconds(summed, CostModel(), {})
    assert len(looked) == 1


def test_the_collector_rests_while_steps_are_planned_and_works_afterwards() -> None:
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        generations.append(info["generation"])

    with Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        fetch, feeds = many_inputs(1000)
        sess._prepared(fetch.op.inputs[0], feeds)
        gc.callbacks.append(note)
        try:
            sess._planned_step(fetch, feeds)
        finally:
            gc.callbacks.remove(note)
        assert len(generations) <= 4  # before and after planning
        assert gc.isenabled()


def test_pauses_of_the_collector_overlap_and_end_with_errors() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector_paused():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with pytest.raises(ValueError, match="inside"), collector_paused():
        thread.start()
        entered.wait(10)
        raise ValueError("inside")
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_collector_that_the_program_has_disabled_stays_so() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
