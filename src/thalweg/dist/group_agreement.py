"""GroupAgreement: how the members of collective groups find each other: the leader's side, as a pure state machine.

Events come in (a member joins, a task is lost), instructions come out. A round of a group ends when as many members
have joined as they expect to be: all get the same list, in the order of their ranks, under a generation that no list
had before. A member that joins twice in a round counts once. If the sizes differ that members expect, the round
fails for those that have joined and for those that still come; a member that joins again after that begins a new round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, NamedTuple

from thalweg import errors
from thalweg.dist.hosts import LONGEST_HOST
from thalweg.dist.names import job_and_index, short_task


class Member(NamedTuple):
    """A device of a task that takes part in a group."""

    task: str
    device: str  # within the task: "device:CPU:0"
    incarnation: int = 0
    address: str = ""
    host: str = ""  # equal for members that share memory; empty: unknown

    @property
    def place(self) -> tuple[str, str]:
        """What tells it from other members, in whatever incarnation of its task."""
        return self.task, self.device

    @property
    def order(self) -> tuple[str, int, str, int]:
        """Ranks follow the job, the task index and the device."""
        return _order(self.task, self.device)


@functools.lru_cache(maxsize=1024)
def _order(task: str, device: str) -> tuple[str, int, str, int]:
    kind, _, index = device.rpartition(":")
    return *job_and_index(task), kind, int(index)


def member_of(message: Any) -> Member:
    """A member from the message of a peer.

    Raises:
        errors.InvalidArgumentError: If its host is no such text as `host_identity` gives.
    """
    if len(message.host) > LONGEST_HOST:
        raise errors.InvalidArgumentError(
            None, None, f"{message.task[:200]} says that its host is a text of {len(message.host)} characters."
        )
    return Member(message.task, message.device, message.incarnation, message.address, message.host)


class Formed(NamedTuple):
    """Tell the waiting members that the group is complete."""

    group: int
    generation: int
    members: tuple[Member, ...]


class Refused(NamedTuple):
    """Tell a member that it cannot join."""

    group: int
    member: Member
    message: str


Instruction = Formed | Refused


class _Round:
    def __init__(self) -> None:
        self.joined: dict[tuple[str, str], tuple[Member, int]] = {}  # with the sizes that they expect
        self.conflict = ""
        self.refused: set[tuple[str, str]] = set()


class GroupAgreement:
    """The groups that one task leads."""

    def __init__(self, clock: Callable[[], int], leader: int = 0, leaders: int = 1) -> None:
        """Takes a clock that counts on when the leader is restarted: generations begin with its time.

        Args:
            clock: The clock.
            leader: A number of this task, so that no two tasks give the same generation.
            leaders: How many such numbers there are.
        """
        self._clock = clock
        self._leader = leader
        self._leaders = leaders
        self._last = 0
        self._rounds: dict[int, _Round] = {}

    def next_generation(self, last: int = 0) -> int:
        """A number that is larger than all earlier ones, and than `last`."""
        least = max(self._last + 1, self._clock(), last + 1)
        self._last = least + (self._leader - least) % self._leaders
        return self._last

    def join(self, group: int, size: int, member: Member, last_generation: int = 0) -> list[Instruction]:
        """A member joins a group that it expects to have `size` members.

        Args:
            group: The group.
            size: How many members there will be.
            member: The one that joins.
            last_generation: The last generation of the group that the member knows of, from this leader or another.
        """
        self._last = max(self._last, last_generation)
        round_ = self._rounds.setdefault(group, _Round())
        if member.place in round_.refused:
            round_ = self._rounds[group] = _Round()
        if not round_.conflict:
            for other, expected in round_.joined.values():
                if expected != size and other.place != member.place:
                    round_.conflict = (
                        f"Members of collective group {group} expect different group sizes: {short_task(other.task)} "
                        f"expects {expected}, {short_task(member.task)} expects {size}."
                    )
                    break
        round_.joined[member.place] = (member, size)
        if round_.conflict:
            waiting = [joined for joined, _ in round_.joined.values()]
            round_.joined.clear()
            round_.refused.update(each.place for each in waiting)
            return [Refused(group, each, round_.conflict) for each in waiting]
        if len(round_.joined) < size:
            return []
        del self._rounds[group]
        members = sorted((joined for joined, _ in round_.joined.values()), key=lambda each: each.order)
        return [Formed(group, self.next_generation(), tuple(members))]

    def lost(self, task: str, incarnation: int) -> None:
        """A task is gone: it no longer waits."""
        for group, round_ in list(self._rounds.items()):
            for place, (member, _) in list(round_.joined.items()):
                if member.task == task and member.incarnation == incarnation:
                    del round_.joined[place]
            if not round_.joined and not round_.conflict:
                del self._rounds[group]

    def withdraw(self, group: int, member: Member) -> None:
        """A member no longer waits for a group."""
        round_ = self._rounds.get(group)
        if round_ is None or member.place not in round_.joined:
            return
        del round_.joined[member.place]
        if not round_.joined and not round_.conflict:
            del self._rounds[group]

    def waiting(self, group: int) -> Sequence[Member]:
        """The members that have joined a group that is not complete."""
        round_ = self._rounds.get(group)
        return [] if round_ is None else [member for member, _ in round_.joined.values()]

    def validate(self) -> None:
        """Asserts the invariants."""
        for round_ in self._rounds.values():
            sizes = {size for _, size in round_.joined.values()}
            assert len(sizes) <= 1
            assert all(len(round_.joined) < size for size in sizes)
            assert not (round_.conflict and round_.joined)
            assert not (round_.refused and not round_.conflict)
            assert all(place == member.place for place, (member, _) in round_.joined.items())


def may_go_on(previous: Sequence[Hashable], present: Collection[Hashable], ended: Collection[Hashable]) -> bool:
    """Whether the present members of a group may form the next generation without the others.

    Members that have ended need not be asked. Those that are silent may be cut off, and form a group of their own: so
    the present ones must be the larger half of both, or that half with the lowest rank.

    Args:
        previous: The members of the last generation, by rank.
        present: Those of them that answer.
        ended: Those that are known to have ended.
    """
    candidates = [each for each in previous if each not in ended]
    count = sum(each in present for each in candidates)
    return count * 2 > len(candidates) or (count * 2 == len(candidates) > 0 and candidates[0] in present)
