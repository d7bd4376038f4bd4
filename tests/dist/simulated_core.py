"""The core's side of collective groups in a simulated cluster: generations that break as a whole, and runs in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.dist.simulated_world import Link, Process
from thalweg.dist.group_agreement import Formed, Member


class Broken(Exception):
    """A run has failed with its generation."""


class Contribution(NamedTuple):
    """What a member sends to the others in a run."""

    value: Any
    sent_at: float


class SimulatedCore:
    """One group at one task, as core/net/collectives.h describes it: a run ends when all have sent, or it breaks."""

    def __init__(self, process: Process) -> None:
        """Begins without a generation."""
        self.process = process
        self.generation = 0
        self.members: tuple[Member, ...] = ()  # empty if it is broken
        self.runs_ended = 0
        self._links: dict[str, Link] = {}
        self._started = 0
        self._received: dict[tuple[int, int], dict[str, Contribution]] = {}
        self._done: Callable[[Any], None] | None = None
        self._gone: set[str] = set()  # tasks that have left in good order
        self._aborted: set[int] = set()

    @property
    def awaited(self) -> set[str]:
        """The tasks whose messages are missing in the run that is under way."""
        if self._done is None:
            return set()
        there = self._received.get((self.generation, self._started), {})
        return {each.task for each in self.members} - there.keys()

    def formed(self, formed: Formed, links: dict[str, Link]) -> None:
        """A generation begins; what was sent before counts."""
        if formed.generation <= self.generation:
            return
        self._fail()
        self.generation, self.members = formed.generation, formed.members
        self._links, self._gone = links, set()
        self._started = self.runs_ended = 0
        self._received = {key: value for key, value in self._received.items() if key[0] >= formed.generation}
        if formed.generation in self._aborted:
            self._break(False)
        elif any(link.is_lost_at[self.process] for link in links.values()):
            self._break(True)

    def start(self, value: Any, done: Callable[[Any], None]) -> None:
        """Begins a run; `done` gets the values by rank, or Broken."""
        assert self._done is None
        if not self.members:
            done(Broken("the group is broken"))
            return
        self._started += 1
        self._done = done
        key = (self.generation, self._started)
        own = Contribution(value, self.process.world.now)
        self._received.setdefault(key, {})[self.process.name] = own
        for link in self._links.values():
            self._send(link, "contributed", key, self.process.name, own)
        self._check()

    def contributed(self, key: tuple[int, int], task: str, value: Contribution) -> None:
        """A member has sent."""
        if key[0] >= self.generation:
            self._received.setdefault(key, {})[task] = value
            self._check()

    def aborted(self, generation: int) -> None:
        """Another member says that a generation is over."""
        self._aborted.add(generation)
        if generation == self.generation:
            self._break(False)

    def dissolve(self, generation: int) -> None:
        """This member says so."""
        if generation == self.generation:
            self._break(True)

    def lost(self, link: Link) -> None:
        """A connection is lost."""
        task = link.other(self.process).name
        if self._links.get(task) is link and task not in self._gone:
            self._break(True)

    def left(self, task: str, generation: int) -> None:
        """A member has left, and has sent all that it ever will."""
        if generation == self.generation:
            self._gone.add(task)
            self._check()

    def _send(self, link: Link, event: str, *args: Any) -> None:
        other = link.other(self.process)
        link.send(self.process, lambda: getattr(other.core, event)(*args))  # type: ignore[attr-defined]

    def _check(self) -> None:
        if self._done is None:
            return
        if not self.awaited:
            there = self._received[(self.generation, self._started)]
            self.runs_ended += 1
            self._end([there[each.task] for each in self.members])
        elif self.awaited & self._gone:
            self._break(True)

    def _break(self, tells: bool) -> None:
        if not self.members:
            return
        self.members = ()
        if tells:
            for link in self._links.values():
                self._send(link, "aborted", self.generation)
        self._fail()

    def _fail(self) -> None:
        if self._done is not None:
            self._end(Broken(f"generation {self.generation} is over"))

    def _end(self, value: Any) -> None:
        done, self._done = self._done, None
        assert done is not None
        self.process.after(0.0, lambda: done(value))
