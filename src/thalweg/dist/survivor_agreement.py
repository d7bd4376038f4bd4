"""SurvivorAgreement: how the members of an open group agree on its next generation, as a pure state machine.

Events come in, instructions come out; who carries them out is `open_groups.py`. There is one object for each group and
task. An *attempt* to find the next generation has one step under way at a time: its instruction is given to the caller
of `begin`, and the event that says how it ended gives the next one. Other instructions answer members that ask.

1. A member goes through the list of the newest generation that it knows, by rank. It asks the first member that it can
   reach; if all before it are silent, it leads.
2. A leader waits until all members of the list that it can reach have asked, and summons those that have not. It tells
   them and newcomers that have asked, if they may go on without the others (`may_go_on`).
3. The newest list decides. Whoever hears of a newer generation, from the answer to a summons, or because the one that
   asks or summons it knows one, gives up its own generation, looks at that list, and begins again.
4. A member that asks another turns away those that ask it. So nobody waits for a member that waits itself, and members
   with different lists cannot wait for each other.
5. A generation is *established* at a member that knows that all members have begun it: a run has ended to which each
   has given its part. Until then, its list does not take the place of the one before: a leader goes through both,
   and those that go on must be enough of each. Members that have not heard of the new list count on the old one.
6. A member that was told, and has begun the generation, asks the leader whether it is still the newest: it may have
   been stopped before it began, and the others have gone on.
7. A newcomer breaks a generation only by asking its first member, and a member by asking any: one that can reach only
   some of the others does not stop them again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from thalweg.dist.agreement_steps import (
    Agreed,
    Ask,
    Asking,
    AskStatus,
    Attempt,
    Check,
    Dissolve,
    Failed,
    Form,
    Instruction,
    NotRunning,
    Pause,
    Phase,
    Reach,
    Reachable,
    Step,
    Summon,
    Tell,
    TurnAway,
)
from thalweg.dist.group_agreement import Formed, Member, may_go_on
from thalweg.dist.names import short_task

_RETRY_SECONDS = 0.1
_WAIT_SECONDS = 0.25


class SurvivorAgreement:
    """One group, at one task. Not thread-safe."""

    def __init__(self, group: int, task: str, incarnation: int, next_generation: Callable[[int], int]) -> None:
        """Takes a function that gives larger numbers than its argument, other ones in each task of the cluster."""
        self.group = group
        self.tasks: tuple[str, ...] = ()  # all that may be members, if the group is open
        self.generation = 0  # the last one that this task was told, and its members
        self.members: tuple[Member, ...] = ()
        self.has_finished = False
        self._bases: list[tuple[Member, ...]] = []  # the lists since the last generation that was established
        self._has_been_established = False  # any generation of this task
        self._task = task
        self._incarnation = incarnation
        self._next_generation = next_generation
        self._begun = 0  # the last generation that the core knows
        self._highest = 0  # the largest number that it has heard of
        self._departed: set[tuple[str, int]] = set()  # members that have ended in good order
        self._has_left = False
        self._asking: dict[str, Asking] = {}  # by task
        self._heard: tuple[Member, int] | None = None  # who knows a newer generation
        self._attempt: Attempt | None = None

    def validate(self) -> None:
        """Asserts the invariants."""
        assert not self.members or (self._task, self._incarnation) in map(_identity, self.members)
        assert list(self.members) == sorted(self.members, key=lambda each: each.order)
        assert len({each.task for each in self.members}) == len(self.members)
        assert self._highest >= self.generation
        assert all(task == asking.member.task != self._task for task, asking in self._asking.items())
        assert len({asking.asker for asking in self._asking.values()}) == len(self._asking)
        assert bool(self._bases) == bool(self.members)
        assert not self._bases or self._bases[-1] == self.members
        assert self._heard is None or self._heard[1] > self.generation
        attempt = self._attempt
        if attempt is None:
            return
        assert type(attempt.step) is attempt.phase.step
        assert attempt.phase is not Phase.ASK or not self._asking, "waits, and lets others wait"
        assert attempt.adopted is None or attempt.adopted.generation > self.generation or attempt.phase is Phase.FORM
        assert not set(attempt.present) & set(attempt.ended)

    @property
    def is_under_way(self) -> bool:
        """Whether this task looks for the next generation."""
        return self._attempt is not None

    def has_begun(self, generation: int) -> bool:
        """Whether the core knows this generation, or a later one."""
        return self._begun >= generation

    def status(self) -> Formed:
        """The newest generation that this task knows, with its members; generation 0 if there is none."""
        attempt = self._attempt
        if attempt is not None and isinstance(attempt.step, Form) and attempt.step.formed.generation > self.generation:
            return attempt.step.formed
        if attempt is not None and attempt.adopted is not None:
            return attempt.adopted
        if self._has_left or not self.members:
            return Formed(self.group, 0, ())
        return Formed(self.group, self.generation, self.members)

    # Events of this task.

    def open(self, tasks: Sequence[str]) -> None:
        """The group goes on without members that are lost, and admits newcomers."""
        self.tasks = tuple(tasks)
        self._has_left = False

    def formed(self, formed: Formed) -> list[Instruction]:
        """This task is a member of a generation, whose runs are about to begin."""
        if formed.generation <= self.generation:
            return []
        self.generation, self.members = formed.generation, formed.members
        self._bases = [*(each for each in self._bases if each != formed.members), formed.members]
        if not self.tasks:
            self.established(formed.generation)  # A group without tasks has no member that would report it.
        self._hear_of(formed.generation)
        self._has_left = False
        if self._heard is not None and self._heard[1] <= formed.generation:
            self._heard = None
        return self._turn_all_away()

    def begun(self, generation: int) -> list[Instruction]:
        """The core knows a generation, and has delivered to it what members had sent before."""
        self._begun = max(self._begun, generation)
        return [self._dissolve("others ask for the next generation")] if self._asking else []

    def established(self, generation: int) -> None:
        """A run of a generation has ended to which all members have given their parts."""
        if generation == self.generation and self.members:
            self._bases = [self.members]
            self._has_been_established = True
            self._departed &= set(map(_identity, self.members))

    def leave(self) -> tuple[Member, ...]:
        """This task ends in good order: the members that should know of it."""
        others = tuple(each for each in self.members if each.task != self._task)
        self.tasks = self.members = ()
        self._bases = []
        self._has_left = True
        return others

    def begin(
        self, own: Member, fallback: Sequence[Member], now: float, timeout: float, is_newcomer: bool = False
    ) -> list[Instruction]:
        """This task looks for the next generation.

        Args:
            own: The member of this task.
            fallback: The members if no generation is known.
            now: The time, in seconds.
            timeout: How long to try.
            is_newcomer: Whether to end if no member knows of a group.
        """
        assert self._attempt is None
        self._attempt = Attempt(own, now + timeout, tuple(fallback), is_newcomer)
        return [self._dissolve("it has lost a member, or was asked to"), *self._start(self._attempt)]

    def abandon(self) -> list[Instruction]:
        """Ends the attempt, whatever it does."""
        self._attempt = None
        return self._turn_all_away()

    # How a step of the attempt has ended.

    def reached(self, how: Reachable) -> list[Instruction]:
        """A member can be reached, or not."""
        attempt = self._in_phase(Phase.REACH)
        member = attempt.left.pop(0)
        if how is Reachable.ENDED:
            attempt.ended.append(member)
        elif how is Reachable.PRESENT:
            if not self._leads_before(attempt, member):
                return self._ask(attempt, member)
            attempt.present.append(member)
        return self._reach_next(attempt)

    def found(self, status: Formed | None) -> list[Instruction]:
        """A member has told the newest generation that it knows, or nothing."""
        attempt = self._in_phase(Phase.HEED, Phase.SEARCH, Phase.SUMMON, Phase.LOOK, Phase.CHECK)
        if attempt.phase is Phase.HEED:
            self._heard = None
        elif attempt.phase is not Phase.CHECK:
            attempt.left.pop(0)
        if status is not None and status.generation > self._known(attempt) and status.members:
            self._hear_of(status.generation)
            attempt.adopted = status
            if attempt.phase is Phase.CHECK:
                return [self._dissolve("others have gone on meanwhile"), *self._start(attempt)]
            return self._start(attempt)
        if attempt.phase is Phase.CHECK:
            self._attempt = None
            return [Agreed(Formed(self.group, self.generation, self.members))]
        if attempt.phase is Phase.HEED:
            return self._start(attempt)
        return self._next_status(attempt)

    def answered(self, formed: Formed) -> list[Instruction]:
        """The leader has told the next generation."""
        attempt = self._in_phase(Phase.ASK)
        if formed.generation <= self.generation or attempt.own not in formed.members:
            return self.turned_away(f"generation {formed.generation} of collective group {self.group} is not for it")
        self._hear_of(formed.generation)
        attempt.told = ()
        return self._form(attempt, formed)

    def turned_away(self, why: str) -> list[Instruction]:
        """The member that was asked does not lead, or is lost."""
        return self._pause(self._in_phase(Phase.ASK), why)

    def form_ended(self, is_formed: bool, lost: Collection[int], why: str = "") -> list[Instruction]:
        """The generation has begun here, or cannot.

        Args:
            is_formed: Whether it has begun.
            lost: The requests of members that this task has told, and whose connections are lost: they may not know
                of the generation, and others would wait for them.
            why: Why it cannot begin.
        """
        attempt = self._in_phase(Phase.FORM)
        if not is_formed:
            return self._pause(attempt, why)
        attempt.adopted = None
        unheard = [short_task(each.member.task) for each in attempt.told if each.asker in lost]
        if unheard:
            message = f"{', '.join(unheard)} has not heard of it"
            return [self._dissolve(message), *self._pause(attempt, message)]
        if attempt.leader is not None:
            return self._do(attempt, Phase.CHECK, Check(attempt.leader, self.generation))
        self._attempt = None
        return [Agreed(Formed(self.group, self.generation, self.members))]

    def woken(self, now: float) -> list[Instruction]:
        """A pause has ended."""
        attempt = self._in_phase(Phase.PAUSE)
        if now > attempt.until:
            self._attempt = None
            return [
                Failed(f"Collective group {self.group} cannot be formed anew: {attempt.why}."),
                *self._turn_all_away(),
            ]
        attempt.adopted = None  # Its members are asked again.
        return self._start(attempt)

    # Events of others.

    def asked(self, asker: int, member: Member, last: int, is_whole: bool) -> list[Instruction]:
        """A member asks for the next generation.

        Args:
            asker: The number of the request.
            member: The member.
            last: The newest generation that it knows.
            is_whole: Whether the generation of this task has not broken.
        """
        self._hear_of(last)
        if self._has_left or member.task == self._task:
            return [TurnAway(asker)]
        if self._heeds(member, last):
            return [self._dissolve(f"{short_task(member.task)} knows a newer generation"), TurnAway(asker)]
        if self._attempt is None:
            is_own = _identity(member) in map(_identity, self.members)
            if is_whole and not is_own and self._first() != (self._task, self._incarnation):
                return [TurnAway(asker)]
        elif self._attempt.phase is Phase.ASK:
            return [TurnAway(asker)]
        replaced = self._asking.get(member.task)
        self._asking[member.task] = Asking(asker, member, last)
        out: list[Instruction] = [] if replaced is None else [TurnAway(replaced.asker)]
        return [*out, self._dissolve(f"{short_task(member.task)} joins")]

    def withdrawn(self, asker: int) -> None:
        """A member no longer waits for an answer, or its connection is lost."""
        self._asking = {task: each for task, each in self._asking.items() if each.asker != asker}

    def summoned(self, member: Member, last: int) -> list[Instruction]:
        """A member leads, and waits for this one."""
        self._hear_of(last)
        is_own = _identity(member) in map(_identity, self.members)
        if self._heeds(member, last) or (is_own and last == self.generation):
            return [self._dissolve(f"{short_task(member.task)} leads")]
        return []

    def checked(self, member: Member, last: int) -> None:
        """A member that was told a generation has begun it."""
        self._hear_of(last)
        self._heeds(member, last)

    def departed(self, task: str, incarnation: int) -> None:
        """A member has ended in good order."""
        self._departed.add((task, incarnation))

    def is_behind(
        self, last: int, runs: int, is_whole: bool, runs_ended: int, awaits_other: bool
    ) -> bool | None:  # fmt: skip
        """Whether this member needs the state of another one that has run its last operation; None: it will be seen.

        Args:
            last: The generation of the other member.
            runs: How many runs that one has ended in it.
            is_whole: Whether the generation of this member has not broken.
            runs_ended: How many runs this member has ended in its generation.
            awaits_other: Whether a run of this member waits for the other one: it wants more than that has run, and
                does not get it.
        """
        if self.has_finished or not self.tasks:
            return False
        if not is_whole or self.generation != last:
            return True
        return False if runs_ended >= runs or awaits_other else None

    # Decisions.

    def _start(self, attempt: Attempt) -> list[Instruction]:
        attempt.present, attempt.told, attempt.leader = [], (), None
        attempt.ended = []
        if self._heard is not None and self._heard[1] > self._known(attempt):
            return self._do(attempt, Phase.HEED, AskStatus(self._heard[0]))
        members = self._list(attempt)
        if not members:
            device = attempt.own.device
            attempt.phase = Phase.SEARCH
            attempt.left = [Member(task, device) for task in self.tasks if task != self._task]
            return self._next_status(attempt)
        others = [each for each in members if not self._is_own(each)]
        attempt.ended = [
            each for each in others if each.task == self._task or _identity(each) in self._departed
        ]  # fmt: skip
        attempt.left = [each for each in others if each not in attempt.ended]
        return self._reach_next(attempt)

    def _reach_next(self, attempt: Attempt) -> list[Instruction]:
        if attempt.left:
            return self._do(attempt, Phase.REACH, Reach(attempt.left[0]))
        if not self._is_listed(attempt):
            return self._pause(attempt, f"no member of the group that runs without {short_task(self._task)} answers")
        attempt.left = self._missing(attempt)
        attempt.phase = Phase.SUMMON
        return self._next_status(attempt)

    def _next_status(self, attempt: Attempt) -> list[Instruction]:
        """Asks the next task of the phase, and decides if all have been asked."""
        if attempt.left:
            if attempt.phase is Phase.SUMMON:
                return self._do(attempt, Phase.SUMMON, Summon(attempt.left[0], self._known(attempt)))
            return self._do(attempt, attempt.phase, AskStatus(attempt.left[0]))
        if attempt.phase is Phase.SEARCH:
            if attempt.is_newcomer:
                self._attempt = None
                return [NotRunning(), *self._turn_all_away()]
            return self._pause(attempt, "no other task knows of it")
        if self._heard is not None and self._heard[1] > self._known(attempt):
            return self._start(attempt)
        if missing := self._missing(attempt):
            return self._pause(attempt, f"waited in vain for {_names(missing)}", ends_when_asked=True)
        members = self._list(attempt)
        if not self._goes_on(attempt):
            known = [*attempt.present, *attempt.ended]
            silent = [each for each in members if each not in known and not self._is_own(each)]
            return self._pause(attempt, f"waited in vain for {_names(silent)}", ends_when_asked=True)
        is_minority = not self._has_been_established or (len(attempt.present) + 1) * 2 <= len(members)
        if attempt.phase is Phase.SUMMON and is_minority:
            # Members that have ended may have gone on before, and formed a group with newcomers.
            inside = {self._task, *self._asking, *(each.task for each in members)}
            attempt.left = [Member(task, attempt.own.device) for task in self.tasks if task not in inside]
            attempt.phase = Phase.LOOK
            return self._next_status(attempt)
        return self._tell(attempt)

    def _goes_on(self, attempt: Attempt) -> bool:
        """Whether those that are present may form the next generation."""
        ended = set(map(_identity, attempt.ended))
        present = {_identity(each) for each in attempt.present}
        for members in self._lists(attempt):
            previous = [_identity(attempt.own) if self._is_own(each) else _identity(each) for each in members]
            # Members that have never trained do not go on without others that may have.
            if not self._has_been_established and not present | ended | {_identity(attempt.own)} >= set(previous):
                return False
            if not may_go_on(previous, [_identity(attempt.own), *present], ended):
                return False
        return True

    def _tell(self, attempt: Attempt) -> list[Instruction]:
        attempt.told = tuple(self._asking.values())
        self._asking = {}
        members = sorted([attempt.own, *(each.member for each in attempt.told)], key=lambda each: each.order)
        formed = Formed(self.group, self._next_generation(self._highest), tuple(members))
        self._hear_of(formed.generation)
        return [*(Tell(each.asker, formed) for each in attempt.told), *self._form(attempt, formed)]

    def _ask(self, attempt: Attempt, member: Member) -> list[Instruction]:
        attempt.leader = member
        step = self._do(attempt, Phase.ASK, Ask(member, attempt.own, self._known(attempt)))
        return [*self._turn_all_away(), *step]

    def _form(self, attempt: Attempt, formed: Formed) -> list[Instruction]:
        return self._do(attempt, Phase.FORM, Form(formed))

    def _pause(self, attempt: Attempt, why: str, ends_when_asked: bool = False) -> list[Instruction]:
        attempt.why = why
        seconds = _WAIT_SECONDS if ends_when_asked else _RETRY_SECONDS
        return self._do(attempt, Phase.PAUSE, Pause(seconds, ends_when_asked))

    def _do(self, attempt: Attempt, phase: Phase, step: Step) -> list[Instruction]:
        attempt.phase, attempt.step = phase, step
        return [step]

    def _dissolve(self, why: str) -> Dissolve:
        return Dissolve(self.generation, f"Collective group {self.group} is formed anew: {why}.")

    def _turn_all_away(self) -> list[Instruction]:
        turned = [TurnAway(each.asker) for each in self._asking.values()]
        self._asking = {}
        return list(turned)

    def _in_phase(self, *phases: Phase) -> Attempt:
        assert self._attempt is not None
        assert self._attempt.phase in phases, self._attempt.phase
        return self._attempt

    def _hear_of(self, generation: int) -> None:
        self._highest = max(self._highest, generation)

    def _heeds(self, member: Member, last: int) -> bool:
        """Whether another member knows a newer generation; this task will ask for its list."""
        if last <= self.status().generation or last <= self.generation:
            return False
        if self._heard is None or last > self._heard[1]:
            self._heard = (member, last)
        return True

    def _known(self, attempt: Attempt) -> int:
        return self.generation if attempt.adopted is None else attempt.adopted.generation

    def _lists(self, attempt: Attempt) -> list[tuple[Member, ...]]:
        """The lists that decide, the newest one last."""
        if attempt.adopted is None:
            return self._bases or ([attempt.fallback] if attempt.fallback else [])
        if not any(map(self._is_own, attempt.adopted.members)):
            return [attempt.adopted.members]
        return [*self._bases, attempt.adopted.members]

    def _list(self, attempt: Attempt) -> list[Member]:
        """The members of all of them: those of the newest list by rank, one of which leads, and then the others."""
        found: list[Member] = []
        for members in reversed(self._lists(attempt)):
            found += sorted(set(members) - set(found), key=lambda each: (each.order, each.incarnation))
        return found

    def _is_own(self, member: Member) -> bool:
        return member.task == self._task and member.incarnation in (0, self._incarnation)

    def _is_listed(self, attempt: Attempt) -> bool:
        lists = self._lists(attempt)
        return bool(lists) and any(map(self._is_own, lists[-1]))

    def _leads_before(self, attempt: Attempt, member: Member) -> bool:
        """Whether this task leads rather than another member."""
        newest = self._lists(attempt)[-1]
        return self._is_listed(attempt) and (member not in newest or attempt.own.order < member.order)

    def _missing(self, attempt: Attempt) -> list[Member]:
        return [each for each in attempt.present if each.task not in self._asking]

    def _first(self) -> tuple[str, int] | None:
        """The member that others should ask."""
        there = (_identity(each) for each in self.members if _identity(each) not in self._departed)
        return next(there, None)


def _identity(member: Member) -> tuple[str, int]:
    return member.task, member.incarnation


def _names(members: Sequence[Member]) -> str:
    return ", ".join(short_task(each.task) for each in members)
