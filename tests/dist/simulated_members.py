"""The members of a simulated elastic training: what carries the instructions of SurvivorAgreement out, without sockets.

Each trains: it runs steps with the others, agrees with those that are left when one of them is lost, takes the state of
the one that is furthest, and takes its leave after the last step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.dist.simulated_core import Broken, SimulatedCore
from tests.dist.simulated_history import History
from tests.dist.simulated_world import Link, Process, World
from thalweg.dist.agreement_steps import (
    Agreed,
    Ask,
    AskStatus,
    Check,
    Dissolve,
    Failed,
    Form,
    Instruction,
    NotRunning,
    Pause,
    Reach,
    Reachable,
    Summon,
    Tell,
    TurnAway,
)
from thalweg.dist.group_agreement import Formed, GroupAgreement, Member
from thalweg.dist.survivor_agreement import SurvivorAgreement

Done = Callable[[Any], None]
GROUP = -1
_PATIENCE = 60.0


class Trainer(Process):
    """A task that trains. `others` has all tasks of the cluster, by name."""

    def __init__(self, world: World, name: str, history: History, clock_error: float, ticks: float) -> None:
        """Takes how far its clock is off, and how often it ticks in a second."""
        super().__init__(world, name)
        self.history = history
        self.others: dict[str, Trainer] = {}
        self.clock_error = clock_error
        self.ticks = ticks
        self.has_ended = False  # in good order
        self.alive = False
        self.life = -1

    def begin(self) -> None:
        """Starts, or starts again as another incarnation."""
        self.world.say(f"{self} starts")
        self.alive = True
        self.life += 1
        number = sorted(self.others).index(self.name)
        self.incarnation = self.world.number()
        self.agreement = GroupAgreement(self._clock, number, len(self.others))
        self.survivors = SurvivorAgreement(GROUP, self.name, self.incarnation, self.agreement.next_generation)
        self.survivors.open(sorted(self.others))
        self.core = SimulatedCore(self)
        self.own = Member(self.name, "device:CPU:0", self.incarnation)
        self.step = 0
        self.state: Any = None  # of the model after `step` steps; None if it has not trained
        self._askers: dict[int, tuple[Link, Done]] = {}
        self._told: dict[int, Link] = {}
        self._fixed: dict[
            str, list[Done]
        ] = {}  # members that wait for the first generation, if this task is the leader
        self._ended_attempt: Done | None = None
        self._wake: Callable[[], None] | None = None
        self._join(self._exchange)

    def _clock(self) -> int:
        # It counts on, at least, when the task is started again.
        return self.life * 10_000 + int((self.world.now + self.clock_error) * self.ticks)

    def validate(self) -> None:
        """Asserts the invariants of the states, and of what all members believe."""
        self.agreement.validate()
        self.survivors.validate()
        self.history.believes(self, self.survivors)

    def lost(self, link: Link) -> None:
        """Event: a connection is lost."""
        self.core.lost(link)
        name = link.other(self).name
        self.agreement.lost(name, link.incarnations[name])
        for done in self._fixed.pop(name, []):
            done(Broken("the member is lost"))

    # Connections.

    def reach(self, member: Member, done: Callable[[Link | None, Reachable], None]) -> None:
        """Finds or makes a connection, as Peers.try_connect does."""
        other = self.others[member.task]
        known = [each for each in self.links if each.other(self) is other and not each.is_lost_at[self]]
        known = [each for each in known if member.incarnation in (0, each.incarnations[other.name])]
        if known:
            link = min(known, key=lambda each: each.number)
            self.after(0.0, lambda: done(link, Reachable.PRESENT))
            return
        is_cut = self.history.is_cut(self, other) or self.history.is_cut(other, self)
        if is_cut or (other.alive and other.is_stopped):
            self.after(1.0, lambda: done(None, Reachable.SILENT))
            return

        def connect() -> None:
            if not other.alive or member.incarnation not in (0, other.incarnation):
                done(None, Reachable.ENDED)
            elif self.history.is_cut(self, other) or self.history.is_cut(other, self) or other.is_stopped:
                done(None, Reachable.SILENT)
            else:
                done(Link(self, other), Reachable.PRESENT)

        self.after(self.world.random.expovariate(500), connect)

    def call(self, link: Link, method: str, done: Done, *args: Any, timeout: float = 1e9) -> None:
        """Calls a method of a peer; `done` gets the answer, or an exception."""
        is_over = False
        other = link.other(self)

        def ended(value: Any) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                done(value)

        link.call(self, lambda answer: getattr(other, method)(link, *args, answer), ended)
        if timeout < 1e9:
            self.after(timeout, lambda: ended(TimeoutError(method)))

    # The first generation, as CollectiveGroups forms it.

    def _join(self, then: Callable[[], None]) -> None:
        """Joins the group, when the first run needs it."""
        leader = min(self.others)

        def searched(end: Any) -> None:
            if isinstance(end, Agreed):
                then()
            elif leader == self.name:
                self._wait_for_all(self.own, 0, lambda formed: self._form(formed, began) if formed else again())
            else:
                self.reach(Member(leader, ""), connected)

        def again() -> None:
            self._attempt(searched, is_newcomer=True)

        def connected(link: Link | None, how: Reachable) -> None:
            if link is None:
                self.after(self.world.random.uniform(0.1, 0.3), again)
            else:
                self.call(link, "join_group", answered, self.own)

        def answered(formed: Any) -> None:
            if isinstance(formed, Formed):
                self._form(formed, began)
            else:
                self.after(0.1, again)

        def began(is_formed: bool) -> None:
            if is_formed:
                then()
            else:
                self.after(0.1, lambda: self._recover("the first generation cannot be formed"))

        again()

    def join_group(self, link: Link, member: Member, answer: Done) -> None:
        """Another member asks the fixed leader."""

        def decided(formed: Formed | None) -> None:
            if formed is None:
                self.join_survivors(link, member, 0, answer)
            else:
                answer(formed)

        self._wait_for_all(member, 0, decided)

    def _wait_for_all(self, member: Member, last: int, done: Done) -> None:
        self._fixed.setdefault(member.task, []).append(done)
        for instruction in self.agreement.join(GROUP, len(self.others), member, last):
            assert isinstance(instruction, Formed)
            self.history.agreed_on(instruction, None)
            for each in instruction.members:
                for waiting in self._fixed.pop(each.task, []):
                    waiting(instruction)

        def look() -> None:
            if done in self._fixed.get(member.task, []):
                if member is self.own or self.survivors.status().generation > last:
                    self._fixed[member.task].remove(done)
                    if not self._fixed[member.task]:
                        self.agreement.withdraw(GROUP, member)
                    done(None)
                else:
                    self.after(1.0, look)

        self.after(1.0, look)

    # The next one.

    def _happens(self, instructions: list[Instruction]) -> None:
        """Carries out what follows from an event."""
        told: dict[int, Link] = {}
        for each in instructions:
            match each:
                case Tell(asker, formed):
                    link, answer = self._askers.pop(asker)
                    told[asker] = link
                    answer(formed)
                case TurnAway(asker):
                    self._askers.pop(asker)[1](Broken("turned away"))
                case Dissolve(generation):
                    self.core.dissolve(generation)
                case Form():
                    self._told = told
                    if told or each.formed.members == (self.own,):
                        self.history.agreed_on(each.formed, self)
                    self._do(each)
                case Agreed() | NotRunning() | Failed():
                    ended, self._ended_attempt = self._ended_attempt, None
                    assert ended is not None
                    self.world.say(f"{self}: {each}")
                    ended(each)
                case _:
                    self._do(each)

    def _sweep(self) -> None:
        for asker, (link, _) in list(self._askers.items()):
            if link.is_lost_at[self]:
                self.survivors.withdrawn(asker)
                del self._askers[asker]

    def _attempt(self, done: Done, is_newcomer: bool = False) -> None:
        assert self._ended_attempt is None
        self._ended_attempt = done
        timeout = float("inf") if is_newcomer else _PATIENCE
        self._happens(self.survivors.begin(self.own, (), self.world.now, timeout, is_newcomer))

    def _do(self, step: Any) -> None:
        """Does a step of an attempt."""
        if self.world.is_verbose:
            self.world.say(f"{self}: {step}")
        match step:
            case Reach(member):
                self.reach(member, lambda link, how: self._event(self.survivors.reached, how))
            case AskStatus(member):
                self._ask_for(member, "group_status")
            case Summon(member, last):
                self._ask_for(member, "summon_member", last)
            case Check(member, last):
                self._ask_for(member, "check_generation", last)
            case Ask(member, own, last):
                self.history.asks(own, last)
                self.reach(member, lambda link, how: self._ask(link, own, last))
            case Form(formed):
                self._form(formed, lambda is_formed: self._event(self.survivors.form_ended, is_formed, self._lost()))
            case Pause(seconds, ends_when_asked):
                is_over = False

                def wake() -> None:
                    nonlocal is_over
                    if not is_over:
                        is_over = True
                        self._wake = None
                        self._event(self.survivors.woken, self.world.now)

                self._wake = (lambda: self.after(0.0, wake)) if ends_when_asked else None
                self.after(seconds * self.world.random.uniform(0.5, 1.5), wake)

    def _event(self, event: Callable[..., list[Instruction]], *args: Any) -> None:
        self._sweep()
        self._happens(event(*args))

    def _lost(self) -> list[int]:
        return [asker for asker, link in self._told.items() if link.is_lost_at[self]]

    def _ask_for(self, member: Member, method: str, *args: Any) -> None:
        def reached(link: Link | None, how: Reachable) -> None:
            if link is None:
                self._event(self.survivors.found, None)
            else:
                self.call(link, method, found, *args, timeout=3.0)

        def found(status: Any) -> None:
            self._event(self.survivors.found, status if isinstance(status, Formed) else None)

        self.reach(member, reached)

    def _ask(self, link: Link | None, own: Member, last: int) -> None:
        if link is None:
            self._event(self.survivors.turned_away, "the leader is lost")
            return

        def answered(value: Any) -> None:
            self.history.asks_no_more(own)
            if isinstance(value, Formed):
                self._event(self.survivors.answered, value)
            else:
                self._event(self.survivors.turned_away, str(value))

        self.call(link, "join_survivors", answered, own, last)

    def _form(self, formed: Formed, done: Done) -> None:
        """Connects to the members, one after the other, and begins the generation."""
        links: dict[str, Link] = {}
        left = [each for each in formed.members if each.task != self.name]

        def next_one() -> None:
            if left:
                self.reach(left.pop(0), connected)
                return
            self._event(self.survivors.formed, formed)
            self.core.formed(formed, links)
            self._event(self.survivors.begun, formed.generation)
            done(True)

        def connected(link: Link | None, how: Reachable) -> None:
            if link is None:
                done(False)
            else:
                links[link.other(self).name] = link
                next_one()

        next_one()

    # As a member that others ask.

    def join_survivors(self, link: Link, member: Member, last: int, answer: Done) -> None:
        """A member asks for the next generation."""
        if link.is_lost_at[self]:
            return
        asker = self.world.number()
        self._askers[asker] = (link, answer)
        self._event(self.survivors.asked, asker, member, last, bool(self.core.members))
        if self._wake is not None:
            self._wake()

        def expire() -> None:
            if asker in self._askers:
                self.survivors.withdrawn(asker)
                self._askers.pop(asker)[1](Broken("waited for too long"))

        self.after(_PATIENCE, expire)

    def group_status(self, link: Link, answer: Done) -> None:
        """A member asks for the newest generation."""
        answer(self.survivors.status())

    def summon_member(self, link: Link, last: int, answer: Done) -> None:
        """A member leads."""
        other = link.other(self).name
        self._event(self.survivors.summoned, Member(other, "", link.incarnations[other]), last)
        answer(self.survivors.status())

    def check_generation(self, link: Link, last: int, answer: Done) -> None:
        """A member that this one has told has begun a generation."""
        other = link.other(self).name
        self.survivors.checked(Member(other, "", link.incarnations[other]), last)
        answer(self.survivors.status())

    # Training.

    def _exchange(self) -> None:
        """All members take over the state of the one that is furthest."""

        def gathered(values: Any) -> None:
            if isinstance(values, Broken):
                self._recover(str(values))
                return
            self.survivors.established(self.core.generation)
            progress = [each.value for each in values]
            root = max(range(len(progress)), key=lambda rank: (progress[rank], -rank))
            self.core.start((self.step, self.state), lambda given: received(given, root, progress))

        def received(values: Any, root: int, progress: list[int]) -> None:
            if isinstance(values, Broken):
                self._recover(str(values))
                return
            step, state = values[root].value
            assert step >= max(0, *progress) and step >= self.step, "the state is not of the furthest member"
            self.step, self.state = step, state if state is not None else ()
            self._train()

        self.survivors.has_finished = False
        self.core.start(-1 if self.state is None else self.step, gathered)

    def _train(self) -> None:
        if self.step == self.history.last_step:
            self._finish()
            return
        generation = self.core.generation

        def ended(values: Any) -> None:
            if isinstance(values, Broken):
                self._recover(str(values))
                return
            assert {each.value for each in values} == {(self.step, self.state)}, "members train different models"
            others = [each for each, member in zip(values, self.survivors.members, strict=True) if member != self.own]
            self.history.has_run(generation, max(each.sent_at for each in others or values))
            self.step += 1
            self.state = (self.step, generation, hash(self.state))
            self.world.say(f"{self}: step {self.step} in {generation}")
            self._train()

        pause = self.world.random.uniform(0.02, 0.5)
        self.after(pause, lambda: self.core.start((self.step, self.state), ended))

    def _recover(self, why: str) -> None:
        self.world.say(f"{self} recovers: {why}")

        def ended(end: Any) -> None:
            # A user's program that waits in vain is started again by its launcher, or begins again by itself.
            self.after(0.01, self._exchange if isinstance(end, Agreed) else lambda: self._recover("again"))

        if self.survivors.members:
            self._attempt(ended)
        else:
            self._join(self._exchange)

    def _finish(self) -> None:
        """Asks each other member whether it needs the state of this one, and takes its leave."""
        self.survivors.has_finished = True
        left = [each for each in self.survivors.members if each.task != self.name]
        generation, runs = self.core.generation, self.core.runs_ended

        def next_one() -> None:
            if left:
                self.reach(left.pop(0), connected)
            else:
                self._leave()

        def connected(link: Link | None, how: Reachable) -> None:
            if link is None:
                next_one()
            else:
                self.call(link, "finish_group", answered, generation, runs, timeout=_PATIENCE)

        def answered(is_behind: Any) -> None:
            if is_behind is True:
                self._recover("another member needs the state")
            else:
                next_one()

        next_one()

    def finish_group(self, link: Link, last: int, runs: int, answer: Done) -> None:
        """Another member has run its last operation."""
        other = link.other(self).name
        until = self.world.now + _PATIENCE

        def look() -> None:
            core = self.core
            is_behind = self.survivors.is_behind(last, runs, bool(core.members), core.runs_ended, other in core.awaited)
            if is_behind is None and self.world.now < until and not link.is_lost_at[self]:
                self.after(0.1, look)
            else:
                answer(bool(is_behind))

        look()

    def _leave(self) -> None:
        others = list(self.survivors.leave())
        generation = self.core.generation

        def next_one(value: Any = None) -> None:
            if others:
                self.reach(others.pop(0), connected)
                return
            self.world.say(f"{self} has ended")
            self.has_ended = self.history.has_lost_members = True
            self.crash()

        def connected(link: Link | None, how: Reachable) -> None:
            if link is None:
                next_one()
            else:
                self.call(link, "leave_group", next_one, generation, timeout=30.0)

        next_one()

    def leave_group(self, link: Link, last: int, answer: Done) -> None:
        """Another member has ended in good order."""
        other = link.other(self).name
        until = self.world.now + 15.0

        def look() -> None:
            if not self.survivors.has_begun(last) and self.world.now < until:
                self.after(0.1, look)
                return
            self.survivors.departed(other, link.incarnations[other])
            self.core.left(other, last)
            answer(None)

        look()
