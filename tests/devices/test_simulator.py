"""The simulator: known small steps have the schedules that one finds by hand."""

from __future__ import annotations

import pytest

from tests.devices.task_graphs import machine, tasks
from thalweg.passes.fusion import Fusion
from thalweg.placement.machine import Link
from thalweg.placement.simulator import planned, simulate

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_one_device_runs_one_node_after_the_other() -> None:
    step = tasks([1, 2, 3, 1], DIAMOND, machine([1.0]))
    schedule = simulate(step, [0, 0, 0, 0])
    assert schedule.makespan == 7
    assert schedule.busy == [7]
    assert schedule.transfers == 0
    assert schedule.critical == [0, 2, 1, 3]


def test_the_longest_path_goes_first() -> None:
    step = tasks([1, 2, 3, 1], DIAMOND, machine([1.0]))
    schedule = simulate(step, [0, 0, 0, 0])
    assert (schedule.start[2], schedule.start[1]) == (1, 4)


def test_branches_on_two_devices_overlap_and_transfers_take_time() -> None:
    step = tasks([1, 2, 3, 1], DIAMOND, machine(link=Link(0.5, 10)), sizes={0: 5, 1: 20})
    schedule = simulate(step, [0, 1, 0, 0])
    assert schedule.start[1] == 1 + 0.5 + 0.5  # latency, and 5 bytes at 10 a second
    assert schedule.start[3] == 4 + 2 + 0.5
    assert schedule.makespan == 7.5
    assert (schedule.transfers, schedule.moved) == (2, 25)
    assert schedule.critical == [0, 1, 3]


def test_a_tensor_is_sent_once_to_each_device() -> None:
    edges = [(0, i) for i in range(1, 6)]
    schedule = simulate(tasks([1] * 6, edges, machine([1, 1, 1]), sizes={0: 8}), [0, 1, 1, 2, 2, 0])
    assert (schedule.transfers, schedule.moved) == (2, 16)


def test_a_link_moves_one_tensor_after_the_other() -> None:
    step = tasks([1, 1, 0, 0], [(0, 2), (1, 3)], machine(link=Link(0, 1)), sizes={0: 10, 1: 10})
    schedule = simulate(step, [0, 0, 1, 1])
    assert sorted(schedule.start[2:]) == [11, 21]


def test_speeds_divide_times() -> None:
    step = tasks([4, 4], [], machine([1, 4]))
    assert simulate(step, [0, 1]).finish == [4, 1]


def test_tensors_are_freed_after_their_last_reader() -> None:
    chain = tasks([1, 1, 1], [(0, 1), (1, 2)], machine([1.0]), sizes={0: 100, 1: 10}, state={2: 7})
    assert simulate(chain, [0, 0, 0]).peak == [117]
    both = tasks([1, 1, 1], [(0, 1), (1, 2)], machine([1.0, 1.0]), sizes={0: 100, 1: 10}, state={2: 7})
    assert simulate(both, [0, 0, 1]).peak == [110, 17]


def test_a_limit_of_memory_is_noticed() -> None:
    step = tasks([1, 1], [(0, 1)], machine([1.0, 1.0], memory=[50, None]), sizes={0: 60})
    assert not simulate(step, [0, 0]).fits(step)
    assert simulate(step, [1, 1]).fits(step)


def test_an_empty_step_takes_no_time() -> None:
    schedule = simulate(tasks([], [], machine()), [])
    assert schedule.makespan == 0
    assert schedule.critical == []


@pytest.mark.parametrize("device", [0, 1])
def test_a_step_without_edges_begins_at_once(device: int) -> None:
    assert simulate(tasks([1, 1], [], machine()), [device, 1 - device]).makespan == 1


def test_fused_nodes_run_as_one_when_their_inputs_are_there_and_alone_if_they_are_apart() -> None:
    # 2 and 3 are parts of 4, and read 0 and 1.
    step = tasks([5, 1, 0, 0, 2], [(0, 2), (1, 3), (2, 4), (3, 4)], machine(link=Link(0.0)))
    step.fused, step.parts = [Fusion([2, 3, 4])], {2, 3}
    step.alone = {2: [1.5, 1.5], 3: [1.5, 1.5], 4: [1.0, 1.0]}
    assert step.times([0, 1, 0, 0, 0]) == [5, 1, 0, 0, 2]
    assert step.times([0, 1, 0, 1, 0]) == [5, 1, 1.5, 1.5, 1]
    assert simulate(step, [0, 1, 0, 0, 0]).start[4] == 5
    assert simulate(step, [0, 1, 0, 0, 0]).makespan == 7
    assert simulate(step, [0, 1, 0, 1, 0]).makespan == 5 + 1.5 + 1
    # A part holds no memory of its own.
    step.sizes, step.cheap = [8.0] * len(step.sizes), [False] * 5
    assert simulate(step, [0, 0, 0, 0, 0]).peak[0] == 16
    assert simulate(step, [0, 0, 0, 0, 1]).peak[0] == 24


def test_a_plan_goes_by_deadlines_where_ranks_are_misled() -> None:
    # The way from node 0 is longer, but there is time until 2 has run, while a device has much to do after 1.
    edges = [(0, 6), (1, 3), (1, 4), (1, 5), (2, 6)]
    step = tasks([2, 2, 8, 4, 4, 4, 6], edges, machine([1.0, 1.0, 1.0], link=Link(0.0)))
    where = [0, 0, 2, 1, 1, 1, 2]
    assert simulate(step, where).makespan == 16
    assert planned(step, where).makespan == 14


def test_a_plan_waits_a_moment_rather_than_begin_something_long() -> None:
    # After 0 and 1, both 2 (urgent) and 3 (long) could run on the first device, but 2 waits for a transfer.
    edges = [(0, 2), (1, 3), (2, 4)]
    step = tasks([1, 1, 1, 10, 10], edges, machine([1.0, 1.0], link=Link(0.125)))
    where = [1, 0, 0, 0, 1]
    assert simulate(step, where).makespan == 1 + 10 + 1 + 0.125 + 10
    found = planned(step, where)
    assert found.makespan == 1.125 + 1 + 0.125 + 10
    assert found.start == [0, 0, 1.125, 2.125, 2.25]
    assert found.critical == [0, 2, 4]


def test_a_plan_does_not_wait_for_nodes_that_take_no_time() -> None:
    step = tasks([1, 0, 2, 0, 1], [(0, 1), (1, 2), (2, 3), (3, 4)], machine([1.0, 1.0], link=Link(0.0)))
    found = planned(step, [0, 1, 0, 1, 0])
    assert found.makespan == 4
    assert found.finish == [1, 1, 3, 3, 4]
