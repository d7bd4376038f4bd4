"""CollectiveGroups: forms the collective groups of a task: asks the leader, connects the members, tells the core.

The leader is a fixed task of the cluster: the first chief, else the first worker, else the first task. It only brings
members together; tensors move directly between them, and runs of collective ops never come through here.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from thalweg import errors
from thalweg._native import core
from thalweg.dist.directory import Directory
from thalweg.dist.group_agreement import Formed, GroupAgreement, Instruction, Member, Refused
from thalweg.dist.messages import messages
from thalweg.dist.names import job_and_index, short_task
from thalweg.dist.peers import Peers
from thalweg.platform import logging

_LOG_SECONDS = 10.0
_ATTEMPT_MS = 1000
_LEAVE_MS = 5000


class _Waiting:
    """A member that waits for its group."""

    def __init__(self) -> None:
        self.decided = threading.Event()
        self.answer: Instruction | None = None


class _Survivor(NamedTuple):
    """A member that wants to go on without those that are lost."""

    member: Member
    last: int  # the last generation that it knows of
    waiting: _Waiting


class CollectiveGroups:
    """The collective groups that devices of one task are members of, and those that it leads. Thread-safe."""

    def __init__(
        self, task: str, incarnation: int, network: Any, devices: Any, directory: Directory, peers: Peers
    ) -> None:
        """Takes the parts of a TaskServer."""
        self._task = task
        self._incarnation = incarnation
        self._directory = directory
        self._peers = peers
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._agreement = GroupAgreement(time.time_ns)
        self._waiting: dict[tuple[int, tuple[str, str]], list[_Waiting]] = {}
        self._survivors: dict[int, dict[tuple[str, str], _Survivor]] = {}
        self._asked = threading.Event()
        self._members: dict[int, tuple[Member, ...]] = {}  # of the last generation
        self._changed = threading.Condition(self._lock)  # of `_members`
        own = weakref.ref(self)

        def join(group: int, size: int, device: str) -> None:
            found = own()
            if found is not None:
                found._join(group, size, device)

        self.native = core.Collectives(network, devices, join, logging.warning)

    def close(self) -> None:
        """Ends the waiting for groups."""
        self._closed.set()
        with self._lock:
            waiting = [each for several in self._waiting.values() for each in several]
            waiting += [each.waiting for group in self._survivors.values() for each in group.values()]
            self._survivors.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for each in waiting:
            each.decided.set()

    # As a member.

    def _join(self, group: int, size: int, device: str) -> None:
        """Joins a group, on a thread of its own; the core is told how that ends."""
        try:
            self._form(group, self._ask(group, size, device))
        except errors.OpError as e:
            self.native.refused(group, device, e.error_code, e.message)
        except Exception as e:
            self.native.refused(group, device, errors.INTERNAL, f"Collective group {group} cannot be formed: {e!r}")
            raise

    def _ask(self, group: int, size: int, device: str) -> Formed:
        """Asks the leader, and waits until all members have."""
        leader = self.leader()
        member = self._member(device)
        last = self.native.generation(group)
        if leader == self._task:
            return self._agree(group, size, member, last)
        connection = self._peers.wait_for([leader], self._closed.is_set)[leader]
        return self._call(connection, "join_group", group, size, member, last)

    def _member(self, device: str) -> Member:
        return Member(self._task, device, self._incarnation, self._directory.address(self._task))

    def _call(self, connection: Any, method: str, group: int, size: int, member: Member, last: int) -> Formed:
        answer = self._peers.call(
            connection, method, group=group, size=size, member=member._asdict(), last_generation=last
        )  # fmt: skip
        members = (Member(each.task, each.device, each.incarnation, each.address) for each in answer.member)
        return Formed(group, answer.generation, tuple(members))

    def _form(self, group: int, formed: Formed) -> None:
        """Connects to the other members, and gives the group to the core."""
        members: list[tuple[str, str, int, Any]] = []
        for each in formed.members:
            peer = None
            if each.task != self._task:
                peer = self._peers.try_connect(each.task, each.incarnation, each.address)
            members.append((each.task, each.device, each.incarnation, peer))
        self.native.formed(group, formed.generation, members)
        with self._changed:
            self._members[group] = formed.members
            self._changed.notify_all()

    def leave(self, group: int) -> None:
        """Tells the other members that this task has ended in good order, and waits until they know.

        What this task has sent before is then at its members, too: their last runs do not fail when it is gone.
        A member that does not answer within some seconds is left in the dark.
        """
        with self._lock:
            members = self._members.pop(group, ())
        last = self.native.generation(group)
        for task, incarnation in {(each.task, each.incarnation) for each in members if each.task != self._task}:
            try:
                connection = self._peers.try_connect(task, incarnation, attempt_ms=_ATTEMPT_MS)
                self._peers.call(connection, "leave_group", _LEAVE_MS, group=group, last_generation=last)
            except errors.OpError as e:
                logging.debug("%s was not told that %s leaves: %s", task, self._task, e.message)

    def leave_group(self, connection: Any, request: Any) -> Any:
        """A member has ended in good order."""
        with self._changed:
            # The leader's answer may still be on its way here.
            self._changed.wait_for(
                lambda: self.native.generation(request.group) >= request.last_generation or self._closed.is_set(),
                _LEAVE_MS / 1000,
            )
        message = (
            f"Task '{connection.task}' has left collective group {request.group}: its program ended, or it called "
            "hvd.shutdown(), and other members run more collective operations than it did."
        )
        self.native.left(
            request.group, connection.task, connection.incarnation, errors.FAILED_PRECONDITION, message
        )  # fmt: skip
        return messages()["Empty"]()

    def reform(self, group: int, device: str, tasks: Sequence[str], timeout: float = 60.0) -> list[str]:
        """Forms a group anew of those of its members that are left; all of them call this.

        The first task that is left leads. It waits for all tasks that it can reach.

        Args:
            group: The group. Runs that are under way end with AbortedError, everywhere.
            device: The device of this member.
            tasks: The tasks of the members so far, in the order of their ranks.
            timeout: How many seconds to try.

        Returns:
            The tasks that are left, in the order of their new ranks.

        Raises:
            errors.UnavailableError: If they do not agree in time.
        """
        self.native.dissolve(group, errors.ABORTED, f"Collective group {group} is formed anew.")
        until = time.monotonic() + timeout
        while True:
            try:
                formed = self._join_survivors(group, self._member(device), tasks, until)
                self._form(group, formed)
                return [member.task for member in formed.members]
            except (errors.UnavailableError, errors.CancelledError, errors.AbortedError, errors.DeadlineExceededError):
                # The leader is gone, or a member that was there a moment ago.
                if self._closed.is_set() or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _join_survivors(self, group: int, member: Member, tasks: Sequence[str], until: float) -> Formed:
        last = self.native.generation(group)
        for task in tasks:
            if task == self._task:
                return self._lead_survivors(group, member, last, tasks, until)
            connection = self._reach(task)
            if connection is not None:
                return self._call(connection, "join_survivors", group, 0, member, last)
        raise AssertionError(f"{self._task} is none of {tasks}.")

    def _reach(self, task: str) -> Any:
        try:
            return self._peers.try_connect(task, attempt_ms=_ATTEMPT_MS)
        except (errors.UnavailableError, errors.DeadlineExceededError, errors.AbortedError):
            return None

    def _lead_survivors(self, group: int, member: Member, last: int, tasks: Sequence[str], until: float) -> Formed:
        """Waits until all tasks that can be reached have asked, and tells them who is left."""
        while True:
            left = {task for task in tasks if task == self._task or self._reach(task) is not None}
            with self._lock:
                joined = self._survivors.setdefault(group, {})
                present = [each for each in joined.values() if each.member.task in left]
                if {each.member.task for each in present} >= left - {self._task}:
                    del self._survivors[group]
                    members = sorted([member, *(each.member for each in present)], key=lambda each: each.order)
                    generation = self._agreement.next_generation(max([last, *(each.last for each in present)]))
                    formed = Formed(group, generation, tuple(members))
                    for each in joined.values():
                        each.waiting.answer = formed if each in present else None
                        each.waiting.decided.set()
                    return formed
            if self._closed.is_set() or time.monotonic() > until:
                missing = sorted(left - {self._task} - {each.member.task for each in present})
                raise errors.UnavailableError(
                    None, None, f"Collective group {group} waits for {', '.join(map(short_task, missing))} to go on."
                )  # fmt: skip
            self._asked.wait(0.2)
            self._asked.clear()

    def address(self, task: str) -> str:
        """The present address of a task."""
        return self._directory.address(task)

    def leader(self) -> str:
        """The task that brings members together."""
        tasks = list(self._directory.tasks())
        for job in ("chief", "worker"):
            of_job = [task for task in tasks if job_and_index(task)[0] == job]
            if of_job:
                return min(of_job, key=lambda task: job_and_index(task)[1])
        return min(tasks, key=job_and_index)

    # As the leader.

    def join_group(self, connection: Any, request: Any) -> Any:
        """A member asks to join; answers when the group is complete."""
        member = _asking(connection, request)
        return _message(self._agree(request.group, request.size, member, request.last_generation))

    def join_survivors(self, connection: Any, request: Any) -> Any:
        """A member asks this task to lead those that are left; answers when all have asked."""
        member = _asking(connection, request)
        own = _Survivor(member, request.last_generation, _Waiting())
        with self._lock:
            self._survivors.setdefault(request.group, {})[member.place] = own
        self._asked.set()
        while not own.waiting.decided.wait(1.0) and not self._closed.is_set() and not connection.is_lost:
            pass
        if not isinstance(own.waiting.answer, Formed):
            raise errors.CancelledError(None, None, f"Task {self._task} does not lead the group any more.")
        return _message(own.waiting.answer)

    def lost(self, connection: Any) -> None:
        """A connection is lost: its task no longer waits for groups."""
        with self._lock:
            self._agreement.lost(connection.task, connection.incarnation)
            gone = [key for key in self._waiting if key[1][0] == connection.task]
            woken = [each for key in gone for each in self._waiting.pop(key)]
        for each in woken:
            each.decided.set()

    def _agree(self, group: int, size: int, member: Member, last_generation: int) -> Formed:
        own = _Waiting()
        with self._lock:
            self._waiting.setdefault((group, member.place), []).append(own)
            self._carry_out(self._agreement.join(group, size, member, last_generation))
            self._agreement.validate()
        said = time.monotonic()
        while not own.decided.wait(1.0) and not self._closed.is_set():
            if member.task == self._task and time.monotonic() - said > _LOG_SECONDS:
                said = time.monotonic()
                with self._lock:
                    joined = [short_task(each.task) for each in self._agreement.waiting(group)]
                logging.info(
                    "Collective group %s waits for %s more members; so far: %s",
                    group, size - len(joined), ", ".join(joined),
                )  # fmt: skip
        match own.answer:
            case Formed():
                return own.answer
            case Refused(message=message):
                raise errors.InvalidArgumentError(None, None, message)
        raise errors.CancelledError(None, None, f"Task {self._task} was closed, or has lost the member that asked.")

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            members = instruction.members if isinstance(instruction, Formed) else (instruction.member,)
            for member in members:
                for each in self._waiting.pop((instruction.group, member.place), []):
                    each.answer = instruction
                    each.decided.set()


def _asking(connection: Any, request: Any) -> Member:
    """The member that a peer asks for: one of its own."""
    asked = request.member
    if asked.task != connection.task or asked.incarnation != connection.incarnation:
        raise errors.InvalidArgumentError(None, None, f"{connection.task} cannot join as {asked.task}.")
    return Member(asked.task, asked.device, asked.incarnation, asked.address)


def _message(formed: Formed) -> Any:
    return messages()["GroupFormed"](
        generation=formed.generation, member=[each._asdict() for each in formed.members]
    )  # fmt: skip
