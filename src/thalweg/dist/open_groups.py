"""OpenGroups: collective groups that go on without members that are lost, and admit members that come back.

How the members agree is decided in `survivor_agreement.py`. This carries its instructions out: an attempt to find the
next generation runs in the thread that asks for it, one step at a time; members that ask wait in threads of calls.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.dist.agreement_steps import (
    Agreed,
    Ask,
    AskStatus,
    Check,
    Dissolve,
    End,
    Failed,
    Form,
    Instruction,
    NotRunning,
    Pause,
    Reach,
    Reachable,
    Step,
    Summon,
    Tell,
    TurnAway,
)
from thalweg.dist.directory import Directory
from thalweg.dist.group_agreement import Formed, Member, member_of
from thalweg.dist.messages import messages
from thalweg.dist.peers import Peers
from thalweg.dist.survivor_agreement import SurvivorAgreement

_ATTEMPT_MS = 1000
_CALL_MS = 3000
_LEAVE_MS = 30000  # A member that is lost ends the call much earlier; one on a busy host needs its time.
_PATIENCE = 60.0  # seconds for all members to come to the end of their steps
_RETRIED = (errors.UnavailableError, errors.CancelledError, errors.AbortedError, errors.DeadlineExceededError)


class _Asker:
    """A member that waits for the next generation."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.decided = threading.Event()
        self.answer: Formed | None = None


class _Group:
    """A group, and what is under way in it."""

    def __init__(self, state: SurvivorAgreement) -> None:
        self.state = state
        self.askers: dict[int, _Asker] = {}  # by the numbers of their requests
        self.asks = 0  # how many requests there were
        self.told: dict[int, Any] = {}  # the connections of those that the last attempt has told
        self.gate = threading.Lock()  # held during an attempt


class OpenGroups:
    """The open groups of one task. Thread-safe."""

    def __init__(
        self,
        task: str,
        incarnation: int,
        native: Any,
        directory: Directory,
        peers: Peers,
        next_generation: Callable[[int], int],
        form: Callable[[Formed], None],
        is_closed: Callable[[], bool],
    ) -> None:
        """Takes the parts of CollectiveGroups."""
        self._task = task
        self._incarnation = incarnation
        self._native: core.Collectives = native
        self._directory = directory
        self._peers = peers
        self._next_generation = next_generation
        self._form = form
        self._is_closed = is_closed
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._groups: dict[int, _Group] = {}

    @contextlib.contextmanager
    def _group(self, number: int) -> Iterator[_Group]:
        """A group, with the lock."""
        with self._lock:
            if number not in self._groups:
                state = SurvivorAgreement(number, self._task, self._incarnation, self._next_generation)
                self._groups[number] = _Group(state)
            yield self._groups[number]

    def _happens(self, number: int, event: Callable[[SurvivorAgreement], list[Instruction]]) -> Step | End | None:
        """Carries out what follows from an event; returns the next step of the attempt, or its end."""
        step: Step | End | None = None
        dissolved, told = [], {}
        with self._group(number) as group:
            for asker, waiting in list(group.askers.items()):
                if waiting.connection.is_lost:
                    group.state.withdrawn(asker)
            for instruction in event(group.state):
                match instruction:
                    case Tell(asker, formed):
                        group.askers[asker].answer = formed
                        group.askers[asker].decided.set()
                        told[asker] = group.askers[asker].connection
                    case TurnAway(asker):
                        group.askers[asker].decided.set()
                    case Dissolve():
                        dissolved.append(instruction)
                    case _:
                        step = instruction
            if isinstance(step, Form):
                group.told = told
            group.state.validate()
            self._changed.notify_all()
        for each in dissolved:
            self._native.dissolve(number, each.generation, errors.UNAVAILABLE, each.message)
        return step

    def open(self, group: int, tasks: Sequence[str]) -> None:
        """Makes a group open; all of its members do so.

        Args:
            group: The group.
            tasks: All tasks that may be members.
        """
        with self._group(group) as found:
            found.state.open(tasks)

    def is_open(self, group: int) -> bool:
        """Whether a group is open."""
        with self._group(group) as found:
            return bool(found.state.tasks)

    def formed(self, formed: Formed) -> None:
        """A generation of any group is formed: called before its runs can begin."""
        self._happens(formed.group, lambda state: state.formed(formed))

    def begun(self, formed: Formed) -> None:
        """The core knows a generation, and has delivered to it what members had sent before."""
        self._happens(formed.group, lambda state: state.begun(formed.generation))

    def has_run(self, group: int) -> None:
        """A run of the present generation has ended here to which all members have given their parts."""
        generation = self._native.generation(group)
        with self._group(group) as found:
            found.state.established(generation)

    def members(self, group: int) -> tuple[Member, ...]:
        """The members of the last generation, by rank."""
        with self._group(group) as found:
            return found.state.members

    def known_generation(self, group: int) -> int:
        """The newest generation that this task knows of; 0 if there is none."""
        with self._group(group) as found:
            return found.state.status().generation

    def close(self) -> None:
        """Ends all waiting."""
        with self._changed:
            for group in self._groups.values():
                for each in group.askers.values():
                    each.decided.set()
            self._changed.notify_all()

    def member(self, device: str) -> Member:
        """A device of this task as a member."""
        return Member(self._task, device, self._incarnation, self._directory.address(self._task), self._peers.host)

    # The end.

    def begin(self, group: int) -> None:
        """This member runs operations of the group, until `is_needed` is asked."""
        with self._group(group) as found:
            found.state.has_finished = False

    def is_needed(self, group: int) -> bool:
        """Whether a member may need the state of this one, which has run its last operation.

        Waits until each other member has finished as many runs, or has lost one of the others in the middle of them:
        then all members agree anew, and this one gives its state.
        """
        with self._group(group) as found:
            found.state.has_finished = True
        last, runs = self._native.generation(group), self._native.runs_ended(group)
        for each in self.members(group):
            if each.task == self._task:
                continue
            connection, _ = self._reach(each)
            if connection is None:
                continue
            try:
                fields = {"group": group, "last_generation": last, "runs": runs}
                if self._peers.call(connection, "finish_group", int(_PATIENCE * 1000), **fields).is_behind:
                    return True
            except _RETRIED:
                continue
        return False

    def finish_group(self, connection: Any, request: Any) -> Any:
        """A member has run its last operation: answers whether this one needs its state."""
        until = time.monotonic() + _PATIENCE
        is_behind: bool | None = None
        while is_behind is None and not self._is_closed() and not connection.is_lost and time.monotonic() < until:
            is_whole = bool(self._native.members(request.group))
            runs_ended = self._native.runs_ended(request.group)
            awaits_other = connection.task in self._native.awaited(request.group)
            with self._group(request.group) as found:
                is_behind = found.state.is_behind(
                    request.last_generation, request.runs, is_whole, runs_ended, awaits_other
                )
            if is_behind is None:
                time.sleep(0.02)
        return messages()["GroupBehind"](is_behind=bool(is_behind))

    def leave(self, group: int) -> None:
        """Tells the other members that this task has ended in good order, and waits until they know.

        What this task has sent before is then at its members, too: their last runs do not fail when it is gone.
        A member that does not answer within half a minute is not told.
        """
        with self._group(group) as found:
            others = found.state.leave()
        last = self._native.generation(group)
        for each in others:
            try:
                connection = self._peers.try_connect(each.task, each.incarnation, attempt_ms=_ATTEMPT_MS)
                self._peers.call(connection, "leave_group", _LEAVE_MS, group=group, last_generation=last)
            except errors.OpError:
                continue  # It has ended before, or is lost.

    def leave_group(self, connection: Any, request: Any) -> Any:
        """A member has ended in good order."""
        with self._group(request.group) as found:
            # The leader's answer, or what the member sent before it left, may still be on its way to the core.
            self._changed.wait_for(
                lambda: found.state.has_begun(request.last_generation) or self._is_closed(), _LEAVE_MS / 2000
            )
            found.state.departed(connection.task, connection.incarnation)
        message = (
            f"Task '{connection.task}' has left collective group {request.group}: its program ended, or it called "
            "hvd.shutdown(), and other members run more collective operations than it did."
        )
        self._native.left(request.group, connection.task, connection.incarnation, errors.FAILED_PRECONDITION, message)
        return messages()["Empty"]()

    # Agreement on the next generation.

    def reform(self, group: int, device: str, tasks: Sequence[str], timeout: float = _PATIENCE) -> Formed:
        """Agrees with the members that are left on the next generation; all of them call this.

        Args:
            group: The group. Runs that are under way end with UnavailableError, everywhere.
            device: The device of this member.
            tasks: The tasks that belong to it if it was never formed.
            timeout: How many seconds to try.

        Raises:
            errors.UnavailableError: If they do not agree in time.
        """
        fallback = [Member(each, device) for each in tasks]
        formed = self._attempt(group, self.member(device), fallback, timeout, is_newcomer=False)
        assert formed is not None
        return formed

    def join_running(self, group: int, own: Member) -> Formed | None:
        """Joins a generation after one that others have formed without this member; None if there is none."""
        return self._attempt(group, own, (), float("inf"), is_newcomer=True)

    def _attempt(
        self, group: int, own: Member, fallback: Sequence[Member], timeout: float, is_newcomer: bool
    ) -> Formed | None:
        """Does the steps of an attempt, until it has ended."""
        with self._group(group) as found:
            before = found.state.generation
        with found.gate:
            with self._lock:
                status = found.state.status()
            if status.generation > before and self._native.members(group):
                return status  # Another thread of this task has found it meanwhile.
            now = time.monotonic()
            step = self._happens(group, lambda state: state.begin(own, fallback, now, timeout, is_newcomer))
            try:
                while not self._is_closed():
                    match step:
                        case Agreed(formed):
                            return formed
                        case NotRunning():
                            return None
                        case Failed(message):
                            raise errors.UnavailableError(None, None, message)
                        case None:
                            raise AssertionError("An attempt has neither a next step nor an end.")
                    step = self._happens(group, self._do(found, step))
            finally:
                self._happens(group, lambda state: state.abandon() if state.is_under_way else [])
        raise errors.CancelledError(None, None, f"Task {self._task} is closed.")

    def _do(self, group: _Group, step: Step) -> Callable[[SurvivorAgreement], list[Instruction]]:
        """Does a step of an attempt: the event that it ends with."""
        number = group.state.group
        match step:
            case Reach(member):
                how = self._reach(member)[1]
                return lambda state: state.reached(how)
            case AskStatus(member):
                status = self._ask_status(number, member, "group_status", 0)
                return lambda state: state.found(status)
            case Summon(member, last):
                status = self._ask_status(number, member, "summon_member", last)
                return lambda state: state.found(status)
            case Check(member, last):
                status = self._ask_status(number, member, "check_generation", last)
                return lambda state: state.found(status)
            case Ask(member, own, last):
                try:
                    formed = self._ask(number, member, own, last)
                except _RETRIED as e:
                    why = e.message
                    return lambda state: state.turned_away(why)
                return lambda state: state.answered(formed)
            case Form(formed):
                return self._try_form(group, formed)
            case Pause(seconds, ends_when_asked):
                # By chance, so that members whose lists differ do not repeat the same over and over.
                seconds *= 0.5 + random.random()
                with self._changed:
                    asks = group.asks
                    self._changed.wait_for(
                        lambda: self._is_closed() or (ends_when_asked and group.asks != asks), seconds
                    )
                now = time.monotonic()
                return lambda state: state.woken(now)

    def _reach(self, member: Member) -> tuple[Any, Reachable]:
        """A connection to a member if it answers, and what is known of it."""
        try:
            connection = self._peers.try_connect(member.task, member.incarnation or None, member.address, _ATTEMPT_MS)
            return connection, Reachable.PRESENT
        except errors.AbortedError:
            return None, Reachable.ENDED  # Another incarnation answers.
        except (errors.UnavailableError, errors.DeadlineExceededError) as e:
            return None, Reachable.ENDED if "refused" in e.message else Reachable.SILENT

    def _ask_status(self, group: int, member: Member, method: str, last: int) -> Formed | None:
        connection, _ = self._reach(member)
        if connection is None:
            return None
        try:
            return formed_of(group, self._peers.call(connection, method, _CALL_MS, group=group, last_generation=last))
        except _RETRIED:
            return None

    def _ask(self, group: int, member: Member, own: Member, last: int) -> Formed:
        connection = self._peers.try_connect(member.task, member.incarnation or None, member.address, _ATTEMPT_MS)
        answer = self._peers.call(
            connection, "join_survivors", group=group, size=0, member=own._asdict(), last_generation=last
        )
        return formed_of(group, answer)

    def _try_form(self, group: _Group, formed: Formed) -> Callable[[SurvivorAgreement], list[Instruction]]:
        try:
            self._form(formed)
        except _RETRIED as e:
            why = e.message
            return lambda state: state.form_ended(False, (), why)
        lost = [asker for asker, connection in group.told.items() if connection.is_lost]
        return lambda state: state.form_ended(True, lost)

    # As a member that others ask.

    def join_survivors(self, connection: Any, request: Any) -> Any:
        """A member asks for the next generation; answers when all have asked."""
        member = asking_member(connection, request)
        return message_of(self.wait_for_next(connection, request.group, member, request.last_generation))

    def wait_for_next(self, connection: Any, group: int, member: Member, last: int) -> Formed:
        """Waits for the next generation, which the member of the connection belongs to."""
        own = _Asker(connection)
        asker = next(self._numbers)
        is_whole = bool(self._native.members(group))
        with self._group(group) as found:
            found.askers[asker] = own
            found.asks += 1
        try:
            self._happens(group, lambda state: state.asked(asker, member, last, is_whole))
            until = time.monotonic() + _PATIENCE
            while not own.decided.wait(1.0) and time.monotonic() < until:
                if self._is_closed() or connection.is_lost:
                    break
        finally:
            with self._lock:
                found.state.withdrawn(asker)
                del found.askers[asker]
        if own.answer is None:
            raise errors.CancelledError(None, None, f"Task {self._task} does not lead collective group {group}.")
        return own.answer

    def summon_member(self, connection: Any, request: Any) -> Any:
        """A member leads: ends the present generation if it is that member's, or an older one; tells the newest."""
        member = Member(connection.task, "", connection.incarnation)
        self._happens(request.group, lambda state: state.summoned(member, request.last_generation))
        with self._group(request.group) as found:
            return message_of(found.state.status())

    def check_generation(self, connection: Any, request: Any) -> Any:
        """A member that this one has told has begun a generation: tells the newest."""
        member = Member(connection.task, "", connection.incarnation)
        with self._group(request.group) as found:
            found.state.checked(member, request.last_generation)
            return message_of(found.state.status())

    def group_status(self, connection: Any, request: Any) -> Any:
        """The last generation of an open group, with its members; generation 0 if there is none."""
        with self._group(request.group) as found:
            status = found.state.status()
            return message_of(status if found.state.tasks else Formed(request.group, 0, ()))


def asking_member(connection: Any, request: Any) -> Member:
    """The member that a peer asks for: one of its own."""
    asked = request.member
    if asked.task != connection.task or asked.incarnation != connection.incarnation:
        raise errors.InvalidArgumentError(None, None, f"{connection.task} cannot join as {asked.task}.")
    return member_of(asked)


def message_of(formed: Formed) -> Any:
    """A formed group as a message."""
    return messages()["GroupFormed"](generation=formed.generation, member=[each._asdict() for each in formed.members])


def formed_of(group: int, message: Any) -> Formed:
    """A formed group from a message."""
    return Formed(group, message.generation, tuple(map(member_of, message.member)))
