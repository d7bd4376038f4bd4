"""The leader's agreement on collective groups, without sockets: events in, instructions out."""

from __future__ import annotations

import itertools
import random

import pytest

from thalweg.dist.group_agreement import Formed, GroupAgreement, Member, Refused, may_go_on


def member(index: int, incarnation: int = 1, device: int = 0) -> Member:
    return Member(f"/job:worker/replica:0/task:{index}", f"device:CPU:{device}", incarnation, f"host:{index}")


def agreement() -> GroupAgreement:
    return GroupAgreement(lambda: 5)


def test_a_group_is_formed_when_the_last_member_joins_in_the_order_of_ranks() -> None:
    found = agreement()
    assert found.join(1, 3, member(10)) == []
    assert found.join(1, 3, member(2, device=11)) == []
    assert found.join(2, 1, member(0)) == [Formed(2, 5, (member(0),))]
    [formed] = found.join(1, 3, member(2, device=2))
    assert formed == Formed(1, 6, (member(2, device=2), member(2, device=11), member(10)))
    found.validate()


def test_a_member_that_joins_twice_counts_once_with_its_latest_incarnation() -> None:
    found = agreement()
    assert found.join(1, 2, member(0, 1)) == []
    assert found.join(1, 2, member(0, 7)) == []
    [formed] = found.join(1, 2, member(1))
    assert isinstance(formed, Formed)
    assert formed.members[0].incarnation == 7


def test_a_lost_task_no_longer_waits() -> None:
    found = agreement()
    found.join(1, 2, member(0))
    found.lost(member(0).task, 1)
    assert found.join(1, 2, member(1)) == []
    assert found.waiting(1) == [member(1)]
    assert isinstance(found.join(1, 2, member(0, 2))[0], Formed)


def test_different_sizes_are_refused_to_all_also_to_those_that_come_later() -> None:
    found = agreement()
    found.join(1, 3, member(0))
    refused = found.join(1, 2, member(1))
    assert [each.member for each in refused if isinstance(each, Refused)] == [member(0), member(1)]
    assert all("task:0 expects 3" in each.message and "task:1 expects 2" in each.message for each in refused)
    [late] = found.join(1, 3, member(2))
    assert isinstance(late, Refused)
    # A member that tries again begins a new round.
    assert found.join(1, 3, member(0)) == []
    assert found.join(1, 3, member(1)) == []
    assert isinstance(found.join(1, 3, member(2))[0], Formed)


def test_generations_grow_beyond_those_that_members_know() -> None:
    found = agreement()
    [formed] = found.join(1, 1, member(0), last_generation=100)
    assert formed.generation == 101
    assert found.next_generation(3) == 102
    assert found.next_generation(300) == 301


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_any_order_of_joins_losses_and_restarts_ends_in_one_list_for_all(first: int) -> None:
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        size = rng.randint(1, 4)
        found = agreement()
        alive = dict.fromkeys(range(size), 1)
        joined: set[int] = set()
        last = 0
        for _ in itertools.repeat(None, 40):
            index = rng.randrange(size)
            if rng.random() < 0.25:
                found.lost(member(index).task, alive[index])
                alive[index] += 1
                joined.discard(index)
            else:
                instructions = found.join(1, size, member(index, alive[index]))
                joined.add(index)
                if len(joined) == size:
                    assert instructions, f"seed {seed}"
                    [formed] = instructions
                    assert isinstance(formed, Formed)
                    assert formed.members == tuple(member(i, alive[i]) for i in range(size))
                    assert formed.generation > last
                    last = formed.generation
                    joined.clear()
                else:
                    assert instructions == [], f"seed {seed}"
            found.validate()


def test_a_member_that_withdraws_no_longer_waits() -> None:
    found = agreement()
    found.join(1, 2, member(0))
    found.withdraw(1, member(0))
    assert found.join(1, 2, member(1)) == []
    found.withdraw(1, member(5))
    found.validate()
    assert isinstance(found.join(1, 2, member(0))[0], Formed)


def test_at_most_one_part_of_a_divided_group_may_go_on() -> None:
    for size in range(1, 6):
        tasks = [str(rank) for rank in range(size)]
        for fates in itertools.product("abx", repeat=size):  # two parts that do not see each other, and ended members
            first, second, ended = ([task for task, fate in zip(tasks, fates, strict=True) if fate == k] for k in "abx")
            assert may_go_on(tasks, first, ended) + may_go_on(tasks, second, ended) == (len(ended) < size), fates


def test_a_member_whose_partner_has_ended_goes_on_and_one_whose_partner_is_silent_if_it_comes_first() -> None:
    assert may_go_on(["a", "b"], ["b"], ["a"])
    assert not may_go_on(["a", "b"], ["b"], [])
    assert may_go_on(["a", "b"], ["a"], [])
