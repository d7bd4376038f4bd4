"""Virtual time, processes, and connections that lose what is under way when they are cut."""

from __future__ import annotations

import functools
import heapq
import random
from collections.abc import Callable, Sequence
from typing import Any


class World:
    """The events to come, in the order of their time; a seed decides everything that is left to chance."""

    def __init__(self, seed: int, verbose: bool = False) -> None:
        """Begins at time 0 with nothing to do."""
        self.random = random.Random(seed)
        self.now = 0.0
        self.processes: list[Process] = []
        self.links: set[Link] = set()
        self.num_events = 0
        self.is_verbose = verbose
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._last = 0

    def number(self) -> int:
        """A number that is given out once."""
        self._last += 1
        return self._last

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Calls `event` after so many seconds of virtual time."""
        heapq.heappush(self._events, (self.now + seconds, self.number(), event))

    def say(self, text: str) -> None:
        """Prints what happens, if somebody wants to see it."""
        if self.is_verbose:
            print(f"{self.now:9.4f}  {text}")

    def run(self, until: float = float("inf")) -> None:
        """Lets everything happen, or what happens until then."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self.num_events += 1
            assert self.num_events < 100_000, "the cluster never comes to rest"


class Process:
    """A process that may crash. Its events that are due later are dropped then."""

    def __init__(self, world: World, name: str) -> None:
        """Lives from now on."""
        self.world = world
        self.name = name
        self.alive = True
        self.incarnation = 0
        self.life = 0  # how often it has been started again
        self.links: set[Link] = set()
        self._is_stopped = False
        self._held: list[Callable[[], None]] = []  # what happens when it goes on
        world.processes.append(self)

    def __repr__(self) -> str:
        return f"{self.name.rpartition(':')[2] if '/' in self.name else self.name}.{self.life}"

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Lets something happen in this process later, unless it has crashed by then."""
        life = self.life

        def happen() -> None:
            if self.alive and self.life == life:
                if self._is_stopped:
                    self._held.append(happen)
                    return
                event()
                self.validate()

        self.world.after(seconds, happen)

    @property
    def is_stopped(self) -> bool:
        """Whether it has been stopped, as by SIGSTOP: what arrives is kept, and timers ring when it goes on."""
        return self._is_stopped

    def stop(self, seconds: float) -> None:
        """Stops for a while; peers take it for lost when it is silent for too long."""
        self._is_stopped = True
        life = self.life

        def go_on() -> None:
            if self.alive and self.life == life:
                self._is_stopped = False
                held, self._held = self._held, []
                for each in held:
                    self.world.after(0.0, each)

        def is_missed(link: Link) -> None:
            if self.alive and self.life == life and self._is_stopped:
                link.notice_at(link.other(self), 0.0)

        self.world.after(seconds, go_on)
        for link in sorted(self.links, key=lambda each: each.number):
            self.world.after(self.world.random.uniform(2, 3), functools.partial(is_missed, link))

    def validate(self) -> None:
        """Asserts the invariants of the states in this process."""

    def lost(self, link: Link) -> None:
        """Event: a connection is lost."""

    def crash(self) -> None:
        """Ends. The system closes its connections: peers that can be reached notice soon."""
        self.alive = self._is_stopped = False
        self._held = []
        for link in sorted(self.links, key=lambda each: each.number):
            link.notice_at(link.other(self), self.world.random.uniform(0.001, 0.05))
            link.is_lost_at[self] = True
            self.world.links.discard(link)
        self.links = set()


class Link:
    """A connection between two processes: messages arrive in order, or the connection is lost."""

    def __init__(self, a: Process, b: Process) -> None:
        """Both sides have it at once."""
        self.world = a.world
        self.number = self.world.number()
        self.ends = (a, b)
        self.incarnations = {end.name: end.incarnation for end in self.ends}
        self.cut_towards: set[Process] = set()
        self.is_lost_at = {a: False, b: False}
        self._arrival = {a: 0.0, b: 0.0}
        self._calls: dict[int, tuple[Process, Callable[[Any], None]]] = {}
        for end in self.ends:
            end.links.add(self)
        self.world.links.add(self)

    def __repr__(self) -> str:
        return f"{self.ends[0]}-{self.ends[1]}#{self.number}"

    def other(self, end: Process) -> Process:
        """The process at the other end."""
        return self.ends[1] if end is self.ends[0] else self.ends[0]

    def send(self, sender: Process, message: Callable[[], None]) -> None:
        """Lets something happen at the other end, after everything that was sent there before."""
        receiver = self.other(sender)
        if receiver in self.cut_towards or self.is_lost_at[sender]:
            return
        at = max(self._arrival[receiver], self.world.now + self.world.random.expovariate(1000) + 0.0001)
        self._arrival[receiver] = at

        def arrive() -> None:
            if receiver not in self.cut_towards and not self.is_lost_at[receiver]:
                message()

        receiver.after(at - self.world.now, arrive)

    def call(
        self, caller: Process, handle: Callable[[Callable[[Any], None]], None], done: Callable[[Any], None]
    ) -> None:
        """Asks the other end; `done` gets the answer, or the exception that it or the loss of the connection is.

        Calls are handled by the threads of a pool: in any order.
        """
        if self.is_lost_at[caller]:
            done(ConnectionError(f"{self} is lost"))
            return
        number = self.world.number()
        self._calls[number] = (caller, done)
        callee = self.other(caller)

        def answer(value: Any) -> None:
            self.send(callee, lambda: self._answered(number, value))

        # Now and then all threads are busy.
        chance = self.world.random
        pause = chance.expovariate(500) if chance.random() < 0.9 else chance.uniform(0, 1)
        self.send(caller, lambda: callee.after(pause, lambda: handle(answer)))

    def _answered(self, number: int, value: Any) -> None:
        if number in self._calls:
            self._calls.pop(number)[1](value)

    def close(self, end: Process) -> None:
        """One side does not need it any more."""
        self.is_lost_at[end] = True
        end.links.discard(self)
        self.world.links.discard(self)
        for number in [number for number, (caller, _) in self._calls.items() if caller is end]:
            self._calls.pop(number)[1](ConnectionError(f"{self} is closed"))
        self.notice_at(self.other(end), self.world.random.uniform(0.001, 0.05))

    def cut(self, towards: Sequence[Process] = ()) -> None:
        """Nothing arrives any more, at both ends or at one; such an end notices that the other one is silent."""
        ends = tuple(towards) or self.ends
        self.cut_towards.update(ends)
        self.world.links.discard(self)
        for end in ends:
            self.notice_at(end, self.world.random.uniform(0.01, 3))

    def notice_at(self, end: Process, seconds: float) -> None:
        """Lets one side know of the loss."""
        end.after(seconds, lambda: self._notice(end))

    def _notice(self, end: Process) -> None:
        if self.is_lost_at[end]:
            return
        self.world.say(f"{end} has lost {self}")
        self.is_lost_at[end] = True
        end.links.discard(self)
        self.world.links.discard(self)
        # A side that gives up closes the connection.
        if self.other(end) not in self.cut_towards:
            self.notice_at(self.other(end), self.world.random.uniform(0.001, 0.05))
        for number in [number for number, (caller, _) in self._calls.items() if caller is end]:
            self._calls.pop(number)[1](ConnectionError(f"{self} is lost"))
        # The report to Python comes from a thread of a pool, and later than the failure of calls.
        end.after(self.world.random.expovariate(500), lambda: end.lost(self))
