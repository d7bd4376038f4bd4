"""OpenGroups: collective groups that go on without members that are lost, and admit members that come back.

The members of the last generation agree on the next one: each asks the first of them that it can reach, and that one
leads. It waits for all members that it can reach, forms the group of these and of newcomers that have asked, and tells
them. A newcomer, or a member that was cut off meanwhile, finds a running group by asking around; the member that it
asks breaks the present generation, so that all members agree anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from thalweg import errors
from thalweg._native import core
from thalweg.dist.directory import Directory
from thalweg.dist.group_agreement import Formed, Member, may_go_on, member_of
from thalweg.dist.messages import messages
from thalweg.dist.names import short_task
from thalweg.dist.peers import Peers

_ATTEMPT_MS = 1000
_CALL_MS = 3000
_LEAVE_MS = 30000  # A member that is lost ends the call much earlier; one on a busy host needs its time.
_PATIENCE = 60.0  # seconds for all members to come to the end of their steps
_RETRIED = (errors.UnavailableError, errors.CancelledError, errors.AbortedError, errors.DeadlineExceededError)


class _Asking(NamedTuple):
    """A member that waits for the next generation."""

    member: Member
    last: int  # the last generation that it knows of
    connection: Any
    decided: threading.Event
    answer: list[Formed]


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
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._open: dict[int, tuple[str, ...]] = {}
        self._members: dict[int, tuple[Member, ...]] = {}
        self._begun: dict[int, int] = {}  # the last generation that the core knows
        self._asking: dict[int, dict[str, _Asking]] = {}
        self._finished: set[int] = set()

    def open(self, group: int, tasks: Sequence[str]) -> None:
        """Makes a group open; all of its members do so.

        Args:
            group: The group.
            tasks: All tasks that may be members.
        """
        with self._lock:
            self._open[group] = tuple(tasks)

    def is_open(self, group: int) -> bool:
        """Whether a group is open."""
        with self._lock:
            return group in self._open

    def formed(self, formed: Formed) -> None:
        """A generation of any group is formed: called before its runs can begin."""
        with self._lock:
            if formed.generation > self._native.generation(formed.group):
                self._members[formed.group] = formed.members

    def begun(self, formed: Formed) -> None:
        """The core knows a generation, and has delivered to it what members had sent before."""
        with self._changed:
            self._begun[formed.group] = max(self._begun.get(formed.group, 0), formed.generation)
            self._changed.notify_all()

    def members(self, group: int) -> tuple[Member, ...]:
        """The members of the last generation, by rank."""
        with self._lock:
            return self._members.get(group, ())

    def close(self) -> None:
        """Ends all waiting."""
        with self._changed:
            asking = [each for group in self._asking.values() for each in group.values()]
            self._asking.clear()
            self._changed.notify_all()
        for each in asking:
            each.decided.set()

    def member(self, device: str) -> Member:
        """A device of this task as a member."""
        return Member(self._task, device, self._incarnation, self._directory.address(self._task), self._peers.host)

    # The end.

    def begin(self, group: int) -> None:
        """This member runs operations of the group, until `is_needed` is asked."""
        with self._lock:
            self._finished.discard(group)

    def is_needed(self, group: int) -> bool:
        """Whether a member may need the state of this one, which has run its last operation.

        Waits until each other member has finished as many runs, or has lost one of the others in the middle of them:
        then all members agree anew, and this one gives its state.
        """
        with self._lock:
            self._finished.add(group)
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
        is_behind = False
        while not self._is_closed() and not connection.is_lost and time.monotonic() < until:
            with self._lock:
                is_done = request.group in self._finished or request.group not in self._open
            is_broken = not self._native.members(request.group)
            is_behind = not is_done and (is_broken or self._native.generation(request.group) != request.last_generation)
            is_done = is_done or self._native.runs_ended(request.group) >= request.runs
            # A member that wants more of the other than that has run does not get it.
            if is_behind or is_done or connection.task in self._native.awaited(request.group):
                break
            time.sleep(0.02)
        return messages()["GroupBehind"](is_behind=is_behind)

    def leave(self, group: int) -> None:
        """Tells the other members that this task has ended in good order, and waits until they know.

        What this task has sent before is then at its members, too: their last runs do not fail when it is gone.
        A member that does not answer within half a minute is not told.
        """
        with self._lock:
            members = self._members.pop(group, ())
            self._open.pop(group, None)
        last = self._native.generation(group)
        for task, incarnation in {(each.task, each.incarnation) for each in members if each.task != self._task}:
            try:
                connection = self._peers.try_connect(task, incarnation, attempt_ms=_ATTEMPT_MS)
                self._peers.call(connection, "leave_group", _LEAVE_MS, group=group, last_generation=last)
            except errors.OpError:
                continue  # It has ended before, or is lost.

    def leave_group(self, connection: Any, request: Any) -> Any:
        """A member has ended in good order."""
        with self._changed:
            # The leader's answer, or what the member sent before it left, may still be on its way to the core.
            self._changed.wait_for(
                lambda: self._begun.get(request.group, 0) >= request.last_generation or self._is_closed(),
                _LEAVE_MS / 2000,
            )
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
        last = self._native.generation(group)
        self._native.dissolve(group, last, errors.UNAVAILABLE, f"Collective group {group} is formed anew.")
        own = self.member(device)
        previous = self.members(group) or tuple(Member(each, device) for each in tasks)
        until = time.monotonic() + timeout
        while True:
            try:
                formed, told = self._agree(group, own, previous, until)
                self._form(formed)
                self._check_told(formed, told)
                return formed
            except _RETRIED:
                # The leader is gone, or a member that was there a moment ago.
                if self._is_closed() or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _agree(
        self, group: int, own: Member, previous: tuple[Member, ...], until: float
    ) -> tuple[Formed, list[_Asking]]:
        """The next generation, and the members that this one has told, if it leads."""
        for each in previous:
            if each.task == self._task:
                return self._lead(group, own, previous, until)
            connection, _ = self._reach(each)
            if connection is not None:
                return self._ask(connection, group, own), []
        raise errors.UnavailableError(None, None, f"{self._task} was no member of collective group {group}.")

    def _check_told(self, formed: Formed, told: list[_Asking]) -> None:
        """A member whose connection was lost does not know of the generation: the others would wait for it."""
        lost = [short_task(each.member.task) for each in told if each.connection.is_lost]
        if lost:
            message = f"Collective group {formed.group} is formed anew: {', '.join(lost)} has not heard of it."
            self._native.dissolve(formed.group, formed.generation, errors.UNAVAILABLE, message)
            raise errors.UnavailableError(None, None, message)

    def join_running(self, group: int, own: Member) -> Formed | None:
        """Joins a generation after one that others have formed without this member; None if there is none."""
        while not self._is_closed():
            found = self._find_running(group, own.device)
            if found is None:
                return None
            try:
                for each in found.members:
                    connection, _ = self._reach(each) if each.task != self._task else (None, False)
                    if connection is not None:
                        return self._ask(connection, group, own)
            except _RETRIED:
                pass  # That member is lost, or another one leads.
            time.sleep(0.2)
        return None

    def _find_running(self, group: int, device: str) -> Formed | None:
        with self._lock:
            tasks = self._open[group]
        for task in tasks:
            connection = None if task == self._task else self._reach(Member(task, device))[0]
            found = None if connection is None else self._running(connection, group)
            if found is not None:
                return found
        return None

    def _running(self, connection: Any, group: int) -> Formed | None:
        """The generation that a peer knows of, if this task is no member of it, or does not know it."""
        try:
            found = formed_of(group, self._peers.call(connection, "group_status", _CALL_MS, group=group))
        except _RETRIED:
            return None
        if found.generation == 0:
            return None
        is_member = (self._task, self._incarnation) in {(each.task, each.incarnation) for each in found.members}
        return None if is_member and found.generation <= self._native.generation(group) else found

    def _ask(self, connection: Any, group: int, own: Member) -> Formed:
        last = self._native.generation(group)
        answer = self._peers.call(
            connection, "join_survivors", group=group, size=0, member=own._asdict(), last_generation=last
        )
        return formed_of(group, answer)

    def _reach(self, member: Member) -> tuple[Any, bool]:
        """A connection to a member if it answers, and whether it is known to have ended otherwise."""
        try:
            return self._peers.try_connect(member.task, member.incarnation or None, member.address, _ATTEMPT_MS), False
        except errors.AbortedError:
            return None, True  # Another incarnation answers.
        except (errors.UnavailableError, errors.DeadlineExceededError) as e:
            return None, "refused" in e.message

    def _lead(
        self, group: int, own: Member, previous: tuple[Member, ...], until: float
    ) -> tuple[Formed, list[_Asking]]:
        """Waits until all members that can be reached have asked, and tells them and newcomers who is left."""
        while True:
            present, ended, connections = [self._task], [], {}
            for each in previous:
                if each.task != self._task:
                    connection, has_ended = self._reach(each)
                    if connection is not None:
                        present.append(each.task)
                        connections[each.task] = connection
                    elif has_ended:
                        ended.append(each.task)
            with self._lock:
                # Those whose connections are lost ask again, here or elsewhere.
                asking = {
                    task: each for task, each in self._asking.get(group, {}).items() if not each.connection.is_lost
                }
                self._asking[group] = dict(asking)
                missing = [task for task in present if task != self._task and task not in asking]
                goes_on = may_go_on([each.task for each in previous], present, ended)
                if not missing and goes_on:
                    del self._asking[group]
                    told = list(asking.values())
                    return self._tell(group, own, told), told
            for task in missing:
                # This task was cut off, and the others have gone on without it.
                if self._running(connections[task], group) is not None:
                    return self._ask(connections[task], group, own), []
            if self._is_closed() or time.monotonic() > until:
                silent = [each.task for each in previous if each.task not in (*present, *ended)]
                raise errors.UnavailableError(
                    None, None, f"Collective group {group} cannot be formed anew: waited in vain for "
                    f"{', '.join(map(short_task, missing or silent))}."
                )  # fmt: skip
            with self._changed:
                if self._asking.get(group, {}).keys() == asking.keys():
                    self._changed.wait(0.25)

    def _tell(self, group: int, own: Member, asking: list[_Asking]) -> Formed:
        last = max([self._native.generation(group), *(each.last for each in asking)])
        members = sorted([own, *(each.member for each in asking)], key=lambda each: each.order)
        formed = Formed(group, self._next_generation(last), tuple(members))
        for each in asking:
            each.answer.append(formed)
            each.decided.set()
        return formed

    # As a member that others ask.

    def join_survivors(self, connection: Any, request: Any) -> Any:
        """A member asks for the next generation; answers when all have asked."""
        member = asking_member(connection, request)
        return message_of(self.wait_for_next(connection, request.group, member, request.last_generation))

    def wait_for_next(self, connection: Any, group: int, member: Member, last: int) -> Formed:
        """Breaks the present generation, and waits for the next, which the member of the connection belongs to."""
        own = _Asking(member, last, connection, threading.Event(), [])
        with self._changed:
            present = self._native.generation(group)
            self._asking.setdefault(group, {})[member.task] = own
            self._changed.notify_all()
        self._native.dissolve(
            group, present, errors.UNAVAILABLE,
            f"Collective group {group} is formed anew: {short_task(member.task)} joins.",
        )  # fmt: skip
        until = time.monotonic() + _PATIENCE
        while not own.decided.wait(1.0) and time.monotonic() < until:
            # Another member has led, or is about to: the one that asks must find it.
            if self._is_closed() or connection.is_lost or self._native.generation(group) != present:
                break
        with self._lock:
            if self._asking.get(group, {}).get(member.task) is own:
                del self._asking[group][member.task]
        if not own.answer:
            raise errors.CancelledError(None, None, f"Task {self._task} does not lead collective group {group}.")
        return own.answer[0]

    def group_status(self, connection: Any, request: Any) -> Any:
        """The last generation of an open group, with its members; generation 0 if there is none."""
        members = self.members(request.group) if self.is_open(request.group) else ()
        generation = self._native.generation(request.group) if members else 0
        return message_of(Formed(request.group, generation, members))


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
