"""Strategies: optimal on small steps, within the constraints and the bounds of any schedule on random ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.devices.task_graphs import machine, tasks
from thalweg.placement.machine import Link, Machine
from thalweg.placement.planner import STRATEGIES, chooser, if_it_pays
from thalweg.placement.search import search
from thalweg.placement.simulator import simulate
from thalweg.placement.strategies import critical_path, greedy, heft, single
from thalweg.placement.tasks import Tasks


def makespan(step: Tasks, choice: list[int]) -> float:
    return simulate(step, step.where(choice)).makespan


def quick_search(step: Tasks) -> list[int]:
    return search(step, budget=200)


SPREADING = [greedy, heft, critical_path, quick_search]


@pytest.mark.parametrize("strategy", SPREADING)
def test_two_towers_go_to_two_devices(strategy: Any) -> None:
    towers = [(0, 1), (1, 2), (3, 4), (4, 5), (2, 6), (5, 6)]
    step = tasks([1, 1, 1, 1, 1, 1, 0.5], towers, machine(link=Link(0.1)))
    assert makespan(step, strategy(step)) == pytest.approx(3.6)


@pytest.mark.parametrize("strategy", SPREADING)
def test_a_chain_stays_on_one_device(strategy: Any) -> None:
    step = tasks([1] * 5, [(i, i + 1) for i in range(4)], machine(link=Link(0.1)))
    choice = strategy(step)
    assert len(set(choice)) == 1


@pytest.mark.parametrize("strategy", SPREADING)
def test_the_faster_device_is_chosen(strategy: Any) -> None:
    step = tasks([4, 4, 4], [(0, 1), (1, 2)], machine([1, 4]))
    assert strategy(step) == [1, 1, 1]


@pytest.mark.parametrize("strategy", SPREADING)
def test_slow_links_keep_a_step_together(strategy: Any) -> None:
    step = tasks([1, 1, 1, 1], [(0, 1), (0, 2), (1, 3), (2, 3)], machine(link=Link(10)))
    assert makespan(step, strategy(step)) == 4


def test_critical_path_first_finds_what_greed_misses() -> None:
    # Three short nodes are ready first; the long chain behind node 3 must not wait for them.
    costs, edges = [3, 3, 3, 1, 6, 2], [(3, 4), (4, 5)]
    step = tasks(costs, edges, machine(link=Link(0)))
    assert makespan(step, heft(step)) == 9


def test_variables_go_along_with_their_readers() -> None:
    # Nodes 0 and 2 are reads of variables: free, and nothing to wait for.
    step = tasks([0, 1, 0, 1, 0.1], [(0, 1), (2, 3), (1, 4), (3, 4)], machine(link=Link(0.2)), state={0: 8, 2: 8})
    for strategy in (greedy, heft):
        choice = strategy(step)
        assert choice[0] == choice[1] != choice[2] == choice[3]


def test_variables_go_where_there_is_room() -> None:
    step = tasks([0, 1, 0, 1], [(0, 1), (2, 3), (1, 3)], machine(memory=[10, 100]), state={0: 8, 2: 60})
    for strategy in (greedy, heft, critical_path):
        choice = strategy(step)
        assert choice[2] == 1


def test_spreading_must_pay() -> None:
    cheap = tasks([1e-6] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)], machine())
    assert if_it_pays(cheap, [0, 1, 0, 0])[0] == [0, 0, 0, 0]
    large = tasks([1.0] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)], machine())
    assert if_it_pays(large, [0, 1, 0, 0])[0] == [0, 1, 0, 0]
    # One device lacks memory: then it does not matter how long it takes.
    short = tasks([1.0, 1.0], [(0, 1)], machine(memory=[5, None]), sizes={0: 10})
    assert if_it_pays(short, [1, 1])[0] == [1, 1]


def test_search_is_deterministic_and_no_worse() -> None:
    edges = [(i, j) for j in range(1, 24) for i in range(j) if (i * 7 + j * 3) % 11 == 0]
    step = tasks([1 + i % 5 for i in range(24)], edges, machine([1, 1, 2], link=Link(0.5)))
    found = search(step, budget=24 * 50)
    assert found == search(step, budget=24 * 50)
    assert makespan(step, found) <= min(makespan(step, strategy(step)) for strategy in (heft, greedy, critical_path))


def test_an_empty_step_has_no_places() -> None:
    for strategy in STRATEGIES.values():
        assert strategy(tasks([], [], machine())) == []


def test_an_unknown_strategy_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'best'.*heft"):
        chooser("best")


@st.composite
def steps(draw: st.DrawFn) -> tuple[Tasks, Machine]:
    count = draw(st.integers(1, 14))
    costs = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    pairs = [(i, j) for j in range(count) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=24)) if pairs else []
    devices = draw(st.integers(1, 4))
    on = machine(draw(st.lists(st.sampled_from([1, 2, 4]), min_size=devices, max_size=devices)), Link(0.25, 8))
    pinned = draw(st.dictionaries(st.integers(0, count - 1), st.integers(0, devices - 1), max_size=3))
    cut = draw(st.integers(0, count))
    groups = [[i for i in range(cut) if i % 3 == 0]] if cut else []
    feasible = {node: [device] for node, device in pinned.items()}
    return tasks(costs, edges, on, {i: i for i in range(count)}, groups, feasible), on


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps())
def test_schedules_keep_constraints_and_bounds(drawn: tuple[Tasks, Machine]) -> None:
    step, on = drawn
    fastest = [min(seconds) for seconds in step.seconds]
    path = [0.0] * len(fastest)
    for node in range(len(path) - 1, -1, -1):
        later = [path[reader] for tensor in step.outputs[node] for reader in step.readers[tensor]]
        path[node] = fastest[node] + max(later, default=0.0)
    slowest = sum(max(seconds) for seconds in step.seconds) + sum(
        sum(link.seconds(size) for row in on.links() for link in row) for size in step.sizes
    )
    for name, strategy in {**STRATEGIES, "search": quick_search}.items():
        choice = strategy(step)
        assert all(device in unit.feasible for device, unit in zip(choice, step.units, strict=True)), name
        schedule = simulate(step, step.where(choice))
        # No schedule beats the critical path, nor all devices working all the time; none is worse than one by one.
        assert schedule.makespan >= max(path) - 1e-9
        assert schedule.makespan >= sum(fastest) / len(on.processors) - 1e-9
        assert schedule.makespan <= slowest + 1e-9
        for node, inputs in enumerate(step.inputs):
            assert all(schedule.start[node] >= schedule.finish[step.producers[tensor]] for tensor in inputs)
        for device in range(len(on.processors)):
            mine = [node for node in range(len(path)) if schedule.where[node] == device]
            times = sorted((schedule.start[node], schedule.finish[node]) for node in mine)
            assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(times))


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps())
def test_the_chosen_plan_is_never_slower_than_one_device(drawn: tuple[Tasks, Machine]) -> None:
    step, _ = drawn
    _, schedule = if_it_pays(step, heft(step))
    assert schedule.makespan <= makespan(step, single(step)) + 1e-9
