"""What has happened in a simulated elastic training, and what must hold of it at every event."""

from __future__ import annotations

from typing import Any

from thalweg.dist.group_agreement import Formed, Member
from thalweg.dist.survivor_agreement import SurvivorAgreement


class History:
    """What all members of a training believe, have asked for and have done."""

    def __init__(self, last_step: int) -> None:
        """Takes the step that training ends with."""
        self.last_step = last_step
        self.cuts: set[tuple[str, str]] = set()  # pairs of tasks: nothing comes from the first to the second
        self.has_lost_members = False  # a member that had trained has crashed or ended
        self.generations: dict[int, tuple[Member, ...]] = {}
        self._asking: dict[Member, int] = {}  # members that ask, with the newest generations that they know
        self._newest: dict[Member, int] = {}
        self._first_run: dict[int, float] = {}  # when a generation has ended a first run, anywhere

    def is_cut(self, source: Any, destination: Any) -> bool:
        """Whether messages from one task to another are lost."""
        return (source.name, destination.name) in self.cuts

    def asks(self, own: Member, last: int) -> None:
        """A member asks another for the next generation."""
        self._asking[own] = last

    def asks_no_more(self, own: Member) -> None:
        """It has an answer, or has lost the other one."""
        self._asking.pop(own, None)

    def agreed_on(self, formed: Formed, leader: Any) -> None:
        """A leader forms a generation. All members have asked for it (the fixed leader, None, sees to that itself).

        A leader that was stopped may not know yet that a member has given up asking, and has gone on with others. It
        tells that member over a lost connection, and drops the generation when it sees that.
        """
        assert formed.generation not in self.generations, f"{formed} and {self.generations[formed.generation]}"
        self.generations[formed.generation] = formed.members
        for member in formed.members:
            if leader is None or member == leader.own or member in self._asking:
                newest = self._newest.get(member, 0)
                assert formed.generation > newest, f"{member} knows a newer generation than {formed}"

    def believes(self, process: Any, survivors: SurvivorAgreement) -> None:
        """What a member believes after an event."""
        if not survivors.members or not process.alive:
            return
        generation, members = survivors.generation, survivors.members
        assert self.generations[generation] == members, f"{process} believes in {members}"
        assert process.own in members
        before = self._newest.get(process.own, 0)
        assert generation >= before, f"{process} goes back from generation {before} to {generation}"
        self._newest[process.own] = generation

    def has_run(self, generation: int, last_sent: float) -> None:
        """A run of a generation has ended well in a member; the last of the others sent its part at this time.

        While all members live, no two generations run at once: a majority of the older one belongs to the newer one,
        and nobody runs both. But a member that was stopped finds the parts of the others in its sockets, and ends a run
        when they have gone on without it.
        """
        self._first_run.setdefault(generation, last_sent)
        if not self.has_lost_members:
            later = {key: at for key, at in self._first_run.items() if key > generation and at < last_sent}
            assert not later, f"generation {generation} runs while {later} do"
